"""The DSL's calls become the plan that `plan/src/logical.rs` reads: fields, order, indices, lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

import stoatflow as sf


def plan(builder: sf.StreamsBuilder) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(builder.build().to_json())
    return data


def bare(node: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name != "line"}


def keep(key: str, value: str) -> bool:
    return key < value


def test_word_count() -> None:
    builder = sf.StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str, name="in")
    words = lines.flat_map_values(sf.value.str.lower().str.split())
    counts = words.group_by(sf.value, key=str).count(store="counts")
    counts.to_stream().to("counts", key=str, value=int, name="out")
    made = plan(builder)
    assert made["version"] == 1
    assert made["functions"] == []
    assert made["serdes"] == []
    lower = {"op": "str_lower", "args": [{"op": "value"}]}
    split = {"op": "str_split", "args": [lower], "by": None}
    split_line = made["nodes"][1]["line"]
    assert [bare(node) for node in made["nodes"]] == [
        {"op": "stream", "name": "in", "topics": ["lines"], "key": "string", "value": "string"},
        {
            "op": "flat_map_values",
            "from": 0,
            "function": {"expr": {"op": "located", "args": [split], "line": split_line}},
        },
        {"op": "group_by", "from": 1, "function": {"expr": {"op": "value"}}, "key": "string"},
        {"op": "count", "from": 2, "materialized": {"store": "counts"}},
        {"op": "to_stream", "from": 3},
        {"op": "to", "name": "out", "from": 4, "topic": "counts", "key": "string", "value": "int64"},
    ]


def test_every_operator_with_functions() -> None:
    builder = sf.StreamsBuilder()
    one = builder.stream(["a", "b"], key=str, value=str, reset="latest")
    two = one.filter(keep).filter_not(keep).map(lambda key, value: (value, key))
    two = two.map_values(str.upper).flat_map(lambda key, value: [(key, value)])
    two = two.flat_map_values(lambda key, value: [key, value], with_key=True).select_key(lambda key, value: value)
    two.peek(print).foreach(print)
    merged = one.merge(two)
    merged.group_by_key(key=str, value=str).reduce(max, store=sf.Materialized("r", value=str, logging=False))
    merged.group_by(lambda key, value: value, key=str).aggregate(
        sf.lit(0), lambda key, value, agg: agg + 1, store="a", value=int
    )
    builder.table("t", key=str, value=dict, store="t").to_stream(lambda key, value: value["id"], name="changes")
    made = plan(builder)
    nodes = made["nodes"]
    assert [node["op"] for node in nodes] == [
        "stream", "filter", "filter_not", "map", "map_values", "flat_map", "flat_map_values", "select_key", "peek",
        "foreach", "merge", "group_by_key", "reduce", "group_by", "aggregate", "table", "to_stream", "select_key",
    ]  # fmt: skip
    assert [node.get("from") for node in nodes] == [None, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 10, 11, 10, 13, None, 15, 16]
    assert nodes[0]["reset"] == "latest"
    assert nodes[10]["other"] == 7
    assert nodes[12]["materialized"] == {"store": "r", "value": "string", "logged": False}
    assert nodes[14]["initializer"] == {"expr": {"op": "lit", "value": 0}}
    assert nodes[15] == {
        "op": "table",
        "line": nodes[15]["line"],
        "topic": "t",
        "key": "string",
        "value": "json",
        "materialized": {"store": "t"},
    }
    # A function that is used twice is one entry of the table.
    assert nodes[1]["function"] == nodes[2]["function"] == {"udf": 0}
    names = made["functions"]
    assert names[0].endswith(f"test_dsl.py:{keep.__code__.co_firstlineno} keep")
    assert names[1].endswith("<lambda>")
    assert names[2].endswith(" str.upper")


def test_nodes_have_their_source_line() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("a", key=str, value=str)
    stream.filter(keep)
    line = keep.__code__.co_firstlineno  # any anchor in this file does
    lines = [node["line"] for node in plan(builder)["nodes"]]
    assert all(text.rpartition(":")[0].endswith("test_dsl.py") for text in lines)
    first, second = (int(text.rpartition(":")[2]) for text in lines)
    assert second == first + 1 > line


def test_value_objects_equal_keywords() -> None:
    def build(**how: Any) -> list[dict[str, Any]]:
        builder = sf.StreamsBuilder()
        if how:
            stream = builder.stream("a", consumed=sf.Consumed(str, dict, name="in", reset="earliest"))
            stream.group_by_key(grouped=sf.Grouped(key=str, value=dict, name="g"))
            stream.to("b", produced=sf.Produced(key=str, value=dict, name="out"))
        else:
            stream = builder.stream("a", key=str, value=dict, name="in", reset="earliest")
            stream.group_by_key(key=str, value=dict, name="g")
            stream.to("b", key=str, value=dict, name="out")
        return [bare(node) for node in plan(builder)["nodes"]]

    assert build(objects=True) == build()


def test_custom_serdes_are_a_table() -> None:
    class Upper(sf.Serde[str]):
        def serialize(self, value: str) -> bytes:
            return value.upper().encode()

        def deserialize(self, data: bytes) -> str:
            return data.decode()

    serde = Upper()
    builder = sf.StreamsBuilder()
    builder.stream("a", key=serde, value=serde).to("b", key=Upper(), value=str)
    made = plan(builder)
    assert made["serdes"] == ["Upper", "Upper"]
    assert (made["nodes"][0]["key"], made["nodes"][0]["value"]) == ({"custom": 0}, {"custom": 0})
    assert (made["nodes"][1]["key"], made["nodes"][1]["value"]) == ({"custom": 1}, "string")


def test_a_topology_does_not_change_after_build() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("a")
    stream.to("b")
    topology = builder.build()
    before = topology.to_json()
    stream.to("c")
    assert topology.to_json() == before != builder.build().to_json()


def test_several_merges() -> None:
    builder = sf.StreamsBuilder()
    one, two, three = (builder.stream(topic) for topic in "abc")
    one.merge(two, three)
    nodes = [bare(node) for node in plan(builder)["nodes"]]
    assert nodes[3:] == [{"op": "merge", "from": 0, "other": 1}, {"op": "merge", "from": 3, "other": 2}]


def test_queryable_store_name() -> None:
    grouped = sf.StreamsBuilder().stream("a").group_by_key()
    assert grouped.count(store="c").queryable_store_name == "c"
    assert grouped.count().queryable_store_name is None


@pytest.mark.parametrize(
    ("wrong", "message", "next_step"),
    [
        (lambda b: b.stream("a b"), "'a b' is no topic name", "a-z"),
        (lambda b: b.stream([]), "no topic is given", "at least one"),
        (lambda b: b.stream("a", reset="first"), "reset='first'", "earliest"),
        (lambda b: b.stream("a", key=set), "set is neither a serde nor a type", "Serdes"),
        (lambda b: b.stream("a", key=str, consumed=sf.Consumed(str, str)), "beside consumed=", "either"),
        (lambda b: b.stream("a").to(""), "'' is no topic name", "249"),
        (lambda b: b.stream("a").to("b", key=str, produced=sf.Produced()), "beside produced=", "either"),
        (lambda b: b.stream("a").merge(b.table("t")), "merge needs a KStream, not KTable", "to_stream"),
        (lambda b: b.stream("a").merge(sf.StreamsBuilder().stream("b")), "different StreamsBuilder", "same"),
        (lambda b: b.stream("a").merge(b.stream("b"), b.stream("c"), name="m"), "one name", "one stream at a time"),
        (lambda b: b.stream("a").group_by_key().count(store=""), "store= must be a name", "totals"),
        (
            lambda b: b.stream("a").group_by_key().count(store=sf.Materialized("c"), value=int),
            "beside a Materialized",
            "either",
        ),
        (lambda b: b.stream("a").map(sf.value), "map does not take an expression", "select_key"),
        (lambda b: b.stream("a").flat_map(sf.value), "flat_map does not take an expression", "flat_map_values"),
        (lambda b: b.stream("a").peek(sf.value), "peek does not take an expression", "function"),
        (lambda b: b.stream("a").foreach(sf.value), "foreach does not take an expression", "function"),
        (lambda b: b.stream("a").group_by_key().reduce(sf.count()), "reduce does not take", "pass it alone"),
        (
            lambda b: b.stream("a").group_by_key().aggregate(sf.value, lambda key, value, agg: agg),
            "the initializer sf.value is no constant",
            "sf.lit",
        ),
    ],
)
def test_invalid_arguments_are_refused(wrong: Any, message: str, next_step: str) -> None:
    with pytest.raises(sf.TopologyError) as caught:
        wrong(sf.StreamsBuilder())
    assert message in str(caught.value)
    assert next_step in caught.value.next_step
    if "serde" not in message:
        assert "test_dsl.py:" in str(caught.value)
