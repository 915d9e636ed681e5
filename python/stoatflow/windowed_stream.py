"""Records grouped by key and window, and their aggregation to tables, keyed by `Windowed`.

Takes aggregators, adds nodes, returns tables. Records of windows whose end plus grace has passed are late: they are
dropped and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from stoatflow._dsl.by_keyword import by_keyword
from stoatflow._dsl.folding import Folding
from stoatflow.aggregations import Aggregation
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.handlers import OnError
from stoatflow.materialized import Materialized
from stoatflow.plan import nodes
from stoatflow.plan.functions import user_line
from stoatflow.serdes import SerdeLike
from stoatflow.table import KTable
from stoatflow.windowed import Windowed
from stoatflow.windows import EmitStrategy

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class _WindowedKStream(Folding, Generic[K, V]):
    """What time windows and sessions share."""

    __slots__ = ()

    def _emit(self, strategy: EmitStrategy) -> int:
        line = user_line()
        if not isinstance(strategy, EmitStrategy):
            raise TopologyError(
                f"{line} emit_strategy needs an EmitStrategy, not {strategy!r}",
                next_step="pass EmitStrategy.on_window_close() or EmitStrategy.on_window_update()",
            )
        return self._plan.add(nodes.EmitStrategyNode(line=line, parent=self._at, strategy=strategy.value))

    @by_keyword
    def count(
        self,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[int] | None = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], int]:
        """Count records per key and window; records without a value count too.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> windowed = numbers.group_by_key().windowed_by(sf.TimeWindows("1m", grace="0s"))
        >>> windowed.count(store="counts").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     for second in (1, 2, 61):
        ...         driver.input("n", str, int).pipe("a", 5, timestamp=second * 1000)
        [to_stream]: Windowed(key='a', window=Window(start=0, end=60000)), 1
        [to_stream]: Windowed(key='a', window=Window(start=0, end=60000)), 2
        [to_stream]: Windowed(key='a', window=Window(start=60000, end=120000)), 1
        """
        return self._count(store, key, value, name)

    @by_keyword
    def reduce(
        self,
        fn: Callable[[V, V], V | None] | Expression,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[Windowed[K], V]:
        """Combine values with `fn(agg, value)`; the first value of a window is used as it is.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> windowed = numbers.group_by_key().windowed_by(sf.TimeWindows("1m", grace="0s"))
        >>> windowed.reduce(max, store="most").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     for second in (1, 2, 61):
        ...         driver.input("n", str, int).pipe("a", second, timestamp=second * 1000)
        [to_stream]: Windowed(key='a', window=Window(start=0, end=60000)), 1
        [to_stream]: Windowed(key='a', window=Window(start=0, end=60000)), 2
        [to_stream]: Windowed(key='a', window=Window(start=60000, end=120000)), 61
        """
        return self._reduce(fn, store, key, value, name, on_error)


class TimeWindowedKStream(_WindowedKStream[K, V]):
    """Records by key and time window.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str).group_by_key()
    >>> grouped.windowed_by(sf.TimeWindows("1m", grace="0s")).count(store="counts").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     for second in (1, 2, 61):
    ...         driver.input("n", str, bytes).pipe("a", b"", timestamp=second * 1000)
    [to_stream]: Windowed(key='a', window=Window(start=0, end=60000)), 1
    [to_stream]: Windowed(key='a', window=Window(start=0, end=60000)), 2
    [to_stream]: Windowed(key='a', window=Window(start=60000, end=120000)), 1
    """

    __slots__ = ()

    def emit_strategy(self, strategy: EmitStrategy) -> TimeWindowedKStream[K, V]:
        """Set when windows emit results: after each record, or once when they close.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> windowed = numbers.group_by_key().windowed_by(sf.TimeWindows("1m", grace="0s"))
        >>> windowed.emit_strategy(sf.EmitStrategy.on_window_close()).count(store="counts").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     for second in (1, 2, 61):
        ...         driver.input("n", str, int).pipe("a", 5, timestamp=second * 1000)
        [to_stream]: Windowed(key='a', window=Window(start=0, end=60000)), 2
        """
        return TimeWindowedKStream(self._plan, self._emit(strategy))

    @overload
    def aggregate(
        self,
        aggregation: Aggregation[A],
        /,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[Any] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
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
        aggregator: Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[Windowed[K], Any]: ...
    @overload
    def aggregate(
        self,
        initializer: Expression,
        aggregator: Callable[[K, V, A], A | None] | Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[Windowed[K], A]: ...
    @by_keyword
    def aggregate(
        self,
        initializer: Callable[[], Any] | Expression | Aggregation[Any],
        aggregator: Callable[..., Any] | Expression | None = None,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[A] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[Windowed[K], A]:
        """Aggregate with `aggregator(key, value, agg)`, starting each window with `initializer()`.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> windowed = numbers.group_by_key().windowed_by(sf.TimeWindows("1m", grace="0s"))
        >>> windowed.aggregate(sf.sum(sf.value), store="sums").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     for second in (1, 2, 61):
        ...         driver.input("n", str, int).pipe("a", 5, timestamp=second * 1000)
        [to_stream]: Windowed(key='a', window=Window(start=0, end=60000)), 5
        [to_stream]: Windowed(key='a', window=Window(start=0, end=60000)), 10
        [to_stream]: Windowed(key='a', window=Window(start=60000, end=120000)), 5
        """
        return self._aggregate(initializer, store, key, value, name, on_error, function=aggregator)


class SessionWindowedKStream(_WindowedKStream[K, V]):
    """Records by key and session.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str).group_by_key()
    >>> grouped.windowed_by(sf.SessionWindows("30s", grace="0s")).count(store="counts").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     for second in (1, 2):
    ...         driver.input("n", str, bytes).pipe("a", b"", timestamp=second * 1000)
    [to_stream]: Windowed(key='a', window=Window(start=1000, end=1000)), 1
    [to_stream]: Windowed(key='a', window=Window(start=1000, end=1000)), None
    [to_stream]: Windowed(key='a', window=Window(start=1000, end=2000)), 2
    """

    __slots__ = ()

    def emit_strategy(self, strategy: EmitStrategy) -> SessionWindowedKStream[K, V]:
        """Set when sessions emit results: after each record, or once when they close.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> windowed = numbers.group_by_key().windowed_by(sf.SessionWindows("30s", grace="0s"))
        >>> windowed.emit_strategy(sf.EmitStrategy.on_window_close()).count(store="counts").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     for second in (1, 2, 61):
        ...         driver.input("n", str, int).pipe("a", 5, timestamp=second * 1000)
        [to_stream]: Windowed(key='a', window=Window(start=1000, end=2000)), 2
        """
        return SessionWindowedKStream(self._plan, self._emit(strategy))

    @overload
    def aggregate(
        self,
        aggregation: Aggregation[A],
        /,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[Any] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
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
        aggregator: Expression,
        merger: Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[Windowed[K], Any]: ...
    @overload
    def aggregate(
        self,
        initializer: Expression,
        aggregator: Callable[[K, V, A], A | None] | Expression,
        merger: Callable[[K, A, A], A | None] | Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[Windowed[K], A]: ...
    @by_keyword
    def aggregate(
        self,
        initializer: Callable[[], Any] | Expression | Aggregation[Any],
        aggregator: Callable[..., Any] | Expression | None = None,
        merger: Callable[..., Any] | Expression | None = None,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[A] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[Windowed[K], A]:
        """Aggregate as for time windows; `merger(key, one, two)` merges sessions that a record connects.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> windowed = numbers.group_by_key().windowed_by(sf.SessionWindows("30s", grace="0s"))
        >>> windowed.aggregate(sf.sum(sf.value), store="sums").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     for second in (1, 61):
        ...         driver.input("n", str, int).pipe("a", 5, timestamp=second * 1000)
        [to_stream]: Windowed(key='a', window=Window(start=1000, end=1000)), 5
        [to_stream]: Windowed(key='a', window=Window(start=61000, end=61000)), 5
        """
        return self._aggregate(initializer, store, key, value, name, on_error, function=aggregator, merger=merger)
