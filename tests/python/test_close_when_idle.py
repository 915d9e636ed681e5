"""`close_when_idle`: windows close by the wall clock when no record comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

Windows = sf.TimeWindows | sf.SessionWindows | sf.SlidingWindows
TUMBLING = sf.TimeWindows("60s", grace="0s", close_when_idle="30s")
TIMED, SESSIONS = sf.Serdes.time_windowed(str, "60s"), sf.Serdes.session_windowed(str)


def on_close(windows: Windows) -> sf.Topology:
    builder = sf.StreamsBuilder()
    windowed = builder.stream("in", key=str, value=int).group_by_key().windowed_by(windows)
    windowed.emit_strategy(sf.EmitStrategy.on_window_close()).count(
        store=sf.Materialized("counts", retention="1d")
    ).to_stream().to("out")
    return builder.build()


def suppressed(windows: Windows) -> sf.Topology:
    builder = sf.StreamsBuilder()
    windowed = builder.stream("in", key=str, value=int).group_by_key().windowed_by(windows)
    counts = windowed.count(store="counts")
    counts.suppress(sf.Suppressed.until_window_closes(), name="final").to_stream().to("out")
    return builder.build()


def read(driver: TopologyTestDriver, key: sf.Serde[sf.Windowed[str]] = TIMED) -> list[tuple[str, int, int]]:
    found = driver.output("out", key, sf.Serdes.int64()).read_all()
    return sorted((r.key.key, r.key.window.start, r.value) for r in found)


SEMANTICS = ["stream-time", "watermark"]


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("topology", [on_close, suppressed])
def test_windows_close_without_records(topology: Callable[[Windows], sf.Topology], lanes: int, semantics: str) -> None:
    with TopologyTestDriver(topology(TUMBLING), {"time.semantics": semantics}, lanes=lanes) as driver:
        source = driver.input("in", str, int)
        for key, at in (("a", 10_000), ("b", 12_000), ("a", 20_000)):
            source.pipe(key, 1, timestamp=at)
        driver.advance("29s")
        assert read(driver) == []
        # A record restarts the wait.
        source.pipe("c", 1, timestamp=15_000)
        driver.advance("29s")
        assert read(driver) == []
        driver.advance("1s")
        # Stream time is 50 s now: the window is still open.
        assert read(driver) == []
        driver.advance("30s")
        assert read(driver) == [("a", 0, 2), ("b", 0, 1), ("c", 0, 1)]
        # Further records of the window are late; the next window is normal.
        source.pipe("a", 1, timestamp=30_000)
        source.pipe("a", 1, timestamp=90_000)
        driver.advance("10m")
        assert read(driver) == [("a", 60_000, 1)]
        driver.advance("10m")
        assert read(driver) == []


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("topology", [on_close, suppressed])
def test_a_restart_emits_nothing_twice_and_does_not_count_as_idle(
    topology: Callable[[Windows], sf.Topology], lanes: int, semantics: str
) -> None:
    with TopologyTestDriver(topology(TUMBLING), {"time.semantics": semantics}, lanes=lanes) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 1, timestamp=10_000)
        driver.advance("20s")
        driver.crash()
        driver.restart(lanes=4 - lanes)
        driver.advance("29s")
        assert read(driver) == []
        driver.advance("10m")
        assert read(driver) == [("a", 0, 1)]
        driver.crash()
        driver.restart(lanes=lanes)
        source.pipe("a", 1, timestamp=20_000)
        driver.advance("10m")
        assert read(driver) == []


@pytest.mark.parametrize(
    ("windows", "key", "expected"),
    [
        (sf.SessionWindows("5s", grace="1s", close_when_idle="2s"), SESSIONS, [("a", 10_000, 2), ("b", 11_000, 1)]),
        (
            sf.SlidingWindows("5s", grace="1s", close_when_idle="2s"),
            sf.Serdes.time_windowed(str, "5s"),
            [("a", 5_000, 1), ("a", 7_000, 2), ("a", 10_001, 1), ("b", 6_000, 1)],
        ),
        (
            sf.TimeWindows("4s", advance="2s", grace="1s", close_when_idle="2s"),
            sf.Serdes.time_windowed(str, "4s"),
            [("a", 8_000, 1), ("a", 10_000, 2), ("a", 12_000, 1), ("b", 8_000, 1), ("b", 10_000, 1)],
        ),
    ],
)
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_all_kinds_of_windows(
    windows: Windows,
    key: sf.Serde[sf.Windowed[str]],
    expected: list[tuple[str, int, int]],
    lanes: int,
    semantics: str,
) -> None:
    with TopologyTestDriver(on_close(windows), {"time.semantics": semantics}, lanes=lanes) as driver:
        for name, at in (("a", 10_000), ("b", 11_000), ("a", 12_000)):
            driver.advance("1s")
            driver.input("in", str, int).pipe(name, 1, timestamp=at)
        for _ in range(10):
            driver.advance("2s")
        assert read(driver, key) == expected


def test_without_it_windows_wait_for_records() -> None:
    with TopologyTestDriver(on_close(sf.TimeWindows("60s", grace="0s"))) as driver:
        driver.input("in", str, int).pipe("a", 1, timestamp=0)
        driver.advance("1h")
        assert read(driver) == []


def test_a_zero_idle_time_is_refused() -> None:
    with pytest.raises(sf.TopologyError, match=r"close_when_idle"):
        sf.TimeWindows("60s", grace="0s", close_when_idle="0s")


def with_late(windows: Windows, late: sf.LatePolicy | None, **source: object) -> sf.Topology:
    builder = sf.StreamsBuilder()
    how: dict[str, object] = {"watermark": sf.Watermark.monotonic(), **source}
    stream = builder.stream("in", key=str, value=int, late=late, **how)  # type: ignore[call-overload]
    windowed = stream.map_values(lambda value: value * 10).group_by(lambda key, value: key, key=str, value=int)
    counts = windowed.windowed_by(windows).count(store=sf.Materialized("counts", retention="1d"))
    counts.to_stream().map(lambda key, count: (key.key, count)).to("out", key=str, value=int)
    return builder.build()


@pytest.mark.parametrize(
    "windows",
    [
        TUMBLING,
        sf.TimeWindows("60s", advance="30s", grace="0s", close_when_idle="30s"),
        sf.SlidingWindows("60s", grace="0s", close_when_idle="30s"),
        sf.SessionWindows("50s", grace="0s", close_when_idle="30s"),
    ],
    ids=["tumbling", "hopping", "sliding", "sessions"],
)
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("lanes", [1, 4])
def test_records_for_a_window_closed_by_idleness_are_late(windows: Windows, semantics: str, lanes: int) -> None:
    """The watermark is unchanged, so the source doesn't know that the record is late."""
    topology = with_late(windows, sf.DLQ("late"))
    with TopologyTestDriver(topology, {"time.semantics": semantics}, lanes=lanes) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 1, timestamp=20_000)
        driver.advance("10m")
        with driver.epoch():
            source.pipe("a", 2, timestamp=20_000)
            source.pipe("b", 3, timestamp=500_000)
            source.pipe("a", 4, timestamp=20_000)
        late = driver.output("late", str, int).read_all()
        assert [(r.key, r.value, r.timestamp) for r in late] == [("a", 2, 20_000), ("a", 4, 20_000)]
        reported = {name.rpartition(".")[2]: text.decode() for name, text in late[0].headers}
        assert (reported["kind"], reported["topic"], reported["offset"]) == ("late", "in", "1")
        assert "older than the watermark" in reported["message"]
        counted = {key for key, _ in driver.output("out", str, int).read_key_values_to_list()}
        assert counted == {"a", "b"}
        # Records older than the watermark are sent there by the source itself, once.
        source.pipe("a", 5, timestamp=30_000)
        assert driver.output("late", str, int).read_values_to_list() == [5]


@pytest.mark.parametrize("late", [None, "grace", "drop", sf.DecideLate(lambda record, watermark: sf.DLQ("late"))])
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_without_a_topic_for_late_records_it_is_dropped_and_counted(late: sf.LatePolicy, semantics: str) -> None:
    """A policy function is for records as they were read, so it is not called."""
    with TopologyTestDriver(with_late(TUMBLING, late), {"time.semantics": semantics}) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 1, timestamp=20_000)
        driver.advance("10m")
        source.pipe("a", 2, timestamp=20_000)
        assert driver.output("out", str, int).read_values_to_list() == [1]
        assert driver.output("late").is_empty


@pytest.mark.parametrize("lanes", [1, 4])
def test_windows_that_do_not_close_by_the_clock_are_as_before(lanes: int) -> None:
    windows = sf.TimeWindows("10s", grace="0s")
    topology = with_late(windows, sf.DLQ("late"), watermark=sf.Watermark.bounded("1h"))
    with TopologyTestDriver(topology, lanes=lanes) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 1, timestamp=20_000)
        source.pipe("a", 2, timestamp=1_000)
        assert driver.output("out", str, int).read_values_to_list() == [1]
        assert driver.output("late").is_empty
