"""One aggregate over several grouped streams, each with an aggregator of its own.

Adds nodes, gives tables. The streams may have values of different types; their keys are of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from stoatflow._dsl.folding import Folding
from stoatflow.aggregations import Aggregation
from stoatflow.expressions import Expression
from stoatflow.grouped import KGroupedStream
from stoatflow.handlers import OnError
from stoatflow.materialized import Materialized
from stoatflow.plan.functions import needed, user_line
from stoatflow.serdes import SerdeLike
from stoatflow.table import KTable
from stoatflow.windowed import Windowed
from stoatflow.windows import CountWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class CogroupedKStream(Folding, Generic[K, A]):
    """Grouped streams that one aggregate is made of."""

    __slots__ = ()

    def cogroup(
        self,
        grouped: KGroupedStream[K, V],
        aggregator: Callable[[K, V, A], A | None] | Expression | Aggregation[Any],
    ) -> CogroupedKStream[K, A]:
        """Add a grouped stream with its `aggregator(key, value, agg)`, or with native aggregations of its own."""
        needed(grouped, KGroupedStream, "cogroup", user_line(), "pass stream.group_by_key() or stream.group_by(...)")
        return CogroupedKStream(self._plan, self._cogroup(aggregator, grouped))

    @overload
    def aggregate(
        self,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[Any] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, Any]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, A]: ...
    def aggregate(
        self,
        initializer: Callable[[], Any] | Expression | None = None,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[A] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, A]:
        """Start each key with `initializer()`."""
        return self._aggregate(initializer, store, key, value, name, on_error)

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream[K, A]: ...
    @overload
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows | CountWindows
    ) -> TimeWindowedCogroupedKStream[K, A]: ...
    def windowed_by(
        self, windows: Windows
    ) -> SessionWindowedCogroupedKStream[K, A] | TimeWindowedCogroupedKStream[K, A]:
        """Put each key's records into windows."""
        at = self._windowed(windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self._plan, at)
        return TimeWindowedCogroupedKStream(self._plan, at)


class TimeWindowedCogroupedKStream(Folding, Generic[K, A]):
    """Grouped streams by time window."""

    __slots__ = ()

    @overload
    def aggregate(
        self,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[Any] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[Windowed[K], Any]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initializer: Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[Windowed[K], A]: ...
    def aggregate(
        self,
        initializer: Callable[[], Any] | Expression | None = None,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[A] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[Windowed[K], A]:
        """Start each window with `initializer()`."""
        return self._aggregate(initializer, store, key, value, name, on_error)


class SessionWindowedCogroupedKStream(Folding, Generic[K, A]):
    """Grouped streams by session."""

    __slots__ = ()

    @overload
    def aggregate(
        self,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[Any] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[Windowed[K], Any]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        merger: Callable[[K, A, A], A | None],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initializer: Expression,
        merger: Callable[[K, A, A], A | None] | Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[Windowed[K], A]: ...
    def aggregate(
        self,
        initializer: Callable[[], Any] | Expression | None = None,
        merger: Callable[..., Any] | Expression | None = None,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[A] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[Windowed[K], A]:
        """Start each session with `initializer()`; `merger(key, one, two)` puts sessions together."""
        return self._aggregate(initializer, store, key, value, name, on_error, merger=merger)
