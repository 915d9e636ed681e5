"""An application that Kafka Streams ran continues here: its offsets, its changelogs, the same application id.

Kafka Streams runs first and is stopped; then StoatFlow starts with nothing but the broker's topics. Its restored
state is what Kafka Streams had, and later records are added to it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from topics import KafkaTopics

import stoatflow as sf
from conformance import runner
from conformance.runner import Case
from skew.inputs import Input
from skew.on_broker import FlowApplication, delete, read, write
from skew.streams import KafkaStreams, StreamsApplication
from skew.topologies import Step

_TEXTS: Step = {"key_serde": "string", "value_serde": "string"}
_KEPT: Step = {"store": "kept", "key_serde": "string"}
_PARTITIONS = 2
# Not in the past: the broker deletes segments of a window store's changelog by the times of their records.
_START = int(time.time()) // 3600 * 3_600_000
SETTINGS = {"threads": 1, "max_poll_records": 500, "max_task_idle_ms": 0}


def _chain(*steps: Step) -> list[Step]:
    """Each step after the previous one."""
    made: list[Step] = []
    for number, step in enumerate(steps, 1):
        before = {} if number == 1 else {"from": f"s{number - 1}"}
        made.append({"id": f"s{number}"} | before | step)
    return made


def _grouped(*behind: Step, exchanged: bool = False) -> list[Step]:
    group = {"op": "group_by", "fn": "first_char"} if exchanged else {"op": "group_by_key"}
    return _chain({"op": "stream", "topics": ["in"], **_TEXTS}, {**group, **_TEXTS}, *behind)


def _window(type_: str, **more: int) -> Step:
    return {"op": "windowed_by", "window": {"type": type_, "grace_ms": 600_000, **more}}


COUNT: Step = {"op": "count", "materialized": _KEPT | {"value_serde": "long"}}
REDUCE: Step = {"op": "reduce", "reducer": "concat_values", "materialized": _KEPT | {"value_serde": "string"}}


def _table(**more: int) -> list[Step]:
    return _chain({"op": "table", "topic": "in", **_TEXTS, "materialized": _KEPT | {"value_serde": "string"} | more})


TOPOLOGIES: dict[str, tuple[list[Step], str, Any, str]] = {
    "count": (_grouped(COUNT), "kv", "string", "long"),
    "count behind a new key": (_grouped(COUNT, exchanged=True), "kv", "string", "long"),
    "a table": (_table(), "kv", "string", "string"),
    "a versioned table": (_table(versioned_history_ms=3_600_000), "versioned", "string", "string"),
    "windows": (
        _grouped(_window("tumbling", size_ms=5_000), COUNT),
        "window", {"time_windowed": "string", "size_ms": 5_000}, "long",
    ),
    "sessions": (
        _grouped(_window("session", gap_ms=1_000), REDUCE),
        "session", {"session_windowed": "string"}, "string",
    ),
}  # fmt: skip


def _reading(steps: list[Step], topic: str) -> list[Step]:
    """The same steps with a topic of the broker."""
    names = {"topics": [topic], "topic": topic}
    return [step | {name: named for name, named in names.items() if name in step} for step in steps]


def _records(name: str, first: int, count: int) -> list[Input]:
    keys = ("ann", "bob", "cyd")
    return [
        Input(name, n % _PARTITIONS, f"{keys[n % 3]}{n % _PARTITIONS}", f"v{n}", _START + n * 400)
        for n in range(first, first + count)
    ]


def _rows(rows: list[Step]) -> list[tuple[Any, ...]]:
    return sorted(
        (
            row["key"],
            *(row.get("window", {}).get(side) for side in ("start", "end")),
            row["value"],
            row.get("timestamp"),
        )
        for row in rows
    )


@pytest.fixture
def topics(kafka: KafkaTopics, name: str) -> Iterator[dict[str, str]]:
    """Input and output."""
    made = {"in": f"{name}-in", "out": f"{name}-out"}
    for topic in made.values():
        kafka.create(topic, _PARTITIONS)
    yield made
    delete(kafka, name)


def _flow(name: str, steps: list[Step], bootstrap: str, state: Path, **more: object) -> FlowApplication:
    settings: dict[str, object] = {
        "application.id": name, "bootstrap.servers": bootstrap, "state.dir": state, "admin.listen": "off",
        "statestore.cache.max.bytes": 0,
    }  # fmt: skip
    settings |= {key.replace("_", "."): value for key, value in more.items()}
    return FlowApplication(runner.build(Case(Path(), {"topology": steps})), settings)


@pytest.mark.parametrize("which", TOPOLOGIES)
def test_the_engine_continues_where_kafka_streams_stopped(
    which: str, kafka: KafkaTopics, jvm: KafkaStreams, name: str, topics: dict[str, str], tmp_path: Path
) -> None:
    steps, kind, key, value = TOPOLOGIES[which]
    steps = _reading(steps, topics["in"])
    to = {"id": "out", "op": "to", "topic": topics["out"], "key_serde": key, "value_serde": value, "from": "stream"}
    steps = [*steps, {"id": "stream", "op": "to_stream", "from": steps[-1]["id"]}, to]
    stores: dict[str, Step] = {"kept": {"kind": kind}}
    if kind == "versioned":
        stores["kept"]["keys"] = sorted({one.key for one in _records("in", 0, 120)})
    write(kafka.address, topics, _records("in", 0, 60))
    with StreamsApplication(jvm, name, kafka.address, steps, SETTINGS) as java:
        java.await_running()
        java.await_all()
        before = _rows(java.rows(stores))
    assert before
    with _flow(name, steps, kafka.address, tmp_path) as python:
        python.await_running()
        assert _rows(python.rows(stores)) == before
        write(kafka.address, topics, _records("in", 60, 60))
        python.await_all()
        after = _rows(python.rows(stores))
    # The whole input by Kafka Streams alone, under another name.
    with StreamsApplication(jvm, f"{name}-alone", kafka.address, steps, SETTINGS) as java:
        java.await_running()
        java.await_all()
        assert after == _rows(java.rows(stores))
    outputs, _ = read(kafka, topics["out"])
    assert outputs


OPTIMIZED: dict[str, Any] = SETTINGS | {"optimization": "all"}


@pytest.mark.parametrize("optimization", ["all", "reuse.ktable.source.topics, merge.repartition.topics"])
def test_a_table_without_a_changelog_is_restored_from_its_topic(
    optimization: str, kafka: KafkaTopics, jvm: KafkaStreams, name: str, topics: dict[str, str], tmp_path: Path
) -> None:
    steps = _reading(_table(), topics["in"])
    stores: dict[str, Step] = {"kept": {"kind": "kv"}}
    deleted = [Input("in", n, f"bob{n}", None, _START + 30_000) for n in range(_PARTITIONS)]
    write(kafka.address, topics, _records("in", 0, 60) + deleted)
    with StreamsApplication(jvm, name, kafka.address, steps, OPTIMIZED) as java:
        java.await_running()
        java.await_all()
        before = _rows(java.rows(stores))
    assert before
    assert not [topic for topic in kafka.topics() if topic.startswith(name) and topic.endswith("-changelog")]
    for folder, more in (("first", 60), ("second", 120)):
        with _flow(name, steps, kafka.address, tmp_path / folder, topology_optimization=optimization) as python:
            python.await_running()
            assert _rows(python.rows(stores)) == before
            write(kafka.address, topics, _records("in", more, 60))
            python.await_all()
            before = _rows(python.rows(stores))
    assert f"{name}-kept-changelog" not in kafka.topics()
    with StreamsApplication(jvm, f"{name}-alone", kafka.address, steps, OPTIMIZED) as java:
        java.await_running()
        java.await_all()
        assert before == _rows(java.rows(stores))


def test_a_table_without_a_changelog_does_not_silently_begin_empty(
    kafka: KafkaTopics, jvm: KafkaStreams, name: str, topics: dict[str, str], tmp_path: Path
) -> None:
    steps = _reading(_table(), topics["in"])
    write(kafka.address, topics, _records("in", 0, 20))
    with StreamsApplication(jvm, name, kafka.address, steps, OPTIMIZED) as java:
        java.await_running()
        java.await_all()
    for _ in range(2):
        application = _flow(name, steps, kafka.address, tmp_path)
        with pytest.raises(sf.IncompatibleStateError, match=f"no changelog '{name}-kept-changelog'.*topology.optim"):
            application.await_running()
    # The first option in the error message; then the setting may not be reverted.
    with _flow(name, steps, kafka.address, tmp_path, topology_optimization="all") as python:
        python.await_all()
    application = _flow(name, steps, kafka.address, tmp_path)
    with pytest.raises(sf.IncompatibleStateError, match="restored from its source topic until now"):
        application.await_running()


def _writing(steps: list[Step], topic: str) -> list[Step]:
    """The same steps, writing to another topic."""
    return [step | ({"topic": topic} if step["op"] == "to" else {}) for step in steps]


def test_a_stream_joined_with_itself_goes_on_with_its_one_store(
    kafka: KafkaTopics, jvm: KafkaStreams, name: str, topics: dict[str, str], tmp_path: Path
) -> None:
    window = {"before_ms": 6_000, "after_ms": 6_000, "grace_ms": 600_000}
    join = {"op": "join", "from": "s1", "other": "s1", "joiner": "pair_text", "window": window}
    steps = _reading(
        _chain({"op": "stream", "topics": ["in"], **_TEXTS}, join | _TEXTS | {"other_value_serde": "string"}),
        topics["in"],
    )
    steps = [*steps, {"id": "out", "op": "to", "from": "s2", "topic": topics["out"], **_TEXTS}]
    # Kafka Streams numbers the store, whatever the name of the join.
    unnamed = {"ensure_explicit_naming": False}
    write(kafka.address, topics, _records("in", 0, 60))
    with StreamsApplication(jvm, name, kafka.address, steps, OPTIMIZED) as java:
        java.await_running()
        java.await_all()
    for folder, more in (("first", 60), ("second", 120)):
        with _flow(name, steps, kafka.address, tmp_path / folder, topology_optimization="all", **unnamed) as python:
            python.await_running()
            write(kafka.address, topics, _records("in", more, 60))
            python.await_all()
    changelogs = [topic for topic in kafka.topics() if topic.startswith(name) and topic.endswith("-store-changelog")]
    assert changelogs == [f"{name}-KSTREAM-JOINTHIS-0000000003-store-changelog"]
    found, _ = read(kafka, topics["out"])
    # The right side's store would begin empty.
    application = _flow(name, steps, kafka.address, tmp_path / "second", **unnamed)
    with pytest.raises(
        sf.IncompatibleStateError, match=r"had one store until now.*set topology\.optimization to single"
    ):
        application.await_running()
    # The whole input by Kafka Streams alone, with two stores.
    alone = f"{name}-alone"
    kafka.create(alone, _PARTITIONS)
    with StreamsApplication(jvm, f"{name}-two", kafka.address, _writing(steps, alone), SETTINGS) as java:
        java.await_running()
        java.await_all()
    wanted, _ = read(kafka, alone)
    assert sum(map(len, found.values())) > 500
    assert found == wanted


def test_in_flight_records_of_repartition_topics_are_not_silently_lost(
    kafka: KafkaTopics, jvm: KafkaStreams, name: str, topics: dict[str, str], tmp_path: Path
) -> None:
    steps, *_ = TOPOLOGIES["count behind a new key"]
    steps = _reading(steps, topics["in"])
    write(kafka.address, topics, _records("in", 0, 20))
    with StreamsApplication(jvm, name, kafka.address, steps, SETTINGS) as java:
        java.await_running()
        java.await_all()
    (rest,) = (topic for topic in kafka.topics() if topic.startswith(name) and topic.endswith("-repartition"))
    write(kafka.address, {"rest": rest}, [Input("rest", 0, "a", "v", _START)])
    application = _flow(name, steps, kafka.address, tmp_path)
    with pytest.raises(sf.IncompatibleStateError, match=f"has left records in the repartition topic '{rest}'"):
        application.await_running()


def test_the_engine_does_not_start_beside_kafka_streams(
    kafka: KafkaTopics, jvm: KafkaStreams, name: str, topics: dict[str, str], tmp_path: Path
) -> None:
    steps = _reading(TOPOLOGIES["count"][0], topics["in"])
    with StreamsApplication(jvm, name, kafka.address, steps, SETTINGS) as java:
        java.await_running()
        second = _flow(name, steps, kafka.address, tmp_path, broker_wait_timeout_ms=4000)
        with pytest.raises(sf.FencedError, match=r"StreamThread-1-consumer' on 127\.0\.0\.1"):
            second.await_running()


def test_the_engine_ends_when_kafka_streams_joins(
    kafka: KafkaTopics, jvm: KafkaStreams, name: str, topics: dict[str, str], tmp_path: Path
) -> None:
    steps = _reading(TOPOLOGIES["count"][0], topics["in"])
    write(kafka.address, topics, _records("in", 0, 20))
    first = _flow(name, steps, kafka.address, tmp_path, metadata_max_age_ms=200)
    first.await_all()
    reported = r"has got members .* \('.*StreamThread-1-consumer' on 127\.0\.0\.1\)"
    with StreamsApplication(jvm, name, kafka.address, steps, SETTINGS), pytest.raises(sf.FencedError, match=reported):
        first.await_end()
