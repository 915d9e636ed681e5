"""Windows of a number of records per key: results, retention, lanes, restarts, what is rejected."""

from __future__ import annotations

from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

KEY = sf.Serdes.time_windowed(str, "3ms")
GIVEN = [("a", 1), ("b", 9), ("a", 2), ("a", None), ("a", 4), ("b", 8), ("a", 5), ("a", 6), ("a", 7)]


def gathered(on_close: bool = False) -> sf.Topology:
    builder = sf.StreamsBuilder()
    windowed = builder.stream("in", key=str, value=int).group_by_key().windowed_by(sf.CountWindows(3))
    if on_close:
        windowed = windowed.emit_strategy(sf.EmitStrategy.on_window_close())

    def add(key: str, value: int | None, agg: list[Any]) -> list[Any]:
        agg.append(value)
        return agg

    windowed.aggregate(list, add, store="lists", value=sf.Serdes.json(decode="dict")).to_stream().to("out")
    return builder.build()


def read(driver: TopologyTestDriver) -> list[tuple[str, int, int, Any]]:
    found = driver.output("out", KEY, sf.Serdes.json()).read_all()
    return [(r.key.key, r.key.window.start, r.key.window.end, r.value) for r in found]


def kept(driver: TopologyTestDriver, store: str = "lists") -> list[tuple[str, int, Any]]:
    return sorted((e.key.key, e.key.window.start, e.value) for e in driver.store(store).entries())


@pytest.mark.parametrize("together", [False, True])
def test_every_record_is_in_one_window_of_its_key(together: bool) -> None:
    with TopologyTestDriver(gathered()) as driver:
        source = driver.input("in", str, int)
        if together:
            with driver.epoch():
                for key, value in GIVEN:
                    source.pipe(key, value)
        else:
            for key, value in GIVEN:
                source.pipe(key, value)
        assert read(driver) == [
            ("a", 0, 3, [1]),
            ("b", 0, 3, [9]),
            ("a", 0, 3, [1, 2]),
            ("a", 0, 3, [1, 2, None]),
            ("a", 3, 6, [4]),
            ("b", 0, 3, [9, 8]),
            ("a", 3, 6, [4, 5]),
            ("a", 3, 6, [4, 5, 6]),
            ("a", 6, 9, [7]),
        ]
        # The first window of a was dropped when the second was full.
        assert kept(driver) == [("a", 3, [4, 5, 6]), ("a", 6, [7]), ("b", 0, [9, 8])]


@pytest.mark.parametrize("lanes", [1, 4])
def test_on_window_close_the_last_record_gives_the_result(lanes: int) -> None:
    with TopologyTestDriver(gathered(on_close=True), lanes=lanes) as driver:
        source = driver.input("in", str, int)
        for at, (key, value) in enumerate(GIVEN):
            source.pipe(key, value, timestamp=1000 - at)
            if at == 4:
                driver.crash()
                driver.restart(lanes=5 - lanes)
        assert read(driver) == [("a", 0, 3, [1, 2, None]), ("a", 3, 6, [4, 5, 6])]
        source.pipe("b", 7, timestamp=0)
        assert read(driver) == [("b", 0, 3, [9, 8, 7])]


def test_a_cogroup_counts_the_records_of_all_its_streams() -> None:
    builder = sf.StreamsBuilder()
    plus, minus = (builder.stream(topic, key=str, value=int).group_by_key() for topic in ("plus", "minus"))
    (
        plus.cogroup(lambda key, value, agg: agg + value)
        .cogroup(minus, lambda key, value, agg: agg - value)
        .windowed_by(sf.CountWindows(2))
        .aggregate(lambda: 0, store="balance", value=int)
        .to_stream()
        .to("out")
    )
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("plus", str, int).pipe("k", 5)
        driver.input("minus", str, int).pipe("k", 2)
        driver.input("minus", str, int).pipe("k", 1)
        found = driver.output("out", sf.Serdes.time_windowed(str, "2ms"), sf.Serdes.int64()).read_all()
        assert [(r.key.window.start, r.value) for r in found] == [(0, 5), (0, 3), (2, -1)]


def test_options_without_meaning_for_count_windows_are_refused() -> None:
    def built(suppressed: bool, **store: Any) -> None:
        builder = sf.StreamsBuilder()
        grouped = builder.stream("in", key=str, value=int).group_by_key()
        table = grouped.windowed_by(sf.CountWindows(3)).count(store=sf.Materialized("counts", **store))
        if suppressed:
            table.suppress(sf.Suppressed.until_window_closes(), name="final")
        builder.build()

    built(False)
    with pytest.raises(sf.TopologyError, match=r"on_window_close\(\)"):
        built(True)
    with pytest.raises(sf.TopologyError, match="last full window of each key"):
        built(False, retention="1d")


def test_the_store_of_positions_has_the_name_of_its_windows() -> None:
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grouped.windowed_by(sf.CountWindows(3)).count(store="counts")
    grouped.count(store="counts-positions")
    with pytest.raises(sf.TopologyError, match="counts-positions"):
        builder.build()
