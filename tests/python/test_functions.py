"""Callbacks must have the signature of their method; others are rejected at the user's line."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

import stoatflow as sf


def stream() -> sf.KStream[str, str]:
    return sf.StreamsBuilder().stream("a", key=str, value=str)


def one(value: str) -> str:
    return value


def two(key: str, value: str) -> str:
    return value


class Callable2:
    def __call__(self, key: str, value: str) -> bool:
        return True


class Async2:
    async def __call__(self, key: str, value: str) -> bool:
        return True


@pytest.mark.parametrize(
    "fn", [two, Callable2(), lambda *args: True, lambda key, value, extra=1: True, functools.partial(two), max, print]
)
def test_callables_of_key_and_value(fn: Any) -> None:
    stream().filter(fn)


@pytest.mark.parametrize("fn", [one, str.upper, str, len, int, functools.partial(two, "k"), "x".join])
def test_callables_of_a_value(fn: Any) -> None:
    stream().map_values(fn)


@pytest.mark.parametrize(
    ("method", "fn", "wanted", "advice"),
    [
        ("filter", one, "(key, value)", "lambda key, value: ..."),
        ("filter", lambda: True, "(key, value)", "lambda key, value: ..."),
        ("map_values", two, "(value)", "with_key=True"),
        ("flat_map_values", two, "(value)", "with_key=True"),
        ("select_key", one, "(key, value)", "lambda key, value: ..."),
        ("group_by", one, "(key, value)", "lambda key, value: ..."),
        ("peek", one, "(key, value)", "lambda key, value: ..."),
    ],
)
def test_wrong_arity_names_both_places(method: str, fn: Any, wanted: str, advice: str) -> None:
    with pytest.raises(sf.TopologyError) as caught:
        getattr(stream(), method)(fn)
    text = str(caught.value)
    assert f"{method} calls its function with {wanted}" in text
    assert f"test_functions.py:{fn.__code__.co_firstlineno} " in text
    assert text.count("test_functions.py:") == 2
    assert advice in caught.value.next_step


def test_aggregators() -> None:
    grouped = stream().group_by_key()
    with pytest.raises(sf.TopologyError, match=r"\(key, value, agg\)"):
        grouped.aggregate(int, lambda value, agg: agg)  # type: ignore[arg-type,misc]
    with pytest.raises(sf.TopologyError, match=r"calls its function with \(\)"):
        grouped.aggregate(lambda key: 0, lambda key, value, agg: agg)  # type: ignore[arg-type,misc]
    with pytest.raises(sf.TopologyError, match=r"\(agg, value\)"):
        grouped.reduce(lambda value: value)  # type: ignore[arg-type,misc]


def test_async_functions_may_stand_where_functions_may() -> None:
    async def later(key: str, value: str) -> bool:
        return True

    for fn in (later, Async2(), functools.partial(later)):
        stream().filter(fn)
    with pytest.raises(sf.TopologyError, match=r"\(value\)"):
        stream().map_values(later)


def test_objects_that_are_no_functions_are_refused() -> None:
    with pytest.raises(sf.TopologyError, match="not int") as caught:
        stream().filter(3)  # type: ignore[arg-type]
    assert "filter(lambda key, value: ...)" in caught.value.next_step


def test_display_names() -> None:
    builder = sf.StreamsBuilder()
    source = builder.stream("a", key=str, value=str)
    for fn in (two, Callable2(), functools.partial(two), max):
        source.filter(fn)
    names = json.loads(builder.build().to_json())["functions"]
    first = two.__code__.co_firstlineno
    assert names[0].endswith(f"test_functions.py:{first} two")
    assert names[1].endswith(f"test_functions.py:{Callable2.__call__.__code__.co_firstlineno} Callable2")
    assert names[2].endswith(f"test_functions.py:{first} two")
    assert "test_functions.py:" in names[3]
    assert names[3].endswith(" max")
