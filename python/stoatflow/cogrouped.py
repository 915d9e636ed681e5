"""One aggregate over several grouped streams, each with an aggregator of its own.

Adds nodes, gives tables. The streams may have values of different types; their keys are of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from stoatflow.expressions import Expression
from stoatflow.grouped import KGroupedStream, fold_function, initializer_of, window_spec
from stoatflow.materialized import Materialized, store_spec
from stoatflow.plan import Handle, nodes
from stoatflow.plan.builder import same_plan
from stoatflow.plan.functions import KEY_VALUE_AGG, user_line
from stoatflow.serdes import SerdeLike
from stoatflow.table import KTable
from stoatflow.windowed import Windowed
from stoatflow.windowed_stream import KEY_AGG_AGG
from stoatflow.windows import CountWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class _Cogrouped(Handle, Generic[K, A]):
    __slots__ = ()

    def _aggregate(
        self,
        initializer: Callable[[], A] | Expression,
        store: str | Materialized | None,
        key: SerdeLike[Any] | None,
        value: SerdeLike[A] | None,
        name: str | None,
        merger: Callable[[K, A, A], A | None] | None = None,
    ) -> int:
        line = user_line()
        merge = None if merger is None else fold_function(merger, KEY_AGG_AGG, "aggregate(merger)", line)
        node = nodes.Aggregate(
            line=line,
            name=name,
            parent=self._at,
            initializer=initializer_of(initializer, line),
            merger=merge,
            materialized=store_spec(store, key, value, "aggregate", line),
        )
        return self._plan.add(node)


class CogroupedKStream(_Cogrouped[K, A]):
    """Grouped streams that one aggregate is made of."""

    __slots__ = ()

    def cogroup(
        self, grouped: KGroupedStream[K, V], aggregator: Callable[[K, V, A], A | None]
    ) -> CogroupedKStream[K, A]:
        """Add a grouped stream with its `aggregator(key, value, agg)`."""
        line = user_line()
        node = nodes.Cogroup(
            line=line,
            parent=self._at,
            other=same_plan(self, grouped, line, "cogroup"),
            function=fold_function(aggregator, KEY_VALUE_AGG, "cogroup", line),
        )
        return CogroupedKStream(self._plan, self._plan.add(node))

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
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
    ) -> KTable[K, A]: ...
    def aggregate(
        self,
        initializer: Callable[[], A] | Expression,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[A] | None = None,
        name: str | None = None,
    ) -> KTable[K, A]:
        """Start each key with `initializer()`."""
        return KTable(self._plan, self._aggregate(initializer, store, key, value, name))

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
        line = user_line()
        spec = window_spec(windows, line)
        idle = windows.close_when_idle_ms
        at = self._plan.add(nodes.WindowedBy(line=line, parent=self._at, window=spec, close_when_idle_ms=idle))
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self._plan, at)
        return TimeWindowedCogroupedKStream(self._plan, at)


class TimeWindowedCogroupedKStream(_Cogrouped[K, A]):
    """Grouped streams by time window."""

    __slots__ = ()

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
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
    ) -> KTable[Windowed[K], A]: ...
    def aggregate(
        self,
        initializer: Callable[[], A] | Expression,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[A] | None = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], A]:
        """Start each window with `initializer()`."""
        return KTable(self._plan, self._aggregate(initializer, store, key, value, name))


class SessionWindowedCogroupedKStream(_Cogrouped[K, A]):
    """Grouped streams by session."""

    __slots__ = ()

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
    ) -> KTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initializer: Expression,
        merger: Callable[[K, A, A], A | None],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
    ) -> KTable[Windowed[K], A]: ...
    def aggregate(
        self,
        initializer: Callable[[], A] | Expression,
        merger: Callable[[K, A, A], A | None],
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[A] | None = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], A]:
        """Start each session with `initializer()`; `merger(key, one, two)` puts sessions together."""
        return KTable(self._plan, self._aggregate(initializer, store, key, value, name, merger))
