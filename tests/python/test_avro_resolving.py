"""Data of another schema, read with the serde's own: by Avro's rules, as `fastavro` does."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

import stoatflow as sf

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
FIXED = {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
UUID = {"type": "string", "logicalType": "uuid"}
GIVEN = "6fa459ea-ee8a-3ca4-894e-db77e160355e"


def one(kind: Any, name: str = "x", **more: Any) -> dict[str, Any]:
    """A record schema with one field."""
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind, **more}]}


def word(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def mapped(kind: Any) -> dict[str, Any]:
    """A map schema."""
    return {"type": "map", "values": {"type": "array", "items": kind}}


def resolved(writer: dict[str, Any], reader: dict[str, Any], value: Any) -> Any:
    old = sf.Serdes.avro(writer, framing="confluent", schema_id=1)
    new = sf.Serdes.avro(reader, framing="confluent", schema_id=2, writer_schemas={1: writer})
    found = new.deserialize(old.serialize(value))
    # From then on it is written in the new schema.
    assert new.deserialize(new.serialize(found)) == found
    return found


def by_fastavro(writer: dict[str, Any], reader: dict[str, Any], value: Any) -> Any:
    """The result of fastavro, with decimals and times in the serde's form."""
    data = sf.Serdes.avro(writer).serialize(value)
    found = fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(writer), fastavro.parse_schema(reader))
    again = io.BytesIO()
    fastavro.schemaless_writer(again, fastavro.parse_schema(reader), found)
    return sf.Serdes.avro(reader).deserialize(again.getvalue())


@pytest.mark.parametrize("price", ["0.00", "1.50", "-0.01", "1234567.89", "-9999999.99"])
@pytest.mark.parametrize("kind", [DECIMAL, FIXED, ["null", DECIMAL], {"type": "array", "items": DECIMAL}])
def test_decimals_of_any_length(kind: Any, price: str) -> None:
    value = {"x": [price, price] if isinstance(kind, dict) and kind["type"] == "array" else price}
    reader = one(kind)
    reader["fields"].append({"name": "more", "type": "int", "default": 5})
    assert resolved(one(kind), reader, value) == {**value, "more": 5} == by_fastavro(one(kind), reader, value)


@pytest.mark.parametrize(
    ("kind", "default", "wanted"),
    [
        ("bytes", "\u00ff\u0001", b"\xff\x01"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u00ff\u0001", b"\xff\x01"),
        ({"type": "map", "values": "bytes"}, {"a": "\u0080"}, {"a": b"\x80"}),
        (one("bytes") | {"name": "Inner"}, {"x": "\u00e9"}, {"x": b"\xe9"}),
        # The default of a decimal, too, is the bytes of the number.
        (DECIMAL, "\u00ff", "-0.01"),
        (DECIMAL, "\u0000", "0.00"),
        (FIXED, "\u0000\u0000\u0001\u0000", "2.56"),
        ([DECIMAL, "null"], "\u0001", "0.01"),
    ],
)
def test_defaults_of_bytes_and_decimals(kind: Any, default: Any, wanted: Any) -> None:
    reader = one("int")
    reader["fields"].append({"name": "more", "type": kind, "default": default})
    assert resolved(one("int"), reader, {"x": 1}) == {"x": 1, "more": wanted}
    assert sf.Serdes.avro(reader).deserialize(sf.Serdes.avro(reader).serialize({"x": 1}))["more"] == wanted


@pytest.mark.parametrize(
    ("writer", "reader", "value", "wanted"),
    [
        # A logical type is added, and removed.
        (MILLIS, "long", 5, 5),
        ("long", MILLIS, 5, 5),
        (UUID, "string", GIVEN, GIVEN),
        ("string", UUID, GIVEN, GIVEN),
        (DECIMAL, "bytes", "1.50", b"\x00\x96"),
        ("bytes", DECIMAL, b"\x00\x96", "1.50"),
        # Promotions of numbers, strings and bytes.
        ("int", "long", -5, -5),
        ("int", "double", 5, 5.0),
        ("long", "float", 2**40, 2.0**40),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "é", b"\xc3\xa9"),
        ("bytes", "string", b"\xc3\xa9", "é"),
        # Enums and unions.
        (word("A", "B", "C"), word("C", "A"), "C", "C"),
        (word("A", "B", "C"), word("C", "A", default="A"), "B", "A"),
        ("int", ["null", "string", "long"], 5, 5),
        (["null", "int"], "long", 5, 5),
        (["string", "int", "null"], ["null", "double", "string"], 5, 5.0),
        (["string", "int", "null"], ["null", "double", "string"], None, None),
        ("int", ["double", "int"], 5, 5),
        # Nested types.
        (mapped("int"), mapped(["null", "long"]), {"k": [1, 2], "l": []}, {"k": [1, 2], "l": []}),
    ],
)  # fmt: skip
def test_types_that_are_promoted(writer: Any, reader: Any, value: Any, wanted: Any) -> None:
    assert resolved(one(writer), one(reader), {"x": value}) == {"x": wanted}


def test_fields_have_aliases() -> None:
    reader = one("long", name="y", aliases=["z", "x"])
    assert resolved(one("int"), reader, {"x": 5}) == {"y": 5} == by_fastavro(one("int"), reader, {"x": 5})


@pytest.mark.parametrize(
    ("writer", "reader", "value", "message"),
    [
        (["null", "int"], "long", None, "null can't be read as long"),
        ("bytes", "string", b"\xff", "UTF-8"),
        (word("A", "B"), word("A"), "B", "has no 'B'"),
    ],
)
def test_a_value_without_an_equivalent_is_an_error(writer: Any, reader: Any, value: Any, message: str) -> None:
    with pytest.raises(sf.SerdeError, match=message):
        resolved(one(writer), one(reader), {"x": value})
