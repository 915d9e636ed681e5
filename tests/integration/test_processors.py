"""Processors on a real broker: stores of every kind are restored, schedules run without input, topics by name."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import driver_comparison
import pytest
from counting import PATIENCE_S, until
from driver_comparison import START, Entry, long, write
from topics import KafkaTopics

import stoatflow as sf
from stoatflow import PunctuationType, Record, Stores, Window, Windowed


class Keeper(sf.ContextualProcessor[str, str, str, str]):
    """Writes to a store of every kind, and reports the contents of each of them."""

    @classmethod
    def stores(cls) -> list[Any]:
        """One of each kind."""
        return [
            Stores.persistent_key_value("plain", key=str, value=str),
            Stores.persistent_timestamped_key_value("timed", key=str, value=str),
            Stores.persistent_window("windows", "1d", "10s", key=str, value=str),
            Stores.persistent_session("sessions", "1d", key=str, value=str),
            Stores.persistent_versioned("versions", "1d", key=str, value=str),
        ]

    def init(self, context: Any) -> None:
        """Get the stores."""
        super().init(context)
        self.plain, self.timed, self.windows, self.sessions, self.versions = (
            context.state_store(name) for name in ("plain", "timed", "windows", "sessions", "versions")
        )

    def process(self, record: Record[str, str]) -> None:
        """Read what is there, then write."""
        key, value, at = record.key, record.value, record.timestamp
        start = at // 10_000 * 10_000
        timed, version = self.timed.get(key), self.versions.get(key, as_of=at - 5_000)
        output = [
            self.plain.get(key),
            timed and (timed.value, timed.timestamp - START),
            [(moment - START, seen) for moment, seen in self.windows.fetch(key, frm=start - 20_000, to=start)],
            [
                (found.window.start - START, seen)
                for found, seen in self.sessions.find_sessions(key, earliest_end=at - 10_000, latest_start=at + 10_000)
            ],
            version and (version.value, version.timestamp - START),
        ]
        self.plain.put(key, value)
        self.timed.put(key, sf.ValueAndTimestamp(value, at))
        self.windows.put(key, value, start)
        self.sessions.put(Windowed(key, Window(at, at + 1)), value)
        self.versions.put(key, value, at)
        if value and value.endswith("7"):
            self.plain.delete(key)
        self.context.forward(record.replace(value=repr(output)))


def records(frm: int, to: int) -> list[Entry]:
    return [(f"k{n * n % 7}", f"v{n}", n * 1_000) for n in range(frm, to)]


@pytest.mark.parametrize("lanes", [1, 4])
def test_stores_of_every_kind_are_restored(kafka: KafkaTopics, name: str, tmp_path: Path, lanes: int) -> None:
    def build() -> sf.Topology:
        builder = sf.StreamsBuilder()
        reported = builder.stream(f"{name}-in", key=str, value=str).process(Keeper)
        reported.to(f"{name}-out", key=str, value=str)
        return builder.build()

    parts = [("in", records(0, 40)), ("in", records(40, 70)), ("in", records(70, 110))]
    driver_comparison.check(kafka, name, tmp_path / "state", build, parts, lanes=lanes)
    policy = {
        store: kafka.config(f"{name}-{store}-changelog")["cleanup.policy"]
        for store in ("plain", "timed", "windows", "sessions", "versions")
    }
    assert {store for store, found in policy.items() if "delete" in found} == {"windows", "sessions"}
    assert all("compact" in found for found in policy.values())


class Traces(sf.ContextualProcessor[str, str, str, str]):
    """Keeps each value with two headers, if it is odd."""

    def process(self, record: Record[str, str]) -> None:
        assert record.value is not None
        headers = (("number", record.value.encode()), ("empty", None)) if int(record.value) % 2 else ()
        value = sf.ValueTimestampHeaders(record.value, record.timestamp, headers)
        self.context.state_store("kept").put(record.key, value)


@pytest.mark.parametrize("client", ["native", "librdkafka"])
def test_headers_of_a_store_are_restored(kafka: KafkaTopics, name: str, tmp_path: Path, client: str) -> None:
    kafka.create(f"{name}-in")
    builder = sf.StreamsBuilder()
    builder.add_state_store(Stores.persistent_timestamped_key_value("kept", key=str, value=str, headers=True))
    builder.stream(f"{name}-in", key=str, value=str).process(Traces, stores=["kept"])
    topology = builder.build()
    write(kafka, f"{name}-in", [(f"k{n % 5}", str(n), n) for n in range(20)])
    given = {"application.id": name, "bootstrap.servers": kafka.address, "kafka.client": client}
    kept = {
        f"k{n % 5}": sf.ValueTimestampHeaders(
            str(n), n + START, ((("number", b"%d" % n), ("empty", None)) if n % 2 else ())
        )
        for n in range(15, 20)
    }
    for disk in ("first", "second"):
        with sf.StoatFlow(topology, driver_comparison.SETTINGS | given | {"state.dir": tmp_path / disk}) as app:
            app.wait_until(caught_up=True, timeout=PATIENCE_S)
            assert dict(app.store("kept", headers=True).all()) == kept
    changelog = {row.key: row for row in kafka.read(f"{name}-kept-changelog")}
    assert {row.key: row.value for row in changelog.values()} == {
        key.encode(): value.value.encode() for key, value in kept.items()
    }
    # This reader returns null as empty bytes.
    assert changelog[b"k4"].headers == (("number", b"19"), ("empty", b""))
    assert changelog[b"k3"].headers == ()


class Beat(sf.ContextualProcessor[str, str, str, int]):
    """Counts records; reports the count by the machine's clock."""

    def init(self, context: Any) -> None:
        """Ten times a second."""
        super().init(context)
        self.seen = context.state_store("seen")
        context.schedule("100ms", PunctuationType.WALL_CLOCK_TIME, self.tell)

    def process(self, record: Record[str, str]) -> None:
        """Count."""
        self.seen.put(record.key, self.seen.get(record.key, 0) + 1)

    def tell(self, timestamp: int) -> None:
        """Report everything that is new."""
        for key, count in list(self.seen.all()):
            self.seen.delete(key)
            self.context.forward(Record(key, count, timestamp))


def test_schedules_run_without_records(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """Each count is reported once, whatever was restarted; unreported ones wait for the next tick."""
    for topic in ("in", "out"):
        kafka.create(f"{name}-{topic}", 3 if topic == "out" else 1)
    builder = sf.StreamsBuilder()
    builder.add_state_store(Stores.persistent_key_value("seen", key=str, value=int))
    reported = builder.stream(f"{name}-in", key=str, value=str).process(Beat, stores=["seen"])
    reported.to(f"{name}-out", key=str, value=int)
    topology = builder.build()
    config = driver_comparison.SETTINGS | {
        "application.id": name,
        "bootstrap.servers": kafka.address,
        "state.dir": tmp_path,
    }
    given: Counter[str] = Counter()
    for number in range(3):
        entries = records(number * 100, number * 100 + 100)
        given.update(key for key, _, _ in entries)
        write(kafka, f"{name}-in", entries)
        app = sf.StoatFlow(topology, config | {"lanes.count": 1 + number})
        with app:
            until(lambda: app.lag() == 0 or app.wait(0.01), "it is consumed")  # noqa: B023
            if number == 2:
                until(lambda: total(kafka, f"{name}-out") == given, "the schedule tells the rest")
                beats = len(kafka.read(f"{name}-out"))
                time.sleep(0.3)
                assert len(kafka.read(f"{name}-out")) == beats
    assert total(kafka, f"{name}-out") == given


def total(kafka: KafkaTopics, topic: str) -> Counter[str]:
    """The sum of all reports."""
    found: Counter[str] = Counter()
    for row in kafka.read(topic):
        assert row.key is not None
        found[row.key.decode()] += long(row.value)
    return found


def test_a_topic_that_is_missing_stops_the_application(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """Topics chosen by a function must exist; nothing of the epoch that named another one is committed."""
    for topic in ("in", "good"):
        kafka.create(f"{name}-{topic}")
    builder = sf.StreamsBuilder()
    source = builder.stream(f"{name}-in", key=str, value=str)
    source.to(lambda key, _value, _context: f"{name}-{key}", key=str, value=str)
    config = driver_comparison.SETTINGS | {
        "application.id": name,
        "bootstrap.servers": kafka.address,
        "state.dir": tmp_path,
    }
    write(kafka, f"{name}-in", [("good", "1", 0), ("missing", "2", 0)])
    app = sf.StoatFlow(builder.build(), config)
    app.start()
    with pytest.raises(sf.errors.StoatFlowError, match="missing"):
        assert app.wait(PATIENCE_S)
    app.close()
    assert f"{name}-missing" not in kafka.topics()
    before = len(kafka.read(f"{name}-good"))
    kafka.create(f"{name}-missing")
    again = sf.StoatFlow(builder.build(), config)
    with again:
        until(lambda: again.lag() == 0 or again.wait(0.01), "it is consumed")
    assert [row.value for row in kafka.read(f"{name}-missing")] == [b"2"]
    assert [row.value for row in kafka.read(f"{name}-good")] == [b"1"]
    assert before <= 1
