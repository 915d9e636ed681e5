"""Native expressions: functions of a record that run in Rust, without the interpreter.

Takes operators and methods on `sf.key`, `sf.value` and `sf.timestamp`, gives an immutable tree and
its JSON (the shapes of `plan/src/expression.rs`). Never evaluates anything: the engine does, and
so there is one meaning of every operator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NoReturn, TypeAlias

Literal: TypeAlias = "bool | int | float | str | None"
"""What a constant may be."""

_INFIX = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "&", "or": "|",
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floor_div": "//", "mod": "%",
}  # fmt: skip
_CASTS = {int: "int", float: "float", str: "str", bool: "bool"}
_CAST_NAMES = ("int", "float", "str", "bool", "json")


class Expression:
    """A function of a record's key, value and timestamp. Build one from `sf.value`."""

    __slots__ = ("_args", "_fields", "_op")

    def __init__(self, op: str, *args: Expression, **fields: object) -> None:
        """Made by operators; not for direct use."""
        self._op = op
        self._args = args
        self._fields = fields

    def to_json(self) -> dict[str, object]:
        """The form in which it crosses the border."""
        data: dict[str, object] = {"op": self._op}
        if self._args or self._op in ("coalesce", "object"):
            data["args"] = [arg.to_json() for arg in self._args]
        return data | self._fields

    def reads(self, leaf: Expression) -> bool:
        """Does it read this: `sf.key`, `sf.left`?"""
        return self._op == leaf._op or any(arg.reads(leaf) for arg in self._args)

    @property
    def is_literal(self) -> bool:
        """Is it a constant?"""
        return self._op == "lit"

    # Members ---------------------------------------------------------------------------------

    def __getitem__(self, item: str | int) -> Expression:
        """Give a member of an object by name, or an element of a list by index; null if missing."""
        if isinstance(item, str):
            return Expression("get", self, name=item)
        if isinstance(item, int) and not isinstance(item, bool):
            return Expression("at", self, index=_int64(item))
        raise TypeError(f"{self!r}[...] takes a member's name or an element's index, not {type(item).__name__}")

    # Comparison ------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        """Compare; null equals null."""
        return Expression("eq", self, wrap(other))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        """Compare; null equals null."""
        return Expression("ne", self, wrap(other))

    __hash__ = None  # type: ignore[assignment]  # `==` builds an expression, so sets can't work

    def __lt__(self, other: Expression | Literal) -> Expression:
        """Compare; null on either side gives null, which a filter drops."""
        return Expression("lt", self, wrap(other))

    def __le__(self, other: Expression | Literal) -> Expression:
        """Compare; null on either side gives null, which a filter drops."""
        return Expression("le", self, wrap(other))

    def __gt__(self, other: Expression | Literal) -> Expression:
        """Compare; null on either side gives null, which a filter drops."""
        return Expression("gt", self, wrap(other))

    def __ge__(self, other: Expression | Literal) -> Expression:
        """Compare; null on either side gives null, which a filter drops."""
        return Expression("ge", self, wrap(other))

    def is_null(self) -> Expression:
        """Is it null?"""
        return Expression("is_null", self)

    # Logic -----------------------------------------------------------------------------------

    def __and__(self, other: Expression | Literal) -> Expression:
        """Both, in three-valued logic."""
        return Expression("and", self, wrap(other))

    def __rand__(self, other: Literal) -> Expression:
        """Both, in three-valued logic."""
        return Expression("and", wrap(other), self)

    def __or__(self, other: Expression | Literal) -> Expression:
        """Either, in three-valued logic."""
        return Expression("or", self, wrap(other))

    def __ror__(self, other: Literal) -> Expression:
        """Either, in three-valued logic."""
        return Expression("or", wrap(other), self)

    def __invert__(self) -> Expression:
        """Negate a condition."""
        return Expression("not", self)

    def __bool__(self) -> NoReturn:
        """Refuse: there is no record yet whose truth could be told."""
        raise TypeError(
            f"the expression {self!r} has no truth value: it is a function of records that come later. "
            "Write (a) & (b) for `a and b`, (a) | (b) for `a or b`, ~(a) for `not a`, "
            "(a < x) & (x < b) for `a < x < b`, and sf.when(c).then(x).otherwise(y) for `x if c else y`"
        )

    def __iter__(self) -> NoReturn:
        """Refuse: the length is not known yet."""
        raise TypeError(f"the expression {self!r} can't be iterated: use .len() and [index], or a Python function")

    def __contains__(self, item: object) -> NoReturn:
        """Refuse: `in` would need a truth value."""
        raise TypeError(f"write ({self!r}).str.contains({item!r}) instead of `in`")

    # Arithmetic ------------------------------------------------------------------------------

    def __add__(self, other: Expression | Literal) -> Expression:
        """Add numbers or join texts."""
        return Expression("add", self, wrap(other))

    def __radd__(self, other: Literal) -> Expression:
        """Add numbers or join texts."""
        return Expression("add", wrap(other), self)

    def __sub__(self, other: Expression | Literal) -> Expression:
        """Subtract."""
        return Expression("sub", self, wrap(other))

    def __rsub__(self, other: Literal) -> Expression:
        """Subtract."""
        return Expression("sub", wrap(other), self)

    def __mul__(self, other: Expression | Literal) -> Expression:
        """Multiply."""
        return Expression("mul", self, wrap(other))

    def __rmul__(self, other: Literal) -> Expression:
        """Multiply."""
        return Expression("mul", wrap(other), self)

    def __truediv__(self, other: Expression | Literal) -> Expression:
        """Divide; always gives a float, as in Python."""
        return Expression("div", self, wrap(other))

    def __rtruediv__(self, other: Literal) -> Expression:
        """Divide; always gives a float, as in Python."""
        return Expression("div", wrap(other), self)

    def __floordiv__(self, other: Expression | Literal) -> Expression:
        """Divide and round down, as in Python."""
        return Expression("floor_div", self, wrap(other))

    def __rfloordiv__(self, other: Literal) -> Expression:
        """Divide and round down, as in Python."""
        return Expression("floor_div", wrap(other), self)

    def __mod__(self, other: Expression | Literal) -> Expression:
        """Give the remainder, with the divisor's sign, as in Python."""
        return Expression("mod", self, wrap(other))

    def __rmod__(self, other: Literal) -> Expression:
        """Give the remainder, with the divisor's sign, as in Python."""
        return Expression("mod", wrap(other), self)

    def __neg__(self) -> Expression:
        """Negate a number."""
        return Expression("sub", wrap(0), self)

    # Texts, lists, types ---------------------------------------------------------------------

    @property
    def str(self) -> TextMethods:
        """Methods for texts."""
        return TextMethods(self)

    def len(self) -> Expression:
        """Give the number of characters of a text, or of elements of a list."""
        return Expression("len", self)

    def cast(self, to: _CastTarget) -> Expression:
        """Convert to "int", "float", "str", "bool" or "json" (or the Python type of that name)."""
        name = _CASTS.get(to) if isinstance(to, type) else to
        if name not in _CAST_NAMES:
            raise ValueError(f"cast({to!r}): the target must be one of {', '.join(_CAST_NAMES)}")
        return Expression("cast", self, to=name)

    def __repr__(self) -> _Text:
        """Show it as it would be written."""
        return _show(self)


_Text: TypeAlias = str
_CastTarget: TypeAlias = str | type


class TextMethods:
    """What can be done with a text: `sf.value.str`."""

    __slots__ = ("_of",)

    def __init__(self, of: Expression) -> None:
        """Made by `Expression.str`."""
        self._of = of

    def lower(self) -> Expression:
        """Lower case."""
        return Expression("str_lower", self._of)

    def upper(self) -> Expression:
        """Upper case."""
        return Expression("str_upper", self._of)

    def strip(self) -> Expression:
        """Without surrounding white space."""
        return Expression("str_strip", self._of)

    def split(self, by: str | None = None) -> Expression:
        """Give the parts between separators; without one, between runs of white space, as in Python."""
        if by == "":
            raise ValueError("split(''): an empty separator; leave it out to split at white space")
        return Expression("str_split", self._of, by=None if by is None else _text("split", by))

    def contains(self, text: str) -> Expression:
        """Does it contain this?"""
        return Expression("str_contains", self._of, text=_text("contains", text))

    def startswith(self, text: str) -> Expression:
        """Does it start with this?"""
        return Expression("str_starts_with", self._of, text=_text("startswith", text))

    def endswith(self, text: str) -> Expression:
        """Does it end with this?"""
        return Expression("str_ends_with", self._of, text=_text("endswith", text))


class When:
    """The first part of a choice; continue with `.then(...)`."""

    __slots__ = ("_condition",)

    def __init__(self, condition: Expression) -> None:
        """Made by `sf.when`."""
        self._condition = condition

    def then(self, result: Expression | Literal) -> Then:
        """Give the result where the condition holds."""
        return Then(self._condition, wrap(result))


class Then:
    """The second part of a choice; end with `.otherwise(...)`."""

    __slots__ = ("_condition", "_result")

    def __init__(self, condition: Expression, result: Expression) -> None:
        """Made by `When.then`."""
        self._condition = condition
        self._result = result

    def otherwise(self, result: Expression | Literal) -> Expression:
        """Give the result where the condition does not hold (or is null)."""
        return Expression("when", self._condition, self._result, wrap(result))


key = Expression("key")
"""The record's key."""
value = Expression("value")
"""The record's value."""
timestamp = Expression("timestamp")
"""The record's timestamp, in milliseconds."""
left = Expression("left")
"""Of a joiner: the left value. Of a merger: the earlier session's aggregate."""
right = Expression("right")
"""Of a joiner: the right value, null if there is none. Of a merger: the later session's aggregate."""
old = Expression("old")
"""Of a reducer or an aggregator: the aggregate so far."""
new = Expression("new")
"""Of a reducer: the value that comes in."""


def lit(constant: Literal) -> Expression:
    """Give a constant."""
    return wrap(constant)


def when(condition: Expression) -> When:
    """Choose: `sf.when(sf.value["n"] > 9).then("many").otherwise("few")`."""
    if not isinstance(condition, Expression):
        raise TypeError(f"sf.when takes an expression, not {type(condition).__name__}: write sf.when(sf.value > 0)")
    return When(condition)


def coalesce(*options: Expression | Literal) -> Expression:
    """Give the first that is not null."""
    if not options:
        raise TypeError("sf.coalesce needs at least one argument")
    return Expression("coalesce", *(wrap(option) for option in options))


def obj(members: Mapping[str, Expression | Literal] | None = None, /, **fields: Expression | Literal) -> Expression:
    """Build a JSON object: `sf.obj(user=sf.key, total=sf.value["sum"])`."""
    all_members = {**(members or {}), **fields}
    return Expression("object", *(wrap(v) for v in all_members.values()), names=[_text("obj", n) for n in all_members])


def wrap(operand: object) -> Expression:
    """Give an expression as it is, and a constant as an expression."""
    if isinstance(operand, Expression):
        return operand
    if isinstance(operand, int) and not isinstance(operand, bool):
        return Expression("lit", value=_int64(operand))
    if isinstance(operand, float) and not math.isfinite(operand):
        raise ValueError(f"{operand} can't be a constant of an expression: JSON has no form for it")
    if operand is None or isinstance(operand, bool | float | str):
        return Expression("lit", value=operand)
    hint = "; build objects with sf.obj(...)" if isinstance(operand, dict) else ""
    raise TypeError(
        f"a value of type {type(operand).__name__} can't be part of an expression: "
        f"only None, bool, int, float, str and other expressions can{hint}"
    )


def _int64(number: int) -> int:
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{number} does not fit into 64 bits")
    return int(number)


def _text(method: str, text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{method} takes a text, not {type(text).__name__}: it is not evaluated for each record")
    return text


def _show(expression: Expression) -> str:
    op, args, fields = expression._op, expression._args, expression._fields
    if op == "lit":
        return repr(fields["value"])
    if not args and op != "object":
        return f"sf.{op}"
    plain = [repr(arg) for arg in args]
    inner = [
        f"({text})" if arg._op in _INFIX or arg._op == "not" else text for arg, text in zip(args, plain, strict=True)
    ]
    if op in _INFIX:
        return f"{inner[0]} {_INFIX[op]} {inner[1]}"
    special = {
        "get": lambda: f"{inner[0]}[{fields['name']!r}]",
        "at": lambda: f"{inner[0]}[{fields['index']!r}]",
        "not": lambda: f"~{inner[0]}",
        "when": lambda: f"sf.when({plain[0]}).then({plain[1]}).otherwise({plain[2]})",
        "coalesce": lambda: f"sf.coalesce({', '.join(plain)})",
        "object": lambda: f"sf.obj({', '.join(f'{n}={p}' for n, p in zip(_names(fields), plain, strict=True))})",
    }
    return special[op]() if op in special else _show_method(op, args[0], inner[0], fields)


def _show_method(op: str, subject: Expression, shown: str, fields: dict[str, object]) -> str:
    of = f"sf.lit({shown})" if subject.is_literal else shown
    method = op.removeprefix("str_").replace("s_with", "swith")
    arguments = ", ".join(repr(content) for content in fields.values() if content is not None)
    return f"{of}.{'str.' if op.startswith('str_') else ''}{method}({arguments})"


def _names(fields: dict[str, object]) -> list[object]:
    names = fields["names"]
    return names if isinstance(names, list) else []
