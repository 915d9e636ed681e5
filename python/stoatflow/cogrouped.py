"""One aggregate over several grouped streams, each with an aggregator of its own.

Adds nodes, returns tables. The streams may have values of different types; their keys have one type.
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
    """Grouped streams that are aggregated together.

    >>> builder = sf.StreamsBuilder()
    >>> shop, web = (builder.stream(name, key=str, value=int).group_by_key() for name in ("shop", "web"))
    >>> sums = shop.cogroup(sf.agg(shop=sf.sum(sf.value))).cogroup(web, sf.agg(web=sf.sum(sf.value)))
    >>> sums.aggregate(store="sums").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("web", str, int).pipe("ann", 30)
    [to_stream]: ann, {'shop': 0, 'web': 30}
    """

    __slots__ = ()

    def cogroup(
        self,
        grouped: KGroupedStream[K, V],
        aggregator: Callable[[K, V, A], A | None] | Expression | Aggregation[Any],
    ) -> CogroupedKStream[K, A]:
        """Add a grouped stream with its `aggregator(key, value, agg)`, or with native aggregations of its own.

        >>> def add(key: str, n: int, total: int) -> int:
        ...     return total + n
        >>> builder = sf.StreamsBuilder()
        >>> shop, web = (builder.stream(topic, key=str, value=int).group_by_key() for topic in ("shop", "web"))
        >>> shop.cogroup(add).cogroup(web, add).aggregate(int, store="both", value=int).to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("shop", str, int).pipe("ann", 1)
        ...     driver.input("web", str, int).pipe("ann", 30)
        [to_stream]: ann, 1
        [to_stream]: ann, 31
        """
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
        """Aggregate all streams by key; `initializer()` returns a key's initial value.

        >>> builder = sf.StreamsBuilder()
        >>> shop, web = (builder.stream(topic, key=str, value=int).group_by_key() for topic in ("shop", "web"))
        >>> sums = shop.cogroup(sf.agg(shop=sf.sum(sf.value))).cogroup(web, sf.agg(web=sf.sum(sf.value)))
        >>> sums.aggregate(store="sums").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("web", str, int).pipe_all([("ann", 1), ("ann", 30)])
        [to_stream]: ann, {'shop': 0, 'web': 1}
        [to_stream]: ann, {'shop': 0, 'web': 31}
        """
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
        """Aggregate each key's records by window.

        >>> builder = sf.StreamsBuilder()
        >>> clicks, orders = (builder.stream(name, key=str, value=int).group_by_key() for name in ("clicks", "orders"))
        >>> both = clicks.cogroup(sf.agg(clicks=sf.count())).cogroup(orders, sf.agg(spent=sf.sum(sf.value)))
        >>> both.windowed_by(sf.TimeWindows("1m", grace="0s")).aggregate(store="both").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("clicks", str, int).pipe("ann", 1)
        ...     driver.input("orders", str, int).pipe("ann", 30)
        [to_stream]: Windowed(key='ann', window=Window(start=0, end=60000)), {'clicks': 1, 'spent': 0}
        [to_stream]: Windowed(key='ann', window=Window(start=0, end=60000)), {'clicks': 1, 'spent': 30}
        """
        at = self._windowed(windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self._plan, at)
        return TimeWindowedCogroupedKStream(self._plan, at)


class TimeWindowedCogroupedKStream(Folding, Generic[K, A]):
    """Grouped streams by time window.

    >>> builder = sf.StreamsBuilder()
    >>> shop, web = (builder.stream(name, key=str, value=int).group_by_key() for name in ("shop", "web"))
    >>> sums = shop.cogroup(sf.agg(shop=sf.sum(sf.value))).cogroup(web, sf.agg(web=sf.sum(sf.value)))
    >>> sums.windowed_by(sf.TimeWindows("1m", grace="0s")).aggregate(store="sums").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("web", str, int).pipe("ann", 30)
    [to_stream]: Windowed(key='ann', window=Window(start=0, end=60000)), {'shop': 0, 'web': 30}
    """

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
        """Aggregate all streams by key and window; `initializer()` returns a window's initial value.

        >>> builder = sf.StreamsBuilder()
        >>> clicks, orders = (builder.stream(name, key=str, value=int).group_by_key() for name in ("clicks", "orders"))
        >>> both = clicks.cogroup(sf.agg(clicks=sf.count())).cogroup(orders, sf.agg(spent=sf.sum(sf.value)))
        >>> both.windowed_by(sf.TimeWindows("1m", grace="0s")).aggregate(store="both").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("clicks", str, int).pipe("ann", 1)
        ...     driver.input("orders", str, int).pipe("ann", 30)
        [to_stream]: Windowed(key='ann', window=Window(start=0, end=60000)), {'clicks': 1, 'spent': 0}
        [to_stream]: Windowed(key='ann', window=Window(start=0, end=60000)), {'clicks': 1, 'spent': 30}
        """
        return self._aggregate(initializer, store, key, value, name, on_error)


class SessionWindowedCogroupedKStream(Folding, Generic[K, A]):
    """Grouped streams by session.

    >>> builder = sf.StreamsBuilder()
    >>> shop, web = (builder.stream(name, key=str, value=int).group_by_key() for name in ("shop", "web"))
    >>> sums = shop.cogroup(sf.agg(shop=sf.sum(sf.value))).cogroup(web, sf.agg(web=sf.sum(sf.value)))
    >>> sums.windowed_by(sf.SessionWindows("1m", grace="0s")).aggregate(store="sums").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("web", str, int).pipe("ann", 30)
    [to_stream]: Windowed(key='ann', window=Window(start=0, end=0)), {'shop': 0, 'web': 30}
    """

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
        """Aggregate by key and session, starting with `initializer()`; `merger(key, one, two)` merges sessions.

        >>> builder = sf.StreamsBuilder()
        >>> clicks, orders = (builder.stream(name, key=str, value=int).group_by_key() for name in ("clicks", "orders"))
        >>> both = clicks.cogroup(sf.agg(clicks=sf.count())).cogroup(orders, sf.agg(spent=sf.sum(sf.value)))
        >>> both.windowed_by(sf.SessionWindows("30s", grace="0s")).aggregate(store="both").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("clicks", str, int).pipe("ann", 1)
        ...     driver.input("orders", str, int).pipe("ann", 30)
        [to_stream]: Windowed(key='ann', window=Window(start=0, end=0)), {'clicks': 1, 'spent': 0}
        [to_stream]: Windowed(key='ann', window=Window(start=0, end=0)), {'clicks': 1, 'spent': 30}
        """
        return self._aggregate(initializer, store, key, value, name, on_error, merger=merger)
