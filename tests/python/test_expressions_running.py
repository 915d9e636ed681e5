"""Expressions in topologies: every operator that takes one, what is rejected when it is built, error messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

ORDER = {"id": 7, "user": {"name": "ann"}, "items": [{"n": 2}, {"n": 3}], "amount": 12.5, "at": "2024-01-31T23:30:00Z"}


def outputs(build: Callable[[sf.KStream[Any, Any]], object], *records: tuple[Any, Any], value: Any = dict) -> list[Any]:
    """The records of the topic `out`."""
    builder = sf.StreamsBuilder()
    build(builder.stream("in", key=str, value=value))
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", key=str, value=value)
        target = driver.create_output_topic("out", key=str, value=dict)
        for key, content in records:
            source.pipe_input(key, content, timestamp=1_000)
        return target.read_key_values_to_list()


def test_map_gives_a_pair_of_expressions() -> None:
    pair = (sf.value["user"]["name"], sf.value.with_fields(key=sf.key))
    made = outputs(lambda stream: stream.map(pair).to("out", key=str), ("k", ORDER))
    assert made == [("ann", {**ORDER, "key": "k"})]
    again = outputs(lambda stream: stream.map(sf.array(*pair)).to("out", key=str, value=dict), ("k", ORDER))
    assert again == made


def test_a_table_is_grouped_by_a_pair_of_expressions() -> None:
    builder = sf.StreamsBuilder()
    users = builder.table("users", key=str, value=dict, store="users")
    by_city = users.group_by((sf.value["city"], sf.value), key=str, value=dict)
    by_city.count(store="cities").to_stream().to("out", key=str, value=int)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("users", key=str, value=dict)
        target = driver.create_output_topic("out", key=str, value=int)
        for user, city in [("ann", "Rome"), ("bob", "Rome"), ("ann", "Oslo")]:
            source.pipe_input(user, {"city": city})
        assert target.read_key_values_to_map() == {"Rome": 1, "Oslo": 1}


def test_topics_are_chosen_by_expressions() -> None:
    builder = sf.StreamsBuilder()
    large = sf.when(sf.value["amount"] > 100).then("large").otherwise("small")
    builder.stream("in", key=str, value=dict).to(large, key=str, value=dict)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", key=str, value=dict)
        source.pipe_input("a", {"id": 1, "amount": 500})
        source.pipe_input("b", {"id": 2, "amount": 5})
        topics = {name: driver.create_output_topic(name, key=str, value=dict) for name in ("large", "small")}
        assert [topics[name].read_key_values_to_list()[0][0] for name in ("large", "small")] == ["a", "b"]


def test_partitions_are_chosen_by_expressions() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=dict).to("out", key=str, value=dict, partitioner=sf.value["id"] % 4)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", key=str, value=dict)
        target = driver.create_output_topic("out", key=str, value=dict)
        source.pipe_input("a", {"id": 4})
        source.pipe_input("b", {})
        assert [key for key, _ in target.read_key_values_to_list()] == ["a", "b"]
        with pytest.raises(sf.ProcessingError, match="chose partition 2 of the topic out, which has 1"):
            source.pipe_input("c", {"id": 2})


def test_a_serde_is_inferred_from_an_expression() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=dict)
    stream.select_key(sf.format("{}-{}", sf.key, sf.value["id"])).map_values(sf.value["items"].list.len()).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", key=str, value=dict).pipe_input("k", ORDER)
        target = driver.create_output_topic("out", key=str, value=int)
        assert target.read_key_values_to_list() == [("k-7", 2)]


def test_bounds_of_doubles_give_doubles() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=float)
    stream.map_values(sf.value.clip(0, 100)).to("clipped")
    stream.map_values(sf.greatest(sf.value, 7)).to("greatest")
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", key=str, value=float)
        for x in (-1.5, 12.25, 1000.0):
            source.pipe_input("k", x)
        for topic, expected in (("clipped", [0.0, 12.25, 100.0]), ("greatest", [7.0, 12.25, 1000.0])):
            target = driver.create_output_topic(topic, key=str, value=float)
            assert target.read_values_to_list() == expected
    builder = sf.StreamsBuilder()
    builder.stream("in", key=int, value=int).map_values(sf.value**sf.key).to("out")
    with pytest.raises(sf.TopologyError, match="doesn't know the serde of its value"):
        builder.build()


def test_unread_members_pass_through_unchanged() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=dict).map_values(sf.value | {"n": sf.value["n"] + 1}).to("out", value=dict)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", key=str, value=bytes).pipe_input("k", b'{"x": 1.50, "n":1,"y":[1e2]}')
        target = driver.create_output_topic("out", key=str, value=bytes)
        assert target.read_value() == b'{"x": 1.50, "n":2,"y":[1e2]}'


def test_a_joiner_keeps_all_of_both_sides() -> None:
    builder = sf.StreamsBuilder()
    customers = builder.table("customers", key=str, value=dict, store="customers")
    orders = builder.stream("orders", key=str, value=dict)
    orders.left_join(customers, sf.left.merge(sf.right)).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("customers", key=str, value=bytes).pipe_input("ann", b'{"id": "ann", "vip":true}')
        source = driver.create_input_topic("orders", key=str, value=bytes)
        source.pipe_input("ann", b'{"id":1,"amount": 2.50}')
        source.pipe_input("bob", b'{"id":2}')
        target = driver.create_output_topic("out", key=str, value=bytes)
        assert target.read_values_to_list() == [b'{"id":"ann","amount": 2.50, "vip":true}', b'{"id":2}']


def test_two_objects_are_put_together_by_merge() -> None:
    wrong: Any = {"a": 1}
    with pytest.raises(TypeError, match=r"merge takes an expression, not dict: write \.with_fields"):
        sf.value.merge(wrong)
    with pytest.raises(sf.ProcessingError, match=r"two objects are put together by a\.merge\(b\)"):
        (sf.value["l"] | sf.value["r"]).evaluate({"l": {}, "r": {}})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.map_values(sf.value + "x"), 'sf.value + "x": can\'t compute int + str'),
        (lambda s: s.filter(sf.key == 5), "sf.key == 5: str never equals int"),
        (lambda s: s.filter(sf.value), "sf.value: it gives int, but bool is wanted"),
        (lambda s: s.flat_map_values(sf.key.str.lower()), "it gives str, but list is wanted"),
        (lambda s: s.filter(sf.value["a"] == 1), "a value of type int has no member 'a'"),
        (lambda s: s.map_values(sf.value.str.upper()), ".str takes str, but this is int"),
        (lambda s: s.map_values(sf.key.merge(sf.key)), "sf.key is str, but object is wanted"),
        (lambda s: s.map_values(sf.key.list.sum()), "sf.key is str, but list is wanted"),
        (lambda s: s.map_values(sf.key.str.matches("(")), "no regular expression"),
        (lambda s: s.map_values(sf.key.str.extract("a")), "no group 1"),
        (lambda s: s.map_values(sf.value.dt.hour("Mars/Olympus")), "no time zone"),
        (lambda s: s.select_key(sf.value).filter(sf.key.str.startswith("a")), ".str takes str, but this is int"),
        (lambda s: s.map((sf.value, sf.key)).filter(sf.value > 1), "str and int have no order"),
    ],
)
def test_expressions_that_can_never_work_are_refused_at_build(build: Any, message: str) -> None:
    builder = sf.StreamsBuilder()
    build(builder.stream("in", key=str, value=int)).to("out", key=bytes, value=bytes)
    with pytest.raises(sf.TopologyError) as caught:
        builder.build()
    assert message in str(caught.value)
    assert re.search(r"test_expressions_running\.py:\d+: \w+\(\)", str(caught.value)), caught.value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (sf.value.round(-2), "round to 0 to 300 digits"),
        (sf.value.round(70_000), "round to 0 to 300 digits"),
        (sf.timestamp + "!", "can't compute int + str"),
        (sf.value.str.matches("("), "no regular expression"),
        (sf.when(sf.value.is_null()).then(sf.key).otherwise(sf.timestamp.str.lower()), ".str takes str"),
    ],
)
def test_evaluate_refuses_what_a_topology_refuses(expression: sf.Expression, message: str) -> None:
    with pytest.raises(sf.TopologyError) as caught:
        expression.evaluate(None)
    assert message in str(caught.value)
    assert re.search(r"test_expressions_running\.py:\d+ ", str(caught.value)), caught.value


def test_an_error_names_the_line_and_the_part() -> None:
    total = sf.value["price"] * sf.value["count"]
    priced = sf.value.with_fields(total=total, size=sf.when(total > 100).then("large").otherwise("small"))
    with pytest.raises(sf.ProcessingError) as caught:
        outputs(lambda stream: stream.map_values(priced).to("out"), ("k", {"price": 3, "count": "two"}))
    line = test_an_error_names_the_line_and_the_part.__code__.co_firstlineno + 1
    assert "can't compute int * str" in str(caught.value)
    part = f'test_expressions_running.py:{line} sf.value["price"] * sf.value["count"], a part of '
    assert part in str(caught.value)
    assert f"test_expressions_running.py:{line + 1} sf.value.with_fields(" in str(caught.value)


def test_lenient_functions_return_null() -> None:
    number = sf.obj(n=sf.value["n"].cast(int, strict=False), at=sf.value["at"].str.to_timestamp(strict=False))
    made = outputs(
        lambda stream: stream.map_values(number).to("out"),
        ("a", {"n": "12", "at": "1970-01-01T00:00:01Z"}),
        ("b", {"n": "twelve", "at": "soon"}),
        ("c", {}),
    )
    none = {"n": None, "at": None}
    assert made == [("a", {"n": 12, "at": 1000}), ("b", none), ("c", none)]


@pytest.mark.parametrize(
    ("operator", "advice"), [("peek", "has no effect"), ("foreach", "has no effect"), ("flat_map", "flat_map_values")]
)
def test_expressions_are_refused_where_they_have_no_meaning(operator: str, advice: str) -> None:
    stream: Any = sf.StreamsBuilder().stream("in", key=str, value=dict)
    with pytest.raises(sf.TopologyError, match=advice):
        getattr(stream, operator)(sf.value["a"])
