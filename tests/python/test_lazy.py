"""JSON views: like the result of `json.loads` in every respect, except that they are immutable."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import resource
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import stoatflow as sf
from stoatflow import JsonArray, JsonObject, to_python
from stoatflow.testing import TopologyTestDriver

settings.register_profile("views", max_examples=60, deadline=None)
MANY = settings.get_profile("views")

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**90), 2**90)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=30)
    | st.sampled_from(["", '"', "\\", "\\n", "\n", "\u00e9", "\U0001f98a", "\ud800", "a" * 200])
)
NAMES = st.text(max_size=10) | st.sampled_from(["a", "b", "a\\", 'a"', "\\u0061", "\u0000", "\u00e9", "\udc00"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=25,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=20)
WRITERS = st.sampled_from(
    [
        json.dumps,
        lambda v: json.dumps(v, separators=(",", ":")),
        lambda v: " \r\n" + json.dumps(v, indent=1).replace("\n", "\n\t") + "\n ",
    ]
)


def same(seen: object, plain: object) -> bool:
    """Whether they are equal, including types. (For `==` 1 equals 1.0, and True equals 1.)"""
    if isinstance(seen, JsonObject):
        return (
            isinstance(plain, dict)
            and list(seen) == list(plain)
            and all(same(seen[name], plain[name]) for name in plain)
        )
    if isinstance(seen, JsonArray):
        return (
            isinstance(plain, list)
            and len(seen) == len(plain)
            and all(same(seen[at], item) for at, item in enumerate(plain))
        )
    return type(seen) is type(plain) and repr(seen) == repr(plain)


@MANY
@given(OBJECTS, WRITERS)
@example({str(n): {"x": [n]} for n in range(200)}, json.dumps)
def test_an_object_equals_the_result_of_json_loads(value: dict[str, Any], write: Any) -> None:
    text = write(value)
    view = JsonObject.parse(text)
    assert bool(view) == bool(value)
    assert len(view) == len(value)
    for name in reversed(value):
        assert name in view
        assert same(view[name], value[name])
        assert same(view.get(name), value[name])
    assert "no such name" not in view
    assert view.get("no such name") is None
    assert view.get("no such name", 5) == 5
    assert same(view, value)
    assert view == value
    assert value == view
    assert (view != value) is False
    assert view == JsonObject.parse(json.dumps(value))
    assert view == MappingProxyType(value)
    assert repr(view) == str(view) == repr(value)
    assert list(view.keys()) == list(value)
    assert list(reversed(view)) == list(reversed(value))
    assert view.items() == value.items() or any(isinstance(v, dict | list) for v in value.values())
    assert all(same(seen, value[name]) for name, seen in view.items())
    assert len(view.values()) == len(value)
    assert same(view.to_dict(), value) or view.to_dict() == value
    assert type(view.to_dict()) is dict
    assert json.dumps(to_python(view)) == json.dumps(value)


@MANY
@given(st.lists(VALUES, max_size=30), WRITERS)
def test_an_array_equals_the_result_of_json_loads(value: list[Any], write: Any) -> None:
    view = JsonArray.parse(write(value))
    assert len(view) == len(value)
    assert bool(view) == bool(value)
    for at in range(-len(value), len(value)):
        assert same(view[at], value[at])
    for beyond in (len(value), -len(value) - 1, 2**70, -(2**70)):
        with pytest.raises(IndexError):
            view[beyond]
    assert same(view, value)
    assert list(view) == value
    assert view == value
    assert value == view
    assert view != tuple(value)
    assert view[1:-1] == value[1:-1]
    assert type(view[::2]) is list
    assert list(reversed(view)) == value[::-1]
    assert repr(view) == repr(value)
    assert json.dumps(to_python(view)) == json.dumps(value)
    for item in value:
        assert item in view
        assert view.index(item) == value.index(item)
        assert view.count(item) == value.count(item)


@MANY
@given(OBJECTS, OBJECTS, OBJECTS, WRITERS)
def test_views_are_merged_like_dicts(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any], write: Any) -> None:
    view = JsonObject.parse(write(a))
    expected: dict[str, Any]
    for merged, expected in (
        (view | b, a | b),
        (b | view, b | a),
        (view | b | c, a | b | c),
        (c | (view | b), c | (a | b)),
        (c | (b | view), c | (b | a)),
        ((c | view) | b, (c | a) | b),
        (view | JsonObject.parse(json.dumps(b)), a | b),
        ((view | b) | JsonObject.parse(json.dumps(c)), a | b | c),
        (view | MappingProxyType(b), a | b),
    ):
        assert type(merged) is JsonObject
        written = written_as(merged)
        for name in expected:
            assert same(merged[name], expected[name]) or merged[name] == expected[name]
        assert list(merged) == list(expected)
        assert merged == expected
        assert len(merged) == len(expected)
        assert bool(merged) == bool(expected)
        assert repr(merged) == repr(expected)
        assert merged.to_dict() == expected
        if written is not None:
            assert json.dumps(json.loads(written)) == json.dumps(expected)
            assert same(JsonObject.parse(written), expected)
    assert {**view, **b} == {**a, **b}
    assert dict(view) == a


class Sink:
    """The bytes that a sink writes for a value; `None`: a lone surrogate from Python has no UTF-8 form."""

    def __init__(self) -> None:
        self.value: object = None
        self.driver: TopologyTestDriver | None = None

    def __call__(self, value: object) -> bytes | None:
        self.value = value
        if self.driver is None:
            builder = sf.StreamsBuilder()
            given = builder.stream("in", key=str, value=str).map_values(lambda _: self.value)
            given.to("out", key=str, value=sf.Serdes.json())
            self.driver = TopologyTestDriver(builder.build())
        try:
            self.driver.input("in", str, str).pipe("k", "v")
        except sf.SerdeError as error:
            assert "surrogate" in str(error)  # noqa: PT017
            self.driver.close()
            self.driver = None
            return None
        return self.driver.output("out", str, bytes).read_value()


written_as = Sink()


@MANY
@given(VALUES, VALUES, WRITERS)
def test_unread_text_is_copied(first: Any, second: Any, write: Any) -> None:
    text = write({"first": first, "second": second, "third": [1]})
    written = written_as(JsonObject.parse(text) | {"second": 5})
    assert written is not None
    start, end = text.index('"first"'), text.index('"second"')
    kept = text[start:end].rstrip().rstrip(",").rstrip().encode("utf-8", "surrogatepass")
    assert kept in written
    assert json.loads(written) == {"first": first, "second": 5, "third": [1]}


BROKEN = [
    "", " ", "{", "}", "[", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', '{"a" 1}', "{a:1}", "{'a':1}", '{"a":1}}',
    '{"a":1} x', "[1,]", "[,1]", "[1 2]", "[1", "[01]", "[-]", "[+1]", "[.5]", "[1.]", "[1e]", "[1e+]", "[0x1]",
    "[--1]",
    "[tru]", "[nul]", "[True]", "[NaN]", "[Infinity]", "[-Infinity]", '["\n"]', '["\t"]', '["\x00"]', '["\\x"]',
    '["\\u12"]', '["\\u12g4"]', '["abc', '["abc\\', '["abc\\"]', "[\u00a01]", "\ufeff[1]", "[1]\x00", "{,}", '{"a":}',
    '{"a":1 "b":2}', "{1:2}", "[" * 300 + "]" * 300,
]  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
def test_broken_text_is_refused(text: str) -> None:
    for parse in (JsonObject.parse, JsonArray.parse):
        with pytest.raises(sf.SerdeError):
            parse(text)


def fails(text: bytes) -> bool:
    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        json.loads(text.decode(), parse_constant=refuse)
    except (ValueError, RecursionError):
        return True
    return False


@MANY
@given(OBJECTS, WRITERS, st.integers(0, 10**6), st.binary(max_size=3))
def test_text_that_json_loads_refuses_is_refused(value: dict[str, Any], write: Any, place: int, patch: bytes) -> None:
    text = write(value).encode("utf-8", "surrogatepass")
    at = place % (len(text) + 1)
    text = text[:at] + patch + text[at + len(patch) :]
    if fails(text):
        with pytest.raises(sf.SerdeError):
            JsonObject.parse(text)
    elif text.strip()[:1] == b"{":
        assert JsonObject.parse(text) == json.loads(text)


def test_the_last_of_equal_names_counts() -> None:
    for text in ('{"a": 1, "b": 2, "a": {"x": 3}}', r'{"a": 1, "b": 2, "\u0061": {"x": 3}}'):
        view = JsonObject.parse(text)
        assert view["a"] == {"x": 3}
        assert list(view) == ["a", "b"]
        assert len(view) == 2
        assert view == json.loads(text)
        written = written_as(view | {"a": 4})
        assert written is not None
        assert written.count(b"4") == 1
        assert json.loads(written) == {"a": 4, "b": 2}
        assert json.loads(written_as(view | {"c": 4}) or b"") == {"a": {"x": 3}, "b": 2, "c": 4}


def test_numbers_are_exact() -> None:
    digits = "123456789012345678901234567890"
    view = JsonObject.parse(
        f'{{"big": {digits}, "small": -{digits}, "zero": -0, "none": -0.0, "f": 0.1, "e": 1E2, "most": 1e400}}'
    )
    assert view["big"] == int(digits)
    assert view["small"] == -int(digits)
    assert (type(view["zero"]), view["zero"]) == (int, 0)
    assert str(view["none"]) == "-0.0"
    assert (type(view["e"]), view["e"], view["f"]) == (float, 100.0, 0.1)
    assert view["most"] == float("inf")
    assert digits.encode() in (written_as(view | {"most": 1}) or b"")


def test_protocols() -> None:
    view, items = JsonObject.parse('{"a": {"b": [1, {"c": 2}]}, "n": null}'), JsonArray.parse("[1, [2]]")
    assert isinstance(view, Mapping)
    assert not isinstance(view, dict)
    assert isinstance(items, Sequence)
    assert not isinstance(items, list)
    assert type(view["a"]) is JsonObject
    assert type(view["a"]["b"]) is JsonArray
    assert view["a"] is view["a"]
    assert view["a"]["b"][1]["c"] == 2
    assert view["n"] is None
    for unhashable in (view, items):
        with pytest.raises(TypeError, match="unhashable"):
            hash(unhashable)
    with pytest.raises(KeyError, match="missing"):
        view["missing"]
    with pytest.raises(KeyError):
        view[1]  # type: ignore[index]
    with pytest.raises(TypeError):
        items["a"]  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        view | 5  # type: ignore[operator]
    with pytest.raises(TypeError):
        view < view  # type: ignore[operator]  # noqa: B015, PLR0124
    assert items < [1, [3]]
    assert view != None  # noqa: E711
    assert view != [1]
    assert items != {"a": 1}
    assert items + [3] == [1, [2], 3]  # noqa: RUF005
    assert [0] + items == [0, 1, [2]]  # noqa: RUF005
    assert items * 2 == [1, [2], 1, [2]]
    assert [*items, 3] == [1, [2], 3]
    assert sorted(JsonArray.parse("[2, 1]")) == [1, 2]
    assert "".join(JsonArray.parse('["a", "b"]')) == "ab"
    updated: dict[str, Any] = {}
    updated.update(view)
    assert updated == view


def test_patterns_of_match() -> None:
    def found(value: object) -> object:
        match value:
            case {"kind": "point", "at": [x, y]}:
                return x, y
            case {"kind": str(kind), **rest}:
                return kind, rest
            case [first, *others]:
                return first, others
            case _:
                return None

    assert found(JsonObject.parse('{"kind": "point", "at": [1, 2]}')) == (1, 2)
    assert found(JsonObject.parse('{"kind": "line", "n": 1}')) == ("line", {"n": 1})
    assert found(JsonObject.parse('{"n": 1}')) is None
    assert found(JsonArray.parse("[1, 2, 3]")) == (1, [2, 3])


def test_copies_are_plain() -> None:
    text = '{"a": {"b": [1, {"c": 2}]}, "n": null}'
    plain = json.loads(text)
    for view in (JsonObject.parse(text), JsonObject.parse("{}") | plain, plain | JsonObject.parse("{}")):
        for made in (pickle.loads(pickle.dumps(view)), copy.deepcopy(view), to_python(view)):  # noqa: S301
            assert type(made) is dict
            assert type(made["a"]["b"]) is list
            assert made == plain
        shallow = copy.copy(view)
        shallow["a"] = 1
        assert view == plain
    array = JsonArray.parse('[{"a": [1]}]')
    for items in (pickle.loads(pickle.dumps(array)), copy.deepcopy(array), to_python(array)):  # noqa: S301
        assert type(items) is list
        assert type(items[0]) is dict
        assert items == [{"a": [1]}]
    assert to_python({"v": (array, {1})}) == {"v": ([{"a": [1]}], {1})}
    assert type(to_python((array,))[0]) is list


def test_returned_copies_may_be_changed() -> None:
    view, items = JsonObject.parse('{"a": 1}'), JsonArray.parse("[1]")
    view.copy()["a"] = 2
    items.copy().append(2)
    items[:].append(2)
    (items + []).append(2)  # noqa: RUF005
    assert view == {"a": 1}
    assert items == [1]
    given: dict[str, Any] = {"b": 2}
    merged = view | given
    given["b"] = 3
    assert merged == {"a": 1, "b": 2}


def test_views_are_immutable() -> None:
    view: Any = JsonObject.parse('{"a": 1}')
    items: Any = JsonArray.parse("[1]")
    for act in (lambda: view.__setitem__("a", 2), lambda: view.__delitem__("a")):
        with pytest.raises(TypeError, match=r'v \| \{.*decode="dict"'):
            act()
    for act in (lambda: items.__setitem__(0, 2), lambda: items.__delitem__(0)):
        with pytest.raises(TypeError, match=r'\[\*v, item\].*decode="dict"'):
            act()
    for act in (lambda: view.update(a=1), lambda: view.pop("a"), lambda: items.append(1), lambda: items.sort(key=len)):
        with pytest.raises(AttributeError, match="can't be changed"):
            act()
    with pytest.raises(AttributeError, match=r'v\["amount"\]'):
        view.amount  # noqa: B018
    with pytest.raises(AttributeError):
        view.a = 1
    assert view == {"a": 1}
    view |= {"b": 2}
    assert view == {"a": 1, "b": 2}


def test_cycles_are_collected() -> None:
    import weakref

    class Mine:
        pass

    mine, kept = Mine(), []
    seen = weakref.ref(mine)
    kept.append(JsonObject.parse("{}") | {"mine": mine, "kept": kept})
    assert kept[0]["mine"] is mine
    del kept, mine
    gc.collect()
    assert seen() is None


def resident() -> int:
    """Resident bytes of this process; where the system doesn't report them, their maximum."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_nothing_leaks() -> None:
    """Neither Python's objects, nor the text, which is outside Python's heap."""
    text = json.dumps({f"n{i}": {"x": [i]} for i in range(50)} | {"long": "x" * 500_000})

    def use() -> None:
        view = JsonObject.parse(text)
        assert view["n3"]["x"][0] == 3
        list(view.items())
        to_python(view | {"a": 1})
        written_as(view | {"n3": None})

    rounds = 100

    def growth() -> tuple[int, int]:
        blocks, size = sys.getallocatedblocks(), resident()
        for _ in range(rounds):
            use()
        gc.collect()
        return sys.getallocatedblocks() - blocks, resident() - size

    growth()  # the heap has grown to its size
    # A leak shows every time; threads of other tests, and the heap, fluctuate.
    blocks, size = (min(each) for each in zip(*(growth() for _ in range(3)), strict=True))
    assert blocks < rounds
    assert size < rounds * len(text) // 2


def test_many_threads_read_one_view() -> None:
    value = {f"n{i}": {"x": [i, str(i)]} for i in range(60)}
    view = JsonObject.parse(json.dumps(value))
    wrong: list[object] = []
    start = threading.Barrier(8)

    def read() -> None:
        start.wait()
        for _ in range(20):
            wrong.extend(name for name in value if view[name]["x"][1] != value[name]["x"][1])
            if view != value or list(view) != list(value):
                wrong.append("all")

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
