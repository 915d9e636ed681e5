"""`current_stream_time_ms` and the retention of processors' stores follow the task's time, as in Kafka Streams.

A task is a partition of a sub-topology: its time is the highest timestamp that its sources had up to the record,
whatever other partitions and lanes do. Otherwise a processor that drops records older than its time would drop the
records of a partition that is behind.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import stoatflow as sf
from concurrency import until
from stoatflow import EmbeddedBroker, Record, StoatFlow

PARTITIONS = 4
BEHIND = 600_000
"""How far a partition is behind the previous one."""

Input = tuple[str, int, int]
"""Key, timestamp, partition."""


class SaysTime(sf.ContextualProcessor[str, str, str, int]):
    """Forwards the stream time at each record."""

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.replace(value=self.context.stream_time_ms))


def inputs(seed: int) -> list[Input]:
    """Keys that stay in their partition; mostly ascending timestamps, partitions ten minutes apart."""
    chance = random.Random(seed)  # noqa: S311
    made = []
    for at in range(400):
        partition = chance.randrange(PARTITIONS)
        key = f"{partition}-{chance.randrange(25)}"
        made.append((key, 10_000_000 - partition * BEHIND + at * 10 + chance.randrange(-300, 300), partition))
    return made


def run(
    tmp_path: Path, lanes: int, topology: Callable[[sf.StreamsBuilder], None], records: list[Input], **more: object
) -> list[tuple[str, int, int]]:
    """The output: key, timestamp, value."""
    broker = EmbeddedBroker()
    for topic in ("in", "out"):
        broker.create_topic(topic, partitions=PARTITIONS)
    builder = sf.StreamsBuilder()
    topology(builder)
    config = sf.Settings(
        {"application.id": "times", "state.dir": str(tmp_path / f"state-{lanes}"), "lanes.count": lanes, **more},
        environ={},
    )
    for key, timestamp, partition in records:
        broker.produce("in", key.encode(), b"x", timestamp=timestamp, partition=partition)
    with StoatFlow(builder.build(), config, broker=broker) as app:
        until(lambda: app.state is sf.State.ERROR or app.metrics()["records_committed"] == len(records))
        assert app.state is not sf.State.ERROR
    rows = list(broker.read("out"))
    return [((row.key or b"").decode(), row.timestamp, int.from_bytes(row.value or b"", "big")) for row in rows]


def by_key(rows: list[tuple[str, int, int]]) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for key, timestamp, value in rows:
        found.setdefault(key, []).append((timestamp, value))
    return found


def expected(records: list[Input]) -> dict[str, list[tuple[int, int]]]:
    """The highest timestamp of the partition up to each record."""
    highest: dict[int, int] = {}
    rows = []
    for key, timestamp, partition in records:
        highest[partition] = max(highest.get(partition, -1), timestamp)
        rows.append((key, timestamp, highest[partition]))
    return by_key(rows)


def in_order_of_admission(records: list[Input]) -> list[Input]:
    """Dispatch takes the partition whose next record is the oldest; within a partition the order is kept."""
    return [one for partition in range(PARTITIONS) for one in records if one[2] == partition]


@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_time_is_that_of_the_partition_up_to_the_record(tmp_path: Path, lanes: int) -> None:
    def topology(builder: sf.StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.process(SaysTime).to("out", key=str, value=int)

    records = inputs(lanes)
    assert by_key(run(tmp_path, lanes, topology, records)) == expected(in_order_of_admission(records))


@pytest.mark.parametrize("lanes", [1, 4])
def test_filtered_records_advance_stream_time(tmp_path: Path, lanes: int) -> None:
    def topology(builder: sf.StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.filter(lambda key, _: key.endswith("7")).process(SaysTime).to("out", key=str, value=int)

    records = inputs(lanes)
    wanted = {key: rows for key, rows in expected(in_order_of_admission(records)).items() if key.endswith("7")}
    assert by_key(run(tmp_path, lanes, topology, records)) == wanted


@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_after_a_new_key_stream_time_is_that_of_the_new_partition(tmp_path: Path, lanes: int) -> None:
    """One new key: all records belong to one task, in the order of the input."""

    def topology(builder: sf.StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.select_key(lambda key, _: "one").repartition(key=str, value=str).process(SaysTime).to(
            "out", key=str, value=int
        )

    records = inputs(lanes)
    rows = run(tmp_path, lanes, topology, records)
    assert len(rows) == len(records)
    highest = -1
    for _, timestamp, value in rows:
        highest = max(highest, timestamp)
        assert value == highest


class KeepsWindows(sf.ContextualProcessor[str, str, str, int]):
    """Puts each record into a window store that retains a minute, and forwards the number of its key's windows."""

    def init(self, context: sf.ProcessorContext[str, int]) -> None:
        super().init(context)
        self.windows: sf.WindowStore[str, str] = context.state_store("windows")

    def process(self, record: Record[str, str]) -> None:
        key = record.key or ""
        self.windows.put(key, record.value, record.timestamp)
        found = self.windows.fetch(key, frm=record.timestamp, to=record.timestamp)
        self.context.forward(record.replace(value=len(list(found))))


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_partition_that_is_behind_keeps_its_windows(tmp_path: Path, lanes: int) -> None:
    def topology(builder: sf.StreamsBuilder) -> None:
        builder.add_state_store(sf.Stores.persistent_window("windows", "1m", "1s", key=str, value=str))
        stream = builder.stream("in", key=str, value=str)
        stream.process(KeepsWindows, stores=["windows"]).to("out", key=str, value=int)

    rows = run(tmp_path, lanes, topology, inputs(lanes))
    assert [value for _, _, value in rows] == [1] * 400


def test_time_survives_a_restart(tmp_path: Path) -> None:
    """Also in a partition whose first record after the restart is older than those before."""
    broker = EmbeddedBroker()
    for topic in ("in", "out"):
        broker.create_topic(topic, partitions=2)
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).process(SaysTime).to("out", key=str, value=int)
    topology = builder.build()
    config = sf.Settings(
        {"application.id": "times", "state.dir": str(tmp_path / "state"), "lanes.count": 4}, environ={}
    )
    first = [("a", 5_000, 0), ("b", 900_000, 1)]
    for records in (first, [("c", 1_000, 0), ("d", 1_000, 1)]):
        for key, timestamp, partition in records:
            broker.produce("in", key.encode(), b"x", timestamp=timestamp, partition=partition)
        with StoatFlow(topology, config, broker=broker) as app:
            until(lambda: app.state is sf.State.ERROR or app.metrics()["records_committed"] == 2)
    found = {row.key: int.from_bytes(row.value or b"", "big") for row in broker.read("out")}
    assert found == {b"a": 5_000, b"b": 900_000, b"c": 5_000, b"d": 900_000}


def test_window_time_survives_a_changed_handler(tmp_path: Path) -> None:
    """A handler that may drop records requires another plan, with a stage boundary before the window."""
    broker = EmbeddedBroker()
    broker.create_topic("in", partitions=1)
    broker.create_topic("out", partitions=1)
    builder = sf.StreamsBuilder()
    windows = builder.stream("in", key=str, value=str).group_by_key().windowed_by(sf.TimeWindows("5s", grace="0s"))
    windows.count(store="n").to_stream().to("out", value=int)
    topology = builder.build()
    given = {"application.id": "times", "state.dir": str(tmp_path / "state"), "lanes.count": 4}
    runs: list[tuple[str, list[int]]] = [
        ("log_and_fail", [4_000, 100_000]),
        ("log_and_continue", [94_999, 95_000]),
        ("log_and_fail", [99_999, 100_001]),
    ]
    for handler, times in runs:
        for at in times:
            broker.produce("in", b"k", b"x", timestamp=at)
        config = sf.Settings({**given, "deserialization.exception.handler": handler}, environ={})
        with StoatFlow(topology, config, broker=broker) as app:
            until(lambda: app.state is sf.State.ERROR or app.metrics()["records_committed"] == 2)
    # 94,999, 95,000 and 99,999 are late at 100,000: their windows are closed.
    found = [(row.timestamp, int.from_bytes(row.value or b"", "big")) for row in broker.read("out")]
    assert found == [(4_000, 1), (100_000, 1), (100_001, 2)]
