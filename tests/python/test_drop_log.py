"""Dropped records are logged: the first of each cause immediately, and all of them in a few lines."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import stoatflow as sf
from concurrency import until

RECORDS = 20_000


class Kept(logging.Handler):
    """Keeps warnings in order."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def warnings() -> Iterator[list[logging.LogRecord]]:
    kept, logger = Kept(), logging.getLogger("stoatflow")
    before = logger.level, logger.propagate
    logger.addHandler(kept)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    sf.configure_logging()
    yield kept.records
    sf.configure_logging("stderr")
    logger.removeHandler(kept)
    logger.level, logger.propagate = before


def run(tmp_path: Path, builder: sf.StreamsBuilder, records: list[tuple[bytes | None, bytes, int]]) -> Counter[str]:
    """Run until everything is read; returns the dropped records by reason."""
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("in", 2)
        broker.create_topic("out")
        broker.produce_many("in", ((n % 2, key, value, time) for n, (key, value, time) in enumerate(records)))
        config = {"application.id": "drops", "state.dir": str(tmp_path)}
        with sf.StoatFlow(builder.build(), config, broker=broker) as app:
            app.wait_until(caught_up=True)
            found: Counter[str] = Counter()
            for drop in app.metrics()["dropped"]:
                found[drop["reason"]] += drop["count"]
            return found


def reported(warnings: list[logging.LogRecord]) -> Counter[str]:
    """The number of records mentioned in the lines, by reason."""
    found: Counter[str] = Counter()
    for line in list(warnings):
        if "reason" in (fields := line.__dict__["fields"]):
            found[fields["reason"]] += fields.get("records", 1)
    return found


def test_many_failures_are_summarized_in_a_few_lines(tmp_path: Path, warnings: list[logging.LogRecord]) -> None:
    def parse(value: str) -> str:
        raise ValueError(f"can't read {value!r}")

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.map_values(parse, name="parse", on_error=sf.log_and_continue()).to("out", value=str)
    found = run(tmp_path, builder, [(b"k", b"v%d" % n, n) for n in range(RECORDS)])
    assert found == {"processing_error": RECORDS}
    until(lambda: reported(warnings) == found)
    assert len(warnings) < 10, [line.getMessage() for line in warnings]
    first = warnings[0].__dict__["fields"]
    assert "a record was left out" in warnings[0].getMessage()
    assert "in parse" in first["traceback"]
    assert "can't read" in first["error"]


def test_records_dropped_by_operators_are_logged(tmp_path: Path, warnings: list[logging.LogRecord]) -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.group_by_key().windowed_by(sf.TimeWindows("1s", grace="0s")).count(store="counts")
    stream.to_table(store="last", value=str)
    stream.deduplicate(within="1h", store="once").to("out")
    times = [5_000_000, 5_000_000, *range(4_000)]
    found = run(tmp_path, builder, [(None if time == 3_999 else b"k", b"v", time) for time in times])
    assert found["late"] == 3_999
    assert found["null_key"] >= 2
    assert found["duplicate"] > 1_000
    expected = Counter({reason: count for reason, count in found.items() if reason != "duplicate"})
    # Dropping duplicates is the purpose of deduplicate.
    until(lambda: reported(warnings) == expected)
    assert len(warnings) < 10
    assert any("stoatflow explain late" in line.getMessage() for line in warnings)
