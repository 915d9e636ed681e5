"""Joins whose joiner is an expression: all kinds, compared with equivalent functions."""

from __future__ import annotations

import json
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

JSON = sf.Serdes.json()
WINDOW = sf.JoinWindows("10ms", grace="10ms")
NATIVE = sf.obj(left=sf.left["x"], right=sf.right["x"], sum=sf.left["x"] + sf.right["x"])
KEYED = sf.obj(key=sf.key, left=sf.left["x"], right=sf.right["x"])


def x_of(side: Any) -> Any:
    return None if side is None else side["x"]


def called(left: Any, right: Any) -> Any:
    a, b = x_of(left), x_of(right)
    return {"left": a, "right": b, "sum": None if a is None or b is None else a + b}


def keyed(key: Any, left: Any, right: Any) -> Any:
    return {"key": key, "left": x_of(left), "right": x_of(right)}


def of_streams(kind: str, joiner: Any, **options: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    left, right = (builder.stream(topic, key=str, value=JSON) for topic in ("left", "right"))
    getattr(left, kind)(right, joiner, WINDOW, joined=sf.StreamJoined(store_name="j"), **options).to("out", value=JSON)
    return builder.build()


def with_table(kind: str, joiner: Any, **options: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    table = builder.table("right", key=str, value=JSON, store="t")
    getattr(builder.stream("left", key=str, value=JSON), kind)(table, joiner, **options).to("out", value=JSON)
    return builder.build()


def with_global(kind: str, joiner: Any, **options: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    table = builder.global_table("right", key=str, value=JSON, store="t")
    stream = builder.stream("left", key=str, value=JSON)
    getattr(stream, kind)(table, sf.key, joiner, **options).to("out", value=JSON)
    return builder.build()


def of_tables(kind: str, joiner: Any, **options: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    left, right = (builder.table(topic, key=str, value=JSON, store=topic) for topic in ("left", "right"))
    joined = getattr(left, kind)(right, joiner, store="j", value=JSON, **options)
    joined.to_stream().to("out", value=JSON)
    return builder.build()


def by_foreign_key(kind: str, joiner: Any, **options: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    left, right = (builder.table(topic, key=str, value=JSON, store=topic) for topic in ("left", "right"))
    foreign: Any = (lambda key, value: value["to"]) if options.get("with_key") else sf.value["to"]
    joined = getattr(left, kind)(right, joiner, foreign_key=foreign, store="j", value=JSON, name="by-key", **options)
    joined.to_stream().to("out", value=JSON)
    return builder.build()


RECORDS = [
    ("left", "a", {"x": 1, "to": "b"}),
    ("right", "a", {"x": 10}),
    ("right", "b", {"x": 20}),
    ("left", "a", {"x": 2, "to": "a"}),
    ("left", "b", {"x": None, "to": "c"}),
    ("right", "a", None),
    ("left", "c", {"x": 4, "to": "a"}),
    ("right", "c", {"x": 30}),
    ("left", "a", None),
]


def run(topology: sf.Topology, streams: bool) -> list[tuple[Any, Any, int]]:
    with TopologyTestDriver(topology) as driver:
        for at, (topic, key, value) in enumerate(RECORDS):
            if value is not None or not streams:
                driver.input(topic, str, JSON).pipe(key, value, timestamp=at)
        if streams:
            driver.input("left", str, JSON).pipe("z", {"x": 0}, timestamp=100)
        found = driver.output("out", str, JSON).read_all()
        return [(record.key, record.value, record.timestamp) for record in found]


KINDS = [
    *((of_streams, kind) for kind in ("join", "left_join", "outer_join")),
    *((with_table, kind) for kind in ("join", "left_join")),
    *((with_global, kind) for kind in ("join", "left_join")),
    *((of_tables, kind) for kind in ("join", "left_join", "outer_join")),
    *((by_foreign_key, kind) for kind in ("join", "left_join")),
]


@pytest.mark.parametrize(("build", "kind"), KINDS)
def test_results_equal_those_of_functions(build: Any, kind: str) -> None:
    native = build(kind, NATIVE)
    assert json.loads(native.to_json())["functions"] == []
    found = run(native, build is of_streams)
    assert found == run(build(kind, called), build is of_streams)
    assert len(found) > 1


@pytest.mark.parametrize(("build", "kind"), [each for each in KINDS if each[0] is not by_foreign_key])
def test_joiners_that_read_the_key_get_it(build: Any, kind: str) -> None:
    found = run(build(kind, KEYED), build is of_streams)
    assert found == run(build(kind, keyed, with_key=True), build is of_streams)
    assert all(value is None or value["key"] == key for key, value, _ in found)


def test_with_key_of_a_foreign_key_join_applies_to_the_extractor() -> None:
    native = sf.obj(key=sf.key, right=sf.right["x"])
    for options in ({}, {"with_key": True}):
        found = run(by_foreign_key("join", native, **options), False)
        assert ("a", {"key": "a", "right": 20}, 2) in found


def test_an_unchanged_side_keeps_its_serde() -> None:
    builder = sf.StreamsBuilder()
    left = builder.stream("left", key=str, value=int)
    table = builder.table("right", key=str, value=str, store="t")
    left.join(table, sf.left).to("numbers")
    left.join(table, sf.right).to("texts")
    left.join(table, sf.obj(n=sf.left, t=sf.right)).to("objects")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("right", str, str).pipe("k", "text")
        driver.input("left", str, int).pipe("k", 7)
        assert driver.output("numbers", str, int).read_value() == 7
        assert driver.output("texts", str, str).read_value() == "text"
        assert driver.output("objects", str, JSON).read_value() == {"n": 7, "t": "text"}


def test_python_objects_on_a_side_are_read_as_json() -> None:
    builder = sf.StreamsBuilder()
    left = builder.stream("left", key=str, value=JSON).map_values(lambda value: {**value, "more": [1, 2]})
    table = builder.table("right", key=str, value=JSON, store="t")
    left.join(table, sf.obj(more=sf.left["more"][1], right=sf.right)).to("out", value=JSON)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("right", str, JSON).pipe("k", {"x": 1})
        driver.input("left", str, JSON).pipe("k", {})
        assert driver.output("out", str, JSON).read_value() == {"more": 2, "right": {"x": 1}}


def test_a_row_that_fails_is_handled_as_with_functions() -> None:
    topology = of_streams("join", sf.left["x"] + sf.right["x"], on_error=sf.log_and_continue())
    with TopologyTestDriver(topology) as driver:
        right = driver.input("right", str, JSON)
        for x in (1, "text", 3):
            right.pipe("k", {"x": x}, timestamp=1)
        driver.input("left", str, JSON).pipe("k", {"x": 10}, timestamp=2)
        assert driver.output("out", str, JSON).read_values_to_list() == [11, 13]


@pytest.mark.parametrize("leaf", [sf.value, sf.timestamp, sf.old, sf.new])
def test_a_joiner_gets_both_sides_and_the_key(leaf: sf.Expression) -> None:
    with pytest.raises(sf.TopologyError, match=r"test_joiners.py:\d+.*isn't there: it sees two sides"):
        with_table("join", leaf)
