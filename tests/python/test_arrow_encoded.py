"""Batches of encoded values: Avro and Protobuf as bytes, to a function and back."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import stoatflow as sf
from protobuf_messages import classes
from stoatflow.testing import TopologyTestDriver

SCHEMA = {
    "type": "record",
    "name": "Pay",
    "fields": [{"name": "user", "type": "string"}, {"name": "cents", "type": "long"}],
}
PARSED = fastavro.parse_schema(SCHEMA)
TEXT = 'syntax = "proto3"; package p; message Other {} message Pay { string user = 1; int64 cents = 2; }'
PAY = classes(TEXT)["Pay"]
BINARY = pa.schema([("value", pa.binary())])
ANN, BOB = {"user": "ann", "cents": 250}, {"user": "bob", "cents": 20}


def avro_bytes(value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, PARSED, value)
    return out.getvalue()


def avro_value(data: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(data), PARSED, None)


def protobuf_bytes(value: Any) -> bytes:
    return bytes(PAY(**value).SerializeToString(deterministic=True))


def protobuf_value(data: bytes) -> Any:
    message = PAY.FromString(data)
    return {"user": message.user, "cents": message.cents}


Serde = Callable[..., Any]
FORMATS = [
    pytest.param(lambda **o: sf.Serdes.avro(SCHEMA, **o), avro_bytes, avro_value, b"\x00\x00\x00\x00\x07", id="avro"),
    pytest.param(
        lambda **o: sf.Serdes.protobuf(TEXT, "p.Pay", **o),
        protobuf_bytes,
        protobuf_value,
        b"\x00\x00\x00\x00\x07\x02\x02",
        id="protobuf",
    ),
]
FRAMED = {"framing": "confluent", "schema_id": 7}


def run(fn: Callable[[Any], Any], value: Any, out: Any, *, read: Any = bytes, **options: Any) -> list[Any]:
    """The result for two payments and a null in one batch."""
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=value).filter(sf.value["cents"].is_null() | (sf.value["cents"] > 0))
    stream.map_batches(fn, schema=BINARY, **options).to("out", value=out)
    with TopologyTestDriver(builder.build()) as driver:
        with driver.epoch():
            driver.input("in", str, value).pipe_all([("a", ANN), ("b", BOB), ("c", None)])
        return driver.output("out", str, read).read_values_to_list()


@pytest.mark.parametrize("options", [{}, FRAMED, {"decode": "dict"}])
@pytest.mark.parametrize(("serde", "encoded", "decoded", "header"), FORMATS)
def test_a_column_of_bytes_holds_values_as_they_are_encoded(
    serde: Serde, encoded: Any, decoded: Any, header: bytes, options: dict[str, Any]
) -> None:
    seen: list[pa.RecordBatch] = []

    def twice(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch)
        given = [data and decoded(data) for data in batch["value"].to_pylist()]
        values = [value and encoded({**value, "cents": value["cents"] * 2}) for value in given]
        return pa.record_batch({"value": pa.array(values, pa.binary())})

    value = serde(**options)
    doubled = [{**one, "cents": one["cents"] * 2} for one in (ANN, BOB)]
    assert run(twice, value, sf.Serdes.bytes()) == [*map(encoded, doubled), None]
    assert run(twice, value, serde(), read=serde()) == [*doubled, None]
    assert run(twice, value, serde(**FRAMED)) == [*(header + encoded(one) for one in doubled), None]
    for batch in seen:
        batch.validate(full=True)
        assert batch.schema.field("value").type == pa.binary()
        assert batch["value"].to_pylist() == [encoded(ANN), encoded(BOB), None]


@pytest.mark.parametrize(("serde", "encoded", "decoded", "header"), FORMATS)
def test_stores_and_sinks_of_batches_show_them_too(serde: Serde, encoded: Any, decoded: Any, header: bytes) -> None:
    seen: list[pa.RecordBatch] = []
    builder = sf.StreamsBuilder()
    builder.table("table", key=str, value=serde(**FRAMED), store="kept")
    builder.stream("in", key=str, value=serde()).foreach_batch(seen.append, schema=BINARY)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("table", str, serde(**FRAMED)).pipe_all([("a", ANN), ("b", BOB)])
        driver.input("in", str, serde()).pipe("a", ANN)
        table = driver.to_arrow("kept", schema=BINARY)
        members = driver.to_arrow("kept")
    assert dict(zip(table["_key"].to_pylist(), table["value"].to_pylist(), strict=True)) == {
        "a": encoded(ANN), "b": encoded(BOB),
    }  # fmt: skip
    assert sorted(members["cents"].to_pylist()) == [20, 250]
    (batch,) = seen
    assert batch["value"].to_pylist() == [encoded(ANN)]


@pytest.mark.parametrize(("serde", "encoded", "decoded", "header"), FORMATS)
def test_invalid_encoded_bytes_are_refused_on_write(serde: Serde, encoded: Any, decoded: Any, header: bytes) -> None:
    def cut(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = [data and data[:-1] for data in batch["value"].to_pylist()]
        return pa.record_batch({"value": pa.array(values, pa.binary())})

    with pytest.raises(sf.SerdeError, match="the bytes are no value of"):
        run(cut, serde(), serde(**FRAMED))


@pytest.mark.parametrize(("serde", "encoded", "decoded", "header"), FORMATS)
def test_a_changed_value_has_no_encoded_bytes(serde: Serde, encoded: Any, decoded: Any, header: bytes) -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=serde())
    changed = stream.map_values(lambda v: v | {"cents": 1} if v["user"] == "bob" else v)
    changed.map_batches(lambda batch: batch, schema=BINARY, on_error=sf.DLQ("dead")).to("out", value=serde())
    with TopologyTestDriver(builder.build()) as driver:
        with driver.epoch():
            driver.input("in", str, serde()).pipe_all([("a", ANN), ("b", BOB)])
        assert driver.output("out", str, serde()).read_key_values_to_list() == [("a", ANN)]
        letter = driver.output("dead", str, bytes).read()
    assert letter.key == "b"
    assert any(b"holds bytes, but the value is" in held for _, held in letter.headers)


def test_a_function_of_records_may_return_encoded_bytes() -> None:
    builder = sf.StreamsBuilder()
    avro = sf.Serdes.avro(SCHEMA, framing="confluent", schema_id=7)
    builder.stream("in", key=str, value=dict).map_values(avro_bytes).to("out", value=avro)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, dict).pipe("a", ANN)
        assert driver.output("out", str, avro).read_value() == ANN
