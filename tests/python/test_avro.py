"""The Avro serde compared with `fastavro`, byte for byte, and what it rejects."""

from __future__ import annotations

import datetime
import decimal
import json
import pickle
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import stoatflow as sf
from avro_cases import cases, read, written
from avro_schemas import USER, user


@given(cases())
@settings(max_examples=300, deadline=None)
def test_both_libraries_write_and_read_the_same(case: tuple[Any, Any]) -> None:
    schema, value = case
    serde = sf.Serdes.avro(json.dumps(schema))
    data = written(schema, value)
    assert serde.deserialize(data) == value
    if value is not None:  # Kafka's null never reaches a serde
        assert serde.serialize(value) == data
        assert read(schema, serde.serialize(value)) == value


def test_a_record_of_all_kinds() -> None:
    ann = user(7, "ann", mail="a@b", tags=["x"], scores={"a": 1.5}, photo=b"\x00\xff", boss=user(1, "bob"))
    serde = sf.Serdes.avro(USER)
    assert serde.deserialize(written(USER, ann)) == ann
    assert serde.serialize(ann) == written(USER, ann)
    assert serde.serialize({"name": "ann", "id": 7}) == written(USER, user(7, "ann"))


def test_a_schema_is_text_a_dict_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "user.avsc"
    file.write_text(json.dumps(USER))
    wanted = written(USER, user(7, "ann"))
    for schema in (USER, json.dumps(USER), file):
        assert sf.Serdes.avro(schema).serialize(user(7, "ann")) == wanted
    assert sf.Serdes.avro("long").serialize(5) == b"\x0a"


LOGICAL = {
    "type": "record",
    "name": "T",
    "fields": [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}


def test_logical_types_are_the_numbers_and_texts_that_fastavro_writes() -> None:
    moment = datetime.datetime(2024, 2, 29, 12, 30, 15, 123000, tzinfo=datetime.timezone.utc)
    number = uuid.UUID("6fa459ea-ee8a-3ca4-894e-db77e160355e")
    theirs = {"day": moment.date(), "ms": moment, "us": moment, "price": decimal.Decimal("-12.50"), "id": number}
    ms = round(moment.timestamp() * 1000)
    ours = {"day": 19782, "ms": ms, "us": ms * 1000, "price": "-12.50", "id": str(number)}
    serde = sf.Serdes.avro(LOGICAL)
    assert serde.deserialize(written(LOGICAL, theirs)) == ours
    assert serde.serialize(ours) == written(LOGICAL, theirs)
    assert serde.serialize({**ours, "price": decimal.Decimal("-12.5"), "id": number}) == written(LOGICAL, theirs)
    with pytest.raises(sf.SerdeError, match=r"whole numbers, not as a datetime.datetime.*round\(value.timestamp"):
        serde.serialize({**ours, "ms": moment})
    with pytest.raises(sf.SerdeError, match=r"at price: the float 12\.5 is no exact decimal"):
        serde.serialize({**ours, "price": 12.5})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"id": 7, "nmae": "ann"}, "no field 'nmae', did you mean 'name'"),
        ({"id": 7}, "the field 'name' is missing"),
        ({"id": "7", "name": "ann"}, "at id: long is wanted, but the value is of type str"),
        ({"id": 7, "name": "ann", "photo": "text"}, "at photo: bytes is wanted.*Next: give bytes"),
        ({"id": 2**63, "name": "ann"}, "longer than 64 bits"),
        ({"id": 7, "name": "ann", "boss": {"id": 1}}, "at boss: the field 'name' is missing"),
        ({"id": 7, "name": "ann", 5: 5}, "a dict whose key is not text"),
        ({"id": 7, "name": object()}, "a schema has no form for an object of type"),
        ("ann", "shop.User is wanted"),
    ],
)
def test_values_that_do_not_fit_the_schema_are_refused(value: object, message: str) -> None:
    with pytest.raises(sf.SerdeError, match=message):
        sf.Serdes.avro(USER).serialize(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: dict[str, Any] = {"id": 1, "name": "ann"}
    endless["boss"] = endless
    with pytest.raises(sf.SerdeError, match="nested too deeply"):
        sf.Serdes.avro(USER).serialize(endless)


def test_views_of_json_are_written() -> None:
    serde = sf.Serdes.avro(USER)
    view = sf.JsonObject.parse('{"id": 7, "name": "ann", "tags": ["x"]}')
    wanted = written(USER, user(7, "ann", tags=["x"]))
    assert serde.serialize(view) == wanted
    assert serde.serialize(view | {"id": 7}) == wanted
    assert serde.serialize({"id": 7, "name": "ann", "tags": view["tags"]}) == wanted


def test_damaged_bytes_are_refused() -> None:
    serde = sf.Serdes.avro(USER)
    data = written(USER, user(7, "ann"))
    for wrong in (data[:-1], data + b"\x00", b"\xff" * 20, b""):
        with pytest.raises(sf.SerdeError, match=r"no value of the Avro schema 'shop\.User'"):
            serde.deserialize(wrong)


OLD = {
    "type": "record", "name": "User", "namespace": "shop",
    "fields": [{"name": "name", "type": "string"}, {"name": "gone", "type": "int"}, {"name": "id", "type": "int"}],
}  # fmt: skip


def test_confluent_framing() -> None:
    serde = sf.Serdes.avro(USER, framing="confluent", schema_id=7, writer_schemas={3: OLD})
    data = b"\x00\x00\x00\x00\x07" + written(USER, user(7, "ann"))
    assert serde.serialize(user(7, "ann")) == data
    assert serde.deserialize(data) == user(7, "ann")
    old = b"\x00\x00\x00\x00\x03" + written(OLD, {"name": "ann", "gone": 1, "id": 5})
    assert serde.deserialize(old) == user(5, "ann")
    with pytest.raises(sf.SerdeError, match=r"schema id 9.*Next: .*writer_schemas=\{9: ...\}"):
        serde.deserialize(b"\x00\x00\x00\x00\x09\x00")
    with pytest.raises(sf.SerdeError, match='leave framing="confluent" out'):
        serde.deserialize(written(USER, user(7, "ann")))


def test_a_serde_survives_pickling() -> None:
    serde = sf.Serdes.avro(USER, framing="confluent", schema_id=7, writer_schemas={3: OLD})
    again = pickle.loads(pickle.dumps(serde))  # noqa: S301  # its own bytes
    assert again.serialize(user(7, "ann")) == serde.serialize(user(7, "ann"))
    assert again.to_plan() == serde.to_plan()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schema": "{"}, "no Avro schema"),
        ({"schema": {"type": "recrd"}}, "no Avro schema"),
        ({"schema": "user.avsc"}, r"write pathlib.Path\('user.avsc'\)"),
        ({"schema": Path("nowhere.avsc")}, "the schema can't be read"),
        ({"schema": 5}, "needs a schema, not int"),
        ({"schema": USER, "framing": "confluent"}, "none is given. Next: .*schema_id="),
        ({"schema": USER, "framing": "confluent", "schema_id": "7"}, "'7' is no schema id"),
        ({"schema": USER, "framing": "avro"}, "no framing 'avro'"),
        ({"schema": USER, "schema_id": 7}, "plain Avro holds no schema id"),
        ({"schema": USER, "writer_schemas": {3: OLD}}, "plain Avro holds no schema id"),
        (
            {"schema": OLD, "framing": "confluent", "schema_id": 1, "writer_schemas": {2: USER}},
            "the schema with the id 2",
        ),
    ],
)
def test_an_invalid_schema_is_refused_on_construction(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(sf.TopologyError, match=rf"test_avro.py:\d+ Serdes.avro.*{message}"):
        sf.Serdes.avro(**arguments)
