"""Avro views: like a plain dict of the record in every respect, except that they are immutable."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import stoatflow as sf
from avro_cases import cases, read, schemas, written
from avro_schemas import NAMED, USER, user
from stoatflow import JsonArray, JsonObject, to_python
from stoatflow.testing import TopologyTestDriver

AVRO = sf.Serdes.avro(USER)
ANN = user(7, "ann", mail="a@b", tags=["x", "y"], scores={"a": 1.5, "b": -2.0}, photo=b"\x00\xff", boss=user(1, "bob"))


def view_of(value: Any, serde: Any = AVRO) -> Any:
    return serde.view(serde.serialize(value))


def same(seen: object, plain: object) -> bool:
    """Whether they are equal, including types and order. Nested values are views."""
    if isinstance(plain, dict):
        return (
            type(seen) is JsonObject
            and list(seen) == list(plain)
            and all(same(seen[name], plain[name]) for name in plain)
        )
    if isinstance(plain, list):
        return (
            type(seen) is JsonArray
            and len(seen) == len(plain)
            and all(same(seen[at], item) for at, item in enumerate(plain))
        )
    return type(seen) is type(plain) and repr(seen) == repr(plain)


@given(cases(), st.integers(0, 40))
@settings(max_examples=300, deadline=None)
def test_a_view_equals_its_plain_value(case: tuple[Any, Any], asked: int) -> None:
    schema, value = case
    assume(isinstance(value, dict | list))
    serde = sf.Serdes.avro(json.dumps(schema))
    data = written(schema, value)
    view, value = serde.view(data), read(schema, data)
    names = list(value) if isinstance(value, dict) else list(range(len(value)))
    for at in range(asked if names else 0):  # the first lookups search in place, later ones use a list, then a dict
        name = names[-1 - at % len(names)]
        assert same(view[name], value[name])
    assert same(view, value)
    assert view == value
    assert value == view
    assert (view != value) is False
    assert view == serde.view(data)
    assert len(view) == len(value)
    assert bool(view) == bool(value)
    assert repr(view) == str(view) == repr(value)
    assert same(serde.view(data), value)
    assert to_python(view) == value
    assert type(to_python(view)) is type(value)
    assert serde.serialize(view) == data
    assert sf.Serdes.avro(json.dumps(schema), decode="dict").view(data) == value
    again = pickle.loads(pickle.dumps(view))  # noqa: S301  # its own bytes
    assert (type(again), again) == (type(value), value)


def test_protocols() -> None:
    view = view_of(ANN)
    assert isinstance(view, Mapping)
    assert not isinstance(view, dict)
    assert isinstance(view["tags"], Sequence)
    assert [type(view[name]) for name in ("boss", "scores", "tags")] == [JsonObject, JsonObject, JsonArray]
    assert view["boss"] is view["boss"]
    assert view["boss"]["name"] == "bob"
    assert view["photo"] == b"\x00\xff"
    assert view["level"] == "LOW"
    assert "mail" in view
    assert "nothing" not in view
    assert view.get("nothing", 5) == 5
    assert view_of(user(1, "bob")).get("mail", 5) is None
    assert list(view.keys()) == [field["name"] for field in USER["fields"]]
    assert list(reversed(view)) == list(reversed(ANN))
    assert dict(view.items()) == ANN
    assert list(view.values())[:2] == [7, "ann"]
    assert view == MappingProxyType(ANN)
    assert view != {**ANN, "id": 8}
    assert view != None  # noqa: E711
    assert view["tags"] == ["x", "y"]
    assert view["tags"] != ("x", "y")
    assert view["tags"][-1] == "y"
    assert view["tags"][::-1] == ["y", "x"]
    assert view["tags"] + ["z"] == ["x", "y", "z"]
    assert "x" in view["tags"]
    for unhashable in (view, view["tags"]):
        with pytest.raises(TypeError, match="unhashable"):
            hash(unhashable)
    for beyond in (2, -3, 2**70):
        with pytest.raises(IndexError):
            view["tags"][beyond]
    with pytest.raises(KeyError):
        view[1]


def test_a_missing_field_is_a_key_error_that_suggests_a_name() -> None:
    for view in (view_of(ANN), JsonObject.parse(json.dumps(NAMED)), view_of(ANN) | {"more": 1}):
        with pytest.raises(KeyError) as raised:
            view["nmae"]
        assert raised.value.args == ("nmae",)
        assert getattr(raised.value, "__notes__", ["did you mean 'name'?"]) == ["did you mean 'name'?"]
    with pytest.raises(KeyError) as raised:
        view_of(ANN)["quite another"]
    assert not hasattr(raised.value, "__notes__")


def test_patterns_of_match() -> None:
    match view_of(ANN):
        case {"boss": {"name": str(name)}, "tags": [first, *others], "mail": mail}:
            assert (name, first, others, mail) == ("bob", "x", ["y"], "a@b")
        case _:
            pytest.fail("no pattern fits")
    match view_of(user(1, "bob")):
        case {"boss": None, "scores": {}, **rest}:
            assert set(rest) == set(ANN) - {"boss", "scores"}
        case _:
            pytest.fail("no pattern fits")


def test_a_view_is_immutable_and_its_copies_are_not() -> None:
    view = view_of(ANN)
    for act in (lambda: view.__setitem__("id", 2), lambda: view.__delitem__("id")):
        with pytest.raises(TypeError, match=r'v \| \{.*decode="dict"'):
            act()
    with pytest.raises(TypeError, match=r'\[\*v, item\].*decode="dict"'):
        view["tags"][0] = "z"
    for change in (lambda: view.update(id=1), lambda: view["tags"].append("z")):
        with pytest.raises(AttributeError, match="can't be changed"):
            change()
    for made in (view.copy(), copy.copy(view), view.to_dict(), copy.deepcopy(view)):
        made["id"] = 8
    view["tags"].copy().append("z")
    assert view == ANN
    assert type(copy.deepcopy(view)["boss"]) is type(view.to_dict()["boss"]) is dict


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_views_are_merged_like_dicts_and_written_by_the_schema(data: st.DataObject) -> None:
    schema, values = data.draw(schemas())
    assume(isinstance(schema, dict) and schema["type"] in ("record", "map"))
    value, other = (read(schema, written(schema, data.draw(values))) for _ in range(2))
    names: st.SearchStrategy[list[str]] = (
        st.lists(st.sampled_from(sorted(other)), unique=True) if other else st.just([])
    )
    changes = {name: other[name] for name in data.draw(names)}
    serde = sf.Serdes.avro(json.dumps(schema))
    view = view_of(value, serde)
    for merged, expected in (
        (view | changes, value | changes),
        (changes | view, changes | value),
        (changes | view | changes, changes | value | changes),
        (view | view, value),
        ({**view, **changes}, value | changes),
    ):
        assert list(merged) == list(expected)
        assert merged == expected
        assert repr(to_python(merged)) == repr(expected)
        assert read(schema, serde.serialize(merged)) == expected


def test_changes_are_written() -> None:
    view = view_of(ANN)
    assert AVRO.serialize(view | {"id": 8, "tags": (), "boss": None}) == AVRO.serialize(
        {**ANN, "id": 8, "tags": [], "boss": None}
    )
    assert AVRO.serialize({"id": 8, "name": "x"} | view) == AVRO.serialize(ANN)
    assert AVRO.serialize(view | {"boss": view}) == AVRO.serialize({**ANN, "boss": ANN})
    assert AVRO.serialize(view | {"boss": view["boss"] | {"id": 2}}) == AVRO.serialize({**ANN, "boss": user(2, "bob")})
    assert AVRO.serialize(view | {"tags": [*view["tags"], "z"]}) == AVRO.serialize({**ANN, "tags": ["x", "y", "z"]})
    assert AVRO.serialize(JsonObject.parse('{"id": 1, "name": "x"}') | {"boss": view}) == AVRO.serialize(
        user(1, "x", boss=ANN)
    )
    with pytest.raises(sf.SerdeError, match="no field 'nmae', did you mean 'name'"):
        AVRO.serialize(view | {"nmae": "x"})
    with pytest.raises(sf.SerdeError, match=r"at boss\.id: long is wanted"):
        AVRO.serialize(view | {"boss": view["boss"] | {"id": "x"}})
    with pytest.raises(sf.SerdeError, match="a dict whose key is not text"):
        AVRO.serialize(view | {5: 1})
    endless: list[Any] = []
    endless.append(view | {"boss": endless})
    with pytest.raises(sf.SerdeError, match="nested too deeply"):
        AVRO.serialize(endless[0])


PARTS = {
    "type": "record",
    "name": "Parts",
    "fields": [
        {"name": "longs", "type": {"type": "array", "items": "long"}},
        {"name": "either", "type": ["int", "long"]},
        {
            "name": "inner",
            "type": {"type": "record", "name": "I", "fields": [{"name": "either", "type": ["int", "long"]}]},
        },
        {"name": "map", "type": {"type": "map", "values": ["int", "long"]}},
        {"name": "last", "type": "int"},
    ],
}
# Two blocks of elements where our writer would write one, and small numbers in the branch of large ones.
LONGS, EITHER, INNER, MAP = b"\x03\x04\x02\x04\x02\x06\x00", b"\x02\x0a", b"\x02\x0c", b"\x02\x02k\x02\x0e\x00"


def test_unchanged_fields_are_copied_byte_for_byte() -> None:
    serde = sf.Serdes.avro(PARTS)
    rest = LONGS + EITHER + INNER + MAP
    view = serde.view(rest + b"\x02")
    assert view == {"longs": [1, 2, 3], "either": 5, "inner": {"either": 6}, "map": {"k": 7}, "last": 1}
    assert serde.serialize(view) == rest + b"\x02"
    assert serde.serialize(view | {"last": 2}) == rest + b"\x04"
    assert serde.serialize({"last": 2} | view) == rest + b"\x02"
    # A number in a dict is a number; nested values stay views.
    spread = serde.serialize({**view, "last": 2})
    assert spread == LONGS + b"\x00\x0a" + INNER + MAP + b"\x04"
    assert serde.serialize(view.to_dict()) != serde.serialize(view)
    assert serde.serialize(view | {"map": view["map"] | {"l": 1}}) == (
        LONGS + EITHER + INNER + b"\x04\x02k\x02\x0e\x02l\x00\x02\x00\x02"
    )


def test_the_last_of_equal_entries_counts() -> None:
    serde = sf.Serdes.avro({"type": "map", "values": "int"})
    view = serde.view(b"\x06\x02a\x02\x02b\x04\x02a\x06\x00")
    assert view["a"] == 3
    assert view == {"a": 3, "b": 2}
    assert list(view) == ["a", "b"]
    assert len(view) == 2
    assert serde.deserialize(serde.serialize(view | {"a": 4})) == {"a": 4, "b": 2}
    assert serde.deserialize(serde.serialize({"a": 0} | view)) == {"a": 3, "b": 2}


def test_as_json_bytes_are_text() -> None:
    json_serde = sf.Serdes.json(decode="dict")
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=AVRO)
    source.map_values(lambda v: v).to("same", value=json_serde)
    source.map_values(lambda v: v | {"id": 8}).to("changed", value=json_serde)
    source.map_values(lambda v: {"boss": v["boss"], "tags": v["tags"]}).to("parts", value=json_serde)
    source.map_values(lambda v: {"new": 1, "name": "x"} | v | {"id": 8}).to("front", value=json_serde)
    text = {**ANN, "photo": "\x00\xff", "boss": {**ANN["boss"], "photo": ""}}
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, AVRO).pipe("k", ANN)
        assert driver.output("same", str, dict).read_value() == text
        assert driver.output("changed", str, dict).read_value() == {**text, "id": 8}
        pairs = json.loads(driver.output("front", str, str).read_value() or "", object_pairs_hook=list)
        assert [name for name, _ in pairs] == list({"new": 1, "name": "x"} | ANN)  # each once
        assert (pairs[0], pairs[1], pairs[2]) == (("new", 1), ("name", "ann"), ("id", 8))
        assert driver.output("parts", str, dict).read_value() == {"boss": text["boss"], "tags": ["x", "y"]}
    assert json.loads(json.dumps(view_of(user(1, "x"))["scores"], default=to_python)) == {}


def test_many_threads_read_one_view() -> None:
    names = [f"n{at}" for at in range(60)]
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": {"type": "array", "items": "int"}}]}
    fields = [{"name": name, "type": "I" if at else inner} for at, name in enumerate(names)]
    value = {name: {"x": [at, at + 1]} for at, name in enumerate(names)}
    view = view_of(value, sf.Serdes.avro({"type": "record", "name": "R", "fields": fields}))
    wrong: list[object] = []
    parts: list[set[int]] = [set() for _ in range(16)]
    start = threading.Barrier(8)

    def read() -> None:
        start.wait()
        for _ in range(20):
            wrong.extend(name for name in names if view[name]["x"][1] != value[name]["x"][1])
            for at, name in enumerate(names[:16]):
                parts[at].add(id(view[name]))
            if view != value or list(view) != names:
                wrong.append("all")

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [len(seen) for seen in parts] == [1] * 16


def test_views_that_hold_python_objects_are_collected() -> None:
    import gc
    import weakref

    class Mine:
        pass

    mine, kept = Mine(), []
    seen = weakref.ref(mine)
    kept.append(view_of(ANN) | {"mine": mine, "kept": kept})
    assert kept[0]["mine"] is mine
    del kept, mine
    gc.collect()
    assert seen() is None


def test_the_serde_decides_how_values_are_decoded() -> None:
    plain = sf.Serdes.avro(USER, decode="dict")
    assert type(view_of(ANN, plain)) is dict
    assert plain.deserialize(AVRO.serialize(ANN)) == AVRO.deserialize(AVRO.serialize(ANN)) == ANN
    assert type(AVRO.deserialize(AVRO.serialize(ANN))) is dict
    assert pickle.loads(pickle.dumps(plain)).decode == "dict"  # noqa: S301
    assert plain.from_plan(plain.to_plan()["avro"]).decode == "dict"  # type: ignore[arg-type]
    with pytest.raises(sf.TopologyError, match=r'test_avro_views.py:\d+ Serdes.avro.*decode="lazy" or decode="dict"'):
        sf.Serdes.avro(USER, decode="real")  # type: ignore[arg-type]
