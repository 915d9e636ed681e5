"""Routes records in a streaming query: to the next part that reads them, and its task.

Takes the output of a part, or a record of a source. Returns `Routed` rows, one for each part that reads the record.
Parts form a line: each one passes on the records for later parts, so that the query reads its input once. Independent
of Spark.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stoatflow.errors import TopologyError
from stoatflow.spark.twin.parts import KEYS, ONE, PARTITIONS, Part
from stoatflow.spark.twin.task import HOP, Row, murmur2
from stoatflow.spark.twin.task_state import packed

SCHEMA = (
    "part int, task int, name string, key binary, value binary, timestamp long, headers binary, place binary, "
    "hashed boolean"
)


class Routed(NamedTuple):
    """A record on its way to a task of a part, or to the output of the query."""

    part: int
    task: int
    name: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: bytes | None
    place: bytes
    hashed: bool


@dataclass(frozen=True)
class Reader:
    """A part that reads a topic or a hop, and how its records are partitioned."""

    part: int
    how: str
    tasks: int
    meets: bool
    """Whether records of a source are processed there together with repartitioned records, or state that was handed
    over.
    """

    def task(self, key: bytes | None, partition: int) -> int:
        """Return the task of a record; a record without a key stays with its partition."""
        if self.how == ONE:
            return 0
        if self.how == KEYS:
            return partition % self.tasks if key is None else zlib.crc32(key) % self.tasks
        return partition

    def task_of_hop(self, key: bytes | None, place: bytes) -> int:
        """Return the task of a repartitioned record: Kafka's partition of its new key."""
        origin = source_of(place)[1] % self.tasks
        if self.how != PARTITIONS or key is None:
            return self.task(key, origin)
        return murmur2(key) % self.tasks


@dataclass(frozen=True)
class Routes:
    """Which parts read which topics and hops."""

    topics: tuple[str, ...]
    """Topics that are read, sorted: a record's place contains the topic's index."""
    partitions: Mapping[str, int]
    sources: Mapping[str, tuple[Reader, ...]]
    hops: Mapping[str, tuple[Reader, ...]]
    end: int
    """The part number of the query's output, after the last part."""

    def of_source(
        self,
        topic: str,
        partition: int,
        offset: int,
        first: int,
        record: tuple[bytes | None, bytes | None, int, bytes | None],
    ) -> Iterator[Routed]:
        """Route a record of a source. `first` orders it among those of other partitions."""
        if partition >= self.partitions[topic]:
            raise TopologyError(
                f"topic {topic} has got the partition {partition}, and the checkpoint was begun with "
                f"{self.partitions[topic]} partition(s): keys now go elsewhere than where their state is",
                next_step="begin again with another checkpoint, or read a topic that keeps its partitions",
            )
        key, value, timestamp, headers = record
        place = place_of(first, self.topics.index(topic), partition, offset)
        for reader in self.sources[topic]:
            task = reader.task(key, partition)
            yield Routed(reader.part, task, topic, key, value, timestamp, headers, place, reader.meets)

    def of_part(self, row: Row) -> Iterator[Routed]:
        """Route a row of a part's output."""
        place = row.place or b""
        headers = packed(row.headers or ())
        if row.kind != HOP:
            targets = [(self.end, row.task)]
        else:
            targets = [(reader.part, reader.task_of_hop(row.key, place)) for reader in self.hops[row.name]]
        for part, task in targets:
            yield Routed(part, task, row.name, row.key, row.value, row.timestamp, headers, place, False)


def routes(
    parts: Sequence[Part], partitions: Mapping[str, int], tasks: Mapping[int, int], *, handed_over: bool = False
) -> Routes:
    """Return the routes between these parts, with the number of tasks of each.

    `handed_over`: they start with state of an application, partitioned as Kafka's producers do.
    """
    sources: dict[str, list[Reader]] = {}
    hops: dict[str, list[Reader]] = {}
    for part in parts:
        meets = part.how == PARTITIONS and part.keyed and tasks[part.number] > 1 and bool(part.hops_in or handed_over)
        reader = Reader(part.number, part.how, tasks[part.number], meets)
        for topic in part.topics:
            sources.setdefault(topic, []).append(reader)
        for hop in part.hops_in:
            hops.setdefault(hop, []).append(reader)
    read = {topic: tuple(readers) for topic, readers in sources.items() if topic in partitions}
    return Routes(
        tuple(sorted(read)), dict(partitions), read, {hop: tuple(found) for hop, found in hops.items()}, len(parts)
    )


def place_of(first: int, topic: int, partition: int, offset: int) -> bytes:
    """Return the place of a source's record in the order of all records: bytes that compare as the numbers do."""
    return b"".join(
        ((first + 2**63).to_bytes(8, "big"), topic.to_bytes(2, "big"), partition.to_bytes(4, "big"))
    ) + offset.to_bytes(8, "big")


def source_of(place: bytes) -> tuple[int, int, int, str]:
    """Return the parts of a place: index of the topic, partition, offset, and the ordinal of the output."""
    topic, partition = int.from_bytes(place[8:10], "big"), int.from_bytes(place[10:14], "big")
    return topic, partition, int.from_bytes(place[14:22], "big"), ordinal_of(place)


def ordinal_of(place: bytes) -> str:
    """Distinguish what one record produced: `part.number`, once for each part on the way."""
    steps = [place[at : at + 6] for at in range(22, len(place), 6)]
    return ".".join(f"{int.from_bytes(step[:2], 'big')}.{int.from_bytes(step[2:], 'big')}" for step in steps)
