"""A function whose aggregate has a serde in Python always receives the same type, from the first call on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

WINDOWS = sf.TimeWindows.of_size_with_no_grace("10s")
SESSIONS = sf.SessionWindows.of_inactivity_gap_with_no_grace("10s")


class Total(NamedTuple):
    """The result of the serde below, which also accepts dicts."""

    seconds: int


class TotalSerde(sf.Serde[Any]):
    def serialize(self, value: Any) -> bytes:
        return str(value["seconds"] if not isinstance(value, Total) else value.seconds).encode()

    def deserialize(self, data: bytes) -> Total:
        return Total(int(data))


class JsonSerde(sf.Serde[Any]):
    """Returns lists where tuples were."""

    def serialize(self, value: Any) -> bytes:
        return json.dumps(value).encode()

    def deserialize(self, data: bytes) -> Any:
        return json.loads(data)


def count(value: Any) -> int:
    return int(value["seconds"] if not hasattr(value, "seconds") else value.seconds)


Make = Callable[[int], Any]
CASES = [
    pytest.param(TotalSerde(), Total, lambda n: {"seconds": n}, id="own"),
    pytest.param(TotalSerde(), Total, Total, id="own-same"),
    pytest.param(sf.Serdes.protobuf(Timestamp, decode="message"), Timestamp, lambda n: {"seconds": n}, id="message"),
    pytest.param(
        sf.Serdes.protobuf(Timestamp, decode="message"), Timestamp, lambda n: Timestamp(seconds=n), id="message-same"
    ),
]
SHAPES = {
    "plain": lambda grouped: grouped,
    "windows": lambda grouped: grouped.windowed_by(WINDOWS),
    "sessions": lambda grouped: grouped.windowed_by(SESSIONS),
}


@pytest.mark.parametrize(("serde", "kind", "make"), CASES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("operation", ["aggregate", "reduce"])
def test_an_aggregate_is_of_one_kind_in_every_call(
    operation: str, shape: str, serde: Any, kind: type, make: Make
) -> None:
    seen: list[type] = []
    given: list[type] = []

    def aggregator(key: str, value: Any, agg: Any) -> Any:
        seen.append(type(agg))
        return make(count(agg) + count(value))

    def merger(key: str, one: Any, other: Any) -> Any:
        seen.extend([type(one), type(other)])
        return make(count(one) + count(other))

    def reducer(agg: Any, value: Any) -> Any:
        return aggregator("", value, agg)

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=dict)
    grouped = SHAPES[shape](stream.group_by_key(key=str, value=dict))
    if operation == "reduce":
        table = grouped.reduce(reducer, store="s", value=serde)
    elif shape == "sessions":
        table = grouped.aggregate(lambda: make(0), aggregator, merger, store="s", value=serde)
    else:
        table = grouped.aggregate(lambda: make(0), aggregator, store="s", value=serde)

    def reported(value: Any) -> int | None:
        if value is None:
            return None
        given.append(type(value))
        return count(value)

    table.to_stream().select_key(lambda key, value: "k").map_values(reported).to("out", key=str, value=int)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, dict)
        with driver.epoch():
            for n in (1, 2, 3):
                source.pipe("k", {"seconds": n}, timestamp=n)
        source.pipe("k", {"seconds": 4}, timestamp=4)
        driver.crash()
        driver.restart()
        source.pipe("k", {"seconds": 5}, timestamp=5)
        values = [value for value in driver.output("out", str, int).read_values_to_list() if value is not None]
    assert values[-1] == 15
    assert len(seen) >= 4
    assert set(seen) == {kind}
    # The first value of a reduction is passed on unchanged.
    assert set(given[operation == "reduce" :]) == {kind}


def test_an_initializer_may_return_a_nested_difference() -> None:
    seen: list[Any] = []

    def aggregator(key: str, value: Any, agg: Any) -> Any:
        seen.append(type(agg["all"]))
        return {"all": [*agg["all"], value]}

    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grouped.aggregate(lambda: {"all": ()}, aggregator, store="s", value=JsonSerde())
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, int).pipe_all([("a", 1), ("a", 2), ("b", 3)])
    assert seen == [list, list, list]


def test_an_aggregate_initialized_by_an_expression_is_decoded_too() -> None:
    seen: list[Any] = []

    def aggregator(key: str, value: Any, agg: Any) -> Any:
        seen.append(agg)
        return {"n": 1}

    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grouped.aggregate(sf.lit(0), aggregator, store="s", value=Boxed())
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, int).pipe_all([("a", 1), ("b", 2)])
    assert seen == [("box", 0), ("box", 0)]


class Boxed(JsonSerde):
    def deserialize(self, data: bytes) -> Any:
        return ("box", json.loads(data))


@pytest.mark.parametrize(("serde", "kind", "make"), CASES)
def test_aggregates_of_tables_and_cogroups_are_decoded_too(serde: Any, kind: type, make: Make) -> None:
    seen: list[type] = []

    def plus(key: str, value: Any, agg: Any) -> Any:
        seen.append(type(agg))
        return make(count(agg) + count(value))

    def minus(key: str, value: Any, agg: Any) -> Any:
        seen.append(type(agg))
        return make(count(agg) - count(value))

    builder = sf.StreamsBuilder()
    table = builder.table("table", key=str, value=dict, store="kept")
    by_all = table.group_by(lambda key, value: ("all", value), key=str, value=dict)
    by_all.aggregate(lambda: make(0), plus, minus, store="of_table", value=serde)
    one = builder.stream("one", key=str, value=dict).group_by_key(key=str, value=dict)
    two = builder.stream("two", key=str, value=dict).group_by_key(key=str, value=dict)
    one.cogroup(plus).cogroup(two, plus).aggregate(lambda: make(0), store="of_both", value=serde)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("table", str, dict).pipe_all([("a", {"seconds": 1}), ("b", {"seconds": 2})])
        driver.input("table", str, dict).pipe("a", {"seconds": 5})
        driver.input("one", str, dict).pipe_all([("k", {"seconds": 1}), ("k", {"seconds": 2})])
        driver.input("two", str, dict).pipe("k", {"seconds": 3})
        assert count(driver.store("of_table").get("all")) == 7
        assert count(driver.store("of_both").get("k")) == 6
    assert len(seen) == 7
    assert set(seen) == {kind}
