"""A case on the real Kafka Streams, twice, and on StoatFlow with 1, 4 and 16 lanes: one broker, the same topics.

Takes: a case, a broker, a JVM with Kafka Streams.
Gives: for each of the five, its output by key in the order of its partition, and its final stores.
Owns: the topics of the case, and the applications.
Never: compares.

They run at the same time: records that are written meanwhile reach each of them at another moment.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from topics import PATIENCE_S, KafkaTopics

import stoatflow as sf
from conformance import runner
from conformance.runner import Case
from skew.cases import SkewCase
from skew.inputs import Input
from skew.streams import KafkaStreams, StreamsApplication
from skew.topologies import Step

LANES = {"lanes-1": 1, "lanes-4": 4, "lanes-16": 16}
# The second one has two threads, which take records one by one: results that depend on the order of tasks
# differ then. Others are the same in both.
STREAMS = {
    "streams-1": {"threads": 1, "max_poll_records": 500},
    "streams-2": {"threads": 2, "max_poll_records": 1},
}
_PAUSE_S = 0.04
_RUN_S = 120.0
Key = bytes
"""Includes the window."""
Entry = tuple[bytes | None, int]
"""Value and timestamp."""
Place = tuple[str, str, int | None, int | None]
"""Store, key, start and end of the window."""
Held = tuple[Any, int | None]
"""Value and timestamp."""


@dataclass(frozen=True)
class Result:
    """The results of one application."""

    outputs: dict[Key, list[Entry]]
    stores: dict[Place, Held]
    partitions: dict[Key, int]
    """Of the output."""


class Application(Protocol):
    """The common interface of the five."""

    def __enter__(self) -> Any: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def await_running(self) -> None: ...

    def await_all(self) -> None: ...

    def rows(self, stores: dict[str, Step]) -> list[Step]: ...


class FlowApplication:
    """StoatFlow; like `StreamsApplication`, it starts immediately."""

    def __init__(self, topology: sf.Topology, settings: dict[str, object]) -> None:
        self._app = sf.StoatFlow(topology, settings)
        self._app.start()

    def __enter__(self) -> FlowApplication:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._app.__exit__(kind, error, at)

    def _until(self, holds: Callable[[], bool], why: str) -> None:
        deadline = time.monotonic() + _RUN_S
        while not holds():
            assert not self._app.wait(0.01), "the engine ended by itself"
            assert time.monotonic() < deadline, f"{why}: not within {_RUN_S} s, {self._app.metrics()}"

    def await_running(self) -> None:
        """Wait until it reads."""
        self._until(lambda: str(self._app.state) == "RUNNING", "it runs")

    def await_all(self) -> None:
        """Wait until all of the input is committed."""
        self.await_running()
        self._until(lambda: self._app.lag() == 0, "it has read everything")

    def await_end(self) -> None:
        """Wait until it ends by itself, with an error."""
        assert self._app.wait(_RUN_S), "it runs on"

    def rows(self, stores: dict[str, Step]) -> list[Step]:
        """In the form of Kafka Streams' rows."""
        return [row for store, kept in stores.items() for row in self._rows(store, kept)]

    def _rows(self, store: str, kept: Step) -> Iterable[Step]:
        table = self._app.to_arrow(store)
        for name in ("_timestamp", "_window_start", "_window_end"):
            if name in table.column_names:
                at = table.column_names.index(name)
                table = table.set_column(at, name, table.column(name).cast(pa.int64()))
        for row in table.to_pylist():
            made: Step = {"store": store, "key": row["_key"], "value": row["value"]}
            if "_window_start" in row:
                made["window"] = {"start": row["_window_start"], "end": row["_window_end"]}
            if kept["kind"] != "session":
                made["timestamp"] = row["_timestamp"]
            yield made


def steps_for(case: SkewCase, topics: dict[str, str]) -> list[Step]:
    """The same steps with other topic names."""
    steps = copy.deepcopy(case.steps)
    for step in steps:
        if "topics" in step:
            step["topics"] = [topics[topic] for topic in step["topics"]]
        if "topic" in step:
            step["topic"] = topics[step["topic"]]
    return steps


def _settings(place: _Place, state: Path) -> dict[str, object]:
    named = runner.config(Case(Path(), {"config": {"cache_max_bytes": 0, "emit_interval_ms": 0}}))
    return named | {
        "application.id": place.application,
        "bootstrap.servers": place.bootstrap,
        "state.dir": state,
        "lanes.count": LANES[place.which],
        "default.dsl.store": "in_memory",
        "commit.interval.ms": 100,
        "max.task.idle.ms": 0,
    }


def write(bootstrap: str, topics: dict[str, str], records: Iterable[Input]) -> None:
    """Each record to its partition, with its timestamp."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 2, "log_level": 0})
    for one in records:
        value = None if one.value is None else one.value.encode()
        producer.produce(topics[one.topic], value, one.key.encode(), partition=one.partition, timestamp=one.timestamp)
    assert producer.flush(PATIENCE_S) == 0


def read(kafka: KafkaTopics, topic: str) -> tuple[dict[Key, list[Entry]], dict[Key, int]]:
    """Committed records by key, each in the order of its partition, and the partitions. Nobody may write any more."""
    ends, deadline = kafka.ends(topic), time.monotonic() + PATIENCE_S
    # A broker acknowledges a commit before its markers are in every partition.
    while kafka.ends(topic, "read_committed") != ends:
        assert time.monotonic() < deadline, f"{topic} has an open transaction"
        time.sleep(0.05)
    settings: dict[str, Any] = {
        "bootstrap.servers": kafka.address,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 20,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    found: dict[Key, list[Entry]] = {}
    places: dict[Key, int] = {}
    try:
        waiting = set(ends)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        while waiting:
            assert time.monotonic() < deadline, f"nothing more of {topic}"
            for message in consumer.consume(10_000, 0.05):
                error, partition = message.error(), message.partition()
                assert partition is not None
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error  # it has no public name
                    waiting.discard(partition)
                    continue
                key, value = message.key(), message.value()
                assert isinstance(key, bytes), f"{topic} has a record without a key"
                assert value is None or isinstance(value, bytes)
                assert places.setdefault(key, partition) == partition, f"{key!r} is in two partitions of {topic}"
                found.setdefault(key, []).append((value, message.timestamp()[1]))
    finally:
        consumer.close()
    return found, places


def delete(kafka: KafkaTopics, prefix: str) -> None:
    """Delete all topics of a case: one broker can't hold those of hundreds."""
    admin = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
    for removed in admin.delete_topics([topic for topic in kafka.topics() if topic.startswith(prefix)]).values():
        removed.result(PATIENCE_S)


def _held(rows: Iterable[Step]) -> dict[Place, Held]:
    found: dict[Place, Held] = {}
    for row in rows:
        window = row.get("window", {})
        place = (row["store"], row["key"], window.get("start"), window.get("end"))
        assert place not in found, f"{place} is there twice"
        found[place] = (row["value"], row.get("timestamp"))
    return found


def run(
    case: SkewCase, kafka: KafkaTopics, jvm: KafkaStreams, name: str, state: Path, which: Iterable[str]
) -> dict[str, Result]:
    """Run some of the five to the end of the inputs, at the same time."""
    names = list(which)
    inputs = {topic: f"{name}-{topic}" for topic in case.topics}
    outputs = {one: f"{name}-{one}-out" for one in names}
    for topic in (*inputs.values(), *outputs.values()):
        kafka.create(topic, case.partitions)
    write(kafka.address, inputs, case.backlog)
    stores: dict[str, dict[Place, Held]] = {}
    with ExitStack() as running:
        applications: dict[str, Application] = {}
        for one in names:
            place = _Place(one, steps_for(case, inputs | {"out": outputs[one]}), kafka.address, f"{name}-{one}")
            applications[one] = running.enter_context(_start(case, place, jvm, state))
        for application in applications.values():
            application.await_running()
        for lump in case.lumps:
            for application in applications.values() if lump.settled else ():
                application.await_all()
            write(kafka.address, inputs, lump.records)
            time.sleep(_PAUSE_S)
        for one, application in applications.items():
            application.await_all()
            stores[one] = _held(application.rows(case.stores))
    results = {}
    for one in names:
        records, partitions = read(kafka, outputs[one])
        results[one] = Result(records, stores[one], partitions)
    delete(kafka, f"{name}-")
    return results


class _Place(NamedTuple):
    which: str
    steps: list[Step]
    bootstrap: str
    application: str


def _start(case: SkewCase, place: _Place, jvm: KafkaStreams, state: Path) -> Application:
    if place.which in STREAMS:
        settings = {"max_task_idle_ms": case.idle_ms} | STREAMS[place.which]
        return StreamsApplication(jvm, place.application, place.bootstrap, place.steps, settings)
    topology = runner.build(Case(Path(), {"topology": place.steps}), native=case.native)
    return FlowApplication(topology, _settings(place, state / place.which))
