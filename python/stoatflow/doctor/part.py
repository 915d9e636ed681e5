"""A part of a function while it is translated to an expression, including constants.

Takes expressions and Python constants, returns both with what is known about their values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stoatflow.doctor.kinds import Kind
from stoatflow.doctor.source import MISSING
from stoatflow.expressions import Expression, wrap

_KINDS: dict[type, Kind] = {bool: "bool", int: "number", float: "number", str: "text", type(None): "any"}


class NotAnExpression(Exception):  # noqa: N818  # it is no error
    """There is no expression for it, or none that is known to be equivalent."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a function as an expression."""

    expression: Expression
    kind: Kind = "any"
    none: bool = False
    """Whether it may be `None` in the function too."""
    unsure: bool = False
    """Whether it may be null where the function would have raised."""

    @property
    def may_be_null(self) -> bool:
        """Whether either is true."""
        return self.none or self.unsure

    @property
    def literal(self) -> object:
        """The constant, or `MISSING` if it is none."""
        return self.expression._fields["value"] if self.expression.is_literal else MISSING


def literal(constant: object) -> Part:
    """Return a constant; raise `NotAnExpression` if an expression can't hold it."""
    kind = _KINDS.get(type(constant))
    if kind is None:
        raise NotAnExpression
    try:
        return Part(wrap(constant), kind, constant is None)
    except (ValueError, OverflowError):  # not finite, or beyond 64 bits
        raise NotAnExpression from None


def named(name: str, constant: object) -> Part:
    """Return a constant that is displayed as the name it was read from, except `True`, `False` and `None`."""
    part = literal(constant)
    kind = _SHOWN.get(type(constant))
    if kind is not None:
        shown = kind(constant)
        shown.name = name
        part.expression._fields["value"] = shown
    return part


class _Shown:
    """Displayed as the name it was read from."""

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
