"""Native aggregations: a key's records are aggregated in Rust, without the interpreter.

Takes expressions, returns immutable values for `aggregate(...)` and `cogroup(...)`, their JSON (the shapes of
`plan/src/native_aggregation.rs`), and the expression that computes the result from the stored state. Never evaluates
anything. Nulls are skipped everywhere, as in SQL.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from stoatflow.expressions import Expression, Literal, obj, value, when, wrap

R = TypeVar("R")

# Aggregations whose stored state is more than the result: the member of the state that is the result.
_RESULTS = {"avg": "avg", "approx_distinct": "estimate", "top_k": "top"}


class Aggregation(Generic[R]):
    """How the records of a key become one value; `R` is its type. Created by `sf.sum`, `sf.count` and others.

    >>> large = sf.sum(sf.value["amount"]).where(sf.value["amount"] > 100)
    >>> large
    sf.sum(sf.when(sf.value['amount'] > 100).then(sf.value['amount']).otherwise(None))
    """

    __slots__ = ("_by", "_kind", "_members", "_of", "_size")

    def __init__(
        self,
        kind: str,
        of: Expression | None = None,
        *,
        by: Expression | None = None,
        size: int | None = None,
        members: dict[str, Aggregation[Any]] | None = None,
    ) -> None:
        """Created by functions; not for direct use."""
        self._kind = kind
        self._of = of
        self._by = by
        self._size = size
        self._members = members

    def where(self, condition: Expression) -> Aggregation[R]:
        """Aggregate only records for which the condition holds.

        >>> sf.count().where(sf.value["amount"] > 100)
        sf.count(sf.when(sf.value['amount'] > 100).then(True).otherwise(None))
        """
        if not isinstance(condition, Expression):
            raise TypeError(f"where takes an expression, not {type(condition).__name__}: .where(sf.value['x'] > 0)")
        if self._members is not None:
            members = {name: member.where(condition) for name, member in self._members.items()}
            return Aggregation(self._kind, members=members)
        of = wrap(True) if self._of is None else self._of

        def chosen(e: Expression) -> Expression:
            return when(condition).then(e).otherwise(None)

        # The rank too: it may fail for records that are filtered out.
        by = None if self._by is None else chosen(self._by)
        return Aggregation(self._kind, chosen(of), by=by, size=self._size)

    def to_json(self) -> dict[str, object]:
        """Return the aggregation as plan data."""
        if self._members is None:
            return {"one": self._measure()}
        return {"several": [[name, member._measure()] for name, member in self._members.items()]}

    def _measure(self) -> dict[str, object]:
        measure: dict[str, object] = {"kind": self._kind}
        if self._of is not None:
            measure["of"] = self._of.to_plan()
        if self._by is not None:
            measure["by"] = self._by.to_plan()
        if self._size is not None:
            measure["size"] = self._size
        return measure

    @property
    def has_state(self) -> bool:
        """Whether the store holds more than the result.

        >>> sf.sum(sf.value["amount"]).has_state, sf.avg(sf.value["amount"]).has_state
        (False, True)
        """
        if self._members is not None:
            return any(member.has_state for member in self._members.values())
        return self._kind in _RESULTS and (self._kind != "top_k" or self._by is not None)

    def result(self, state: Expression = value) -> Expression:
        """The expression that computes the result from the stored state.

        >>> sf.avg(sf.value["amount"]).result()
        sf.value['avg']
        """
        if not self.has_state:
            return state
        if self._members is None:
            return state[_RESULTS[self._kind]]
        return obj({name: member.result(state[name]) for name, member in self._members.items()})

    def joined(self, other: Aggregation[Any]) -> Aggregation[Any]:
        """Combine with the members of another stream's aggregation (in a cogroup); the engine checks that they fit.

        >>> sf.agg(orders=sf.count()).joined(sf.agg(clicks=sf.count()))
        sf.agg(clicks=sf.count(), orders=sf.count())
        """
        if self._members is None or other._members is None:
            return self
        return Aggregation(self._kind, members={**other._members, **self._members})

    def __repr__(self) -> str:
        """Show the source text that creates it."""
        if self._members is not None:
            return f"sf.agg({', '.join(f'{name}={member!r}' for name, member in self._members.items())})"
        given = [] if self._of is None else [repr(self._of)]
        if self._size is not None:
            given.append(f"{_SIZES[self._kind]}={self._size}")
        if self._by is not None:
            given.append(f"by={self._by!r}")
        return f"sf.{self._kind}({', '.join(given)})"


_SIZES = {"collect": "limit", "collect_set": "limit", "top_k": "k", "approx_distinct": "precision"}


def count(of: Expression | None = None) -> Aggregation[int]:
    """Count records, or those for which the expression is not null.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str, value=int).group_by_key()
    >>> grouped.aggregate(sf.count().where(sf.value > 5), store="kept").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 7)])
    [to_stream]: a, 0
    [to_stream]: a, 1
    """
    return Aggregation("count", None if of is None else _of("count", of))


def sum(of: Expression | Literal) -> Aggregation[Any]:  # noqa: A001  # named as everywhere else
    """Sum numbers; 0 if there are none. Integers stay integers; a sum beyond 64 bits is an error.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str, value=int).group_by_key()
    >>> grouped.aggregate(sf.sum(sf.value), store="kept").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 7)])
    [to_stream]: a, 5
    [to_stream]: a, 12
    """
    return Aggregation("sum", _of("sum", of))


def min(of: Expression) -> Aggregation[Any]:  # noqa: A001
    """Return the smallest number or text.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str, value=int).group_by_key()
    >>> grouped.aggregate(sf.min(sf.value), store="kept").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 7)])
    [to_stream]: a, 5
    [to_stream]: a, 5
    """
    return Aggregation("min", _of("min", of))


def max(of: Expression) -> Aggregation[Any]:  # noqa: A001
    """Return the largest number or text.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str, value=int).group_by_key()
    >>> grouped.aggregate(sf.max(sf.value), store="kept").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 7)])
    [to_stream]: a, 5
    [to_stream]: a, 7
    """
    return Aggregation("max", _of("max", of))


def avg(of: Expression) -> Aggregation[float]:
    """Return the mean of numbers. The store holds `{"avg": ..., "count": ..., "sum": ...}`.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str, value=int).group_by_key()
    >>> grouped.aggregate(sf.avg(sf.value), store="kept").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 7)])
    [to_stream]: a, 5.0
    [to_stream]: a, 6.0
    """
    return Aggregation("avg", _of("avg", of))


def first(of: Expression) -> Aggregation[Any]:
    """Keep the first value (in sessions: of the earliest part).

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str, value=int).group_by_key()
    >>> grouped.aggregate(sf.first(sf.value), store="kept").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 7)])
    [to_stream]: a, 5
    [to_stream]: a, 5
    """
    return Aggregation("first", _of("first", of))


def last(of: Expression) -> Aggregation[Any]:
    """Keep the last value (in sessions: of the latest part).

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str, value=int).group_by_key()
    >>> grouped.aggregate(sf.last(sf.value), store="kept").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 7)])
    [to_stream]: a, 5
    [to_stream]: a, 7
    """
    return Aggregation("last", _of("last", of))


def collect(of: Expression, limit: int | None = None) -> Aggregation[list[Any]]:
    """List all values in their order; with a limit, only the last `limit` ones. Without a limit the list grows forever.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str, value=int).group_by_key()
    >>> grouped.aggregate(sf.collect(sf.value, limit=2), store="kept").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 7), ("a", 6)])
    [to_stream]: a, [5]
    [to_stream]: a, [5, 7]
    [to_stream]: a, [7, 6]
    """
    return Aggregation("collect", _of("collect", of), size=_size("collect", "limit", limit))


def collect_set(of: Expression, limit: int | None = None) -> Aggregation[list[Any]]:
    """List each value once, in order of first occurrence; with a limit, at most `limit` values.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str, value=int).group_by_key()
    >>> grouped.aggregate(sf.collect_set(sf.value), store="kept").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 7), ("a", 5)])
    [to_stream]: a, [5]
    [to_stream]: a, [5, 7]
    [to_stream]: a, [5, 7]
    """
    return Aggregation("collect_set", _of("collect_set", of), size=_size("collect_set", "limit", limit))


def top_k(of: Expression, k: int, by: Expression | None = None) -> Aggregation[list[Any]]:
    """List the `k` largest values, or those with the largest `by`, the largest first; of equal ones the earlier ones.

    With `by` the store holds `{"top": [...], "by": [...]}`.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str, value=int).group_by_key()
    >>> grouped.aggregate(sf.top_k(sf.value, k=2), store="kept").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 7), ("a", 6)])
    [to_stream]: a, [5]
    [to_stream]: a, [7, 5]
    [to_stream]: a, [7, 6]
    """
    rank = None if by is None else _of("top_k", by)
    return Aggregation("top_k", _of("top_k", of), by=rank, size=_size("top_k", "k", k))


def approx_distinct(of: Expression, precision: int = 12) -> Aggregation[int]:
    """Return the approximate number of distinct values (HyperLogLog).

    `precision` is in bits, 4 to 16: the standard error is 1.04 / sqrt(2 ** precision), 1.6 % for 12, and the store
    holds up to 2 ** precision bytes per key, as `{"estimate": ..., "bits": ..., "registers": ...}` (`"few"` while there
    are few values).

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str, value=int).group_by_key()
    >>> grouped.aggregate(sf.approx_distinct(sf.value), store="kept").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 7), ("a", 5)])
    [to_stream]: a, 1
    [to_stream]: a, 2
    [to_stream]: a, 2
    """
    size = _size("approx_distinct", "precision", precision)
    if size is not None and not 4 <= size <= 16:
        raise ValueError(f"approx_distinct(precision={precision}): give 4 to 16 bits")
    return Aggregation("approx_distinct", _of("approx_distinct", of), size=size)


def agg(
    members: dict[str, Aggregation[Any]] | None = None, /, **named: Aggregation[Any]
) -> Aggregation[dict[str, Any]]:
    """Return an object of several aggregations: `sf.agg(total=sf.sum(sf.value["amount"]), n=sf.count())`.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str, value=int).group_by_key()
    >>> grouped.aggregate(sf.agg(n=sf.count(), total=sf.sum(sf.value)), store="kept").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 7)])
    [to_stream]: a, {'n': 1, 'total': 5}
    [to_stream]: a, {'n': 2, 'total': 12}
    """
    together = {**(members or {}), **named}
    if not together:
        raise TypeError("sf.agg needs at least one aggregation: sf.agg(n=sf.count())")
    for name, member in together.items():
        if not isinstance(member, Aggregation) or member._members is not None:
            shown = "another sf.agg" if isinstance(member, Aggregation) else type(member).__name__
            raise TypeError(f"sf.agg({name}=...) takes an aggregation such as sf.sum(...), not {shown}")
    return Aggregation("agg", members=together)


def _of(name: str, of: object) -> Expression:
    if isinstance(of, Aggregation) or callable(of):
        raise TypeError(f'sf.{name} takes an expression such as sf.value["amount"], not {of!r}')
    if of is None:
        raise TypeError(f"sf.{name} of nothing: give an expression")
    return wrap(of)


def _size(name: str, parameter: str, size: int | None) -> int | None:
    if size is None:
        return None
    if not isinstance(size, int) or isinstance(size, bool):
        raise TypeError(f"sf.{name}({parameter}=...) takes a whole number, not {type(size).__name__}")
    if size < 1:
        raise ValueError(f"sf.{name}({parameter}={size}) keeps nothing: give 1 or more")
    return size
