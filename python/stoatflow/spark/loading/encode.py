"""Encodes values in the formats of a spec, a batch at a time.

Takes a topic and its columns, returns bytes, and the schema that reads them. Draws no random values.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stoatflow.spark.loading import columns
from stoatflow.spark.loading.fields import Column
from stoatflow.spark.loading.spec import FieldSpec, TopicSpec

_SAFE = frozenset({"int", "float", "timestamp", "index", "text"})
_AVRO = {"text": "string", "whole": "long", "decimal": "double"}
_PROTO = {"text": "string", "whole": "int64", "decimal": "double"}
_WIRE = {"text": 2, "whole": 0, "decimal": 1}


def values(topic: TopicSpec, given: Sequence[Column]) -> pa.Array:
    """Return the values."""
    return {"json": _json, "text": _text, "avro": _avro, "protobuf": _protobuf}[topic.format](topic, given)


def schema(topic: TopicSpec) -> str | None:
    """Return the schema of the values: Avro's JSON, or a .proto file."""
    kinds = [(each.name, kind_of(each)) for each in topic.fields]
    if topic.format == "avro":
        members = [{"name": name, "type": _AVRO[kind]} for name, kind in kinds]
        return json.dumps({"type": "record", "name": topic.schema_name, "fields": members})
    if topic.format == "protobuf":
        lines = [f"  {_PROTO[kind]} {name} = {number};" for number, (name, kind) in enumerate(kinds, 1)]
        return "\n".join(['syntax = "proto3";', f"message {topic.schema_name} {{", *lines, "}", ""])
    return None


def kind_of(each: FieldSpec) -> str:
    """Return the kind of a field's column."""
    return "decimal" if each.kind == "float" else "whole" if each.kind in {"int", "timestamp", "index"} else "text"


def _text(_: TopicSpec, given: Sequence[Column]) -> pa.Array:
    return pc.cast(given[0].text(), pa.binary())


def _json(topic: TopicSpec, given: Sequence[Column]) -> pa.Array:
    pieces: list[pa.Array | str] = []
    before = "{"
    for each, column in zip(topic.fields, given, strict=True):
        name = json.dumps(each.name, ensure_ascii=False)
        if column.kind != "text":
            pieces += [f"{before}{name}:", column.text()]
            before = ","
            continue
        texts = column.text() if each.kind in _SAFE else _escaped(column.text())
        pieces += [f'{before}{name}:"', texts]
        before = '",'
    return pc.cast(columns.joined(*pieces, "}" if before == "," else '"}'), pa.binary())


def _escaped(texts: pa.Array) -> pa.Array:
    """Escape texts for JSON, only the distinct ones: they are few."""
    different = texts.dictionary_encode()
    good = [json.dumps(text, ensure_ascii=False)[1:-1] for text in different.dictionary.to_pylist()]
    return pa.array(good, pa.string()).take(different.indices)


def _framed(topic: TopicSpec, pieces: list[pa.Array | bytes], extra: bytes = b"") -> pa.Array:
    if topic.framing is not None:
        pieces.insert(0, b"\0" + topic.framing.to_bytes(4, "big") + extra)
    return columns.joined(*pieces)


def _avro(topic: TopicSpec, given: Sequence[Column]) -> pa.Array:
    pieces: list[pa.Array | bytes] = []
    for column in given:
        if column.kind == "text":
            data = pc.cast(column.text(), pa.binary())
            pieces += [columns.zigzag(_lengths(data)), data]
        else:
            pieces.append(_number(column, avro=True))
    return _framed(topic, pieces)


def _protobuf(topic: TopicSpec, given: Sequence[Column]) -> pa.Array:
    pieces: list[pa.Array | bytes] = []
    for number, column in enumerate(given, 1):
        pieces.append(_tag(number, _WIRE[column.kind]))
        if column.kind == "text":
            data = pc.cast(column.text(), pa.binary())
            pieces += [columns.varint(_lengths(data)), data]
        else:
            pieces.append(_number(column, avro=False))
    # The message index in its file: the first message is a single zero.
    return _framed(topic, pieces, b"\0")


def _tag(number: int, wire: int) -> bytes:
    return bytes(columns.varint(np.array([number << 3 | wire]))[0].as_py())


def _number(column: Column, *, avro: bool) -> pa.Array:
    if column.kind == "decimal":
        return columns.little_double(column.doubles())
    assert column.numbers is not None  # noqa: S101  # it is no text
    return columns.zigzag(column.numbers) if avro else columns.varint(column.numbers.astype(np.int64).view(np.uint64))


def _lengths(data: pa.Array) -> np.ndarray:
    lengths: np.ndarray = pc.binary_length(data).to_numpy()
    return lengths.astype(np.int64)
