"""Rows of tables that expire: by stream time and by the clock, forwarded downstream or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

LANES = pytest.mark.parametrize("lanes", [1, 5])
KEPT = sf.Materialized("kept", ttl="100ms")
TOLD = sf.Materialized("kept", ttl="100ms", ttl_forward=True)


def table(kept: sf.Materialized) -> tuple[sf.StreamsBuilder, sf.KTable[str, int]]:
    builder = sf.StreamsBuilder()
    return builder, builder.table("in", key=str, value=int, store=kept)


def read(driver: TopologyTestDriver, value: Any = int) -> list[tuple[Any, Any, int]]:
    return [(r.key, r.value, r.timestamp) for r in driver.output("out", str, value).read_all()]


@LANES
def test_rows_expire_by_stream_time(lanes: int) -> None:
    builder, kept = table(KEPT)
    kept.to_stream().to("out")
    with TopologyTestDriver(builder.build(), lanes=lanes) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 1, timestamp=0)
        source.pipe("b", 2, timestamp=50)
        source.pipe("a", 3, timestamp=60)
        driver.advance("1h")
        source.pipe("c", 4, timestamp=149)
        assert dict(driver.store("kept").all()) == {"a": 3, "b": 2, "c": 4}
        source.pipe("c", 4, timestamp=150)
        assert dict(driver.store("kept").all()) == {"a": 3, "c": 4}
        source.pipe("c", 4, timestamp=1_000)
        assert dict(driver.store("kept").all()) == {"c": 4}
        assert {key for key, value, _ in read(driver) if value is None} == set(), "nobody asked to be told"


@LANES
def test_rows_expire_by_the_clock(lanes: int) -> None:
    builder, kept = table(sf.Materialized("kept", ttl="100ms", ttl_time="processing", ttl_forward=True))
    kept.to_stream().to("out")
    with TopologyTestDriver(builder.build(), start=1_000, lanes=lanes) as driver:
        driver.input("in", str, int).pipe("a", 1, timestamp=1_000)
        driver.input("in", str, int).pipe("b", 1, timestamp=9_000)
        driver.advance("99ms")
        assert set(dict(driver.store("kept").all())) == {"a", "b"}
        driver.advance("1ms")
        assert set(dict(driver.store("kept").all())) == {"b"}
        assert read(driver)[-1] == ("a", None, 1_100)


@LANES
def test_expirations_are_forwarded_downstream(lanes: int) -> None:
    builder, kept = table(TOLD)
    kept.filter(sf.value > 1, store="large").to_stream().to("out")
    kept.group_by(lambda _, value: (value % 2, value), key=int, value=int).count(store="parity")
    names = builder.table("names", key=str, value=str, store="names")
    kept.left_join(names, lambda value, name: f"{name} {value}", store=sf.Materialized("joined", value=str))
    with TopologyTestDriver(builder.build(), lanes=lanes) as driver:
        driver.input("names", str, str).pipe("a", "ann", timestamp=0)
        source = driver.input("in", str, int)
        source.pipe("a", 3, timestamp=0)
        source.pipe("b", 5, timestamp=10)
        assert dict(driver.store("parity").all()) == {1: 2}
        assert dict(driver.store("joined").all()) == {"a": "ann 3", "b": "None 5"}
        source.pipe("c", 1, timestamp=100)
        assert dict(driver.store("large").all()) == {"b": 5}
        assert dict(driver.store("parity").all()) == {1: 2}, "a is gone, c has come"
        assert set(dict(driver.store("joined").all())) == {"b", "c"}
        assert ("a", None, 100) in read(driver)


@LANES
@pytest.mark.parametrize("make", [lambda g, kept: g.count(store=kept), lambda g, kept: g.reduce(max, store=kept)])
def test_aggregates_begin_again(lanes: int, make: Callable[..., Any]) -> None:
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    make(grouped, sf.Materialized("kept", value=int, ttl="100ms", ttl_forward=True)).to_stream().to("out")
    with TopologyTestDriver(builder.build(), lanes=lanes) as driver:
        source = driver.input("in", str, int)
        for time in (0, 50, 90):
            source.pipe("a", 1, timestamp=time)
        source.pipe("b", 1, timestamp=190)
        assert set(dict(driver.store("kept").all())) == {"b"}
        source.pipe("a", 1, timestamp=200)
        assert dict(driver.store("kept").all()) == {"a": 1, "b": 1}
        assert [row for row in read(driver) if row[0] == "a"][-2:] == [("a", None, 190), ("a", 1, 200)]


def test_an_aggregate_with_a_start_value_expires_too() -> None:
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    totals = grouped.aggregate(
        lambda: 0, lambda _, value, total: total + value, store=sf.Materialized("kept", value=int, ttl="100ms")
    )
    totals.group_by(lambda key, total: (key, total), key=str, value=int).count(store="once-more")
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 7, timestamp=0)
        source.pipe("b", 1, timestamp=100)
        assert dict(driver.store("kept").all()) == {"b": 1}


def test_a_unique_value_is_free_again() -> None:
    builder = sf.StreamsBuilder()
    names = sf.Index("by_name", sf.value["name"], unique=True)
    kept = sf.Materialized("kept", ttl="100ms", indexes=[names])
    builder.table("in", key=str, value=dict, store=kept, on_error=sf.log_and_continue())
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, dict)
        source.pipe("a", {"name": "ann"}, timestamp=0)
        source.pipe("b", {"name": "ann"}, timestamp=50)
        source.pipe("c", {"name": "bob"}, timestamp=100)
        assert set(dict(driver.store("kept").all())) == {"c"}
        source.pipe("b", {"name": "ann"}, timestamp=110)
        assert set(dict(driver.store("kept").all())) == {"b", "c"}
        assert dict(driver.store("kept").all())["b"] == {"name": "ann"}


def sessions(ttl: Any, **more: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    kept = builder.table("in", key=str, value=dict, store=sf.Materialized("kept", ttl=ttl, ttl_forward=True), **more)
    kept.to_stream().to("out")
    return builder.build()


@LANES
def test_a_ttl_per_row(lanes: int) -> None:
    with TopologyTestDriver(sessions(sf.value["ttl"]), lanes=lanes) as driver:
        source = driver.input("in", str, dict)
        source.pipe("short", {"ttl": 100}, timestamp=0)
        source.pipe("long", {"ttl": 1_000}, timestamp=0)
        source.pipe("ever", {"ttl": None}, timestamp=0)
        source.pipe("ever too", {}, timestamp=0)
        source.pipe("shorter now", {"ttl": 1_000}, timestamp=0)
        source.pipe("shorter now", {"ttl": 50}, timestamp=10)
        source.pipe("longer now", {"ttl": 50}, timestamp=0)
        source.pipe("longer now", {"ttl": 1_000}, timestamp=10)
        source.pipe("gone", {"ttl": 0}, timestamp=10)
        source.pipe("tick", {"ttl": 500}, timestamp=10)
        rows = set(dict(driver.store("kept").all()))
        assert rows == {"short", "long", "ever", "ever too", "shorter now", "longer now", "tick"}
        source.pipe("tick", {"ttl": 500}, timestamp=60)
        assert set(dict(driver.store("kept").all())) == rows - {"shorter now"}
        source.pipe("tick", {"ttl": 5_000}, timestamp=999)
        assert set(dict(driver.store("kept").all())) == {"long", "ever", "ever too", "longer now", "tick"}
        source.pipe("tick", {"ttl": 5_000}, timestamp=9_999)
        assert set(dict(driver.store("kept").all())) == {"ever", "ever too", "tick"}
        times = {row.key: row.timestamp for row in driver.output("out", str, dict).read_all() if row.value is None}
    assert times == {"gone": 10, "shorter now": 60, "short": 100, "long": 1_000, "longer now": 1_010}


@LANES
def test_an_expiry_time_per_row(lanes: int) -> None:
    with TopologyTestDriver(sessions(sf.value["expires_at"] - sf.timestamp), lanes=lanes) as driver:
        source = driver.input("in", str, dict)
        source.pipe("a", {"expires_at": 700}, timestamp=500)
        source.pipe("a", {"expires_at": 900}, timestamp=600)
        source.pipe("b", {"expires_at": 10_000}, timestamp=899)
        assert set(dict(driver.store("kept").all())) == {"a", "b"}
        source.pipe("b", {"expires_at": 10_000}, timestamp=900)
        assert set(dict(driver.store("kept").all())) == {"b"}


def test_a_ttl_that_is_not_a_number() -> None:
    with (
        pytest.raises(sf.ProcessingError, match="the ttl of a row is milliseconds, an int, or null"),
        TopologyTestDriver(sessions(sf.value["ttl"])) as driver,
    ):
        driver.input("in", str, dict).pipe("a", {"ttl": "1h"}, timestamp=0)
    with TopologyTestDriver(sessions(sf.value["ttl"], on_error=sf.log_and_continue())) as driver:
        source = driver.input("in", str, dict)
        source.pipe("a", {"ttl": "1h"}, timestamp=0)
        source.pipe("b", {"ttl": 100}, timestamp=0)
        source.pipe("c", {"ttl": 900}, timestamp=100)
        assert set(dict(driver.store("kept").all())) == {"a", "c"}
        assert [row.key for row in driver.output("out", str, dict).read_all()] == ["b", "c", "b"]


@pytest.mark.parametrize(
    ("ttl", "what"),
    [
        (sf.value["name"].str.upper(), "it gives str, but the ttl of a row is milliseconds, an int"),
        (sf.lit(5), "the ttl of a row is made of the row"),
    ],
)
def test_an_expression_that_is_no_ttl(ttl: Any, what: str) -> None:
    with pytest.raises(sf.TopologyError) as caught:
        sessions(ttl)
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda b: b.table("in", key=str, value=int, store=sf.Materialized(ttl="1s")), "needs a name for its store"),
        (
            lambda b: b.global_table("in", key=str, value=int, store=KEPT),
            "a global table has no ttl: what its topic keeps is what it has",
        ),
        (
            lambda b: b.table("in", key=str, value=int, store=sf.Materialized("kept", ttl="1s", history="1h")),
            "a versioned table has no ttl",
        ),
        (
            lambda b: b.table("in", key=str, value=int).filter(sf.value > 1, store=KEPT),
            "a view of tables has no ttl of its own",
        ),
        (
            lambda b: (
                b.table("in", key=str, value=int)
                .group_by(lambda key, value: (key, value), key=str, value=int)
                .count(store=KEPT)
            ),
            "what is aggregated from a table has no ttl",
        ),
        (
            lambda b: (
                b.stream("in", key=str, value=int)
                .group_by_key()
                .windowed_by(sf.TimeWindows("1s", grace="0s"))
                .count(store=KEPT)
            ),
            "windows have no ttl: retention=",
        ),
    ],
)
def test_a_ttl_is_refused_where_it_has_no_meaning(make: Callable[[sf.StreamsBuilder], object], what: str) -> None:
    builder = sf.StreamsBuilder()
    make(builder)
    with pytest.raises(sf.TopologyError) as caught:
        builder.build()
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("how", "what"),
    [
        (sf.Materialized("kept", ttl="0s"), "Materialized(ttl=)"),
        (sf.Materialized("kept", ttl="1s", ttl_time="wall"), "ttl_time='wall'"),  # type: ignore[arg-type]
        (sf.Materialized("kept", ttl_forward=True), "given without ttl="),
    ],
)
def test_an_invalid_ttl_is_refused(how: sf.Materialized, what: str) -> None:
    with pytest.raises((sf.TopologyError, sf.ConfigError)) as caught:
        sf.StreamsBuilder().table("in", key=str, value=int, store=how)
    assert what in str(caught.value)
