"""The Protobuf serde compared with the package `protobuf`, and what it rejects."""

from __future__ import annotations

import datetime
import pickle
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, struct_pb2, timestamp_pb2
from google.protobuf.internal import api_implementation
from google.protobuf.message import DecodeError
from hypothesis import example, given, settings
from hypothesis import strategies as st

import stoatflow as sf
from protobuf_messages import OLD, SHOP, Old, User, user

USER = sf.Serdes.protobuf(SHOP, "shop.User")
# Platforms without a wheel of the library's C extension, such as free-threaded interpreters.
IN_PYTHON = api_implementation.Type() == "python"

TEXTS = st.text(max_size=5)
LONGS = st.integers(-(2**63), 2**63 - 1)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "id": LONGS,
    "name": TEXTS,
    "mail": TEXTS,
    "tags": st.lists(TEXTS, max_size=3),
    "scores": st.dictionaries(TEXTS, st.floats(allow_nan=False), max_size=3),
    "level": st.sampled_from(["LOW", "HIGH", 7]),
    "photo": st.binary(max_size=5),
    "points": LONGS,
    "at": st.fixed_dictionaries({"seconds": LONGS, "nanos": st.integers(0, 999_999_999)}),
    "large": st.integers(0, 2**64 - 1),
    "numbers": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
}
PAYMENTS = st.one_of(st.just({}), st.fixed_dictionaries({"card": TEXTS}), st.fixed_dictionaries({"cash": LONGS}))


@st.composite
def given_users(draw: st.DrawFn, depth: int = 0) -> dict[str, Any]:
    """Some members of a user."""
    members = draw(st.fixed_dictionaries({}, optional=FIELDS)) | draw(PAYMENTS)
    if depth < 2 and draw(st.booleans()):
        members["boss"] = draw(given_users(depth + 1))
        members["others"] = draw(st.dictionaries(st.integers(-(2**31), 2**31 - 1), given_users(depth + 1), max_size=2))
    return members


def message_of(members: dict[str, Any]) -> Any:
    """The same as a message of the class."""
    message = User()
    for name, value in members.items():
        if name == "boss":
            message.boss.CopyFrom(message_of(value))
        elif name == "others":
            for number, one in value.items():
                message.others[number].CopyFrom(message_of(one))
        elif name == "scores":
            message.scores.update(value)
        elif name in {"tags", "numbers"}:
            getattr(message, name).extend(value)
        elif name == "points":
            message.points.SetInParent()
            message.points.value = value
        elif name == "at":
            message.at.SetInParent()
            message.at.seconds, message.at.nanos = value["seconds"], value["nanos"]
        elif name == "level":
            message.level = {"LOW": 0, "HIGH": 1}.get(value, value)
        else:
            setattr(message, name, value)
    return message


def as_read(members: dict[str, Any]) -> dict[str, Any]:
    read = user(0, "") | members
    if read["boss"] is not None:
        read["boss"] = as_read(read["boss"])
    read["others"] = {str(number): as_read(one) for number, one in read["others"].items()}
    return read


def with_names(members: dict[str, Any]) -> dict[str, Any]:
    """Keys of maps are texts."""
    members = dict(members)
    if "boss" in members:
        members["boss"] = with_names(members["boss"])
    if "others" in members:
        members["others"] = {str(number): with_names(one) for number, one in members["others"].items()}
    return members


@given(given_users())
@settings(max_examples=300, deadline=None)
def test_both_libraries_write_and_read_the_same(members: dict[str, Any]) -> None:
    theirs = message_of(members)
    assert USER.deserialize(theirs.SerializeToString()) == as_read(members)
    written = USER.serialize(with_names(members))
    assert User.FromString(written) == theirs
    assert USER.serialize(as_read(members)) == written
    # A message of the class is written as the class does.
    assert USER.serialize(theirs) == theirs.SerializeToString(deterministic=True)


@given(st.binary(max_size=30), given_users(), st.integers(0, 1000))
@example(b"", {}, 0)
@settings(max_examples=1000, deadline=None)
def test_both_libraries_accept_the_same_bytes(noise: bytes, members: dict[str, Any], at: int) -> None:
    whole = message_of(members).SerializeToString()
    for data in (noise, whole[: at % (len(whole) + 1)] + noise[:1] + whole[at % (len(whole) + 1) + 1 :]):
        try:
            User.FromString(data)
        except (DecodeError, UnicodeDecodeError):  # the second one from the library without its C extension
            taken = False
        else:
            taken = True
        try:
            USER.deserialize(data)
        except sf.SerdeError as error:
            if "64 bits" in error.message:
                continue  # the other parser accepts varints of more than 64 bits, and truncates them
            # Without its C extension it also accepts broken bytes: invalid field numbers, groups without an
            # end.
            assert IN_PYTHON or not taken, data
        else:
            assert taken, data


def test_a_schema_is_a_class_a_file_a_text_or_descriptors(tmp_path: Path) -> None:
    file = tmp_path / "shop.proto"
    file.write_text(SHOP)
    value = user(7, "ann", tags=["x"])
    wanted = message_of({"id": 7, "name": "ann", "tags": ["x"]}).SerializeToString()
    for serde in (
        sf.Serdes.protobuf(User),
        sf.Serdes.protobuf(SHOP, message="shop.User"),
        sf.Serdes.protobuf(file, "shop.User"),
        sf.Serdes.protobuf(USER.descriptors, "shop.User"),
    ):
        assert serde.serialize(value) == wanted
        assert serde.name == "protobuf(shop.User)"
        assert serde.deserialize(wanted) == value
    # A single message needs no name, nor does a generated class whose file imports others.
    assert sf.Serdes.protobuf(OLD).message == "old.Old"
    assert sf.Serdes.protobuf(struct_pb2.Struct).message == "google.protobuf.Struct"
    file_serde = sf.Serdes.protobuf(descriptor_pb2.FileDescriptorProto)
    described = descriptor_pb2.FileDescriptorProto(name="x.proto", dependency=["a", "b"])
    described.message_type.add(name="M").field.add(name="f", number=1)
    read = file_serde.deserialize(described.SerializeToString())
    assert read["dependency"] == ["a", "b"]
    assert read["message_type"][0]["field"][0]["name"] == "f"
    assert descriptor_pb2.FileDescriptorProto.FromString(file_serde.serialize(read)).name == "x.proto"


def test_imports_are_found_in_the_folders_that_are_named(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "money.proto").write_text(
        'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'
    )
    bill = tmp_path / "shop" / "bill.proto"
    bill.write_text('syntax = "proto3"; package shop; import "shop/money.proto"; message Bill { Money sum = 1; }')
    serde = sf.Serdes.protobuf(bill, include=[tmp_path])
    assert serde.deserialize(serde.serialize({"sum": {"cents": 5}})) == {"sum": {"cents": 5}}
    text = sf.Serdes.protobuf(bill.read_text(), include=[tmp_path])
    assert text.serialize({"sum": {"cents": 5}}) == serde.serialize({"sum": {"cents": 5}})
    with pytest.raises(sf.TopologyError, match=r"shop/money.proto.*not found.*include=\["):
        sf.Serdes.protobuf(bill)


def test_proto2_files_have_defaults_and_required_fields() -> None:
    serde = sf.Serdes.protobuf(OLD)
    theirs = Old(id=1, plain=[1, 2])
    theirs.inner.x = 5
    value = {"id": 1, "name": "nobody", "age": None, "plain": [1, 2], "inner": {"x": 5}}
    assert serde.deserialize(theirs.SerializeToString()) == value
    assert serde.serialize({**value, "name": None}) == theirs.SerializeToString()
    with pytest.raises(sf.SerdeError, match="the field 'id' is missing"):
        serde.serialize({"name": "x"})
    with pytest.raises(sf.SerdeError, match=r"the required field 'id' of 'old.Old' is missing"):
        serde.deserialize(b"")
    with pytest.raises(sf.SerdeError, match=r"a message of the type old.Old can't be written"):
        serde.serialize(Old())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"nmae": "ann"}, "no field 'nmae', did you mean 'name'"),
        ({"id": "7"}, "at id: int64 is wanted, but the value is of type str"),
        ({"id": 2**63}, "at id: 9223372036854775808 does not fit into int64"),
        ({"id": 2**64}, "longer than 64 bits"),
        ({"large": -1}, "at large: -1 does not fit into uint64"),
        ({"photo": "text"}, "at photo: bytes is wanted.*Next: give bytes"),
        ({"boss": {"tags": [1]}}, r"at boss.tags\[0\]: string is wanted"),
        ({"level": "MID"}, "the enum shop.Level has no 'MID'"),
        ({"card": "x", "cash": 1}, "'card' and 'cash' exclude each other"),
        ({5: 5}, "a dict whose key is not text"),
        ({"name": object()}, "no form for an object of type object"),
        ({"at": datetime.datetime.now(datetime.timezone.utc)}, "a dict of seconds and nanos"),
        ({"boss": Old(id=1)}, "a message of the type shop.User is wanted, but this is one of the type old.Old"),
        (Old(id=1), "a message of the type shop.User is wanted, but this is one of the type old.Old"),
        ("ann", "shop.User is wanted"),
    ],
)
def test_values_that_do_not_fit_the_schema_are_refused(value: object, message: str) -> None:
    with pytest.raises(sf.SerdeError, match=message):
        USER.serialize(value)


def test_messages_are_taken_within_dicts() -> None:
    boss = User(id=1, name="bob", cash=0)
    written = USER.serialize({"id": 7, "boss": boss, "others": {"5": boss}})
    theirs = User(id=7, boss=boss)
    theirs.others[5].CopyFrom(boss)
    assert User.FromString(written) == theirs


def test_a_message_has_no_json() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=USER).map_values(lambda v: User(id=1)).to("out", value=sf.Serdes.json())
    from stoatflow.testing import TopologyTestDriver

    with TopologyTestDriver(builder.build()) as driver, pytest.raises(sf.SerdeError, match="User"):
        driver.input("in", str, USER).pipe("k", {"id": 1})


def test_views_of_json_are_written() -> None:
    view = sf.JsonObject.parse('{"id": 7, "name": "ann", "tags": ["x"]}')
    wanted = User(id=7, name="ann", tags=["x"]).SerializeToString()
    assert USER.serialize(view) == wanted
    assert USER.serialize({"id": 7, "name": "ann", "tags": view["tags"]}) == wanted


def test_a_class_of_messages_for_functions() -> None:
    serde = sf.Serdes.protobuf(User, decode="message")
    message = serde.deserialize(User(id=7).SerializeToString())
    assert isinstance(message, User)
    message.name = "ann"
    assert serde.serialize(message) == User(id=7, name="ann").SerializeToString()
    assert serde.serialize({"id": 7}) == User(id=7).SerializeToString()
    with pytest.raises(sf.SerdeError, match=r"no value of the Protobuf message 'shop.User'"):
        serde.deserialize(b"\xff")


def test_confluent_framing() -> None:
    serde = sf.Serdes.protobuf(User, framing="confluent", schema_id=7, schema_ids=[3])
    body = User(id=7).SerializeToString()
    framed = b"\x00\x00\x00\x00\x07\x00" + body
    assert serde.serialize({"id": 7}) == framed
    assert serde.deserialize(framed) == user(7, "")
    assert serde.deserialize(b"\x00\x00\x00\x00\x03\x02\x06" + body) == user(7, "")
    with pytest.raises(sf.SerdeError, match=r"schema id 9.*Next: .*schema_ids=\[9\]"):
        serde.deserialize(b"\x00\x00\x00\x00\x09\x00")
    with pytest.raises(sf.SerdeError, match='leave framing="confluent" out'):
        serde.deserialize(body)
    # The second message of its file.
    named = sf.Serdes.protobuf(SHOP, "shop.Named", framing="confluent", schema_id=7)
    assert named.serialize({}) == b"\x00\x00\x00\x00\x07\x02\x02"
    messages = sf.Serdes.protobuf(User, framing="confluent", schema_id=7, decode="message")
    assert messages.deserialize(framed) == User(id=7)
    assert messages.serialize(User(id=7)) == framed


def of_an_edition() -> bytes:
    """Descriptors as protoc writes them."""
    files = descriptor_pb2.FileDescriptorSet()
    files.file.add(name="m.proto", syntax="editions", edition=descriptor_pb2.EDITION_2023).message_type.add(name="M")
    return files.SerializeToString()


def test_a_serde_survives_pickling() -> None:
    text = sf.Serdes.protobuf(SHOP, "shop.User", framing="confluent", schema_id=7, schema_ids=[3])
    moments = sf.Serdes.protobuf(timestamp_pb2.Timestamp, decode="message")
    for serde, value in ((text, user(7, "ann")), (moments, timestamp_pb2.Timestamp(seconds=5))):
        again = pickle.loads(pickle.dumps(serde))  # noqa: S301  # its own bytes
        assert again.serialize(value) == serde.serialize(value)
        assert again.deserialize(serde.serialize(value)) == value
        assert again.to_plan() == serde.to_plan()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schema": 'syntax = "proto3";\nmessage M { strin a = 1; }'}, r"schema.proto:2:\d+: .*strin.*not defined"),
        ({"schema": 'syntax = "proto3";\nmesage M {}'}, r"schema.proto:2:1: expected"),
        ({"schema": 'edition = "2023"; message M {}'}, "editions can't yet"),
        ({"schema": of_an_edition()}, "'m.proto' is written in editions.*editions can't yet"),
        ({"schema": SHOP}, r"several messages: shop.User, shop.Named. Next: .*message=\"shop.User\""),
        ({"schema": SHOP, "message": "shop.Usr"}, r"no Protobuf message 'shop.Usr', did you mean 'shop.User'\?"),
        ({"schema": SHOP, "message": "User"}, r"did you mean 'shop.User'\?"),
        ({"schema": b"\xff"}, "no descriptors of Protobuf messages"),
        ({"schema": "shop.proto"}, r"write pathlib.Path\('shop.proto'\)"),
        ({"schema": Path("nowhere.proto")}, "there is no file 'nowhere.proto'"),
        ({"schema": 5}, "needs a schema, not int"),
        ({"schema": int}, "int is no class of Protobuf messages"),
        ({"schema": User, "message": "shop.Named"}, "the class says that the message is shop.User"),
        ({"schema": SHOP, "message": "shop.User", "decode": "message"}, "makes messages of a class"),
        ({"schema": User, "decode": "view"}, "decode='view': there are views, dicts and messages"),
        ({"schema": User, "framing": "confluent"}, "none is given. Next: .*schema_id="),
        ({"schema": User, "framing": "confluent", "schema_id": "7"}, "'7' is no schema id"),
        ({"schema": User, "framing": "protobuf"}, "no framing 'protobuf'"),
        ({"schema": User, "schema_id": 7}, "plain Protobuf holds no schema id"),
        ({"schema": User, "schema_ids": [7]}, "schema_id= and schema_ids= mean nothing"),
    ],
)
def test_an_invalid_schema_is_refused_on_construction(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(sf.TopologyError, match=rf"test_protobuf.py:\d+ Serdes.protobuf.*{message}"):
        sf.Serdes.protobuf(**arguments)
