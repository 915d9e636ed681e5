"""From an aggregation call to its plan node, for everything that can be aggregated.

Takes functions and what was said about the store, checks them, adds a node, gives the table. Which functions a
kind of grouping takes, and in which order, is the business of its own class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.handlers import OnError, handler
from stoatflow.materialized import Materialized, store_spec
from stoatflow.plan import Handle, nodes
from stoatflow.plan.builder import same_plan
from stoatflow.plan.functions import AGG_VALUE, KEY_VALUE_AGG, NOTHING, callable_only, function, user_line
from stoatflow.serdes import SerdeLike
from stoatflow.table import KTable
from stoatflow.windows import Windows

Fold = Callable[..., Any]

_MERGER = ("key", "one", "two")
_INSTEAD = "pass a function: expressions can't see the aggregate"


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
        adder: Fold,
        store: str | Materialized | None,
        key: SerdeLike[Any] | None,
        value: SerdeLike[Any] | None,
        name: str | None,
        on_error: OnError | None,
        *,
        subtractor: Fold | None = None,
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
        initializer: Callable[[], Any] | Expression,
        store: str | Materialized | None,
        key: SerdeLike[Any] | None,
        value: SerdeLike[Any] | None,
        name: str | None,
        on_error: OnError | None,
        **folds: Fold,
    ) -> KTable[Any, Any]:
        """`folds`: the fields `function`, `subtractor` and `merger` of the node, as far as there are such."""
        line = user_line()
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

    def _cogroup(self, aggregator: Fold, grouped: Handle | None = None) -> int:
        """`grouped`: the stream that joins those of `self`; none: `self` is the first."""
        line = user_line()
        other = None if grouped is None else same_plan(self, grouped, line, "cogroup")
        udf = _fold(aggregator, KEY_VALUE_AGG, "cogroup", line)
        return self._plan.add(nodes.Cogroup(line=line, parent=self._at, other=other, function=udf))

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


def _initializer(initializer: Callable[[], Any] | Expression, line: str) -> nodes.Function:
    start = function(initializer, NOTHING, "aggregate", line)
    if isinstance(start, Expression) and not start.is_literal:
        raise TopologyError(
            f"{line} aggregate: the initializer {start!r} is no constant, and there is no record yet to read",
            next_step="use sf.lit(...) or a function without parameters",
        )
    return start


def _fold(fn: Fold, shape: tuple[str, ...], method: str, line: str) -> nodes.Udf:
    return callable_only(fn, shape, method, line, _INSTEAD)
