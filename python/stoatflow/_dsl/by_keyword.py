"""Answers arguments that stand where Java has them, such as `stream("orders", Consumed(...))`, with their names here.

Wraps a method that takes most of its arguments by name. Python's own error counts arguments and names none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from stoatflow.errors import TopologyError
from stoatflow.plan.functions import user_line

__all__ = ["by_keyword"]

F = TypeVar("F", bound=Callable[..., Any])


def by_keyword(method: F) -> F:
    """Raise `TopologyError` if too many arguments are given by position."""
    code = method.__code__
    most, names = code.co_argcount, code.co_varnames
    keywords = names[most : most + code.co_kwonlyargcount]

    @wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if len(args) <= most:
            return method(*args, **kwargs)
        extra = args[most:]
        arguments = [*names[1:most], *dict.fromkeys(_keyword(each, keywords) for each in extra)]
        if names[most - 1] == "topics" and all(isinstance(each, str) for each in extra):
            arguments = ["[topic, topic]"]
        first = extra[0].__name__ if isinstance(extra[0], type) else type(extra[0]).__name__
        raise TopologyError(
            f"{user_line()} {method.__name__}: {first} is given by position",
            next_step=f"write {method.__name__}({', '.join(arguments)})",
        )

    return cast("F", checked)


def _keyword(value: object, keywords: tuple[str, ...]) -> str:
    """Return the argument that takes a value of this type."""
    name = type(value).__name__
    wanted = {"Materialized": "store", "StreamJoined": "joined"}.get(name, name.lower())
    if wanted in keywords:
        return f"{wanted}=..."
    if isinstance(value, str) and "store" in keywords:
        return "store=..."
    # A type or a serde, or anything else.
    return "key=..., value=..." if {"key", "value"} <= set(keywords) else f"{keywords[0]}=..."
