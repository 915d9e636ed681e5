"""`help()` and `inspect.signature` show the real names and types of every public callable's arguments."""

from __future__ import annotations

import contextlib
import enum
import inspect
import io
from collections.abc import Iterator
from typing import Any

import pytest

import stoatflow as sf

ANY_NUMBER = {
    "args", "connected", "each", "fields", "items", "named", "names", "options", "others", "parts", "processors",
    "settings", "stores",
}  # fmt: skip
"""Callables that really take any number: `coalesce(*options)`, `Settings(**settings)`."""


def written_in_python(thing: object) -> bool:
    return inspect.isfunction(thing) or inspect.ismethod(thing)


def callables() -> Iterator[tuple[str, Any]]:
    """Functions, classes and their methods, as users call them. Errors and kinds are created by the engine."""
    for name in vars(sf)["__all__"]:
        thing = getattr(sf, name)
        if inspect.isclass(thing) and not issubclass(thing, BaseException | enum.Enum):
            if "__init__" in vars(thing) and written_in_python(thing.__init__):
                yield name, thing
            for member in dir(thing):
                method = inspect.getattr_static(thing, member)
                method = getattr(method, "__func__", method)
                ours = written_in_python(method) and method.__module__.startswith("stoatflow.")
                if not member.startswith("_") and ours:
                    yield f"{name}.{member}", method
        elif written_in_python(thing):
            yield name, thing


CALLABLES = dict(callables())


def test_many_signatures_are_found() -> None:
    assert len(CALLABLES) > 250
    assert {"KStream.join", "KTable.left_join", "Expression.round", "StoatFlow", "awaiting"} <= CALLABLES.keys()


@pytest.mark.parametrize("name", CALLABLES)
def test_parameters_have_names_and_types(name: str) -> None:
    signature = inspect.signature(CALLABLES[name])
    for parameter in signature.parameters.values():
        if parameter.name in {"self", "cls"}:
            continue
        assert parameter.annotation is not parameter.empty, f"{name}: {parameter} has no type"
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            assert parameter.name in ANY_NUMBER, f"{name}: what does {parameter} take?"
    assert inspect.isclass(CALLABLES[name]) or signature.return_annotation is not signature.empty


def shown(thing: object) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        help(thing)
    return output.getvalue()


@pytest.mark.parametrize(
    ("method", "names"),
    [
        (sf.KStream.join, "other joiner window key_fn joined with_key name on_error"),
        (sf.KStream.left_join, "other joiner window key_fn joined with_key name on_error"),
        (sf.KStream.outer_join, "other joiner window joined with_key name on_error"),
        (sf.KTable.join, "other joiner foreign_key store key value name on_error with_key table_joined"),
        (sf.KTable.left_join, "other joiner foreign_key store key value name on_error with_key table_joined"),
        (sf.KTable.outer_join, "other joiner store key value name on_error with_key"),
    ],
    ids=lambda given: given.__qualname__ if callable(given) else "",
)
def test_help_shows_the_overloads_of_joins(method: Any, names: str) -> None:
    assert list(inspect.signature(method).parameters) == ["self", *names.split()]
    text = shown(method)
    assert "*" in text
    for hidden in ("*arguments", "**options", "*more", "Any, Any"):
        assert hidden not in text.partition(" -> ")[0], hidden
    assert all(name in text for name in names.split())


def test_a_join_accepts_its_documented_parameters() -> None:
    """All displayed arguments can be passed by name, for at least one kind of the other side."""
    builder = sf.StreamsBuilder()
    stream = builder.stream("s", key=str, value=int)
    table = builder.table("t", key=str, value=int)
    places = builder.global_table("g", key=str, value=int)
    window = sf.JoinWindows("1m", grace="0s")
    by_name: dict[str, Any] = {"with_key": True, "name": "a", "on_error": "continue"}
    stream.join(stream, joiner=lambda k, a, b: a, window=window, joined=sf.StreamJoined(), **by_name)
    by_name["name"] = "b"
    stream.join(table, joiner=lambda k, a, b: a, joined=sf.Joined(), **by_name)
    by_name["name"] = "c"
    stream.join(places, key_fn=lambda k, v: k, joiner=lambda k, a, b: a, **by_name)
    assert "Processor: a" in builder.build({"ensure.explicit.naming": False}).describe()
