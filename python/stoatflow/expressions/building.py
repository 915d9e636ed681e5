"""Starting points of expressions: the parts of a record, constants, and functions of several expressions.

Takes constants and expressions, returns expressions.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

from stoatflow.durations import Duration, duration_ms
from stoatflow.expressions.expression import Expression, Literal, Operand, named, wrap

if TYPE_CHECKING:
    from stoatflow.expressions.windowed import RecordKey

_Text: TypeAlias = str

key: RecordKey = cast("RecordKey", Expression("key"))
"""The record's key; a windowed one has `.key`, `.window.start` and `.window.end`."""
value: Expression = Expression("value")
"""The record's value."""
timestamp: Expression = Expression("timestamp")
"""The record's timestamp, in milliseconds."""
left: Expression = Expression("left")
"""In a joiner: the left value. In a merger: the earlier session's aggregate."""
right: Expression = Expression("right")
"""In a joiner: the right value, null if there is none. In a merger: the later session's aggregate."""
old: Expression = Expression("old")
"""In a reducer or an aggregator: the aggregate so far."""
new: Expression = Expression("new")
"""In a reducer: the incoming value."""


class When:
    """The first part of a choice; continue with `.then(...)`."""

    __slots__ = ("_before", "_condition")

    def __init__(self, condition: Expression, before: Then | None = None) -> None:
        """Created by `sf.when`."""
        if not isinstance(condition, Expression):
            raise TypeError(f"sf.when takes an expression, not {type(condition).__name__}: write sf.when(sf.value > 0)")
        self._condition = condition
        self._before = before

    def then(self, result: Operand) -> Then:
        """Return the result if the condition holds."""
        return Then(self._condition, wrap(result), self._before)


class Then:
    """The second part of a choice; continue with `.when(...)`, end with `.otherwise(...)`."""

    __slots__ = ("_before", "_condition", "_result")

    def __init__(self, condition: Expression, result: Expression, before: Then | None) -> None:
        """Created by `When.then`."""
        self._condition = condition
        self._result = result
        self._before = before

    def when(self, condition: Expression) -> When:
        """Add a condition, checked if no earlier one holds."""
        return When(condition, self)

    def otherwise(self, result: Operand) -> Expression:
        """Return the result if no condition holds, or conditions are null."""
        made = Expression("when", self._condition, self._result, wrap(result))
        return made if self._before is None else self._before.otherwise(made)


def lit(constant: Operand) -> Expression:
    """Return a constant; an aware `datetime` or a `timedelta` becomes milliseconds.

    >>> sf.lit(5).evaluate()
    5
    """
    return wrap(constant)


def duration(length: Duration) -> Expression:
    """Return a duration in milliseconds: `sf.timestamp + sf.duration("5m")`.

    >>> (sf.timestamp + sf.duration("5m")).evaluate(timestamp=1000)
    301000
    """
    return wrap(duration_ms(length, signed=True))


def when(condition: Expression) -> When:
    """Choose by condition: `sf.when(sf.value["n"] > 9).then("many").otherwise("few")`.

    >>> sf.when(sf.value > 9).then("many").when(sf.value > 0).then("few").otherwise("none").evaluate(5)
    'few'
    """
    return When(condition)


def coalesce(*options: Operand) -> Expression:
    """Return the first value that is not null.

    >>> sf.coalesce(sf.value["nick"], sf.value["name"], "?").evaluate({"name": "Ann"})
    'Ann'
    """
    if not options:
        raise TypeError("sf.coalesce needs at least one argument")
    return Expression("coalesce", *(wrap(option) for option in options))


def least(*options: Operand) -> Expression:
    """Return the smallest value that is not null.

    >>> sf.least(sf.value["a"], sf.value["b"], 9).evaluate({"a": 3, "b": None})
    3
    """
    if not options:
        raise TypeError("sf.least needs at least one argument")
    return wrap(options[0])._call("least", *options[1:])


def greatest(*options: Operand) -> Expression:
    """Return the largest value that is not null.

    >>> sf.greatest(sf.value["a"], sf.value["b"], 0).evaluate({"a": 3, "b": None})
    3
    """
    if not options:
        raise TypeError("sf.greatest needs at least one argument")
    return wrap(options[0])._call("greatest", *options[1:])


def array(*items: Operand) -> Expression:
    """Build a list: `sf.array(sf.key, sf.value["n"])`.

    >>> sf.array(sf.key, sf.value["n"]).evaluate({"n": 2}, key="a")
    ['a', 2]
    """
    return Expression("array", *(wrap(item) for item in items))


def obj(members: Mapping[str, Operand] | None = None, /, **fields: Operand) -> Expression:
    """Build a JSON object: `sf.obj(user=sf.key, total=sf.value["sum"])`.

    >>> sf.obj(user=sf.key, total=sf.value["sum"]).evaluate({"sum": 30}, key="ann")
    {'user': 'ann', 'total': 30}
    """
    names, contents = named("obj", members, fields)
    return Expression("object", *contents, names=names)


def concat(*parts: Operand) -> Expression:
    """Join the texts of all parts; null if a part is null.

    >>> sf.concat(sf.key, "-", sf.value["n"]).evaluate({"n": 2}, key="a")
    'a-2'
    """
    return _texts([wrap(part) for part in parts])


def format(template: _Text, /, *args: Operand, **fields: Operand) -> Expression:  # noqa: A001
    """Fill a template, as `str.format`: `sf.format("{}-{total:.2f}", sf.key, total=sf.value["sum"])`.

    Numbers accept the formats `.2f`, `08.2f`, `5d` and `05d`. The result is null if a part is null.

    >>> sf.format("{}: {total:.2f}", sf.key, total=sf.value["sum"]).evaluate({"sum": 2.5}, key="a")
    'a: 2.50'
    """
    if not isinstance(template, str):
        raise TypeError(f"sf.format takes a template first, not {type(template).__name__}")
    parts: list[Expression] = []
    used: set[int | str] = set()
    following = 0
    for text, field, form, conversion in string.Formatter().parse(template):
        if text:
            parts.append(wrap(text))
        if field is None:
            continue
        if conversion:
            raise ValueError(f"sf.format({template!r}): !{conversion} is not known here; leave it out")
        which: int | str = following if field == "" else int(field) if field.isdigit() else field
        following += field == ""
        try:
            part = args[which] if isinstance(which, int) else fields[which]
        except (IndexError, KeyError):
            raise ValueError(f"sf.format({template!r}): there is nothing for {{{field}}}") from None
        used.add(which)
        parts.append(wrap(part)._call("format_number", _form(template, form)) if form else wrap(part))
    if len(used) < len(args) + len(fields):
        raise ValueError(f"sf.format({template!r}): {len(args) + len(fields)} parts are given, {len(used)} are used")
    return _texts(parts)


def _form(template: str, form: str) -> str:
    body = form[:-1].split(".")
    fits = form[-1] in "fd" and len(body) <= (2 if form[-1] == "f" else 1)
    if not fits or not all(part == "" or (part.isascii() and part.isdigit()) for part in body):
        raise ValueError(f"sf.format({template!r}): {form!r} is no form of a number: use .2f, 08.2f, 5d or 05d")
    return form


def _texts(parts: list[Expression]) -> Expression:
    if not parts:
        return wrap("")
    return parts[0]._call("format", *parts[1:])


__all__ = [
    "Literal",
    "array",
    "coalesce",
    "concat",
    "duration",
    "format",
    "greatest",
    "key",
    "least",
    "lit",
    "obj",
    "timestamp",
    "value",
    "when",
]
