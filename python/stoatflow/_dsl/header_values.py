"""Values with headers, as stores with `headers=True` take and return them. Public in `stoatflow.stores`."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

__all__ = ["AggregationWithHeaders", "ValueTimestampHeaders"]

V = TypeVar("V")


# A NamedTuple can't be generic before Python 3.11.
class _ValueTimestampHeaders(NamedTuple):
    value: Any
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class ValueTimestampHeaders(_ValueTimestampHeaders, Generic[V]):
    """A value of a store with headers, its timestamp, and its headers as in `Record.headers`.

    >>> sf.ValueTimestampHeaders(42, 1000, (("trace", b"7f"),)).headers
    (('trace', b'7f'),)
    """

    __slots__ = ()

    value: V
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


class _AggregationWithHeaders(NamedTuple):
    aggregation: Any
    headers: tuple[tuple[str, bytes | None], ...] = ()


class AggregationWithHeaders(_AggregationWithHeaders, Generic[V]):
    """A value of a session store with headers, and its headers as in `Record.headers`.

    >>> sf.AggregationWithHeaders(42, (("trace", b"7f"),)).headers
    (('trace', b'7f'),)
    """

    __slots__ = ()

    aggregation: V
    headers: tuple[tuple[str, bytes | None], ...]
