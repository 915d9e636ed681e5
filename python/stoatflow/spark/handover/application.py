"""The engine's side of a hand-over: an application's positions, its changelogs, and the mark of a hand-over.

Takes a topology, the application's settings. Reads what is committed; writes rows and positions in one transaction.
Owns the mark in the offsets topic that prevents a start of the application while it runs on Spark: a row of the topic
itself, and in place of the formats of its changelogs. Uses the engine's own client.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoatflow._runtime import bridge
from stoatflow.cli.reset import ResetRequest, Target
from stoatflow.durations import duration_ms
from stoatflow.errors import ConfigError, IncompatibleStateError, StoatFlowError
from stoatflow.settings import Settings
from stoatflow.spark.handover.rows import CLOCKS
from stoatflow.spark.twin.handed_over import Offsets
from stoatflow.spark.twin.resumed_task import retentions
from stoatflow.spark.twin.task_state import Change, Retention, packed
from stoatflow.topology import Topology

MARK = "handed over to Spark"
_PAGE = 2_000
_DAY_MS = 86_400_000
_ADDITIONAL = "windowstore.changelog.additional.retention.ms"
_TOPIC, _NO_TOPIC = "topic.", "topic.metadata.refresh.interval.ms"
_OFFSETS = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime", "segment.bytes": "8388608"}
"""Settings of the offsets topic, as the engine creates it."""

Record = tuple[str, "int | None", "bytes | None", "bytes | None", int, "list[tuple[str, bytes | None]]"]
"""Topic, partition, key, value, timestamp, headers."""
_Read = tuple[int, int, "bytes | None", "bytes | None", "list[tuple[str, bytes | None]]"]
"""Offset, timestamp, key, value, headers."""


@dataclass(frozen=True)
class Position:
    """Next offset of an application in a partition."""

    topic: str
    partition: int
    offset: int | None
    """The committed offset; `None` if there is none."""
    begin: int
    """First offset of the partition."""
    metadata: str = ""

    @property
    def next(self) -> int:
        """Return the offset of the first record that is not processed."""
        return self.begin if self.offset is None else self.offset


@dataclass
class Noted:
    """Content of the offsets topic."""

    metadata: dict[tuple[str, int], str] = field(default_factory=dict)
    formats: dict[str, str] = field(default_factory=dict)


class Application:
    """An application on a broker, while it doesn't run."""

    def __init__(self, topology: Topology, settings: Settings) -> None:
        """Connect to the broker."""
        settings.check()
        self.topology = topology
        self.id = str(settings.get("application.id"))
        if str(settings.get("bootstrap.servers", "")).startswith("embedded:"):
            raise ConfigError(
                "an embedded broker belongs to one process, and Spark's workers are others",
                next_step="hand over an application that runs on Kafka",
            )
        self._settings = settings
        self._request = ResetRequest(topology, settings, Target("shift", 0), [])
        self._client = bridge.TopicsClient(settings.pairs())
        self.retentions: dict[str, Retention] = dict(retentions(topology))
        if not json.loads(topology.plan.physical_json)["clocks"]:
            del self.retentions[CLOCKS]

    @property
    def address(self) -> str:
        """Address of the broker."""
        return self._client.address

    def changelog(self, store: str) -> str:
        """Return the name of a store's changelog topic."""
        return f"{self.id}-{store}-changelog"

    def look(self) -> dict[str, Any]:
        """Return what a reset would show: committed positions, changelogs, local state."""
        found = self._request.look()
        if found["begun"]:
            raise IncompatibleStateError(
                f"a reset of '{self.id}' was begun and has not ended", next_step="run it again: stoatflow reset"
            )
        return found

    def positions(self) -> list[Position]:
        """Return the application's next offsets, for all partitions that it reads."""
        noted = self.noted()
        found = []
        begins: dict[str, list[tuple[int, int]]] = {}
        for one in self.look()["partitions"]:
            topic, partition = one["topic"], int(one["partition"])
            if topic not in begins:
                begins[topic] = self._ranges(topic)
            metadata = noted.metadata.get((topic, partition), "")
            found.append(Position(topic, partition, one["from"], begins[topic][partition][0], metadata))
        return found

    def offsets(self) -> Offsets:
        """Return these positions in the format of Spark's source."""
        found: Offsets = {}
        for one in self.positions():
            found.setdefault(one.topic, {})[str(one.partition)] = one.next
        return found

    def noted(self) -> Noted:
        """Read the offsets topic."""
        noted = Noted()
        for _, _, key, value, _ in self._records(self._offsets_topic):
            what, *of = json.loads(key or b"[null]")
            row = {} if value is None else json.loads(value)
            if what == "position":
                noted.metadata[of[0], int(of[1])] = row.get("metadata", "")
            elif what == "format" and "format" in row:
                noted.formats[of[0]] = row["format"]
            elif what == "format":
                noted.formats.pop(of[0], None)
        return noted

    def handed_to(self) -> str | None:
        """Return the mark of the hand-over that runs on Spark now; `None` if the application itself may run."""
        marks = (text for text in self.noted().formats.values() if text.startswith(MARK))
        return next(marks, None)

    def rows(self, store: str) -> Iterator[list[Change]]:
        """Yield all records of a store's changelog, partition by partition."""
        topic = self.changelog(store)
        for partition in range(len(self._ranges(topic))):
            yield [
                Change(store, key, value, timestamp, packed(headers))
                for _, timestamp, key, value, headers in self._records(topic, partition)
            ]

    def last_keys(self, topic: str, partition: int, most: int) -> Iterator[bytes | None]:
        """Yield the keys of the last records of a partition."""
        ranges = self._ranges(topic)
        begin, end = ranges[partition]
        for _, _, key, _, _ in self._read(topic, partition, max(begin, end - most), end):
            yield key

    def make_topics(self, widest: int) -> None:
        """Create the application's own topics as a first start does, with the broker's default replication."""
        self._client.create_topic(self._offsets_topic, 1, [*_OFFSETS.items()])
        many = int(str(self._settings.get("changelog.num.partitions", 0) or 0)) or widest
        stores = {store["name"]: store for store in json.loads(self.topology.plan.physical_json)["stores"]}
        for store in self.retentions:
            config = self._changelog_config(stores.get(store, {}))
            partitions = 1 if store == CLOCKS else many
            self._client.create_topic(self.changelog(store), partitions, [*config.items()])

    def _changelog_config(self, store: Mapping[str, Any]) -> dict[str, str]:
        kind: Mapping[str, Any] = store.get("kind", {})
        given = {
            name: str(self._settings.get(name))
            for name in self._settings
            if name.startswith(_TOPIC) and name != _NO_TOPIC
        }
        config = {name.removeprefix(_TOPIC): value for name, value in given.items()} | {"cleanup.policy": "compact"}
        if (retention := kind.get("retention_ms")) is not None:
            more = str(self._settings.get(_ADDITIONAL, _DAY_MS))
            kept = retention + (int(more) if more.isdigit() else duration_ms(more))
            config |= {"cleanup.policy": "compact,delete", "retention.ms": str(kept)}
        if (history := kind.get("history_ms")) is not None:
            config["min.compaction.lag.ms"] = str(history + _DAY_MS)
        if retention is not None or history is not None:
            config["message.timestamp.type"] = "CreateTime"
        return config | dict(store.get("topic", {}))

    def fence(self) -> bridge.TransactionalWriter:
        """Fence a running instance; it commits nothing any more."""
        return self._client.writer(self.id)

    def mark(self, writer: bridge.TransactionalWriter, text: str) -> None:
        """Prevent the application from starting."""
        marked = [self._offsets_topic, *map(self.changelog, self.retentions)]
        self._commit(writer, self._formats(dict.fromkeys(marked, text)))

    def take_back(
        self,
        writer: bridge.TransactionalWriter,
        rows: Iterable[Record],
        positions: Mapping[tuple[str, int], int],
        formats: Mapping[str, str],
    ) -> None:
        """Write changelog rows, positions and formats in one transaction: the application may start then."""
        noted = self.noted()
        places = (
            self._noting(["position", *place], {"offset": offset, "metadata": _times(noted.metadata.get(place, ""))})
            for place, offset in positions.items()
        )
        marked = [self._offsets_topic, *map(self.changelog, self.retentions)]
        all_formats = dict.fromkeys(marked) | dict(formats)
        self._commit(writer, itertools.chain(places, self._formats(all_formats), rows))

    def _commit(self, writer: bridge.TransactionalWriter, records: Iterable[Record]) -> None:
        left = iter(records)
        writer.begin()
        try:
            while page := list(itertools.islice(left, _PAGE)):
                writer.send(page)
            writer.flush()
        except BaseException:
            writer.abort()
            raise
        if not writer.commit():
            raise StoatFlowError(
                "the broker has aborted the transaction of the hand-over: nothing was changed",
                next_step="run it again; if it is too slow, raise transaction.timeout.ms",
            )

    def _formats(self, formats: Mapping[str, str | None]) -> Iterator[Record]:
        for topic, text in formats.items():
            yield self._noting(["format", topic], None if text is None else {"format": text})

    def _noting(self, key: list[Any], value: Mapping[str, Any] | None) -> Record:
        """Build a row of the offsets topic, byte by byte as the engine writes it."""
        return self._offsets_topic, 0, _encoded(key), None if value is None else _encoded(value), _now(), []

    @property
    def _offsets_topic(self) -> str:
        return f"{self.id}-offsets"

    def _ranges(self, topic: str) -> list[tuple[int, int]]:
        found = self._client.topic(topic)
        return [] if found is None else self._client.ranges(topic, found[0])

    def _records(self, topic: str, partition: int = 0) -> Iterator[_Read]:
        ranges = self._ranges(topic)
        return self._read(topic, partition, *ranges[partition]) if ranges else iter(())

    def _read(self, topic: str, partition: int, begin: int, end: int) -> Iterator[_Read]:
        if begin >= end:
            return
        reader = self._client.read(topic, partition, begin, end)
        while page := reader.next(_PAGE):
            yield from page


def _times(metadata: str) -> str:
    """Return the times in an offset's metadata, which a later offset keeps, without the record's leader epoch."""
    return ";".join(part for part in metadata.split(";") if not part.startswith("le=")) or "st=-1"


def _encoded(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def _now() -> int:
    return int(time.time() * 1000)
