"""Native aggregations compared with equivalent functions: every grouping, kind of window and restart."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

X, NAME = sf.value["x"], sf.value["name"]
JSON = sf.Serdes.json()


def xs(values: list[Any]) -> list[Any]:
    return [v["x"] for v in values if v and v.get("x") is not None]


def names(values: list[Any]) -> list[Any]:
    return [v["name"] for v in values if v and v.get("name") is not None]


def mean(values: list[Any]) -> float | None:
    found = xs(values)
    return sum(found) / len(found) if found else None


def best(values: list[Any]) -> list[Any]:
    ranked = [v for v in values if v and v.get("name") is not None and v.get("x") is not None]
    return [v["name"] for v in sorted(ranked, key=lambda v: -v["x"])[:2]]


def several(values: list[Any]) -> dict[str, Any]:
    return {
        "n": len(values),
        "total": sum(xs(values)),
        "mean": mean(values),
        "names": list(dict.fromkeys(names(values))),
        "users": len(set(names(values))),
    }


SEVERAL = sf.agg(
    n=sf.count(), total=sf.sum(X), mean=sf.avg(X), names=sf.collect_set(NAME), users=sf.approx_distinct(NAME)
)
MEASURES: dict[str, tuple[sf.Aggregation[Any], Callable[[list[Any]], Any]]] = {
    "count": (sf.count(), len),
    "count_of": (sf.count(NAME), lambda values: len(names(values))),
    "sum": (sf.sum(X), lambda values: sum(xs(values))),
    "min": (sf.min(X), lambda values: min(xs(values), default=None)),
    "max": (sf.max(NAME), lambda values: max(names(values), default=None)),
    "avg": (sf.avg(X), mean),
    "first": (sf.first(NAME), lambda values: next(iter(names(values)), None)),
    "last": (sf.last(X), lambda values: next(reversed(xs(values)), None)),
    "collect": (sf.collect(NAME), names),
    "collect_limit": (sf.collect(NAME, limit=3), lambda values: names(values)[-3:]),
    "collect_set": (sf.collect_set(NAME), lambda values: list(dict.fromkeys(names(values)))),
    "top_k": (sf.top_k(X, 2), lambda values: sorted(xs(values), reverse=True)[:2]),
    "top_k_by": (sf.top_k(NAME, 2, by=X), best),
    "approx_distinct": (sf.approx_distinct(NAME), lambda values: len(set(names(values)))),
    "where": (sf.sum(X).where(X > 4), lambda values: sum(x for x in xs(values) if x > 4)),
    "several": (SEVERAL, several),
    "several_where": (SEVERAL.where(X > 4), lambda values: several([v for v in values if v and (v.get("x") or 0) > 4])),
}
ONE_OF_MANY = ("min", "max", "first", "last")

WINDOWS: dict[str, Any] = {
    "none": None,
    "tumbling": sf.TimeWindows("20ms", grace="10ms"),
    "hopping": sf.TimeWindows("20ms", advance="10ms", grace="10ms"),
    "sliding": sf.SlidingWindows("15ms", grace="20ms"),
    "session": sf.SessionWindows("8ms", grace="20ms"),
    "unlimited": sf.UnlimitedWindows(0),
    "count": sf.CountWindows(3),
}


def grouped(builder: sf.StreamsBuilder, windows: Any, on_close: bool = False) -> Any:
    stream = builder.stream("in", key=str, value=JSON).group_by_key()
    if windows is None:
        return stream
    windowed = stream.windowed_by(windows)
    return windowed.emit_strategy(sf.EmitStrategy.on_window_close()) if on_close else windowed


def topology(native: sf.Aggregation[Any], windows: Any, on_close: bool = False) -> sf.Topology:
    """The aggregation, and beside it a list of all values, which reveals the expected result."""
    builder = sf.StreamsBuilder()
    group = grouped(builder, windows, on_close)
    # A window must still be retained when it closes.
    retention = "1h" if on_close and not isinstance(windows, sf.CountWindows) else None
    kept = sf.Materialized("native", retention=retention)
    group.aggregate(native, store=kept).to_stream().to("native", value=JSON)

    def add(key: str, value: Any, agg: list[Any]) -> list[Any]:
        return [*agg, value]

    merger = [lambda key, one, two: one + two] if isinstance(windows, sf.SessionWindows) else []
    lists = sf.Materialized("lists", value=JSON, retention=retention)
    group.aggregate(list, add, *merger, store=lists).to_stream().to("lists")
    return builder.build()


def key_of(windows: Any) -> Any:
    if windows is None:
        return str
    return (
        sf.Serdes.session_windowed(str)
        if isinstance(windows, sf.SessionWindows)
        else sf.Serdes.time_windowed(str, "20ms")
    )


def records(seed: int, count: int = 60) -> list[tuple[str, Any, int]]:
    rng = random.Random(seed)  # noqa: S311
    found, at = [], 100
    for _ in range(count):
        at += rng.randint(-8, 12)
        value: Any = {"x": rng.choice([rng.randint(-5, 20), rng.randint(0, 80) / 8]), "name": rng.choice("abcdefgh")}
        for name in ("x", "name"):
            if rng.random() < 0.15:
                value[name] = None
            if rng.random() < 0.1:
                del value[name]
        found.append((rng.choice("kl"), None if rng.random() < 0.1 else value, max(at, 0)))
    return found


def outputs(driver: TopologyTestDriver, topic: str, windows: Any) -> list[tuple[Any, Any, int]]:
    found = driver.output(topic, key_of(windows), JSON).read_all()
    return [(r.key, r.value, r.timestamp) for r in found]


def agree(driver: TopologyTestDriver, windows: Any, reference: Callable[[list[Any]], Any]) -> int:
    native, lists = outputs(driver, "native", windows), outputs(driver, "lists", windows)
    expected = [(key, None if values is None else reference(values), at) for key, values, at in lists]
    assert native == expected
    return len(native)


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_results_equal_those_of_functions(measure: tuple[Any, Any], windows: Any) -> None:
    native, reference = measure
    with TopologyTestDriver(topology(native, windows)) as driver:
        source = driver.input("in", str, JSON)
        given = 0
        for at, (key, value, timestamp) in enumerate(records(7)):
            if windows is not None and native._kind in ONE_OF_MANY and reference([value]) is None:
                continue  # the minimum of no values is null, and opens no window
            source.pipe(key, value, timestamp=timestamp)
            if at in (20, 40):
                # State that was in memory is restored from the store.
                driver.crash()
                driver.restart()
            given += agree(driver, windows, reference)
        assert given > 30


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("lanes", [1, 3])
def test_in_batches(windows: Any, lanes: int) -> None:
    for seed in range(3):
        with TopologyTestDriver(topology(SEVERAL, windows), lanes=lanes) as driver:
            source = driver.input("in", str, JSON)
            given = records(seed)
            for part in (given[:25], given[25:]):
                with driver.epoch():
                    for key, value, timestamp in part:
                        source.pipe(key, value, timestamp=timestamp)
            native, lists = outputs(driver, "native", windows), outputs(driver, "lists", windows)
            expected = [(key, None if values is None else several(values), at) for key, values, at in lists]
            of_key: Callable[[Any], Any] = lambda row: repr(row[0] if windows is None else row[0].key)  # noqa: E731
            # In order for each key; between keys there is no order.
            assert sorted(native, key=of_key) == sorted(expected, key=of_key)


@pytest.mark.parametrize("kind", ["tumbling", "hopping", "sliding", "session", "count"])
def test_once_when_the_window_closes(kind: str) -> None:
    windows = WINDOWS[kind]
    with TopologyTestDriver(topology(SEVERAL, windows, on_close=True)) as driver:
        source = driver.input("in", str, JSON)
        for key, value, timestamp in records(3):
            driver.advance("2s")
            source.pipe(key, value, timestamp=timestamp)
        assert agree(driver, windows, several) > 5


def test_a_record_cache_emits_the_last_update_of_each_epoch() -> None:
    config = {"statestore.cache.max.bytes": 10_000_000}
    with TopologyTestDriver(topology(SEVERAL, None), config) as driver:
        source = driver.input("in", str, JSON)
        for part in range(0, 60, 20):
            with driver.epoch():
                for key, value, timestamp in records(5)[part : part + 20]:
                    source.pipe(key, value, timestamp=timestamp)
            assert agree(driver, None, several) == 2


def test_the_plan_holds_no_python_functions() -> None:
    builder = sf.StreamsBuilder()
    for windows in WINDOWS.values():
        grouped(builder, windows).aggregate(SEVERAL, store=f"s{len(builder._plan.snapshot())}")
    plan = json.loads(builder.build().to_json())
    assert (plan["functions"], plan["processors"], plan["serdes"]) == ([], [], [])


def test_store_contents() -> None:
    builder = sf.StreamsBuilder()
    group = builder.stream("in", key=str, value=JSON).group_by_key()
    group.aggregate(sf.agg(mean=sf.avg(X), n=sf.count()), store="agg")
    group.aggregate(sf.sum(X), store="sum")
    group.aggregate(sf.sum(X), store="long", value=int)
    group.aggregate(sf.count(), store="count")
    group.aggregate(sf.top_k(NAME, 2, by=X), store="top")
    group.aggregate(sf.approx_distinct(NAME, precision=4), store="distinct")
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, JSON)
        for x, name in ((1, "a"), (4, "b"), (2, "c")):
            source.pipe("k", {"x": x, "name": name})
        held = {name: driver.store(name).get("k") for name in ("agg", "sum", "long", "count", "top", "distinct")}
        distinct = held.pop("distinct")
        assert held == {
            "agg": {"mean": {"avg": 7 / 3, "count": 3, "sum": 7}, "n": 3},
            "sum": 7,
            "long": 7,
            "count": 3,
            "top": {"top": ["b", "c"], "by": [4, 2]},
        }
        assert distinct["estimate"] == 3
        written = {
            store: driver._native.store_scan(store, None, None, None)[0][1] for store in ("sum", "long", "count")
        }
        assert written == {"sum": b"7", "long": (7).to_bytes(8, "big"), "count": (3).to_bytes(8, "big")}


def test_every_reader_of_the_table_gets_results() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=JSON)
    means = stream.group_by_key().aggregate(sf.avg(X), store="means", name="mean")
    asked = builder.stream("ask", key=str, value=str)
    asked.join(means, sf.obj(asked=sf.left, mean=sf.right)).to("by-key")
    asked.join(means, lambda left, right: [left, right]).to("by-function", value=JSON)
    means.filter(sf.value > 1).map_values(lambda value: value * 2).to_stream().to("double", value=JSON)
    means.group_by(lambda key, value: ("all", value), key=str, value=JSON).aggregate(sf.sum(sf.value), store="all")
    stream.group_by_key().aggregate(sf.agg(m=sf.avg(X)), store="m").to_stream().map_values(lambda v: v["m"]).to(
        "called", value=JSON
    )
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, JSON)
        for key, x in (("k", 1), ("k", 4), ("l", 10)):
            source.pipe(key, {"x": x})
        driver.input("ask", str, str).pipe("k", "now")
        assert driver.output("by-key", str, JSON).read_value() == {"asked": "now", "mean": 2.5}
        assert driver.output("by-function", str, JSON).read_value() == ["now", 2.5]
        assert driver.output("double", str, JSON).read_key_values_to_list() == [("k", 5.0), ("l", 20.0)]
        assert driver.output("called", str, JSON).read_values_to_list() == [1.0, 2.5, 10.0]
        assert driver.store("all").get("all") == 12.5


def test_final_results_of_windows() -> None:
    builder = sf.StreamsBuilder()
    windowed = grouped(builder, WINDOWS["tumbling"])
    means = windowed.aggregate(sf.avg(X), store="means").suppress(sf.Suppressed.until_window_closes(name="held"))
    means.to_stream().to("out", value=JSON)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, JSON)
        for x, at in ((1, 1), (2, 19), (9, 90)):
            source.pipe("k", {"x": x}, timestamp=at)
        assert [value for _, value, _ in outputs(driver, "out", WINDOWS["tumbling"])] == [1.5]


def test_of_tables() -> None:
    builder = sf.StreamsBuilder()
    table = builder.table("in", key=str, value=JSON, store="rows")
    group = table.group_by(lambda key, value: (value["team"], value), key=str, value=JSON)
    both = sf.agg(n=sf.count(), total=sf.sum(X), mean=sf.avg(X), named=sf.count(NAME))
    group.aggregate(both, store="teams").to_stream().to("out", value=JSON)
    group.aggregate(sf.sum(X), store="sums")
    rng = random.Random(4)  # noqa: S311
    rows: dict[str, Any] = {}
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, JSON)
        for _ in range(80):
            key = rng.choice("abcde")
            value = {"team": rng.choice("xy"), "x": rng.randint(0, 9), "name": rng.choice([None, "n"])}
            rows[key] = None if rng.random() < 0.2 else value
            source.pipe(key, rows[key])
        for team in "xy":
            of_team = [row for row in rows.values() if row and row["team"] == team]
            total = sum(row["x"] for row in of_team)
            count = len(of_team)
            assert driver.store("sums").get(team) == total
            assert driver.store("teams").get(team) == {
                "n": count,
                "total": total,
                "mean": {"avg": total / count if count else None, "count": count, "sum": total},
                "named": len([row for row in of_team if row["name"]]),
            }
        last = {record.key: record.value for record in driver.output("out", str, JSON).read_all()}
        assert set(last) == {"x", "y"}
        assert all(set(value) == {"n", "total", "mean", "named"} for value in last.values())
        assert not any(isinstance(value["mean"], dict) for value in last.values())


@pytest.mark.parametrize(
    "windows", [None, WINDOWS["tumbling"], WINDOWS["session"]], ids=["none", "tumbling", "session"]
)
def test_cogrouped_streams_fill_one_object(windows: Any) -> None:
    builder = sf.StreamsBuilder()
    clicks = builder.stream("clicks", key=str, value=str).group_by_key()
    orders = builder.stream("orders", key=str, value=JSON).group_by_key()
    together = clicks.cogroup(sf.agg(clicks=sf.count(), pages=sf.collect_set(sf.value))).cogroup(
        orders, sf.agg(spent=sf.sum(X), mean=sf.avg(X))
    )
    made = together if windows is None else together.windowed_by(windows)
    made.aggregate(store="both").to_stream().to("out", value=JSON)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("clicks", str, str).pipe("k", "/a", timestamp=1)
        driver.input("orders", str, JSON).pipe("k", {"x": 5}, timestamp=2)
        driver.input("clicks", str, str).pipe("k", "/a", timestamp=3)
        driver.input("orders", str, JSON).pipe("k", {"x": 6}, timestamp=4)
        found = [value for _, value, _ in outputs(driver, "out", windows) if value is not None]
        assert found == [
            {"clicks": 1, "pages": ["/a"], "spent": 0, "mean": None},
            {"clicks": 1, "pages": ["/a"], "spent": 5, "mean": 5.0},
            {"clicks": 2, "pages": ["/a"], "spent": 5, "mean": 5.0},
            {"clicks": 2, "pages": ["/a"], "spent": 11, "mean": 5.5},
        ]


def test_one_measure_of_several_streams() -> None:
    builder = sf.StreamsBuilder()
    bought = builder.stream("bought", key=str, value=JSON).group_by_key()
    returned = builder.stream("returned", key=str, value=JSON).group_by_key()
    bought.cogroup(sf.sum(X)).cogroup(returned, sf.sum(0 - X)).aggregate(store="balance")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("bought", str, JSON).pipe("k", {"x": 9})
        driver.input("returned", str, JSON).pipe("k", {"x": 2})
        assert driver.store("balance").get("k") == 7


def test_a_record_that_does_not_fit() -> None:
    builder = sf.StreamsBuilder()
    group = builder.stream("in", key=str, value=JSON).group_by_key()
    group.aggregate(sf.sum(X), store="strict")
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, JSON)
        source.pipe("k", {"x": 1})
        with pytest.raises(sf.ProcessingError, match=r"a number was expected, but found str.*(?s:.*)sf\.sum"):
            source.pipe("k", {"x": "2"})
    for windows in WINDOWS.values():
        builder = sf.StreamsBuilder()
        group = grouped(builder, windows)
        group.aggregate(SEVERAL, store="s", on_error=sf.log_and_continue()).to_stream().to("out", value=JSON)
        with TopologyTestDriver(builder.build()) as driver:
            source = driver.input("in", str, JSON)
            for x in (1, "2", 4):
                source.pipe("k", {"x": x}, timestamp=10)
            totals = [value["total"] for _, value, _ in outputs(driver, "out", windows) if value is not None]
            assert totals[-1] == 5
            assert "2" not in totals


def test_where_filters_measures_and_ranks() -> None:
    builder = sf.StreamsBuilder()
    group = builder.stream("in", key=str, value=JSON).group_by_key()
    ratio = sf.value["a"] / sf.value["b"]
    guarded = sf.agg(best=sf.top_k(NAME, 2, by=ratio), most=sf.max(ratio), n=sf.count()).where(sf.value["b"] != 0)
    group.aggregate(guarded, store="s").to_stream().to("out", value=JSON)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, JSON)
        for name, a, b in (("x", 1, 2), ("y", 5, 0), ("z", 3, 2)):
            source.pipe("k", {"name": name, "a": a, "b": b})
        values = driver.output("out", str, JSON).read_values_to_list()
        assert values[-1] == {"best": ["z", "x"], "most": 1.5, "n": 2}


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_expressions_reduce_and_aggregate(windows: Any) -> None:
    def build(reducer: Any, start: Any, aggregator: Any, merger: Any) -> sf.Topology:
        builder = sf.StreamsBuilder()
        group = grouped(builder, windows)
        mergers = [merger] if isinstance(windows, sf.SessionWindows) else []
        group.reduce(reducer, store="reduced").to_stream().to("reduced", value=JSON)
        group.aggregate(start, aggregator, *mergers, store="made", value=JSON).to_stream().to("made")
        return builder.build()

    native = build(
        sf.when(sf.new["x"] > sf.old["x"]).then(sf.new).otherwise(sf.old),
        sf.lit(""),
        sf.old + sf.key + sf.coalesce(NAME, "-"),
        sf.left + sf.right,
    )
    called = build(
        lambda agg, value: value if value["x"] > agg["x"] else agg,
        str,
        lambda key, value, agg: agg + key + value["name"],
        lambda key, one, two: one + two,
    )
    found = []
    for each in (native, called):
        with TopologyTestDriver(each) as driver:
            source = driver.input("in", str, JSON)
            for key, value, at in records(9):
                if value and value.get("x") is not None and value.get("name"):
                    source.pipe(key, value, timestamp=at)
            found.append([outputs(driver, topic, windows) for topic in ("reduced", "made")])
    assert found[0] == found[1]
    assert len(found[0][0]) > 10
    assert json.loads(native.to_json())["functions"] == []


def test_how_they_are_shown() -> None:
    assert repr(sf.count()) == "sf.count()"
    assert repr(sf.top_k(NAME, 3, by=X)) == "sf.top_k(sf.value['name'], k=3, by=sf.value['x'])"
    assert repr(sf.agg(a=sf.collect(X, limit=2))) == "sf.agg(a=sf.collect(sf.value['x'], limit=2))"
    assert repr(sf.left["a"] + sf.new) == "sf.left['a'] + sf.new"


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: sf.sum(lambda v: v), TypeError, "takes an expression"),
        (lambda: sf.sum(sf.count()), TypeError, "takes an expression"),
        (lambda: sf.max(None), TypeError, "of nothing"),  # type: ignore[arg-type]
        (sf.agg, TypeError, "at least one"),
        (lambda: sf.agg(a=sf.agg(b=sf.count())), TypeError, "another sf.agg"),
        (lambda: sf.agg(a=X), TypeError, "not Expression"),  # type: ignore[arg-type]
        (lambda: sf.top_k(X, 0), ValueError, "1 or more"),
        (lambda: sf.collect(X, limit="3"), TypeError, "whole number"),  # type: ignore[arg-type]
        (lambda: sf.approx_distinct(X, precision=17), ValueError, "4 to 16"),
        (lambda: sf.count().where(True), TypeError, "where takes"),  # type: ignore[arg-type]
    ],
)
def test_invalid_aggregations_are_refused(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def cogrouped(builder: sf.StreamsBuilder, *aggregators: Any) -> Any:
    first, *others = (builder.stream(f"t{at}", key=str, value=JSON).group_by_key() for at in range(len(aggregators)))
    made = first.cogroup(aggregators[0])
    for stream, aggregator in zip(others, aggregators[1:], strict=True):
        made = made.cogroup(stream, aggregator)
    return made


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda b, g, t: g.aggregate(sf.sum(X), lambda k, v, a: a, store="s"), "needs no other function"),
        (lambda b, g, t: g.aggregate(list, store="s"), "aggregator missing"),
        (lambda b, g, t: g.aggregate(list, sf.sum(X), store="s"), "does not take the aggregation"),
        (lambda b, g, t: g.reduce(sf.sum(X), store="s"), "does not take the aggregation"),
        (lambda b, g, t: g.aggregate(sf.avg(sf.left), store="s"), "reads sf.left, which isn't there"),
        (lambda b, g, t: g.aggregate(sf.sum(X.round(-2)), store="s"), "round to 0 to 300 digits"),
        (lambda b, g, t: g.aggregate(sf.agg(n=sf.max(sf.timestamp + "!")), store="s"), "can't compute int"),
        (lambda b, g, t: g.aggregate(sf.sum(sf.key), store="s"), "sf.key: it gives str, but bool or int or float"),
        (lambda b, g, t: cogrouped(b, sf.count(X), sf.count(sf.key + 1)).aggregate(store="s"), "can't compute str"),
        (lambda b, g, t: g.reduce(sf.value, store="s"), "reads sf.value, which isn't there: a reducer sees"),
        (lambda b, g, t: g.aggregate(sf.lit(0), sf.new, store="s", value=int), "an aggregator sees"),
        (lambda b, g, t: t.aggregate(sf.max(X), store="s"), "max can't take the old value away again"),
        (lambda b, g, t: t.aggregate(sf.agg(n=sf.count(), s=sf.collect(X)), store="s"), "collect can't take"),
        (lambda b, g, t: g.aggregate(sf.avg(X), store="s", value=float), "keeps more than its result"),
        (lambda b, g, t: cogrouped(b, sf.sum(X), sf.max(X)).aggregate(store="s"), "don't fit together"),
        (lambda b, g, t: cogrouped(b, sf.sum(X), lambda k, v, a: a).aggregate(store="s"), "some by functions"),
        (lambda b, g, t: cogrouped(b, sf.sum(X)).aggregate(list, store="s"), "need no initializer"),
        (lambda b, g, t: cogrouped(b, lambda k, v, a: a).aggregate(store="s"), "initializer missing"),
        (lambda b, g, t: b.stream("x", key=str, value=str).filter(sf.right == 1).to("y"), "reads sf.right"),
    ],
)
def test_invalid_arguments_are_refused(build: Any, words: str) -> None:
    builder = sf.StreamsBuilder()
    group = builder.stream("in", key=str, value=JSON).group_by_key()
    table = builder.table("rows", key=str, value=JSON, store="rows").group_by(lambda k, v: (k, v), key=str, value=JSON)
    with pytest.raises(sf.TopologyError, match=words) as caught:  # noqa: PT012  # at the call, or when it is checked
        build(builder, group, table)
        builder.build()
    assert "test_aggregations.py:" in str(caught.value)
