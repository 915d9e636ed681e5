"""Records grouped by key, and the tables made of them.

Takes aggregators, adds nodes, gives tables. Aggregation functions see one key at a time, in the
order of its records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

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
        udf = callable_only(fn, AGG_VALUE, "reduce", line, "pass a function: expressions can't see the aggregate")
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
        initializer: Callable[[], Any] | Expression,
        aggregator: Callable[[Any, Any, Any], Any],
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
    ) -> KTable[Any, Any]:
        """Start with `initializer()`, go on with `aggregator(key, value, agg)`; `None` deletes the key.

        Never change `agg` in place: give a new one.
        """
        line = user_line()
        start = function(initializer, NOTHING, "aggregate", line)
        if isinstance(start, Expression) and not start.is_literal:
            raise TopologyError(
                f"{line} aggregate: the initializer {start!r} is no constant, and there is no record yet to read",
                next_step="use sf.lit(...) or a function without parameters",
            )
        udf = callable_only(
            aggregator, KEY_VALUE_AGG, "aggregate", line, "pass a function: expressions can't see the aggregate"
        )
        node = nodes.Aggregate(
            line=line,
            name=name,
            parent=self._at,
            initializer=start,
            function=udf,
            materialized=store_spec(store, key, value, "aggregate", line),
        )
        return KTable(self._plan, self._plan.add(node))
