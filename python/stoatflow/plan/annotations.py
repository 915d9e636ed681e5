"""Derives serdes from the return annotation of a function, as plan data.

Takes a function; returns the name of a built-in serde, `{"pair": [key, value]}`, `{"list": element}`, or `None` if
there is no annotation, or none with a known serde. Never calls the function, and never fails.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import types
import typing
from typing import Any, TypeAlias

from stoatflow.asynchronous import Awaiting
from stoatflow.errors import TopologyError
from stoatflow.serdes import BuiltinSerde, Serde, resolve

Returned: TypeAlias = "str | dict[str, Any] | None"

_MANY = (
    list,
    set,
    frozenset,
    collections.abc.Iterable,
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.Sequence,
    collections.abc.Collection,
    collections.abc.Set,
)


def returned(function: object) -> Returned:
    """Return the types of the function's results."""
    while isinstance(function, functools.partial | Awaiting):
        function = function.func if isinstance(function, functools.partial) else function.function
    # A type is also callable: `map_values(str)`.
    return _form(function if isinstance(function, type) else _annotation(function))


def _annotation(function: Any) -> object:
    function = inspect.unwrap(function)
    if not hasattr(function, "__annotations__"):
        function = type(function).__call__
    annotation = getattr(function, "__annotations__", {}).get("return")
    if not isinstance(annotation, str):
        return annotation
    # Only this annotation is evaluated: those of parameters may name imports for type checkers.
    alone = type("_Alone", (), {"__annotations__": {"return": annotation}})
    try:
        return typing.get_type_hints(alone, {**vars(typing), **getattr(function, "__globals__", {})})["return"]
    except Exception:  # an annotation that can't be evaluated says nothing
        return None


def _form(annotation: object) -> Returned:  # noqa: PLR0911  # one return per form
    annotation = getattr(annotation, "__supertype__", annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _form(arguments[0])
    if origin in (typing.Union, types.UnionType):
        forms = [_form(each) for each in arguments if each is not type(None)]
        return forms[0] if all(form == forms[0] for form in forms) else None
    if origin is typing.Literal:
        kinds = {type(each) for each in arguments}
        return _form(kinds.pop()) if len(kinds) == 1 else None
    if origin is tuple:
        return {"pair": [_form(each) for each in arguments]} if len(arguments) == 2 and ... not in arguments else None
    if origin in _MANY:
        return {"list": _form(arguments[0])}
    if typing.is_typeddict(annotation) or origin in (collections.abc.Mapping, collections.abc.MutableMapping):
        return "json"
    if annotation is list:
        return {"list": None}
    return _builtin(origin or annotation)


def _builtin(kind: object) -> Returned:
    if not isinstance(kind, type):
        return None
    try:
        serde: Serde[Any] = resolve(kind)
    except TopologyError:
        return None
    return serde.name if isinstance(serde, BuiltinSerde) else None
