"""`max.timestamp.ahead.ms`: a wrong clock somewhere advances no other record's time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

NOON = 1_769_860_800_000
DAY = 86_400_000
SETTING = {"max.timestamp.ahead.ms": "1m"}


def counting(**source: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    (
        builder.stream("in", key=str, value=str, **source)
        .group_by_key()
        .windowed_by(sf.TimeWindows("10s", grace="0s"))
        .count(store="s")
        .to_stream()
        .map(lambda key, count: (key.key, count))
        .to("out", key=str, value=int)
    )
    return builder.build()


def error_headers(letter: Any) -> dict[str, str]:
    return {name.removeprefix("__stoatflow.errors."): text.decode() for name, text in letter.headers}


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("semantics", ["stream-time", "watermark"])
@pytest.mark.parametrize(
    "timestamp",
    [None, lambda record, highest: record.timestamp, sf.timestamp, sf.TimestampExtractors.LOG_AND_SKIP],
    ids=["own", "function", "expression", "built-in"],
)
def test_a_record_of_tomorrow_closes_no_window_of_today(timestamp: Any, semantics: str, lanes: int) -> None:
    settings = SETTING | {"time.semantics": semantics, "watermark.default": "monotonic"}
    topology = counting(timestamp=timestamp, on_error=sf.DLQ("bad"))
    with TopologyTestDriver(topology, settings, start=NOON, lanes=lanes) as driver:
        source = driver.input("in", str, str)
        source.pipe("k", "a", timestamp=NOON)
        source.pipe("k", "tomorrow", timestamp=NOON + DAY)
        source.pipe("k", "b", timestamp=NOON + 1)
        assert driver.output("out", str, int).read_values_to_list() == [1, 2]
        letter = driver.output("bad").read()
    assert (letter.value, letter.timestamp) == (b"tomorrow", NOON + DAY)
    headers = error_headers(letter)
    assert headers["kind"] == "deserialization"
    assert headers["timestamp"] == str(NOON + DAY)
    assert f"{DAY - 60_000} ms further ahead of the clock" in headers["message"]


def test_the_limit_follows_the_clock_and_is_inclusive() -> None:
    with TopologyTestDriver(counting(on_error=sf.log_and_continue()), SETTING, start=NOON) as driver:
        source, out = driver.input("in", str, str), driver.output("out", str, int)
        source.pipe("k", "a", timestamp=NOON + 60_000)
        source.pipe("k", "b", timestamp=NOON + 60_001)
        assert out.read_values_to_list() == [1]
        driver.advance("1ms")
        source.pipe("k", "b", timestamp=NOON + 60_001)
        assert out.read_values_to_list() == [2]


def test_without_the_setting_times_may_be_anything() -> None:
    with TopologyTestDriver(counting(on_error=sf.log_and_fail()), start=NOON) as driver:
        driver.input("in", str, str).pipe("k", "a", timestamp=NOON + 365 * DAY)
        assert driver.output("out", str, int).read_values_to_list() == [1]


def test_without_a_handler_the_application_stops_with_a_next_step() -> None:
    with TopologyTestDriver(counting(), SETTING, start=NOON) as driver:
        with pytest.raises(sf.errors.SerdeError, match=r"on_error=DLQ.*max\.timestamp\.ahead\.ms") as raised:
            driver.input("in", str, str).pipe("k", "a", timestamp=NOON + DAY)
        assert raised.value.coordinates["offset"] == 0


def test_partition_time_is_not_that_of_tomorrow() -> None:
    """Neither within a batch nor after it."""
    seen: list[int] = []

    def extract(record: sf.ConsumedRecord, partition_time: int) -> int:
        seen.append(partition_time)
        return record.timestamp

    topology = counting(timestamp=extract, on_error=sf.log_and_continue())
    with TopologyTestDriver(topology, SETTING, start=NOON) as driver:
        source = driver.input("in", str, str)
        with driver.epoch():
            for at in (NOON, NOON + DAY, NOON + 1):
                source.pipe("k", "a", timestamp=at)
        source.pipe("k", "a", timestamp=NOON + 2)
    assert seen == [-1, NOON, NOON, NOON + 1]


def test_a_global_table_is_no_part_of_time() -> None:
    builder = sf.StreamsBuilder()
    builder.global_table("everywhere", key=str, value=str, store="g")
    builder.stream("in", key=str, value=str).to("out")
    with TopologyTestDriver(builder.build(), SETTING, start=NOON) as driver:
        driver.input("everywhere", str, str).pipe("a", "1", timestamp=NOON + DAY)
        assert dict(driver.store("g").all()) == {"a": "1"}


def test_a_retry_waits_until_its_time_has_come() -> None:
    """Not in the test driver, whose clock stands still: it retries as often as it may."""
    asked: list[int] = []

    def decide(context: sf.ErrorContext, record: sf.Record[Any, Any], exception: BaseException) -> sf.ErrorHandler:
        asked.append(context.attempt)
        return sf.Retry(2, then=sf.log_and_continue())

    with TopologyTestDriver(counting(on_error=sf.Decide(decide)), SETTING, start=NOON) as driver:
        driver.input("in", str, str).pipe("k", "a", timestamp=NOON + DAY)
        assert driver.output("out").is_empty
    assert asked == [1, 2, 3]


@pytest.mark.parametrize(
    ("handler", "reason"),
    [("log_and_continue", "timestamp_ahead"), ("dlq:bad", "timestamp_ahead_dead_letter")],
)
def test_drops_are_counted_by_reason_and_logged_once(
    handler: str, reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = SETTING | {
        "application.id": "ahead",
        "state.dir": str(tmp_path / "state"),
        "deserialization.exception.handler": handler,
        "default.dsl.store": "in_memory",
    }
    now = int(time.time() * 1000)
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        for topic in ("in", "out", "bad"):
            broker.create_topic(topic)
        with sf.StoatFlow(counting(name="source"), sf.Settings(settings, environ={}), broker=broker) as app:
            deadline = time.monotonic() + 60
            for at in (now, now + DAY, now + DAY, now):
                broker.produce("in", b"k", b"v", at)
                while app.state != "RUNNING" or app.lag():
                    assert time.monotonic() < deadline, "waited in vain"
                    time.sleep(0.01)
            dropped = app.metrics()["dropped"]
    assert [(row["node"], row["reason"], row["count"]) for row in dropped] == [("source", reason, 2)]
    log = capfd.readouterr().err
    assert log.count("records are further ahead of the clock than max.timestamp.ahead.ms allows") == 1
    assert "a record was left out" not in log


def test_an_invalid_duration_is_refused() -> None:
    with pytest.raises(sf.errors.ConfigError, match=r"max\.timestamp\.ahead\.ms"):
        sf.Settings({"application.id": "a", "bootstrap.servers": "x:1", "max.timestamp.ahead.ms": "soon"}).check()
