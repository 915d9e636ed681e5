"""Builds plan nodes from aggregation calls, for everything that can be aggregated.

Takes functions and the arguments for the store, checks them, adds a node, returns the table. Which functions a kind of
grouping accepts, and in which order, is defined by its own class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stoatflow.aggregations import Aggregation
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression, lit
from stoatflow.handlers import OnError, handler
from stoatflow.materialized import Materialized, store_spec
from stoatflow.plan import Handle, nodes
from stoatflow.plan.builder import same_plan
from stoatflow.plan.functions import AGG_VALUE, KEY_VALUE_AGG, NOTHING, function, user_line
from stoatflow.serdes import SerdeLike
from stoatflow.table import KTable
from stoatflow.windows import Windows

Fold = Callable[..., Any]

_MERGER = ("key", "one", "two")


class Folding(Handle):
    """What grouped, windowed and cogrouped streams, and grouped tables, have in common."""

    __slots__ = ()

    def _count(
        self,
        store: str | Materialized | None,
        key: SerdeLike[Any] | None,
        value: SerdeLike[Any] | None,
        name: str | None,
    ) -> KTable[Any, Any]:
        line = user_line()
        kept = store_spec(store, key, value, "count", line)
        return self._made(nodes.Count(line=line, name=name, parent=self._at, materialized=kept))

    def _reduce(
        self,
        adder: Fold | Expression,
        store: str | Materialized | None,
        key: SerdeLike[Any] | None,
        value: SerdeLike[Any] | None,
        name: str | None,
        on_error: OnError | None,
        *,
        subtractor: Fold | Expression | None = None,
    ) -> KTable[Any, Any]:
        line = user_line()
        return self._made(
            nodes.Reduce(
                line=line,
                name=name,
                on_error=handler(on_error, "reduce", line),
                parent=self._at,
                function=_fold(adder, AGG_VALUE, "reduce", line),
                subtractor=None if subtractor is None else _fold(subtractor, AGG_VALUE, "reduce", line),
                materialized=store_spec(store, key, value, "reduce", line),
            )
        )

    def _aggregate(
        self,
        initializer: Callable[[], Any] | Expression | Aggregation[Any] | None,
        store: str | Materialized | None,
        key: SerdeLike[Any] | None,
        value: SerdeLike[Any] | None,
        name: str | None,
        on_error: OnError | None,
        **folds: Fold | Expression | None,
    ) -> KTable[Any, Any]:
        """Add an aggregation. `folds` holds the node's fields `function`, `subtractor` and `merger`, if given."""
        line = user_line()
        native = self._native(initializer, folds, line)
        if native is not None:
            return self._measured(native, initializer is not None, store, key, value, name, on_error, line)
        start = _initializer(initializer, line)
        checked = {
            field: _fold(fold, _MERGER, "aggregate(merger)", line)
            if field == "merger"
            else _fold(fold, KEY_VALUE_AGG, "aggregate", line)
            for field, fold in folds.items()
        }
        kept = store_spec(store, key, value, "aggregate", line)
        return self._made(
            nodes.Aggregate(
                line=line,
                name=name,
                on_error=handler(on_error, "aggregate", line),
                parent=self._at,
                initializer=start,
                materialized=kept,
                **checked,
            )
        )

    def _native(
        self, first: object, folds: Mapping[str, Fold | Expression | None], line: str
    ) -> Aggregation[Any] | None:
        """Return the native aggregation, `first` or that of all cogrouped streams together; `None` if there is none."""
        if isinstance(first, Aggregation):
            if spare := [field for field, fold in folds.items() if fold is not None]:
                raise TopologyError(
                    f"{line} aggregate: {first!r} needs no other function, but there is one for {', '.join(spare)}",
                    next_step="pass the aggregation alone",
                )
            return first
        native: Aggregation[Any] | None = None
        made, at = self._plan.snapshot(), self._at
        while isinstance(node := made[at], nodes.WindowedBy | nodes.EmitStrategyNode | nodes.Cogroup):
            at = node.parent
            if isinstance(node, nodes.Cogroup) and isinstance(node.function, Aggregation):
                native = node.function if native is None else native.joined(node.function)
        if native is None:
            _complete(folds, first, line)
        elif first is not None:
            raise TopologyError(
                f"{line} aggregate: the streams are aggregated natively ({native!r}) and need no initializer",
                next_step="call aggregate(store=...) without functions",
            )
        return native

    def _measured(
        self,
        native: Aggregation[Any],
        own: bool,
        store: str | Materialized | None,
        key: SerdeLike[Any] | None,
        value: SerdeLike[Any] | None,
        name: str | None,
        on_error: OnError | None,
        line: str,
    ) -> KTable[Any, Any]:
        """Add a native aggregation. `own`: it was passed to this call, not to the streams of a cogroup."""
        table = self._made(
            nodes.Aggregate(
                line=line,
                name=name,
                on_error=handler(on_error, "aggregate", line),
                parent=self._at,
                initializer=lit(None),
                function=native if own else None,
                materialized=store_spec(store, key, value, "aggregate", line),
            )
        )
        if not native.has_state:
            return table
        # The store keeps the aggregation's state; readers of the table, by update or by key, get the result.
        result = None if name is None else f"{name}-result"
        at = self._plan.add(nodes.MapValues(line=line, name=result, parent=table._at, function=native.result()))
        return KTable(self._plan, at)

    def _cogroup(self, aggregator: Fold | Expression | Aggregation[Any], grouped: Handle | None = None) -> int:
        """Add a cogroup node. `grouped` is the stream that joins those of `self`; `None`: `self` is the first."""
        line = user_line()
        other = None if grouped is None else same_plan(self, grouped, line, "cogroup")
        own = aggregator if isinstance(aggregator, Aggregation) else _fold(aggregator, KEY_VALUE_AGG, "cogroup", line)
        return self._plan.add(nodes.Cogroup(line=line, parent=self._at, other=other, function=own))

    def _windowed(self, windows: object) -> int:
        line = user_line()
        if not isinstance(windows, Windows):
            raise TopologyError(
                f"{line} windowed_by needs windows, not {type(windows).__name__}",
                next_step="pass TimeWindows, SlidingWindows, SessionWindows, UnlimitedWindows or CountWindows",
            )
        idle = windows.close_when_idle_ms
        return self._plan.add(
            nodes.WindowedBy(line=line, parent=self._at, window=windows.spec, close_when_idle_ms=idle)
        )

    def _made(self, node: nodes.Node) -> KTable[Any, Any]:
        return KTable(self._plan, self._plan.add(node))


def _complete(folds: Mapping[str, Fold | Expression | None], first: object, line: str) -> None:
    missing = [field for field, fold in {"initializer": first, **folds}.items() if fold is None]
    if missing:
        raise TopologyError(
            f"{line} aggregate: {' and '.join(missing).replace('function', 'aggregator')} missing",
            next_step="pass functions for all, or one aggregation such as sf.sum(sf.value['amount'])",
        )


def _initializer(initializer: object, line: str) -> nodes.Function:
    start = function(initializer, NOTHING, "aggregate", line)
    if isinstance(start, Expression) and not start.is_literal:
        raise TopologyError(
            f"{line} aggregate: the initializer {start!r} is no constant, and there is no record yet to read",
            next_step="use sf.lit(...) or a function without parameters",
        )
    return start


def _fold(fn: object, shape: tuple[str, ...], method: str, line: str) -> nodes.Function:
    if isinstance(fn, Aggregation):
        raise TopologyError(
            f"{line} {method} does not take the aggregation {fn!r}",
            next_step="pass it alone to aggregate(...), or to cogroup(...)",
        )
    return function(fn, shape, method, line)
