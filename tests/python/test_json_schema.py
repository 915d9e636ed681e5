"""JSON Schema without a registry: validation in topics and in stores."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

ORDER: dict[str, Any] = {
    "title": "Order",
    "type": "object",
    "properties": {"amount": {"type": "integer", "minimum": 0}, "who": {"type": "string"}},
    "required": ["amount"],
}
ORDERS = sf.Serdes.json_schema(ORDER)


@pytest.mark.parametrize("decode", ["lazy", "dict"])
def test_values_equal_those_of_json(decode: Any) -> None:
    order = sf.Serdes.json_schema(ORDER, decode=decode)
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=order)

    def added(one: Any, other: Any) -> Any:
        if decode == "dict":
            one["amount"] += other["amount"]
            return one
        return one | {"amount": one["amount"] + other["amount"]}

    stream.map_values(sf.obj(amount=sf.value["amount"] + 1)).to("more", value=order)
    stream.group_by(sf.value["who"]).reduce(added, store="sums").to_stream().to("sums")
    with TopologyTestDriver(builder.build(), lanes=2) as driver:
        given = driver.input("in", str, order)
        for amount in (1, 2):
            given.pipe("k", {"who": "ann", "amount": amount})
        assert driver.output("more", str, bytes).read_values_to_list() == [b'{"amount":2}', b'{"amount":3}']
        driver.restart(lanes=4)
        given.pipe("k", {"who": "ann", "amount": 3})
        assert driver.output("sums", str, order).read_values_to_list()[-1] == {"who": "ann", "amount": 6}


def test_unread_text_passes_through_unchanged() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=ORDERS).filter(sf.value["amount"] > 0).to("out", value=ORDERS)
    text = b'{ "more": [1],  "amount": 5 }'
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, bytes).pipe("k", text)
        assert driver.output("out", str, bytes).read_value() == text


def test_values_that_do_not_fit_the_schema_go_to_handlers() -> None:
    bad: list[str] = []

    def noted(context: Any, record: Any, exception: Any) -> Any:
        bad.append(str(exception))
        return sf.log_and_continue()

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=ORDERS, on_error=noted)
    stream.map_values(lambda v: {"amount": v["amount"] - 5}).to("out", value=ORDERS, on_error=noted)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, bytes).pipe_all([("k", b"{}"), ("k", b'{"amount": 4}'), ("k", b'{"amount": 6}')])
        assert driver.output("out", str, ORDERS).read_values_to_list() == [{"amount": 1}]
    assert ['amount" is a required property' in bad[0], "at /amount: -1 is less than" in bad[1]] == [True, True]
    assert len(bad) == 2


def test_windowed_keys_are_checked_too() -> None:
    serde = sf.Serdes.time_windowed(sf.Serdes.json_schema({"type": "string"}), "1s")
    builder = sf.StreamsBuilder()
    builder.stream("in", key=serde, value=str, on_error=sf.log_and_continue()).to("out", key=serde)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", bytes, str).pipe_all([(b"5" + bytes(8), "bad"), (b'"a"' + bytes(8), "good")])
        assert driver.output("out", bytes, str).read_values_to_list() == ["good"]


def test_a_store_of_another_schema_is_read() -> None:
    """Its contents were validated when they were written."""

    def topology(schema: dict[str, Any]) -> sf.Topology:
        builder = sf.StreamsBuilder()
        serde = sf.Serdes.json_schema(schema)
        builder.stream("in", key=str, value=int).group_by_key().aggregate(
            lambda: {"amount": 0}, lambda k, v, so_far: {"amount": v}, store="s", value=serde
        ).to_stream().to("out", value=sf.Serdes.json())
        return builder.build()

    with TopologyTestDriver(topology(ORDER)) as driver:
        driver.input("in", str, int).pipe("k", 5)
        with pytest.raises(sf.StoatFlowError, match="less than the minimum"):
            driver.input("in", str, int).pipe("k", -5)


def test_given_as_text_dict_or_file(tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text(json.dumps(ORDER))
    for schema in (ORDER, json.dumps(ORDER), file):
        serde = sf.Serdes.json_schema(schema)
        assert serde.name == "json_schema(Order)"
        assert serde.deserialize(serde.serialize({"amount": 1})) == {"amount": 1}
        assert pickle.loads(pickle.dumps(serde)).serialize({"amount": 1}) == b'{"amount":1}'  # noqa: S301  # our own
        assert serde.view(b'{"amount": 1}')["amount"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schema": None}, "needs a schema, not NoneType"),
        ({"schema": 5}, "needs a schema, not int"),
        ({"schema": "order.json"}, r"pathlib\.Path\('order\.json'\)"),
        ({"schema": Path("nowhere.json")}, "can't be read"),
        ({"schema": "{"}, "this is no JSON Schema: EOF"),
        ({"schema": {"type": "strin"}}, "this is no JSON Schema that can be used"),
        ({"schema": {"$ref": "http://localhost:9/x.json"}}, r"must be in it \(\$defs\)"),
        ({"schema": {}, "decode": "message"}, "there are views and dicts"),
        ({"schema": {}, "framing": "confluent"}, "none is given"),
        ({"schema": {}, "schema_ids": [3]}, "mean nothing"),
        ({"schema": {}, "subject": "x"}, "names a schema of a registry"),
        ({"schema": {}, "registry": sf.SchemaRegistry("http://h"), "schema_id": 7}, "ids come from the registry"),
        ({"schema": None, "registry": sf.SchemaRegistry("http://h")}, "or the name of a subject"),
    ],
)
def test_invalid_serdes_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(sf.TopologyError, match=message) as raised:
        sf.Serdes.json_schema(**arguments)
    assert "test_json_schema.py" in str(raised.value)


def test_a_serde_with_a_registry_is_not_pickled() -> None:
    registry = sf.SchemaRegistry("http://localhost:9")
    text = 'syntax = "proto3"; message A { int64 n = 1; }'
    for serde in (sf.Serdes.json_schema({}, registry=registry), sf.Serdes.protobuf(text, registry=registry)):
        with pytest.raises(sf.TopologyError, match="holds credentials"):
            pickle.dumps(serde)
