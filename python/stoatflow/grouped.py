"""Records or table rows grouped by key, and the tables made of them.

Takes aggregators, adds nodes, gives tables. Aggregation functions see one key at a time, in the
order of its records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.materialized import Materialized, store_spec
from stoatflow.plan import Handle, nodes
from stoatflow.plan.functions import (
    AGG_VALUE,
    KEY_VALUE_AGG,
    NOTHING,
    callable_only,
    function,
    user_line,
)
from stoatflow.serdes import SerdeLike
from stoatflow.table import KTable
from stoatflow.windows import CountWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

if TYPE_CHECKING:
    from stoatflow.cogrouped import CogroupedKStream
    from stoatflow.windowed_stream import SessionWindowedKStream, TimeWindowedKStream

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class KGroupedStream(Handle, Generic[K, V]):
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
        line = user_line()
        kept = store_spec(store, key, value, "count", line)
        return KTable(self._plan, self._plan.add(nodes.Count(line=line, name=name, parent=self._at, materialized=kept)))

    def reduce(
        self,
        fn: Callable[[V, V], V | None],
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Make one value with `fn(agg, value)`; the first value is taken as it is, `None` deletes the key."""
        line = user_line()
        udf = fold_function(fn, AGG_VALUE, "reduce", line)
        kept = store_spec(store, key, value, "reduce", line)
        return KTable(
            self._plan,
            self._plan.add(nodes.Reduce(line=line, name=name, parent=self._at, function=udf, materialized=kept)),
        )

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
    ) -> KTable[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Expression,
        aggregator: Callable[[K, V, A], A | None],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
    ) -> KTable[K, A]: ...
    def aggregate(
        self,
        initializer: Callable[[], A] | Expression,
        aggregator: Callable[[K, V, A], A | None],
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[A] | None = None,
        name: str | None = None,
    ) -> KTable[K, A]:
        """Start with `initializer()`, go on with `aggregator(key, value, agg)`; `None` deletes the key.

        Never change `agg` in place: give a new one.
        """
        line = user_line()
        node = nodes.Aggregate(
            line=line,
            name=name,
            parent=self._at,
            initializer=initializer_of(initializer, line),
            function=fold_function(aggregator, KEY_VALUE_AGG, "aggregate", line),
            materialized=store_spec(store, key, value, "aggregate", line),
        )
        return KTable(self._plan, self._plan.add(node))

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...
    @overload
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows | CountWindows
    ) -> TimeWindowedKStream[K, V]: ...
    def windowed_by(self, windows: Windows) -> SessionWindowedKStream[K, V] | TimeWindowedKStream[K, V]:
        """Put each key's records into windows; the kind of windows decides what comes next."""
        from stoatflow.windowed_stream import SessionWindowedKStream, TimeWindowedKStream

        line = user_line()
        spec = window_spec(windows, line)
        idle = windows.close_when_idle_ms
        at = self._plan.add(nodes.WindowedBy(line=line, parent=self._at, window=spec, close_when_idle_ms=idle))
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self._plan, at)
        return TimeWindowedKStream(self._plan, at)

    def cogroup(self, aggregator: Callable[[K, V, A], A | None]) -> CogroupedKStream[K, A]:
        """Begin an aggregate over several grouped streams; `aggregator(key, value, agg)` is this one's."""
        from stoatflow.cogrouped import CogroupedKStream

        line = user_line()
        udf = fold_function(aggregator, KEY_VALUE_AGG, "cogroup", line)
        return CogroupedKStream(self._plan, self._plan.add(nodes.Cogroup(line=line, parent=self._at, function=udf)))


class KGroupedTable(Handle, Generic[K, V]):
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
        line = user_line()
        kept = store_spec(store, key, value, "count", line)
        return KTable(self._plan, self._plan.add(nodes.Count(line=line, name=name, parent=self._at, materialized=kept)))

    def reduce(
        self,
        adder: Callable[[V, V], V | None],
        subtractor: Callable[[V, V], V | None],
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Make one value with `adder(agg, value)`; `subtractor(agg, value)` takes a value away again."""
        line = user_line()
        node = nodes.Reduce(
            line=line,
            name=name,
            parent=self._at,
            function=fold_function(adder, AGG_VALUE, "reduce", line),
            subtractor=fold_function(subtractor, AGG_VALUE, "reduce", line),
            materialized=store_spec(store, key, value, "reduce", line),
        )
        return KTable(self._plan, self._plan.add(node))

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
    ) -> KTable[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Expression,
        adder: Callable[[K, V, A], A | None],
        subtractor: Callable[[K, V, A], A | None],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[A] | None = ...,
        name: str | None = ...,
    ) -> KTable[K, A]: ...
    def aggregate(
        self,
        initializer: Callable[[], A] | Expression,
        adder: Callable[[K, V, A], A | None],
        subtractor: Callable[[K, V, A], A | None],
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[A] | None = None,
        name: str | None = None,
    ) -> KTable[K, A]:
        """Start with `initializer()`; `adder` and `subtractor` take `(key, value, agg)`.

        The subtractor may see a key that the adder has not seen since it was deleted.
        """
        line = user_line()
        node = nodes.Aggregate(
            line=line,
            name=name,
            parent=self._at,
            initializer=initializer_of(initializer, line),
            function=fold_function(adder, KEY_VALUE_AGG, "aggregate", line),
            subtractor=fold_function(subtractor, KEY_VALUE_AGG, "aggregate", line),
            materialized=store_spec(store, key, value, "aggregate", line),
        )
        return KTable(self._plan, self._plan.add(node))


def initializer_of(initializer: Callable[[], Any] | Expression, line: str) -> nodes.Function:
    """Check what an aggregate starts with: a function without parameters, or a constant."""
    start = function(initializer, NOTHING, "aggregate", line)
    if isinstance(start, Expression) and not start.is_literal:
        raise TopologyError(
            f"{line} aggregate: the initializer {start!r} is no constant, and there is no record yet to read",
            next_step="use sf.lit(...) or a function without parameters",
        )
    return start


def fold_function(fn: Callable[..., Any], shape: tuple[str, ...], method: str, line: str) -> nodes.Udf:
    """Check a function that sees the aggregate."""
    return callable_only(fn, shape, method, line, "pass a function: expressions can't see the aggregate")


def window_spec(windows: object, line: str) -> nodes.WindowSpec:
    """Check what `windowed_by` was given."""
    if not isinstance(windows, Windows):
        raise TopologyError(
            f"{line} windowed_by needs windows, not {type(windows).__name__}",
            next_step="pass TimeWindows, SlidingWindows, SessionWindows, UnlimitedWindows or CountWindows",
        )
    return windows.spec
