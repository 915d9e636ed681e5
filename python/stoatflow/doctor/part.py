"""A part of a function while it becomes an expression, and the constants among them.

Takes expressions and Python constants, gives both with what is known of their values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stoatflow.doctor.kinds import Kind
from stoatflow.doctor.source import MISSING
from stoatflow.expressions import Expression, wrap

_KINDS: dict[type, Kind] = {bool: "bool", int: "number", float: "number", str: "text", type(None): "any"}


class NotAnExpression(Exception):  # noqa: N818  # nothing went wrong
    """There is no expression for it, or none that is known to be the same."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a function as an expression."""

    expression: Expression
    kind: Kind = "any"
    none: bool = False
    """May it be `None` in the function too?"""
    unsure: bool = False
    """May it be null where the function has raised?"""

    @property
    def may_be_null(self) -> bool:
        """One or the other."""
        return self.none or self.unsure

    @property
    def literal(self) -> object:
        """The constant that it is, else `MISSING`."""
        return self.expression._fields["value"] if self.expression.is_literal else MISSING


def literal(constant: object) -> Part:
    """Return a constant; raise `NotAnExpression` for what can't be one."""
    kind = _KINDS.get(type(constant))
    if kind is None:
        raise NotAnExpression
    try:
        return Part(wrap(constant), kind, constant is None)
    except (ValueError, OverflowError):  # not finite, or beyond 64 bits
        raise NotAnExpression from None


def named(name: str, constant: object) -> Part:
    """Return a constant that is shown by the name it was read from; `True`, `False` and `None` have no other."""
    part = literal(constant)
    kind = _SHOWN.get(type(constant))
    if kind is not None:
        shown = kind(constant)
        shown.name = name
        part.expression._fields["value"] = shown
    return part


class _Shown:
    """Looks like the name it was read from."""

    name: str

    def __repr__(self) -> str:
        return self.name


class _ShownInt(_Shown, int):
    pass


class _ShownFloat(_Shown, float):
    pass


class _ShownText(_Shown, str):  # noqa: SLOT000  # it has one attribute more
    pass


_SHOWN: dict[type, type[Any]] = {int: _ShownInt, float: _ShownFloat, str: _ShownText}
