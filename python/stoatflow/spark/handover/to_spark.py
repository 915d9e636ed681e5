"""Hand-over from the engine to Spark: a checkpoint that continues where an application has stopped, with its state.

Takes a topology, the application's settings, a folder for the checkpoint. Makes a plan, and executes it. The order,
which may be interrupted anywhere: the application is fenced, its state is written beside the checkpoint, the
application is prevented from starting, and only then the checkpoint can be run. An interrupted hand-over is completed
by running it again.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoatflow.errors import ConfigError, IncompatibleStateError
from stoatflow.spark import connected
from stoatflow.spark.handover import rows, unsupported
from stoatflow.spark.handover.application import MARK, Application, Position
from stoatflow.spark.handover.distribution import distributed
from stoatflow.spark.loading.frames import require_arrow
from stoatflow.spark.twin import checkpoint as checkpoints
from stoatflow.spark.twin import faithful, handed_over
from stoatflow.spark.twin.parts import PARTITIONS, Part, cut
from stoatflow.spark.twin.routing import SCHEMA, Routed
from stoatflow.spark.twin.running import pairs_of
from stoatflow.spark.twin.streaming import shuffle_of, tasks_of
from stoatflow.spark.twin.task import murmur2
from stoatflow.spark.twin.task_state import chunk, compacted
from stoatflow.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stoatflow.settings import Settings

_ROWS = 5_000
"""Rows per chunk."""
_LOOKED_AT = 1_000
"""Records at the end of each partition that are checked for their partitions."""
_CHUNKS = 200
"""Chunks that are written at once."""


@dataclass(frozen=True)
class Stored:
    """What a store hands over."""

    name: str
    topic: str
    rows: int


class ToSpark:
    """What a hand-over to Spark will do; `make` does it."""

    def __init__(
        self,
        spark: SparkSession,
        topology: Topology,
        settings: Settings,
        checkpoint: str | Path,
        *,
        tasks: int | None = None,
    ) -> None:
        """Examine everything and change nothing.

        `tasks` is the number of tasks of parts that are partitioned by key; the default is Spark's parallelism.

        Raises:
            TopologyError: something can't be handed over, or has no streaming twin.
            ConfigError: the application has not run yet, or is handed over already.
            TwinError: another query has started in the folder.

        """
        connected.need_classic(spark, "a hand-over", connected.BATCH)
        require_arrow()
        self._spark, self.topology, self.folder = spark, topology, handed_over.place(checkpoint)
        faithful.check(topology, streaming=True)
        pairs_of(settings)
        self.parts: tuple[Part, ...] = tuple(cut(topology))
        self.application = Application(topology, settings)
        self.positions = self.application.positions()
        self._refuse_begun()
        self._refuse_empty()
        self.partitions = _partitions(self.positions)
        unsupported.check(topology, self.parts, self.partitions, settings)
        self.tasks = tasks or 2 * spark.sparkContext.defaultParallelism
        self.counts = tasks_of(self.parts, self.partitions, self.tasks)
        self._refuse_misplaced()
        self.stores = [
            Stored(store, self.application.changelog(store), self._count(store))
            for store in self.application.retentions
        ]

    def describe(self) -> str:
        """Return a description of what will be done."""
        lines = [
            f"'{self.application.id}' at {self.application.address} is handed over to Spark: {self.folder}",
            "",
            "Spark begins to read here:",
        ]
        lines += [f"  {one.topic}-{one.partition}  offset {one.next}" for one in self.positions]
        lines += ["", "state that it begins with:"]
        lines += [f"  {one.name}  {one.rows:,} rows of {one.topic}" for one in self.stores] or ["  none"]
        lines += ["", "tasks:", *(f"  {part.describe()}: {self.counts[part.number]}" for part in self.parts), ""]
        lines += [
            "A running instance is stopped (FencedError). The application doesn't start any more until it is handed",
            "back: stoatflow hand-over from-spark. No topic is changed but its offsets topic; local state stays.",
        ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the same as plain data."""
        return {
            "application": self.application.id,
            "address": self.application.address,
            "checkpoint": self.folder,
            "partitions": [
                {"topic": one.topic, "partition": one.partition, "offset": one.next} for one in self.positions
            ],
            "stores": [asdict(one) for one in self.stores],
            "parts": [{**part.to_json(), "task_count": self.counts[part.number]} for part in self.parts],
        }

    def make(self) -> handed_over.HandedOver:
        """Execute the plan, with the positions at that moment."""
        writer = self.application.fence()
        self.positions = self.application.positions()
        self._refuse_begun()
        self._refuse_misplaced()
        checkpoints.remove(self._spark, self.folder, handed_over.ROWS)
        formats = {topic: text for topic, text in self.application.noted().formats.items() if not text.startswith(MARK)}
        made = handed_over.HandedOver(
            application=self.application.id,
            address=self.application.address,
            offsets=self.application.offsets(),
            formats=formats or self._formats_of_interrupted(),
            id=uuid.uuid4().hex,
        )
        checkpoints.write_json(self._spark, self.folder, _FORMATS, made.formats)
        self._write_state()
        self.application.mark(writer, self._mark(made.id))
        shuffle = shuffle_of(self._spark, self.counts)
        plan = checkpoints.plan(self.parts, self.partitions, self.tasks, shuffle)
        checkpoints.write(self._spark, self.folder, plan)
        handed_over.write(self._spark, self.folder, made)
        return made

    def _mark(self, of: str) -> str:
        return f"{MARK}: {self.folder} ({of}); next: stoatflow hand-over from-spark --checkpoint {self.folder}"

    def _formats_of_interrupted(self) -> dict[str, str]:
        """Return the formats that an interrupted attempt has found: the mark has replaced them since."""
        return checkpoints.read_json(self._spark, self.folder, _FORMATS) or {}

    def _refuse_begun(self) -> None:
        mark = self.application.handed_to()
        if mark is not None and not mark.startswith(f"{MARK}: {self.folder} ("):
            raise ConfigError(
                f"the application '{self.application.id}' is {mark.partition(';')[0]}: nothing was changed",
                next_step=mark.partition("next: ")[2],
            )
        there = {name: checkpoints.exists(self._spark, self.folder, name) for name in (*_QUERY, handed_over.OVER)}
        interrupted = checkpoints.exists(self._spark, self.folder, handed_over.ROWS) and not there[handed_over.OVER]
        if there[handed_over.OVER] or (any(there.values()) and not interrupted):
            raise ConfigError(
                f"there is a query in {self.folder} already: nothing was changed",
                next_step="name a folder that is new or empty",
            )

    def _refuse_empty(self) -> None:
        if all(one.offset is None for one in self.positions):
            raise ConfigError(
                f"the application '{self.application.id}' has committed nothing: there is nothing to hand over",
                next_step="check application.id and bootstrap.servers; to begin on Spark: stoatflow run --engine spark",
            )

    def _count(self, store: str) -> int:
        return sum(len(compacted(page, self.application.retentions)) for page in self.application.rows(store))

    def _write_state(self) -> None:
        left = self._chunks()
        target = f"{self.folder.rstrip('/')}/{handed_over.ROWS}"
        while True:
            some = list(itertools.islice(left, _CHUNKS))
            frame = self._spark.createDataFrame(some, SCHEMA)
            frame.coalesce(1).write.mode("append").parquet(target)
            if len(some) < _CHUNKS:
                return

    def _chunks(self) -> Iterator[Routed]:
        """Return the state as rows for the tasks of all parts."""
        numbers = itertools.count()
        for store in self.application.retentions:
            for page in self.application.rows(store):
                live = compacted(page, self.application.retentions)
                for part, task, some in distributed(self.parts, self.counts, store, live):
                    for at in range(0, len(some), _ROWS):
                        place = next(numbers).to_bytes(8, "big")
                        data = chunk(some[at : at + _ROWS])
                        yield Routed(part, task, handed_over.STATE, None, data, 0, None, place, False)

    def _refuse_misplaced(self) -> None:
        """Refuse keys in partitions where Spark's tasks would not find their state, as far as checked here."""
        if max(self.partitions.values()) == 1:
            return
        for page in self.application.rows(rows.CLOCKS):
            if any(not rows.is_time(row.key) for row in compacted(page, self.application.retentions)):
                self._refuse_places("something waits for its time in another task than its key says")
        for topic in sorted({topic for part in self.parts if part.how == PARTITIONS for topic in part.topics}):
            many = self.partitions[topic]
            for partition in range(many):
                for key in self.application.last_keys(topic, partition, _LOOKED_AT):
                    if key is not None and murmur2(key) % many != partition:
                        self._refuse_places(f"topic {topic} has the key {key!r} in partition {partition}")

    @staticmethod
    def _refuse_places(what: str) -> None:
        raise IncompatibleStateError(
            f"{what}: records are not where Kafka's Java clients put them (murmur2), and Spark would look for their "
            "state elsewhere; nothing was changed",
            next_step="write .repartition() behind that source, or let producers partition by murmur2_random",
        )


_FORMATS = "handed-over-formats.json"
_QUERY = ("stoatflow.json", "offsets")


def _partitions(positions: list[Position]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in positions:
        found[one.topic] = max(found.get(one.topic, 0), one.partition + 1)
    return found
