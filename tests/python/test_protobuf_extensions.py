"""Extension fields of proto2: never read, never mistaken for other fields, preserved when a record passes through."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import message_factory

import stoatflow as sf
from protobuf_messages import classes
from stoatflow.testing import TopologyTestDriver

TEXT = """
syntax = "proto2";
package ext;
message Base {
  optional int32 id = 1;
  optional Base inner = 2;
  extensions 100 to 200;
  extend Base { optional string inside = 103; }
}
message Extra { optional bytes data = 1; }
message Other { optional int32 id = 1; }
extend Base { optional int32 rank = 100; repeated string words = 101; optional Extra extra = 102; }
"""
BASE = classes(TEXT)["Base"]
EXTENSIONS = {
    **BASE.DESCRIPTOR.file.extensions_by_name,
    "inside": BASE.DESCRIPTOR.extensions_by_name["inside"],
}
TEXT_SERDE = sf.Serdes.protobuf(TEXT, "ext.Base")
CLASS_SERDE = sf.Serdes.protobuf(BASE)
MESSAGES = sf.Serdes.protobuf(BASE, decode="message")
OTHER = sf.Serdes.protobuf(TEXT, "ext.Other")


def based(number: int) -> Any:
    """A message with each kind of extension, and another one inside it."""
    message = BASE(id=number)
    message.Extensions[EXTENSIONS["rank"]] = 7
    message.Extensions[EXTENSIONS["words"]].extend(["a", "b"])
    message.Extensions[EXTENSIONS["extra"]].data = b"\xff"
    message.Extensions[EXTENSIONS["inside"]] = "x"
    return message


MESSAGE = based(1)
MESSAGE.inner.CopyFrom(based(2))
DATA = MESSAGE.SerializeToString(deterministic=True)
SERDES = [pytest.param(TEXT_SERDE, id="text"), pytest.param(CLASS_SERDE, id="class")]


def run(change: Any, serde: Any, out: Any) -> bytes:
    builder = sf.StreamsBuilder()
    change(builder.stream("in", key=str, value=serde)).to("out", value=out)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, bytes).pipe("k", DATA)
        written = driver.output("out", str, bytes).read_value()
    assert written is not None
    return written


@pytest.mark.parametrize("serde", SERDES)
@pytest.mark.parametrize(
    "change",
    [
        lambda s: s,
        lambda s: s.filter(sf.value["id"] == 1),
        lambda s: s.map_values(lambda v: v),
        lambda s: s.map_batches(lambda b: b, schema=pa.schema([("value", pa.binary())])),
    ],
    ids=["nothing", "expression", "view", "batch"],
)
def test_extensions_pass_through(serde: Any, change: Any) -> None:
    assert run(change, serde, serde) == DATA


@pytest.mark.parametrize("serde", SERDES)
def test_a_view_with_changes_keeps_them_here_and_within(serde: Any) -> None:
    wanted = BASE.FromString(DATA)
    wanted.id = 9
    changed = BASE.FromString(run(lambda s: s.map_values(lambda v: v | {"id": 9}), serde, serde))
    assert changed == wanted
    assert changed.Extensions[EXTENSIONS["inside"]] == "x"
    inner = run(lambda s: s.map_values(lambda v: v["inner"]), serde, serde)
    assert BASE.FromString(inner) == based(2)


def test_messages_of_the_class_have_them() -> None:
    def raised(message: Any) -> Any:
        message.Extensions[EXTENSIONS["rank"]] += 1
        return message

    changed = BASE.FromString(run(lambda s: s.map_values(raised), MESSAGES, MESSAGES))
    assert changed.Extensions[EXTENSIONS["rank"]] == 8
    assert list(changed.Extensions[EXTENSIONS["words"]]) == ["a", "b"]


@pytest.mark.parametrize("serde", SERDES)
def test_extensions_are_not_members(serde: Any) -> None:
    assert serde.deserialize(DATA) == {"id": 1, "inner": {"id": 2, "inner": None}}
    view = serde.view(DATA)
    assert list(view) == ["id", "inner"]
    for name in ("rank", "ext.rank", "[ext.rank]", "inside"):
        assert name not in view
        with pytest.raises(sf.TopologyError, match=r"rank|inside"):
            run(lambda s, name=name: s.filter(sf.value[name] == 7), serde, serde)
        with pytest.raises(sf.SerdeError, match="has no field"):
            serde.serialize({"id": 1, name: 7})


@pytest.mark.parametrize("serde", SERDES)
def test_new_messages_have_no_extensions(serde: Any) -> None:
    for change in (lambda v: {**v}, sf.obj(id=sf.value["id"])):
        made = BASE.FromString(run(lambda s, change=change: s.map_values(change), serde, serde))
        assert made.id == 1
        assert not made.HasExtension(EXTENSIONS["rank"])


def test_another_message_does_not_take_them() -> None:
    made = run(lambda s: s.map_values(lambda v: {"id": v["id"]}), TEXT_SERDE, OTHER)
    assert made == b"\x08\x01"
    assert message_factory.GetMessageClass(BASE.DESCRIPTOR).FromString(made) == BASE(id=1)
