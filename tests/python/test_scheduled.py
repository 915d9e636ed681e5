"""Scheduled sources: ticks by the clock, inside the commit, through crashes and other numbers of lanes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

BERLIN = ZoneInfo("Europe/Berlin")
DAY = 86_400_000


def beats(**how: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.scheduled("beat", **how).to("out", key=str, value=int)
    return builder.build()


def read(driver: TopologyTestDriver) -> list[int]:
    rows = driver.output("out", str, int).read_all()
    assert all((row.key, row.value) == ("beat", row.timestamp) for row in rows)
    return [row.value or 0 for row in rows]


def ms(*when: int, tz: ZoneInfo = BERLIN) -> int:
    return int(datetime(*when, tzinfo=tz).timestamp() * 1000)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize("lanes", [1, 4])
def test_ticks_are_records(lanes: int) -> None:
    with TopologyTestDriver(beats(every="30s"), lanes=lanes, start=10_000) as driver:
        driver.advance("19s")
        assert read(driver) == []
        driver.advance("1s")
        assert read(driver) == [30_000]
        driver.advance("2m")
        assert read(driver) == [60_000, 90_000, 120_000, 150_000]
        driver.barrier()
        assert read(driver) == []


def test_more_ticks_than_fit_into_one_commit() -> None:
    with TopologyTestDriver(beats(every="1s"), start=0) as driver:
        driver.advance("8h")
        assert read(driver) == list(range(1_000, 28_800_001, 1_000))


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_crash_and_other_lanes_double_and_lose_nothing(lanes: int) -> None:
    with TopologyTestDriver(beats(every="1s"), lanes=lanes) as driver:
        driver.advance("3s")
        driver.crash()
        driver.restart(lanes=5 - lanes)
        assert read(driver) == [1_000, 2_000, 3_000]
        driver.advance("2s")
        driver.restart(lanes=lanes)
        driver.advance("1s")
        assert read(driver) == [4_000, 5_000, 6_000]


@pytest.mark.parametrize(
    ("how", "made"),
    [
        ({}, [7_000]),
        ({"catch_up": "latest"}, [7_000]),
        ({"catch_up": "skip"}, []),
        ({"catch_up": "all"}, [4_000, 5_000, 6_000, 7_000]),
        ({"catch_up": "all", "max_catch_up": 2}, [6_000, 7_000]),
    ],
)
def test_missed_ticks_follow_the_catch_up_rule(how: dict[str, Any], made: list[int]) -> None:
    with TopologyTestDriver(beats(every="1s", **how)) as driver:
        driver.advance("3s")
        assert read(driver) == [1_000, 2_000, 3_000]
        driver.crash()
        driver.advance("4500ms")
        driver.restart()
        assert read(driver) == made
        driver.advance("600ms")
        assert read(driver) == [8_000]
        driver.restart()
        assert read(driver) == []


def test_downtime_before_the_first_tick_counts_too() -> None:
    with TopologyTestDriver(beats(every="1h")) as driver:
        driver.advance("10m")
        driver.crash()
        driver.advance("1h")
        driver.restart()
        assert read(driver) == [3_600_000]


def test_one_tick_per_second_through_fifty_crashes() -> None:
    """Each crash comes somewhere: between commits, inside an epoch, with ticks that are due or not."""
    chance = random.Random(6)  # noqa: S311  # where it crashes
    builder = sf.StreamsBuilder()
    ticks = builder.scheduled("beat", every="1s", catch_up="all")
    ticks.merge(builder.stream("in", key=str, value=int)).to("out", key=str, value=int)
    ticks.group_by_key().count(store="beats").to_stream().to("counts", key=str, value=int)
    with TopologyTestDriver(builder.build(), lanes=2) as driver:
        source = driver.input("in", str, int)
        found: list[int] = []
        counts: list[int] = []
        for _ in range(50):
            if chance.random() < 0.5:
                with driver.epoch():
                    source.pipe("in", -1)
                    driver.crash()
            else:
                driver.advance(chance.randrange(4_000))
                driver.crash()
            driver.advance(chance.randrange(3_000))
            driver.restart(lanes=chance.randrange(1, 5))
            found += [row.value or 0 for row in driver.output("out", str, int).read_all() if row.key == "beat"]
            counts += [row.value or 0 for row in driver.output("counts", str, int).read_all()]
        assert found == list(range(1_000, driver.now + 1, 1_000))
        assert len(found) > 50
        assert counts == list(range(1, len(found) + 1))
        assert driver.store("beats").get("beat") == len(found)


@pytest.mark.parametrize("lanes", [1, 3])
def test_ticks_go_to_the_lane_of_their_key(lanes: int) -> None:
    builder = sf.StreamsBuilder()
    ticks = builder.scheduled("a", every="1s").merge(builder.scheduled("b", every="2s"))
    table = builder.table("names", key=str, value=str, store="names")
    ticks.join(table, lambda tick, name: f"{name} {tick}").to("out", key=str, value=str)
    with TopologyTestDriver(builder.build(), lanes=lanes) as driver:
        driver.input("names", str, str).pipe_all([("a", "Ann"), ("b", "Bob")])
        driver.advance("2s")
        rows = driver.output("out", str, str).read_all()
        assert sorted(row.value or "" for row in rows) == ["Ann 1000", "Ann 2000", "Bob 2000"]


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_processor_does_the_work_of_a_tick(lanes: int) -> None:
    """Read and write state by the clock: what a scheduled source is for."""

    class Report(sf.ContextualProcessor[str, int, str, int]):
        @classmethod
        def stores(cls) -> list[sf.StoreBuilder[Any, Any]]:
            return [sf.Stores.persistent_key_value("told", key=str, value=int)]

        def init(self, context: sf.ProcessorContext[str, int]) -> None:
            super().init(context)
            self.reported = context.state_store("told")
            assert context.record_metadata is None

        def process(self, record: sf.Record[str, int]) -> None:
            assert self.context.record_metadata is None
            times = self.reported.get(record.key, 0) + 1
            self.reported.put(record.key, times)
            self.context.forward(record.replace(value=times))

    builder = sf.StreamsBuilder()
    builder.scheduled("report", cron="*/5 * * * *").process(Report).to("out", key=str, value=int)
    with TopologyTestDriver(builder.build(), lanes=lanes) as driver:
        driver.advance("16m")
        driver.crash()
        driver.restart(lanes=2)
        driver.advance("4m")
        rows = driver.output("out", str, int).read_all()
        assert [(row.value, row.timestamp) for row in rows] == [
            (1, 300_000),
            (2, 600_000),
            (3, 900_000),
            (4, 1_200_000),
        ]


@pytest.mark.parametrize("lanes", [1, 3])
def test_ticks_do_not_advance_event_time(lanes: int) -> None:
    """A replay of old records beside a schedule: punctuations by stream time go by the records."""

    class Hourly(sf.ContextualProcessor[str, int, str, int]):
        def init(self, context: sf.ProcessorContext[str, int]) -> None:
            super().init(context)
            context.schedule("1h", sf.PunctuationType.STREAM_TIME, self.tell)

        def process(self, record: sf.Record[str, int]) -> None:
            pass

        def tell(self, timestamp: int) -> None:
            self.context.forward(sf.Record("time", timestamp, timestamp))

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=int).process(Hourly).to("out", key=str, value=int)
    builder.scheduled("beat", every="1d").group_by_key().count(store="beats")
    with TopologyTestDriver(builder.build(), lanes=lanes, start=ms(2026, 1, 1)) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 1, timestamp=1_000)
        driver.advance("1d")
        source.pipe("a", 1, timestamp=3_600_000)
        assert driver.store("beats").get("beat") == 1
        assert driver.output("out", str, int).read_values_to_list() == [1_000, 3_600_000]


def test_windows_see_ticks_as_any_record() -> None:
    builder = sf.StreamsBuilder()
    windows = sf.TimeWindows("1m", grace="0s")
    counts = builder.scheduled("beat", every="20s").group_by_key().windowed_by(windows).count(store="counts")
    counts.suppress(sf.Suppressed.until_window_closes(), name="final").to_stream().to("out")
    with TopologyTestDriver(builder.build(), start=1) as driver:
        driver.advance("3m")
        rows = driver.output("out", sf.Serdes.time_windowed(str, "1m"), sf.Serdes.int64()).read_all()
        assert [(row.key and row.key.window.start, row.value) for row in rows] == [(0, 2), (60_000, 3), (120_000, 3)]


def days(driver: TopologyTestDriver, count: int) -> Iterator[str]:
    for _ in range(count):
        driver.advance("1d")
    for tick in read(driver):
        yield datetime.fromtimestamp(tick / 1000, BERLIN).strftime("%d %H:%M %z")


@pytest.mark.parametrize("tz", ["Europe/Berlin", BERLIN])
def test_days_on_which_clocks_change(tz: str | ZoneInfo) -> None:
    with TopologyTestDriver(beats(cron="30 2 * * *", tz=tz), start=ms(2026, 3, 28)) as driver:
        assert list(days(driver, 3)) == ["28 02:30 +0100", "29 03:00 +0200", "30 02:30 +0200"]
    with TopologyTestDriver(beats(cron="30 2 * * *", tz=tz), start=ms(2026, 10, 24, 12)) as driver:
        assert list(days(driver, 2)) == ["25 02:30 +0200", "26 02:30 +0100"]
    with TopologyTestDriver(beats(cron="30 * * * *", tz=tz), start=ms(2026, 10, 25, 1)) as driver:
        driver.advance("4h")
        hours = [datetime.fromtimestamp(tick / 1000, BERLIN).strftime("%H:%M %z") for tick in read(driver)]
        assert hours == ["01:30 +0200", "02:30 +0200", "02:30 +0100", "03:30 +0100"]
    with TopologyTestDriver(beats(every="1d", tz=tz), start=ms(2026, 3, 28)) as driver:
        assert list(days(driver, 3)) == ["29 00:00 +0100", "30 00:00 +0200", "31 00:00 +0200"]


def test_a_start_moves_the_grid() -> None:
    monday = datetime(2026, 1, 5, 9, tzinfo=BERLIN)
    how: dict[str, Any] = {"every": timedelta(days=7), "start": monday, "tz": BERLIN}
    with TopologyTestDriver(beats(**how), start=ms(2026, 1, 1)) as driver:
        driver.advance("15d")
        assert read(driver) == [ms(2026, 1, 5, 9), ms(2026, 1, 12, 9)]
    with TopologyTestDriver(beats(every="10s", start=5_000)) as driver:
        driver.advance("26s")
        assert read(driver) == [5_000, 15_000, 25_000]


def test_describe_shows_it() -> None:
    text = beats(every="30s").describe()
    assert "    Source: beat (scheduled: every 30s)\n      --> KSTREAM-SINK-0000000001\n" in text
    assert "(scheduled: cron */5 * * * *, Europe/Berlin)" in beats(cron="*/5 * * * *", tz=BERLIN).describe()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, 'neither every= nor cron= is given.*every="30s" or cron="\\*/5 \\* \\* \\* \\*"'),
        ({"every": "30s", "cron": "* * * * *"}, "every= and cron= are given.*write one of them"),
        ({"every": 30}, 'write for example every="30s"'),
        ({"every": "0s"}, "at least a millisecond"),
        ({"every": "half an hour"}, 'write for example every="30s"'),
        ({"cron": 5}, "cron=5 is no text"),
        ({"cron": "* * * *"}, "'\\* \\* \\* \\*' is no cron expression: .*minute, hour, day of the month"),
        ({"cron": "0 25 * * *"}, "'0 25 \\* \\* \\*' is no cron expression"),
        ({"cron": "0 0 31 2 *"}, "never comes to pass"),
        ({"every": "1s", "tz": "Europe/Berln"}, "'Europe/Berln' is unknown; did you mean 'Europe/Berlin'"),
        ({"every": "1s", "tz": timezone(timedelta(hours=1))}, "is no name of a time zone.*ZoneInfo"),
        ({"every": "1s", "start": datetime(2026, 1, 1)}, "has no time zone.*ZoneInfo"),  # noqa: DTZ001  # that is the mistake
        ({"every": "1s", "catch_up": "none"}, 'use catch_up="latest", "all" or "skip"'),
        ({"every": "1s", "max_catch_up": 0}, "max_catch_up=0 is no number of ticks"),
    ],
)
def test_errors_suggest_a_correct_call(how: dict[str, Any], message: str) -> None:
    with pytest.raises(sf.TopologyError, match=message) as caught:
        beats(**how)
    assert "test_scheduled.py:" in str(caught.value)


def test_a_name_is_needed_and_must_be_its_own() -> None:
    builder = sf.StreamsBuilder()
    with pytest.raises(sf.TopologyError, match='scheduled\\("heartbeat", every="30s"\\)'):
        builder.scheduled("", every="1s")
    builder.scheduled("beat", every="1s")
    builder.scheduled("beat", every="2s")
    with pytest.raises(sf.TopologyError, match="the name 'beat' is used"):
        builder.build()
