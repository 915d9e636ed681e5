"""Malformed JSON is handled at its source, whatever would have read it first."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

BROKEN = [b'{"a": 1', b"", b"NaN", b'{"a": 1,}', b'"\xff"', b"{'a': 1}", b'{"a": 01}', b"{} {}"]


def error_headers(letter: Any) -> dict[str, str]:
    return {name.removeprefix("__stoatflow.errors."): text.decode() for name, text in letter.headers}


@pytest.mark.parametrize("bytes_", BROKEN)
@pytest.mark.parametrize("serde", [sf.Serdes.json(), sf.Serdes.json(decode="dict")], ids=["views", "dicts"])
@pytest.mark.parametrize("near", [True, False])
def test_malformed_json_goes_to_the_handler_of_its_source(bytes_: bytes, serde: Any, near: bool) -> None:
    """Also if nothing reads it: the output would be as broken as the input."""
    builder = sf.StreamsBuilder()
    how: Any = {"on_error": sf.DLQ("bad")} if near else {}
    builder.stream("in", key=str, value=serde, name="source", **how).to("out")
    far: Any = {} if near else {"on_deserialization_error": sf.DLQ("bad")}
    with TopologyTestDriver(builder.build(), on_processing_error=sf.log_and_fail(), **far) as driver:
        source = driver.input("in")
        with driver.epoch():
            source.pipe_all([(b"a", b'{"n": [1, 2]}'), (b"b", bytes_), (b"c", b" null "), (b"d", None), (b"e", b"7")])
        assert [record.value for record in driver.output("out").read_all()] == [b'{"n": [1, 2]}', b" null ", None, b"7"]
        letter = driver.output("bad").read()
    assert (letter.key, letter.value) == (b"b", bytes_)
    headers = error_headers(letter)
    assert (headers["kind"], headers["node"], headers["offset"]) == ("deserialization", "source", "1")
    assert "not well-formed JSON" in headers["message"]


def test_malformed_json_without_a_handler_stops_the_application() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=dict).to("out")
    with TopologyTestDriver(builder.build(), on_processing_error=sf.log_and_continue()) as driver:
        with pytest.raises(sf.errors.SerdeError, match=r"not well-formed JSON.*column 7") as raised:
            driver.input("in").pipe(b"a", b'{"a": 1')
        assert raised.value.coordinates["topic"] == "in"
        assert raised.value.coordinates["offset"] == 0


def test_keys_are_checked_too() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=dict, value=str, on_error=sf.DLQ("bad")).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in").pipe_all([(b'{"id": 1}', b"x"), (b'{"id": 2', b"y")])
        assert [record.value for record in driver.output("out").read_all()] == [b"x"]
        assert [record.value for record in driver.output("bad").read_all()] == [b"y"]


@pytest.mark.parametrize(
    "joiner",
    [lambda left, right: [left, right["price"]], sf.array(sf.left, sf.right["price"])],
    ids=["function", "expression"],
)
@pytest.mark.parametrize("kind", ["table", "global", "foreign"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_a_malformed_row_does_not_fail_other_records(joiner: Any, kind: str, lanes: int) -> None:
    """The key keeps its old row; a record that is joined with it is not affected."""
    builder = sf.StreamsBuilder()
    how: Any = {"key": str, "value": dict, "on_error": sf.DLQ("bad-prices"), "store": "prices"}
    if kind == "table":
        orders = builder.stream("orders", key=str, value=str)
        joined = orders.join(builder.table("prices", **how), joiner)
    elif kind == "global":
        orders = builder.stream("orders", key=str, value=str)
        joined = orders.join(builder.global_table("prices", **how), lambda key, value: key, joiner)
    else:
        wanted = builder.table("orders", key=str, value=str, store="orders")
        joined = wanted.join(
            builder.table("prices", **how),
            joiner,
            foreign_key=lambda value: "apple",
            name="joined",
            store="j",
            value=list,
        ).to_stream()
    joined.to("out", key=str, value=sf.Serdes.json())
    with TopologyTestDriver(builder.build(), on_processing_error=sf.DLQ("bad-orders"), lanes=lanes) as driver:
        prices, orders_in = driver.input("prices"), driver.input("orders", str, str)
        prices.pipe(b"apple", b'{"price": 3}')
        prices.pipe(b"apple", b'{"price": ')
        orders_in.pipe("apple", "two")
        assert driver.output("out", str, sf.Serdes.json()).read_values_to_list() == [["two", 3]]
        assert [record.value for record in driver.output("bad-prices").read_all()] == [b'{"price": ']
        assert driver.output("bad-orders").is_empty


def test_malformed_json_is_counted_as_such(tmp_path: Path) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=dict, name="source").to("out")
    settings = {
        "application.id": "broken",
        "state.dir": str(tmp_path / "state"),
        "deserialization.exception.handler": "log_and_continue",
    }
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in")
        broker.create_topic("out")
        for value in (b"{}", b"{", b"[]"):
            broker.produce("in", b"k", value)
        with sf.StoatFlow(builder.build(), sf.Settings(settings, environ={}), broker=broker) as app:
            deadline = time.monotonic() + 60
            while len(list(broker.read("out"))) < 2:
                assert time.monotonic() < deadline, "waited in vain"
                time.sleep(0.01)
            dropped = app.metrics()["dropped"]
    assert [(row["node"], row["reason"], row["count"]) for row in dropped] == [("source", "deserialization_error", 1)]


def test_of_a_member_that_occurs_twice_the_last_counts_everywhere() -> None:
    """In expressions, functions and copies, as in `json.loads` and Jackson."""
    twice = b'{"a": 1, "n": {"b": 1, "\\u0062": 2.50}, "a": 3}'
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=dict)
    source.map_values(sf.value["a"]).to("expression", value=int)
    source.map_values(lambda value: value["a"]).to("function", value=int)
    source.filter(sf.value["n"]["b"] > 2).to("copied")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in").pipe(b"k", twice)
        for topic in ("expression", "function"):
            assert driver.output(topic).read().value == (3).to_bytes(8, "big")
        copied = driver.output("copied").read().value
    assert copied == b'{"a":3,"n":{"b":2.50}}'
    assert json.loads(copied) == json.loads(twice)
