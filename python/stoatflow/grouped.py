"""Records or table rows grouped by key, and the tables made of them.

Takes aggregators, adds nodes, gives tables. Aggregation functions see one key at a time, in the
order of its records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

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
    """Records grouped by key: what is missing is how to make one value of them."""

    __slots__ = ()

    def count(
        self,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[int] | None = None,
        name: str | None = None,
    ) -> KTable[K, int]:
        """Count records per key. Written as 8 bytes big-endian, as Kafka Streams does."""
        return self._count(store, key, value, name)

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
        """Make one value with `fn(agg, value)`; the first value is taken as it is, `None` deletes the key."""
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
        aggregator: Callable[[K, V, A], A | None] | Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, A]: ...
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
        """Start with `initializer()`, go on with `aggregator(key, value, agg)`; `None` deletes the key.

        Never change `agg` in place: give a new one. Natively: `aggregate(sf.sum(sf.value["amount"]), store=...)`.
        """
        return self._aggregate(initializer, store, key, value, name, on_error, function=aggregator)

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...
    @overload
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows | CountWindows
    ) -> TimeWindowedKStream[K, V]: ...
    def windowed_by(self, windows: Windows) -> SessionWindowedKStream[K, V] | TimeWindowedKStream[K, V]:
        """Put each key's records into windows; the kind of windows decides what comes next."""
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
        """Begin an aggregate over several grouped streams; `aggregator(key, value, agg)` is this one's.

        Natively: `clicks.cogroup(sf.agg(clicks=sf.count())).cogroup(orders, sf.agg(spent=sf.sum(...)))`.
        """
        from stoatflow.cogrouped import CogroupedKStream

        return CogroupedKStream(self._plan, self._cogroup(aggregator))


class KGroupedTable(Folding, Generic[K, V]):
    """Rows of a table grouped by another key. An update takes its old row away and adds its new one."""

    __slots__ = ()

    def count(
        self,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[int] | None = None,
        name: str | None = None,
    ) -> KTable[K, int]:
        """Count rows per key. A key whose last row left stays, with 0."""
        return self._count(store, key, value, name)

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
        """Make one value with `adder(agg, value)`; `subtractor(agg, value)` takes a value away again."""
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
        adder: Callable[[K, V, A], A | None] | Expression,
        subtractor: Callable[[K, V, A], A | None] | Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, A]: ...
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
        """Start with `initializer()`; `adder` and `subtractor` take `(key, value, agg)`. Or pass `sf.sum`, `sf.avg`.

        The subtractor may see a key that the adder has not seen since it was deleted.
        """
        return self._aggregate(initializer, store, key, value, name, on_error, function=adder, subtractor=subtractor)
