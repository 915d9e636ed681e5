"""Bytes fields of Avro and Protobuf as columns of batches: to a function and back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

INNER = {"type": "record", "name": "Part", "fields": [{"name": "data", "type": "bytes"}]}
AVRO = {
    "type": "record",
    "name": "Doc",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "raw", "type": "bytes"},
        {"name": "hash", "type": ["null", {"type": "fixed", "name": "Hash", "size": 2}]},
        {"name": "part", "type": INNER},
        {"name": "parts", "type": {"type": "array", "items": "Part"}},
        {"name": "blobs", "type": {"type": "array", "items": ["null", "bytes"]}},
    ],
}
PROTOBUF = """
syntax = "proto3";
message Part { bytes data = 1; }
message Doc {
    string name = 1; bytes raw = 2; optional bytes hash = 3; Part part = 4; repeated Part parts = 5;
    repeated bytes blobs = 6;
}
"""
ONE: dict[str, Any] = {
    "name": "å",
    "raw": b"\xff\x00",
    "hash": b"\xc3\xa9",
    "part": {"data": b"\x80"},
    "parts": [{"data": b""}, {"data": b"\xfe"}],
    "blobs": [b"\x01", b"\xe9"],
}
TWO: dict[str, Any] = {**ONE, "name": "b", "hash": None, "parts": [], "blobs": []}
PART = pa.struct([("data", pa.binary())])
SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("hash", pa.binary()),
        ("part", PART),
        ("parts", pa.list_(PART)),
        ("blobs", pa.list_(pa.binary())),
    ]
)
FORMATS = [
    pytest.param(sf.Serdes.avro(AVRO), id="avro"),
    pytest.param(sf.Serdes.avro(AVRO, decode="dict", framing="confluent", schema_id=7), id="avro-dict"),
    pytest.param(sf.Serdes.protobuf(PROTOBUF, "Doc"), id="protobuf"),
]


def run(stream: Any, out: Any, driver_in: Any) -> list[Any]:
    """The sink's records for two documents in one batch."""
    builder = sf.StreamsBuilder()
    stream(builder.stream("in", key=str, value=driver_in)).to("out", value=out)
    with TopologyTestDriver(builder.build()) as driver:
        with driver.epoch():
            driver.input("in", str, driver_in).pipe_all([("a", ONE), ("b", TWO)])
        return driver.output("out", str, out).read_values_to_list()


@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["seen", "given"])
@pytest.mark.parametrize("serde", FORMATS)
def test_bytes_are_binary_columns_both_ways(serde: Any, schema: Any) -> None:
    seen: list[pa.RecordBatch] = []

    def same(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch)
        return batch

    assert run(lambda s: s.map_batches(same, schema=schema), serde, serde) == [ONE, TWO]
    (batch,) = seen
    batch.validate(full=True)
    for field in SCHEMA:
        assert batch.schema.field(field.name).type == field.type
    assert batch.select(SCHEMA.names).to_pylist() == [ONE, TWO]


@pytest.mark.parametrize("serde", FORMATS)
@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_binary(), pa.binary(2), pa.binary_view(), pa.dictionary(pa.int8(), pa.binary())],
    ids=str,
)
def test_a_function_may_return_every_binary_type_of_arrow(serde: Any, kind: pa.DataType) -> None:
    new = [b"\xf0\x0f", b"ab"]

    def other(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = pa.array(new, pa.binary())
        made = values.dictionary_encode() if pa.types.is_dictionary(kind) else values.cast(kind)
        columns = {name: made if name == "hash" else batch[name] for name in SCHEMA.names}
        return pa.record_batch(columns)

    wanted = [{**value, "hash": data} for value, data in zip((ONE, TWO), new, strict=True)]
    assert run(lambda s: s.map_batches(other, schema=SCHEMA), serde, serde) == wanted


@pytest.mark.parametrize("serde", FORMATS)
@pytest.mark.parametrize(
    "change",
    [
        lambda v: v | {"name": "new"},
        lambda v: {**v, "name": "new"},
        sf.obj(**{name: sf.value[name] for name in SCHEMA.names if name != "name"}, name=sf.lit("new")),
    ],
    ids=["view", "dict", "expression"],
)
def test_values_of_earlier_operators_have_bytes_too(serde: Any, change: Any) -> None:
    seen: list[pa.RecordBatch] = []

    def stream(source: Any) -> Any:
        changed = source.map_values(change)
        changed.foreach_batch(seen.append)
        return changed.map_batches(lambda batch: batch, schema=SCHEMA)

    assert run(stream, serde, serde) == [{**one, "name": "new"} for one in (ONE, TWO)]
    (batch,) = seen
    assert batch.schema.field("raw").type == pa.binary()
    assert batch.schema.field("parts").type == pa.list_(PART)
    assert batch["raw"].to_pylist() == [ONE["raw"], TWO["raw"]]


@pytest.mark.parametrize("serde", FORMATS)
def test_functions_and_expressions_behind_a_batch_see_bytes(serde: Any) -> None:
    def stream(source: Any) -> Any:
        same = source.map_batches(lambda batch: batch).filter(sf.value["raw"].is_not_null())
        return same.map_values(lambda v: v["raw"] + v["part"]["data"] + b"".join(v["blobs"]))

    builder = sf.StreamsBuilder()
    stream(builder.stream("in", key=str, value=serde)).to("out", value=bytes)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, serde).pipe("a", ONE)
        assert driver.output("out", str, bytes).read_value() == b"\xff\x00\x80\x01\xe9"


@pytest.mark.parametrize("serde", FORMATS)
def test_a_text_that_is_asked_for_has_a_character_for_each_byte(serde: Any) -> None:
    schema = pa.schema([("name", pa.string()), ("raw", pa.string())])
    seen: list[pa.RecordBatch] = []
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=serde).foreach_batch(seen.append, schema=schema)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, serde).pipe("a", ONE)
    assert seen[0]["raw"].to_pylist() == ["ÿ\x00"]


@pytest.mark.parametrize("serde", FORMATS)
def test_stores_show_bytes(serde: Any) -> None:
    builder = sf.StreamsBuilder()
    builder.table("in", key=str, value=serde, store="kept")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, serde).pipe_all([("b", TWO), ("a", ONE)])
        table = driver.to_arrow("kept")
    for field in SCHEMA:
        assert table.schema.field(field.name).type == field.type
    rows = sorted(table.to_pylist(), key=lambda row: row["_key"])
    assert [{name: row[name] for name in SCHEMA.names} for row in rows] == [ONE, TWO]


def test_json_has_no_bytes_and_the_error_names_the_member() -> None:
    def stream(source: Any) -> Any:
        return source.map_batches(lambda batch: batch, schema=SCHEMA)

    with pytest.raises(sf.SerdeError, match="in the member 'raw': JSON has no form for a value of type bytes"):
        run(stream, dict, sf.Serdes.avro(AVRO))
