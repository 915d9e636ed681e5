"""The tree of an expression, and its operators.

Takes operators and methods, returns new immutable trees and their JSON. Each part records the line where it was
written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias

from stoatflow.durations import duration_ms, timestamp_ms
from stoatflow.expressions.arithmetic import Arithmetic
from stoatflow.expressions.lists import ListMethods
from stoatflow.expressions.show import show
from stoatflow.expressions.source_line import Place, here, shown
from stoatflow.expressions.text import TextMethods, text
from stoatflow.expressions.times import TimeMethods

Literal: TypeAlias = "bool | int | float | str | None"
"""Types of constants."""
Operand: TypeAlias = "Expression | Literal | datetime | timedelta"
"""What an expression can be combined with. Times become their milliseconds."""

_CASTS = {int: "int", float: "float", str: "str", bool: "bool"}
_CAST_NAMES = ("int", "float", "str", "bool", "json")
_HASHES = ("xxh3", "murmur2")
_DEEPEST = 100
"""Maximum nesting of operations: functions that walk a tree are recursive, and Python's stack is limited."""


class Expression(Arithmetic):
    """A function of a record's key, value and timestamp. Build one from `sf.value`.

    >>> order = sf.value
    >>> large = (order["amount"] > 100) & (order["status"] == "paid")
    >>> large.evaluate({"amount": 250, "status": "paid"})
    True
    """

    __slots__ = ("_args", "_depth", "_fields", "_op", "_place")

    def __init__(self, op: str, *args: Expression, **fields: object) -> None:
        """Created by operators; not for direct use."""
        self._op = op
        self._args = args
        self._fields = fields
        self._place = here()
        self._depth: int = 1 + max((arg._depth for arg in args), default=0)
        if self._depth > _DEEPEST:
            raise TypeError(
                f"{shown(self._place)}: an expression of more than {_DEEPEST} operations within each other is too "
                "deep. Write a long sum as sf.array(*parts).list.sum(), a long text as sf.concat(*parts), the least of "
                "many as sf.least(*parts), many constants as .is_in([...]); else compute a part in a map_values "
                "before, or write a function"
            )

    def _made(self, op: str, **fields: object) -> Expression:
        """Return an operation of the engine with this expression as its argument."""
        return Expression(op, self, **fields)

    def _then(self, op: str, other: Operand) -> Expression:
        """Return an operation of this expression and another operand."""
        return Expression(op, self, wrap(other))

    def _after(self, op: str, other: Operand) -> Expression:
        """Return an operation of another operand and this expression."""
        return Expression(op, wrap(other), self)

    def _call(self, function: str, *args: Operand) -> Expression:
        """Return a call of a function of the engine's table."""
        return Expression("call", self, *(wrap(arg) for arg in args), function=function)

    def to_json(self) -> dict[str, object]:
        """The tree alone, without lines.

        >>> (sf.value + 1).to_json()
        {'op': 'add', 'args': [{'op': 'value'}, {'op': 'lit', 'value': 1}]}
        """
        data: dict[str, object] = {"op": self._op}
        if self._args or self._op in ("coalesce", "object", "array"):
            data["args"] = [arg.to_json() for arg in self._args]
        return data | self._fields

    def to_plan(self, above: Place | None = None) -> dict[str, object]:
        """Return the expression as plan data; `above` is the line of the expression that contains it."""
        if not self._args:
            return self.to_json()
        args = [arg.to_plan(self._place) for arg in self._args]
        data: dict[str, object] = {"op": self._op, "args": args, **self._fields}
        return data if self._place == above else {"op": "located", "args": [data], "line": shown(self._place)}

    def reads(self, leaf: Expression) -> bool:
        """Whether it reads this part of the record, such as `sf.key` or `sf.left`.

        >>> (sf.value["n"] + sf.timestamp).reads(sf.key)
        False
        """
        return self._op == leaf._op or any(arg.reads(leaf) for arg in self._args)

    def evaluate(self, value: object = None, *, key: object = None, timestamp: int = 0) -> Any:
        """Evaluate it on one record, in the engine: `(sf.value["n"] + 1).evaluate({"n": 2})` is 3.

        >>> (sf.value["n"] + sf.key).evaluate({"n": 2}, key=1)
        3
        """
        import json

        from stoatflow._runtime.bridge import evaluate

        return evaluate(json.dumps(self.to_plan(), allow_nan=False), key, value, timestamp)

    @property
    def is_literal(self) -> bool:
        """Whether it is a constant.

        >>> sf.lit(5).is_literal
        True
        """
        return self._op == "lit"

    @property
    def is_pair(self) -> bool:
        """Whether it is a list of two elements (`sf.array(key, value)`).

        >>> sf.array(sf.key, sf.value).is_pair
        True
        """
        return self._op == "array" and len(self._args) == 2

    # Members ---------------------------------------------------------------------------------

    def __getitem__(self, item: str | int | slice | Expression) -> Expression:
        """Return a member of an object by name, an element of a list by index (null if missing), or a slice `[a:b]`."""
        if isinstance(item, str):
            return Expression("get", self, name=item)
        if isinstance(item, int) and not isinstance(item, bool):
            return Expression("at", self, index=_int64(item))
        if isinstance(item, slice):
            if item.step not in (None, 1):
                raise TypeError(f"{self!r}[::{item.step}]: parts have no step; .list.reverse() turns a list round")
            return self._call("slice", item.start, item.stop)
        if isinstance(item, Expression):
            return self._call("item", item)
        raise TypeError(f"{self!r}[...] takes a member's name or an element's index, not {type(item).__name__}")

    if not TYPE_CHECKING:  # otherwise a type checker would accept every misspelt method

        def __getattr__(self, name):
            """Return a part of a windowed key; raise an error for others: members are accessed with brackets."""
            if name in ("key", "window") and self._op == "key":
                from stoatflow.expressions.windowed import RecordKey

                return getattr(RecordKey, name).fget(self)
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(
                f"an expression has no method {name!r}. Write [{name!r}] for a member of an object; "
                "methods of texts are behind .str, of lists behind .list, of times behind .dt"
            )

    # Comparison ------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        """Compare; null equals null."""
        return Expression("eq", self, wrap(other))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        """Compare; null equals null."""
        return Expression("ne", self, wrap(other))

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # `==` builds an expression, so sets can't work

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
        """Whether it is null.

        >>> sf.value["n"].is_null().evaluate({})
        True
        """
        return Expression("is_null", self)

    def is_not_null(self) -> Expression:
        """Whether it is not null.

        >>> sf.value["n"].is_not_null().evaluate({})
        False
        """
        return ~self.is_null()

    def fill_null(self, other: Operand) -> Expression:
        """Replace null by another value.

        >>> sf.value["n"].fill_null(0).evaluate({})
        0
        """
        return Expression("coalesce", self, wrap(other))

    def is_in(self, options: Iterable[Operand]) -> Expression:
        """Whether it equals one of these; null equals null.

        >>> sf.value.is_in(["open", "paid"]).evaluate("paid")
        True
        """
        if isinstance(options, str | Expression):
            raise TypeError("is_in takes several values: .is_in([...]); else write .list.contains or .str.contains")
        return self._call("is_in", *options)

    def between(self, low: Operand, high: Operand) -> Expression:
        """Whether it is between `low` and `high`, both included; null if one of the three is null.

        >>> sf.value.between(1, 10).evaluate(10)
        True
        """
        return self._call("between", low, high)

    # Logic -----------------------------------------------------------------------------------

    def __and__(self, other: Expression | Literal) -> Expression:
        """Logical and, in three-valued logic."""
        return Expression("and", self, wrap(other))

    def __rand__(self, other: Literal) -> Expression:
        """Logical and, in three-valued logic."""
        return Expression("and", wrap(other), self)

    def __or__(self, other: Expression | Literal | Mapping[str, Operand]) -> Expression:
        """Logical or, in three-valued logic; with an object, replace its members, like `dict | dict`."""
        if isinstance(other, Mapping):
            return self.with_fields(other)
        if isinstance(other, Expression) and other._op == "object":
            names = other._fields["names"]
            return self.with_fields(dict(zip(names if isinstance(names, list) else [], other._args, strict=True)))
        return Expression("or", self, wrap(other))

    def __ror__(self, other: Literal) -> Expression:
        """Logical or, in three-valued logic."""
        if isinstance(other, Mapping):
            raise TypeError("{...} | expression is not known here: write sf.obj(...) with the members that are wanted")
        return Expression("or", wrap(other), self)

    def __invert__(self) -> Expression:
        """Negate a condition."""
        return Expression("not", self)

    def __bool__(self) -> NoReturn:
        """Raise an error: without a record an expression has no truth value."""
        raise TypeError(
            f"the expression {self!r} has no truth value: it is a function of records that come later. "
            "Write (a) & (b) for `a and b`, (a) | (b) for `a or b`, ~(a) for `not a`, "
            "(a < x) & (x < b) for `a < x < b`, and sf.when(c).then(x).otherwise(y) for `x if c else y`"
        )

    def __iter__(self) -> NoReturn:
        """Raise an error: the length is not known yet."""
        raise TypeError(f"the expression {self!r} can't be iterated: use .len() and [index], or a Python function")

    def __contains__(self, item: object) -> NoReturn:
        """Raise an error: `in` needs a truth value."""
        raise TypeError(
            f"write ({self!r}).str.contains({item!r}), .list.contains({item!r}) or .has({item!r}) instead of `in`"
        )

    def __rpow__(self, other: Literal) -> Expression:
        """Raise to a power, as in Python."""
        return wrap(other)._call("pow", self)

    # Texts, lists, types ---------------------------------------------------------------------

    @property
    def str(self) -> TextMethods:
        """Methods of texts.

        >>> sf.value.str.lower().str.split(",").evaluate("A,B")
        ['a', 'b']
        """
        return TextMethods(self)

    @property
    def list(self) -> ListMethods:
        """Methods of lists.

        >>> sf.value["prices"].list.sum().evaluate({"prices": [1, 2]})
        3
        """
        return ListMethods(self)

    @property
    def dt(self) -> TimeMethods:
        """Methods of times: milliseconds since 1970.

        >>> sf.timestamp.dt.hour().evaluate(timestamp=3_600_000)
        1
        """
        return TimeMethods(self)

    def len(self) -> Expression:
        """Return the number of characters of a text, or of elements of a list.

        >>> sf.value.len().evaluate("stoat")
        5
        """
        return Expression("len", self)

    def cast(self, to: _CastTarget, *, strict: bool = True) -> Expression:
        """Convert to "int", "float", "str", "bool" or "json" (or the Python type of that name).

        A value that can't be converted is an error; with `strict=False` it becomes null.

        >>> sf.value["n"].cast(int).evaluate({"n": "12"})
        12
        """
        name = _CASTS.get(to) if isinstance(to, type) else to
        if name not in _CAST_NAMES:
            raise ValueError(f"cast({to!r}): the target must be one of {', '.join(_CAST_NAMES)}")
        return Expression("cast", self, to=name, **({} if strict else {"strict": False}))

    def hash(self, method: _Text = "xxh3") -> Expression:
        """Return an integer that depends only on the value.

        `"xxh3"` accepts any value. `"murmur2"`, modulo the number of partitions, is the partition that Kafka's
        producers choose for a key.

        >>> (sf.key.hash("murmur2") % 8).evaluate(key="ann")
        2
        """
        if method not in _HASHES:
            raise ValueError(f"hash({method!r}): the method must be one of {', '.join(_HASHES)}")
        return self._call("hash", method)

    # Objects ---------------------------------------------------------------------------------

    def with_fields(self, members: Mapping[_Text, Operand] | None = None, /, **fields: Operand) -> Expression:
        """Return the object with these members replaced; new members are appended.

        >>> sf.value.with_fields(total=sf.value["n"] * 2).evaluate({"n": 2})
        {'n': 2, 'total': 4}
        """
        names, contents = named("with_fields", members, fields)
        pairs = [part for pair in zip(names, contents, strict=True) for part in pair]
        return self._call("with_fields", *pairs)

    def merge(self, other: Expression) -> Expression:
        """Return the object with all members of another one, as `dict | dict`: `sf.left.merge(sf.right)`.

        Null counts as an object without members, so the missing side of an outer join changes nothing; two nulls give
        null.

        >>> sf.value["a"].merge(sf.value["b"]).evaluate({"a": {"x": 1}, "b": {"y": 2}})
        {'x': 1, 'y': 2}
        """
        if not isinstance(other, Expression):
            raise TypeError(
                f"merge takes an expression, not {type(other).__name__}: write .with_fields({{...}}) for single members"
            )
        return self._call("merge", other)

    def drop(self, *names: _Text) -> Expression:
        """Return the object without these members.

        >>> sf.value.drop("secret").evaluate({"n": 1, "secret": "s"})
        {'n': 1}
        """
        return self._call("drop", *(text("drop", name) for name in names))

    def keys(self) -> Expression:
        """Return the names of the members, as a list.

        >>> sf.value.keys().evaluate({"a": 1, "b": 2})
        ['a', 'b']
        """
        return self._call("keys")

    def values(self) -> Expression:
        """Return the values of the members, as a list.

        >>> sf.value.values().evaluate({"a": 1, "b": 2})
        [1, 2]
        """
        return self._call("values")

    def has(self, name: Expression | _Text) -> Expression:
        """Whether the object has this member (null or not).

        >>> sf.value.has("n").evaluate({"n": None})
        True
        """
        return self._call("has", name)

    def __repr__(self) -> _Text:
        """Show the source text that creates it."""
        return show(self)

    def __format__(self, form: _Text) -> _Text:
        """Raise an error: without a record there is no value to format."""
        raise TypeError(
            f"the expression {self!r} can't be filled into a text now: it is a function of records that come later. "
            'Write sf.format("...{}...", expression) instead of f"...{expression}..."'
        )


_Text: TypeAlias = str
_CastTarget: TypeAlias = str | type


def named(
    method: str, members: Mapping[str, Operand] | None, fields: Mapping[str, Operand]
) -> tuple[list[str], list[Expression]]:
    """Return names and expressions of members."""
    together = {**(members or {}), **fields}
    return [text(method, name) for name in together], [wrap(content) for content in together.values()]


def wrap(operand: object) -> Expression:
    """Return an expression unchanged, and a constant as an expression."""
    if isinstance(operand, Expression):
        return operand
    if isinstance(operand, int) and not isinstance(operand, bool):
        return Expression("lit", value=_int64(operand))
    if isinstance(operand, float) and not math.isfinite(operand):
        raise ValueError(f"{operand} can't be a constant of an expression: JSON has no form for it")
    if isinstance(operand, datetime):
        return wrap(timestamp_ms(operand))
    if isinstance(operand, timedelta):
        return wrap(duration_ms(operand, signed=True))
    if operand is None or isinstance(operand, bool | float | str):
        return Expression("lit", value=operand)
    builders: dict[type, str] = {
        dict: "objects with sf.obj(...)",
        list: "lists with sf.array(...)",
        tuple: "lists with sf.array(...)",
    }
    hint = f"; build {builders[type(operand)]}" if type(operand) in builders else ""
    raise TypeError(
        f"a value of type {type(operand).__name__} can't be part of an expression: "
        f"only None, bool, int, float, str and other expressions can{hint}"
    )


def _int64(number: int) -> int:
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{number} does not fit into 64 bits")
    return int(number)
