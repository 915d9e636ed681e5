"""Conditions with computed constants, converted for the engine.

Takes conditions and the values of constants; returns expressions for `find`, keys and times. Conditions whose constant
DuckDB would convert first are left out, since the engine never converts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import reduce
from typing import Any, NamedTuple

from stoatflow._runtime.columns import KEY, TIMESTAMP, VALUE, WINDOW_END, WINDOW_START
from stoatflow.expressions import Expression
from stoatflow.expressions.building import key, timestamp, value
from stoatflow.sql.pushdown import Condition
from stoatflow.sql.store_schema import ABSENT, Column, StoreForm
from stoatflow.sql.tree import Node

__all__ = ["Bound", "Constants", "bounds", "condition", "keys", "shown", "times"]

_LARGEST = 2**53
_MARKS = {"=", "<", "<=", ">", ">="}

Constants = Mapping[int, Any]
"""Values by the id of their node; constants without a plain value are missing."""


class Bound(NamedTuple):
    """A comparison of a column with values of the column's kind."""

    column: Column
    how: str
    values: tuple[Any, ...] = ()
    exact: bool = True
    """Whether all rows that pass it meet the condition."""


def bounds(conditions: Iterable[Condition], constants: Constants, form: StoreForm) -> list[Bound]:
    """Return the conditions that the engine evaluates as DuckDB does."""
    found = (_bound(condition, constants, form) for condition in conditions)
    return [bound for bound in found if bound is not None]


def _bound(comparison: Condition, constants: Constants, form: StoreForm) -> Bound | None:
    column, how = comparison.column, comparison.how
    if how in {"is null", "is not null"}:
        # Keys and times are never null.
        return None if column.path[0].startswith("_") and len(column.path) == 1 else Bound(column, how)
    if how == "true":
        return Bound(column, "=", (True,)) if column.kind == "bool" else None
    # A null in a list of options equals nothing.
    nodes = [node for node in comparison.constants if how != "in" or not _is_null(node, constants)]
    values = [_value(column.kind, node, constants, inside=how == "contains") for node in nodes]
    # In DuckDB, NaN is greater than all other numbers; in the engine it isn't.
    above_nan = how in {">", ">="} and column.kind == "float" and form.may_hold_nan
    if not values or above_nan or any(each is None for each in values):
        return None
    return _prefix(column, how, values[0]) if how in {"like", "prefix"} else Bound(column, how, tuple(values))


def _is_null(node: Node, constants: Constants) -> bool:
    return id(node) in constants and constants[id(node)] is None


def _prefix(column: Column, how: str, text: Any) -> Bound | None:
    if column.kind != "text" or not isinstance(text, str):
        return None
    fixed = min((at for at in (text.find("%"), text.find("_")) if at >= 0), default=None) if how == "like" else None
    if how == "like" and fixed is None:
        return Bound(column, "=", (text,))
    start = text if fixed is None else text[:fixed]
    return Bound(column, "prefix", (start,), exact=fixed is None or text[fixed:] == "%") if start else None


def _value(kind: str | None, node: Node, constants: Constants, *, inside: bool) -> Any:
    """Return a constant as the engine compares it; `None` if DuckDB might convert it."""
    given = constants.get(id(node))
    number, text = _number(given), given if type(given) is str else None
    if inside:
        kind = {"texts": "text", "ints": "int"}.get(kind or "")
    if kind == "text":
        return text
    if kind in {"int", "float"}:
        return number
    if kind == "bool":
        return given if type(given) is bool else None
    if kind == "time":
        return _milliseconds(given)
    if kind == ABSENT:
        return text if text is not None else number
    return None


def _number(given: Any) -> int | float | None:
    if type(given) is Decimal and given.is_finite() and len(given.as_tuple().digits) <= 15:
        given = int(given) if given == given.to_integral_value() else float(given)
    if type(given) in {int, float} and math.isfinite(given) and abs(given) < _LARGEST:
        return given  # type: ignore[no-any-return]  # one of both, as checked above
    return None


def _milliseconds(given: Any) -> int | float | None:
    """Return a time; one between two milliseconds becomes a half, which compares with both in the same way."""
    if isinstance(given, date) and not isinstance(given, datetime):
        given = datetime(given.year, given.month, given.day, tzinfo=timezone.utc)
    if not isinstance(given, datetime):
        return None
    moment = given.replace(tzinfo=timezone.utc) if given.tzinfo is None else given
    since = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    whole = (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    return whole + 0.5 if since.microseconds % 1000 else whole


# Conversion for the engine --------------------------------------------------------------------


def condition(all_of: Sequence[Bound]) -> Expression | None:
    """Return the bounds as a condition for `find`."""
    parts = [_expression(bound) for bound in all_of]
    return reduce(lambda one, other: one & other, parts) if parts else None


def member(path: Sequence[str]) -> Expression:
    """Return a column as an expression."""
    own = {KEY: key, TIMESTAMP: timestamp, VALUE: value}.get(path[0]) if len(path) == 1 else None
    return reduce(lambda whole, name: whole[name], path, value) if own is None else own


def _expression(bound: Bound) -> Expression:
    of = member(bound.column.path)
    first: Any = bound.values[0] if bound.values else None
    made: dict[str, Any] = {
        "=": lambda: of == first,
        "<": lambda: of < first,
        "<=": lambda: of <= first,
        ">": lambda: of > first,
        ">=": lambda: of >= first,
        "in": lambda: of.is_in(bound.values),
        "prefix": lambda: of.str.startswith(first),
        "contains": lambda: of.list.contains(first),
        "is null": of.is_null,
        "is not null": of.is_not_null,
    }
    expression: Expression = made[bound.how]()
    return expression


class Span(NamedTuple):
    """A range with both ends included; `None`: no end."""

    low: Any = None
    high: Any = None


def keys(all_of: Iterable[Bound]) -> tuple[list[Any] | None, Span]:
    """Return the keys that the bounds name, otherwise a range that contains all keys."""
    named: list[Any] | None = None
    low, high = None, None
    for bound in all_of:
        if bound.column.path != (KEY,):
            continue
        if bound.how in {"=", "in"}:
            mine = list(dict.fromkeys(_whole(each) for each in bound.values))
            named = mine if named is None else [each for each in named if each in mine]
        elif bound.column.kind == "text" and bound.how in {">", ">=", "prefix"}:
            low = bound.values[0] if low is None else max(low, bound.values[0])
        elif bound.column.kind == "text" and bound.how in {"<", "<="}:
            high = bound.values[0] if high is None else min(high, bound.values[0])
    # No integer key equals a fraction.
    return None if named is None else [each for each in named if not isinstance(each, float)], Span(low, high)


def _whole(given: Any) -> Any:
    return int(given) if isinstance(given, float) and given.is_integer() else given


def times(all_of: Iterable[Bound], name: str) -> Span:
    """Return the range of times, in milliseconds, of a window's column."""
    low, high = None, None
    for bound in all_of:
        if bound.column.path != (name,) or not bound.values:
            continue
        least, most = min(bound.values), max(bound.values)
        if bound.how in {"=", "in", ">", ">="}:
            low = least if low is None else max(low, least)
        if bound.how in {"=", "in", "<", "<="}:
            high = most if high is None else min(high, most)
    return Span(None if low is None else math.ceil(low), None if high is None else math.floor(high))


def shown(all_of: Iterable[Bound]) -> str:
    """Return the bounds as text."""
    return " and ".join(_shown(bound) for bound in all_of)


def _shown(bound: Bound) -> str:
    name = ".".join(bound.column.path)
    values = [repr(each) for each in bound.values]
    if bound.column.path[0] in {WINDOW_START, WINDOW_END, TIMESTAMP}:
        values = [datetime.fromtimestamp(each / 1000, timezone.utc).isoformat() for each in bound.values]
    if bound.how in {"in", "contains", "prefix"}:
        return f"{name} {bound.how} ({', '.join(values)})"
    return f"{name} {bound.how} {values[0]}" if values else f"{name} {bound.how}"
