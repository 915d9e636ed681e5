"""Schedules by stream time and event-time timers follow the task's time, as in Kafka Streams.

A partition that is ahead must not delete rows of one that is behind, or fire its timers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from concurrency import until
from stoatflow import EmbeddedBroker, PunctuationType, Record, StoatFlow, Stores, ValueAndTimestamp

PARTITIONS = 4
BEHIND = 600_000
"""How far a partition is behind the previous one."""
Input = tuple[str, int, int]
"""Key, timestamp, partition."""
LANES = pytest.mark.parametrize("lanes", [1, 4])


def by_murmur2(key: str) -> int | None:
    """The embedded broker's partitioner."""
    return None


def by_crc32(key: str) -> int:
    """The partitioner of librdkafka, and so of confluent-kafka for Python."""
    return zlib.crc32(key.encode()) % PARTITIONS


def anywhere(key: str) -> int:
    """A custom partitioner."""
    return len(key) % PARTITIONS


class Expires(sf.ContextualProcessor[str, str, str, str]):
    """Deletes rows that are five seconds old, in whole seconds."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.kept: sf.TimestampedKeyValueStore[str, str] = context.state_store("kept")
        context.schedule("1s", PunctuationType.STREAM_TIME, self.expire)

    def process(self, record: Record[str, str]) -> None:
        self.kept.put(record.key or "", ValueAndTimestamp(record.value, record.timestamp))

    def expire(self, timestamp: int) -> None:
        assert self.context.stream_time_ms == timestamp
        edge = timestamp // 1000 * 1000 - 5000
        found = [(key, row.timestamp) for key, row in self.kept.all()]
        # A range sees exactly the rows that are visible.
        assert [key for key, _ in self.kept.range(None, None)] == [key for key, _ in found]
        for key, at in found:
            if at < edge:
                self.kept.delete(key)


def broker_with(key_of: Callable[[int], str], partition_of: Callable[[str], int | None]) -> tuple[EmbeddedBroker, int]:
    """100 keys, each once; partitions are ten minutes apart, records a tenth of a second."""
    broker = EmbeddedBroker()
    broker.create_topic("in", partitions=PARTITIONS)
    broker.create_topic("out", partitions=1)
    for n in range(100):
        key = key_of(n)
        broker.produce("in", key.encode(), b"x", timestamp=0, partition=partition_of(key))
    placed = [(row.key or b"", row.partition) for row in broker.read("in")]
    again = EmbeddedBroker()
    again.create_topic("in", partitions=PARTITIONS)
    again.create_topic("out", partitions=1)
    order = {key_of(n).encode(): n for n in range(100)}
    for name, partition in sorted(placed, key=lambda one: order[one[0]]):
        at = 10_000_000 - partition * BEHIND + order[name] * 100
        again.produce("in", name, b"x", timestamp=at, partition=partition)
    return again, len(placed)


def written(broker: EmbeddedBroker) -> list[Input]:
    return [((row.key or b"").decode(), row.timestamp, row.partition) for row in broker.read("in")]


def settings(tmp_path: Path, lanes: int) -> sf.Settings:
    given = {"application.id": "tasks", "state.dir": str(tmp_path / "state"), "lanes.count": lanes}
    return sf.Settings(given, environ={})


def kept_after(app: StoatFlow, records: int) -> set[str]:
    until(lambda: app.state is sf.State.ERROR or app.metrics()["records_committed"] == records)
    assert app.state is not sf.State.ERROR
    return set(app.to_arrow("kept").column("_key").to_pylist())


def expiry(*, new_key: bool = False) -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.add_state_store(Stores.persistent_timestamped_key_value("kept", key=str, value=str))
    stream = builder.stream("in", key=str, value=str)
    if new_key:
        stream = stream.select_key(lambda key, _: key + "'").repartition(key=str, value=str)
    stream.process(Expires, stores=["kept"])
    return builder.build()


def fresh(records: Iterable[Input]) -> set[str]:
    """The keys that are not yet five seconds old in their own partition."""
    records = list(records)
    edge: dict[int, int] = {}
    for _, at, partition in records:
        edge[partition] = max(edge.get(partition, 0), at // 1000 * 1000 - 5000)
    return {key for key, at, partition in records if at >= edge[partition]}


@LANES
@pytest.mark.parametrize("partition_of", [by_murmur2, by_crc32])
def test_a_schedule_deletes_what_is_old_in_its_own_partition(
    tmp_path: Path, lanes: int, partition_of: Callable[[str], int | None]
) -> None:
    broker, records = broker_with(lambda n: f"key-{n}", partition_of)
    wanted = fresh(written(broker))
    assert 30 < len(wanted) < 70
    with StoatFlow(expiry(), settings(tmp_path, lanes), broker=broker) as app:
        assert kept_after(app, records) == wanted
    # After a restart the partition still follows from the key.
    key, _, partition = written(broker)[-1]
    broker.produce("in", key, b"y", timestamp=20_000_000, partition=partition)
    with StoatFlow(expiry(), settings(tmp_path, lanes), broker=broker) as app:
        assert kept_after(app, 1) == fresh(written(broker))


@LANES
def test_after_a_new_key_the_new_partition_counts(tmp_path: Path, lanes: int) -> None:
    """Partitions meet there: the age of rows is relative to the newest record in the new partition."""
    broker, records = broker_with(lambda n: f"key-{n}", by_murmur2)
    probe = EmbeddedBroker()
    probe.create_topic("new", partitions=PARTITIONS)
    old = written(broker)
    for key, at, _ in old:
        probe.produce("new", f"{key}'", b"x", timestamp=at)
    moved = [((row.key or b"").decode(), row.timestamp, row.partition) for row in probe.read("new")]
    with StoatFlow(expiry(new_key=True), settings(tmp_path, lanes), broker=broker) as app:
        assert kept_after(app, records) == fresh(moved)


@LANES
def test_keys_without_a_known_partition_wait_for_the_slowest(
    tmp_path: Path, lanes: int, capfd: pytest.CaptureFixture[str]
) -> None:
    broker, records = broker_with(lambda n: f"{n:0{3 + n % 4}}", anywhere)
    with StoatFlow(expiry(), settings(tmp_path, lanes), broker=broker) as app:
        kept = kept_after(app, records)
    slowest = PARTITIONS - 1
    edge = max(at // 1000 * 1000 - 5000 for _, at, partition in written(broker) if partition == slowest)
    assert kept == {key for key, at, _ in written(broker) if at >= edge}
    reported = [line for line in capfd.readouterr().err.splitlines() if "don't say in which partition they are" in line]
    assert len(reported) == 1
    assert "store 'kept'" in reported[0]


class Twice(sf.ContextualProcessor[str, str, str, str]):
    """Each call of the schedule adds ten to the rows it sees, and sees its own writes."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.rows: sf.KeyValueStore[str, int] = context.state_store("rows")
        context.schedule("1d", PunctuationType.STREAM_TIME, self.add)

    def process(self, record: Record[str, str]) -> None:
        self.rows.put(record.key or "", 1)

    def add(self, timestamp: int) -> None:
        rows = dict(self.rows.all())
        for key, value in rows.items():
            self.rows.put(key, value + 10)
        assert dict(self.rows.all()) == {key: value + 10 for key, value in rows.items()}
        for key in rows:
            self.context.forward(Record(key, "seen", timestamp))


@LANES
def test_each_row_is_seen_by_one_call_which_sees_its_own_writes(tmp_path: Path, lanes: int) -> None:
    broker, records = broker_with(lambda n: f"key-{n}", by_murmur2)
    builder = sf.StreamsBuilder()
    builder.add_state_store(Stores.persistent_key_value("rows", key=str, value=int))
    builder.stream("in", key=str, value=str).process(Twice, stores=["rows"]).to("out", key=str, value=str)
    with StoatFlow(builder.build(), settings(tmp_path, lanes), broker=broker) as app:
        until(lambda: app.state is sf.State.ERROR or app.metrics()["records_committed"] == records)
        assert app.state is not sf.State.ERROR
        rows = {row["_key"]: row["value"] for row in app.to_arrow("rows").to_pylist()}
    seen = [row.key.decode() for row in broker.read("out") if row.key]
    assert len(set(seen)) == len(seen), "by the call of its own partition, and no other"
    # Within ten minutes of event time a schedule of a day fires once: later rows were not seen.
    assert rows == {key: 11 if key in seen else 1 for key in rows}
    assert len(rows) == records
    assert len({partition for key, _, partition in written(broker) if key in seen}) == PARTITIONS


class Resets(sf.ContextualProcessor[str, int, str, int]):
    """Rewrites the row of any key at each tick of the clock, which belongs to no partition."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.kept: sf.TimestampedKeyValueStore[str, str] = context.state_store("kept")

    def process(self, record: Record[str, int]) -> None:
        for n in range(100):
            # `get` and then `put` would bring back rows that a schedule deletes between the two.
            self.kept.compute_if_present(f"key-{n}", lambda _, row: row)
        self.context.forward(record)


@LANES
def test_ticks_do_not_advance_partition_time(tmp_path: Path, lanes: int, capfd: pytest.CaptureFixture[str]) -> None:
    broker, records = broker_with(lambda n: f"key-{n}", by_murmur2)
    builder = sf.StreamsBuilder()
    builder.add_state_store(Stores.persistent_timestamped_key_value("kept", key=str, value=str))
    builder.scheduled("tick", every="50ms").process(Resets, stores=["kept"]).to("out", key=str, value=int)
    builder.stream("in", key=str, value=str).process(Expires, stores=["kept"])

    def wait_for_ticks() -> None:
        before = len(list(broker.read("out")))
        until(lambda: app.state is sf.State.ERROR or len(list(broker.read("out"))) > before + 2)

    with StoatFlow(builder.build(), settings(tmp_path, lanes), broker=broker) as app:
        kept_after(app, records)
        wait_for_ticks()
        assert kept_after(app, records) == fresh(written(broker))
        # Later records, while it ticks: schedules go by the partition as before.
        for key, at, partition in [one for one in written(broker) if one[0] in {"key-98", "key-99"}]:
            broker.produce("in", key, b"y", timestamp=at + 20_000, partition=partition)
        kept_after(app, records + 2)
        wait_for_ticks()
        assert kept_after(app, records + 2) == fresh(written(broker))
    assert "don't say in which partition they are" not in capfd.readouterr().err


class Rings(sf.ContextualProcessor[str, str, str, int]):
    """Reports the time, which is its partition's, two seconds after each record."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.alarms: sf.TimerStore[str] = context.state_store("alarms")

    def process(self, record: Record[str, str]) -> None:
        self.alarms.register(record.timestamp + 2_000)

    def on_timer(self, timer: sf.Timer[str]) -> None:
        self.context.forward(Record(timer.key, self.context.stream_time_ms, timer.at))


@LANES
@pytest.mark.parametrize("partition_of", [by_murmur2, by_crc32, anywhere])
def test_a_timer_waits_for_the_time_of_its_own_partition(
    tmp_path: Path, lanes: int, partition_of: Callable[[str], int | None]
) -> None:
    broker, records = broker_with(lambda n: f"{n:0{3 + n % 4}}", partition_of)
    builder = sf.StreamsBuilder()
    builder.add_state_store(Stores.timers("alarms", key=str))
    builder.stream("in", key=str, value=str).process(Rings, stores=["alarms"]).to("out", key=str, value=int)
    topology = builder.build()

    def rung() -> dict[str, tuple[int, int]]:
        rows = list(broker.read("out"))
        found = {(row.key or b"").decode(): (row.timestamp, int.from_bytes(row.value or b"", "big")) for row in rows}
        assert len(found) == len(rows), "each rings once"
        return found

    def due() -> dict[str, int]:
        time: dict[int, int] = {}
        for _, at, partition in written(broker):
            time[partition] = max(time.get(partition, 0), at)
        rows = written(broker)
        return {key: at + 2_000 for key, at, partition in rows if at + 2_000 <= time[partition]}

    def run(more: int) -> None:
        with StoatFlow(topology, settings(tmp_path, lanes), broker=broker) as app:
            until(lambda: app.state is sf.State.ERROR or app.metrics()["records_committed"] == more)
            until(lambda: app.state is sf.State.ERROR or len(rung()) >= len(due()))
            assert app.state is not sf.State.ERROR

    run(records)
    assert {key: at for key, (at, _) in rung().items()} == due()
    assert all(at <= time < at + 600_000 for at, time in rung().values())
    assert 50 < len(due()) < 100
    # After a restart with other lanes, the remaining timers fire by their own partition too, even one that
    # is behind.
    lanes = 5 - lanes
    slowest = min(written(broker), key=lambda one: one[1])[2]
    broker.produce("in", "last", b"x", timestamp=9_000_000, partition=slowest)
    run(1)
    assert {key: at for key, (at, _) in rung().items()} == due()


def test_a_processor_without_a_topic_uses_the_time_of_the_application(tmp_path: Path) -> None:
    """A scheduled source has no event time: schedules after it follow the application's other input."""
    fired: list[int] = []

    class Watches(sf.ContextualProcessor[str, int, str, int]):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule("1s", PunctuationType.STREAM_TIME, fired.append)

        def process(self, record: Record[str, int]) -> None:
            pass

    builder = sf.StreamsBuilder()
    builder.scheduled("beat", every="10s").process(Watches)
    builder.stream("in", key=str, value=str).to("out", key=str, value=str)
    broker, records = broker_with(lambda n: f"key-{n}", by_murmur2)
    with StoatFlow(builder.build(), settings(tmp_path, 4), broker=broker) as app:
        until(lambda: app.state is sf.State.ERROR or app.metrics()["records_committed"] == records)
        assert app.state is not sf.State.ERROR
    assert max(fired) == max(at for _, at, _ in written(broker))
