"""When punctuations fire: on their grid, with any number of lanes, across restarts."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import PunctuationType, Record
from stoatflow.testing import TopologyTestDriver

STREAM, WALL = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME


def telling(interval: str, kind: PunctuationType, start: Any = None) -> sf.Topology:
    class Tells(sf.ContextualProcessor[str, int, str, int]):
        def init(self, context: sf.ProcessorContext[str, int]) -> None:
            super().init(context)
            if start is None:
                context.schedule(interval, kind, self.tell)
            else:
                context.schedule(interval, kind, self.tell, start=start)

        def process(self, record: Record[str, int]) -> None:
            pass

        def tell(self, timestamp: int) -> None:
            self.context.forward(Record("told", timestamp, timestamp))

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=int).process(Tells).to("out", key=str, value=int)
    return builder.build()


def reported(driver: TopologyTestDriver) -> list[int]:
    rows = driver.output("out", str, int).read_all()
    assert all(row.timestamp == row.value for row in rows)
    return [row.value or 0 for row in rows]


@pytest.mark.parametrize("lanes", [1, 4])
def test_the_wall_clock_begins_an_interval_after_the_start(lanes: int) -> None:
    with TopologyTestDriver(telling("10s", WALL), lanes=lanes, start=3_000) as driver:
        driver.advance("9999ms")
        assert reported(driver) == []
        driver.advance("1ms")
        assert reported(driver) == [13_000]
        # Once, however late; then on the grid again.
        driver.advance("25s")
        assert reported(driver) == [38_000]
        driver.advance("5s")
        assert reported(driver) == [43_000]
        # Punctuations missed while the engine was down are not made up for, and the grid restarts.
        driver.crash()
        driver.advance("57s")
        driver.restart()
        assert reported(driver) == []
        driver.advance("10s")
        assert reported(driver) == [110_000]


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("start", [0, datetime(1970, 1, 1, tzinfo=timezone.utc)])
def test_an_anchored_wall_clock_keeps_its_grid(lanes: int, start: Any) -> None:
    with TopologyTestDriver(telling("10s", WALL, start), lanes=lanes, start=3_000) as driver:
        driver.advance("7s")
        assert reported(driver) == [10_000]
        driver.crash()
        driver.advance("53s")
        driver.restart(lanes=5 - lanes)
        assert reported(driver) == []
        driver.advance("6999ms")
        assert reported(driver) == []
        driver.advance("1ms")
        assert reported(driver) == [70_000]


@pytest.mark.parametrize("lanes", [1, 4])
def test_an_anchor_in_the_future_is_the_first_tick(lanes: int) -> None:
    with TopologyTestDriver(telling("10s", WALL, 42_500), lanes=lanes) as driver:
        for _ in range(13):
            driver.advance("5s")
        # It is checked every five seconds, and fires when its time has passed.
        assert reported(driver) == [45_000, 55_000, 65_000]


@pytest.mark.parametrize("lanes", [1, 4])
def test_stream_time_fires_by_records_and_goes_on_after_a_restart(lanes: int) -> None:
    with TopologyTestDriver(telling("10s", STREAM), lanes=lanes) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 1, timestamp=3_000)
        assert reported(driver) == [3_000]
        driver.advance("1h")
        assert reported(driver) == [], "without records time stands still"
        for time in (9_999, 10_000, 35_000, 39_999):
            source.pipe("b", 1, timestamp=time)
        assert reported(driver) == [10_000, 35_000]
        driver.crash()
        driver.restart(lanes=5 - lanes)
        source.pipe("a", 1, timestamp=39_999)
        assert reported(driver) == []
        source.pipe("a", 1, timestamp=40_000)
        assert reported(driver) == [40_000]


@pytest.mark.parametrize("lanes", [1, 4])
def test_an_anchored_stream_time_waits_for_its_start_and_keeps_its_grid(lanes: int) -> None:
    with TopologyTestDriver(telling("10s", STREAM, 12_500), lanes=lanes) as driver:
        source = driver.input("in", str, int)
        for time in (3_000, 12_499):
            source.pipe("a", 1, timestamp=time)
        assert reported(driver) == []
        for time in (12_500, 22_499, 22_500, 41_000):
            source.pipe("a", 1, timestamp=time)
        assert reported(driver) == [12_500, 22_500, 41_000]
        driver.restart(lanes=5 - lanes)
        for time in (42_499, 42_500):
            source.pipe("a", 1, timestamp=time)
        assert reported(driver) == [42_500]


def test_a_start_without_a_zone_is_refused() -> None:
    builder = telling("1s", WALL, datetime(2026, 1, 1))  # noqa: DTZ001  # that is the mistake
    with pytest.raises(sf.ProcessingError) as caught:
        TopologyTestDriver(builder)
    assert "has no time zone" in str(caught.value.__cause__)
