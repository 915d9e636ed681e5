"""Records or table rows grouped by key, and their aggregation to tables.

Takes aggregators, adds nodes, returns tables. Aggregation functions get one key at a time, in the order of its records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from stoatflow._dsl.by_keyword import by_keyword
from stoatflow._dsl.folding import Folding
from stoatflow.aggregations import Aggregation
from stoatflow.expressions import Expression
from stoatflow.handlers import OnError
from stoatflow.materialized import Materialized
from stoatflow.serdes import SerdeLike
from stoatflow.table import KTable
from stoatflow.windows import CountWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

if TYPE_CHECKING:
    from stoatflow.cogrouped import CogroupedKStream
    from stoatflow.windowed_stream import SessionWindowedKStream, TimeWindowedKStream

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class KGroupedStream(Folding, Generic[K, V]):
    """Records grouped by key, to be counted, reduced, aggregated or windowed.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str, value=int).group_by_key()
    >>> grouped.reduce(max, store="most").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 2)])
    [to_stream]: a, 5
    [to_stream]: a, 5
    """

    __slots__ = ()

    @by_keyword
    def count(
        self,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[int] | None = None,
        name: str | None = None,
    ) -> KTable[K, int]:
        """Count records per key. The count is serialized as 8 bytes big-endian, as in Kafka Streams.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.group_by_key().count(store="counts").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 6)])
        [to_stream]: a, 1
        [to_stream]: a, 2
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
    ) -> KTable[K, V]:
        """Combine values with `fn(agg, value)`; the first value is used as it is, `None` deletes the key.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.group_by_key().reduce(lambda total, n: total + n, store="sums").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 6)])
        [to_stream]: a, 5
        [to_stream]: a, 11
        """
        return self._reduce(fn, store, key, value, name, on_error)

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
    ) -> KTable[K, A]: ...
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
    ) -> KTable[K, A]: ...
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
    ) -> KTable[K, Any]: ...
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
    ) -> KTable[K, A]: ...
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
    ) -> KTable[K, A]:
        """Aggregate with `aggregator(key, value, agg)`, starting from `initializer()`; `None` deletes the key.

        Never change `agg` in place: return a new one. Natively: `aggregate(sf.sum(sf.value["amount"]), store=...)`.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.group_by_key().aggregate(sf.avg(sf.value), store="means").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 6)])
        [to_stream]: a, 5.0
        [to_stream]: a, 5.5
        """
        return self._aggregate(initializer, store, key, value, name, on_error, function=aggregator)

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...
    @overload
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows | CountWindows
    ) -> TimeWindowedKStream[K, V]: ...
    def windowed_by(self, windows: Windows) -> SessionWindowedKStream[K, V] | TimeWindowedKStream[K, V]:
        """Group each key's records into windows; the kind of windows decides which methods follow.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.group_by_key().windowed_by(sf.UnlimitedWindows()).count(store="counts").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 5), ("a", 6)])
        [to_stream]: Windowed(key='a', window=Window(start=0, end=9223372036854775807)), 1
        [to_stream]: Windowed(key='a', window=Window(start=0, end=9223372036854775807)), 2
        """
        from stoatflow.windowed_stream import SessionWindowedKStream, TimeWindowedKStream

        at = self._windowed(windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self._plan, at)
        return TimeWindowedKStream(self._plan, at)

    @overload
    def cogroup(self, aggregator: Callable[[K, V, A], A | None]) -> CogroupedKStream[K, A]: ...
    @overload
    def cogroup(self, aggregator: Expression | Aggregation[Any]) -> CogroupedKStream[K, Any]: ...
    def cogroup(self, aggregator: Callable[..., Any] | Expression | Aggregation[Any]) -> CogroupedKStream[K, Any]:
        """Begin an aggregate over several grouped streams; `aggregator(key, value, agg)` is for this stream.

        Natively: `clicks.cogroup(sf.agg(clicks=sf.count())).cogroup(orders, sf.agg(spent=sf.sum(...)))`.

        >>> builder = sf.StreamsBuilder()
        >>> clicks, orders = (builder.stream(name, key=str, value=int).group_by_key() for name in ("clicks", "orders"))
        >>> both = clicks.cogroup(sf.agg(clicks=sf.count())).cogroup(orders, sf.agg(spent=sf.sum(sf.value)))
        >>> both.aggregate(store="both").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("clicks", str, int).pipe("ann", 1)
        ...     driver.input("orders", str, int).pipe("ann", 30)
        [to_stream]: ann, {'clicks': 1, 'spent': 0}
        [to_stream]: ann, {'clicks': 1, 'spent': 30}
        """
        from stoatflow.cogrouped import CogroupedKStream

        return CogroupedKStream(self._plan, self._cogroup(aggregator))


class KGroupedTable(Folding, Generic[K, V]):
    """Rows of a table grouped by another key. An update subtracts the old row and adds the new one.

    >>> builder = sf.StreamsBuilder()
    >>> cities = builder.table("cities", key=str, value=str, store="cities")
    >>> cities.group_by((sf.value, sf.key), key=str, value=str).count(store="counts").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("cities", str, str).pipe_all([("ann", "Oslo"), ("bob", "Oslo")])
    [to_stream]: Oslo, 1
    [to_stream]: Oslo, 2
    """

    __slots__ = ()

    @by_keyword
    def count(
        self,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[int] | None = None,
        name: str | None = None,
    ) -> KTable[K, int]:
        """Count rows per key. A key that has no row left keeps the count 0.

        >>> builder = sf.StreamsBuilder()
        >>> cities = builder.table("cities", key=str, value=str, store="cities")
        >>> by_city = cities.group_by((sf.value, sf.key), key=str, value=str)
        >>> by_city.count(store="counts").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("cities", str, str).pipe_all([("ann", "Oslo"), ("bob", "Oslo"), ("ann", "Bergen")])
        [to_stream]: Oslo, 1
        [to_stream]: Oslo, 2
        [to_stream]: Oslo, 1
        [to_stream]: Bergen, 1
        """
        return self._count(store, key, value, name)

    @by_keyword
    def reduce(
        self,
        adder: Callable[[V, V], V | None] | Expression,
        subtractor: Callable[[V, V], V | None] | Expression,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V]:
        """Combine values with `adder(agg, value)`; `subtractor(agg, value)` removes a value.

        >>> builder = sf.StreamsBuilder()
        >>> table = builder.table("n", key=str, value=int, store="n")
        >>> totals = table.group_by((sf.lit("all"), sf.value), key=str, value=int)
        >>> totals.reduce(lambda total, n: total + n, lambda total, n: total - n, store="total").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 5), ("b", 6), ("a", 1)])
        [to_stream]: all, 5
        [to_stream]: all, 11
        [to_stream]: all, 7
        """
        return self._reduce(adder, store, key, value, name, on_error, subtractor=subtractor)

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
    ) -> KTable[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A | None],
        subtractor: Callable[[K, V, A], A | None],
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
        adder: Expression,
        subtractor: Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, Any]: ...
    @overload
    def aggregate(
        self,
        initializer: Expression,
        adder: Callable[[K, V, A], A | None] | Expression,
        subtractor: Callable[[K, V, A], A | None] | Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, A]: ...
    @by_keyword
    def aggregate(
        self,
        initializer: Callable[[], Any] | Expression | Aggregation[Any],
        adder: Callable[..., Any] | Expression | None = None,
        subtractor: Callable[..., Any] | Expression | None = None,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[A] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, A]:
        """Aggregate from `initializer()` on with `adder(key, value, agg)` and `subtractor`; or pass `sf.sum`, `sf.avg`.

        The subtractor may be called for a key whose aggregate was deleted before the adder is called for it.

        >>> builder = sf.StreamsBuilder()
        >>> table = builder.table("n", key=str, value=int, store="n")
        >>> totals = table.group_by((sf.lit("all"), sf.value), key=str, value=int)
        >>> totals.aggregate(sf.sum(sf.value), store="total").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 5), ("b", 6), ("a", 1)])
        [to_stream]: all, 5
        [to_stream]: all, 11
        [to_stream]: all, 7
        """
        return self._aggregate(initializer, store, key, value, name, on_error, function=adder, subtractor=subtractor)
