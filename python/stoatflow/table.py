"""A table: the last value of each key, and what can be done with it.

Adds nodes, gives new handles. Updates of a table carry deletions as null values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from stoatflow._dsl import joins
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.expressions.expression import Operand
from stoatflow.handlers import OnError, handler
from stoatflow.joined import TableJoined
from stoatflow.materialized import Grouped, Materialized, grouped_how, optional_serde, store_spec
from stoatflow.plan import Handle, nodes
from stoatflow.plan.functions import KEY_VALUE, VALUE, function, pairing, user_line
from stoatflow.serdes import SerdeLike
from stoatflow.suppressed import Suppressed

if TYPE_CHECKING:
    from stoatflow.grouped import KGroupedTable
    from stoatflow.processor import TransformerSupplier
    from stoatflow.stream import KStream

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
VO = TypeVar("VO")
KO = TypeVar("KO")
R = TypeVar("R")


class KTable(Handle, Generic[K, V]):
    """A table: the last value of each key."""

    __slots__ = ()

    @property
    def queryable_store_name(self) -> str | None:
        """The name of its store, if it was given one."""
        kept = getattr(self._plan.snapshot()[self._at], "materialized", None)
        return kept.store if isinstance(kept, nodes.StoreSpec) else None

    def filter(
        self,
        predicate: Callable[[K, V], object] | Expression,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V]:
        """Keep rows for which `predicate(key, value)` holds; for the others deletions go on."""
        line = user_line()
        fn = function(predicate, KEY_VALUE, "filter", line)
        kept = store_spec(store, None, None, "filter", line)
        return self._then(
            nodes.Filter(
                line=line,
                name=name,
                on_error=handler(on_error, "filter", line),
                parent=self._at,
                function=fn,
                materialized=kept,
            )
        )

    def filter_not(
        self,
        predicate: Callable[[K, V], object] | Expression,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V]:
        """Drop rows for which `predicate(key, value)` holds."""
        line = user_line()
        fn = function(predicate, KEY_VALUE, "filter_not", line)
        kept = store_spec(store, None, None, "filter_not", line)
        return self._then(
            nodes.FilterNot(
                line=line,
                name=name,
                on_error=handler(on_error, "filter_not", line),
                parent=self._at,
                function=fn,
                materialized=kept,
            )
        )

    @overload
    def map_values(
        self,
        fn: Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[V2] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, Any]: ...
    @overload
    def map_values(
        self,
        fn: Callable[[K, V], V2],
        *,
        with_key: Literal[True],
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[V2] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, V2]: ...
    @overload
    def map_values(
        self,
        fn: Callable[[V], V2],
        *,
        with_key: Literal[False] = ...,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[V2] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, V2]: ...
    def map_values(
        self,
        fn: Callable[..., Any] | Expression,
        *,
        with_key: bool = False,
        store: str | Materialized | None = None,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[Any, Any]:
        """Give another value for each `fn(value)`, or `fn(key, value)`; it is not called for deletions.

        Without `store=` nothing is kept: reads of the result call `fn` again.
        """
        line = user_line()
        node = nodes.MapValues(
            line=line,
            name=name,
            on_error=handler(on_error, "map_values", line),
            parent=self._at,
            function=function(fn, KEY_VALUE if with_key else VALUE, "map_values", line),
            with_key=with_key,
            materialized=store_spec(store, key, value, "map_values", line),
        )
        return self._then(node)

    def transform_values(
        self,
        supplier: TransformerSupplier[K, V, V2],
        *,
        stores: Sequence[str] = (),
        store: str | Materialized | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V2]:
        """Run a `ValueTransformer` of your own, which may read stores. `stores` are their names."""
        from stoatflow.processor import supplied

        line = user_line()
        ref, connected = supplied(self._plan, supplier, stores, "transform_values", line)
        node = nodes.TransformValues(
            line=line,
            name=name,
            on_error=handler(on_error, "transform_values", line),
            parent=self._at,
            processor=ref,
            stores=connected,
            materialized=store_spec(store, None, None, "transform_values", line),
        )
        return self._then(node)

    def group_by(
        self,
        fn: Callable[[K, V], tuple[K2, V2]] | tuple[Expression, Operand] | Expression,
        *,
        key: SerdeLike[K2] | None = None,
        value: SerdeLike[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        grouped: Grouped[K2, V2] | None = None,
    ) -> KGroupedTable[K2, V2]:
        """Group rows by the key of `fn(key, value) -> (key, value)`, or of two expressions `(key, value)`.

        It is called for the old and for the new row of an update, so the same row must always give the same.
        """
        from stoatflow.grouped import KGroupedTable

        line = user_line()
        how = grouped_how(grouped, key, value, name, "group_by", line)
        pair = pairing(fn, "group_by", line, "pass a function that gives a (key, value) tuple, or two expressions")
        node = nodes.GroupBy(
            line=line,
            name=how.name,
            on_error=handler(on_error, "group_by", line),
            parent=self._at,
            function=pair,
            key=optional_serde(how.key),
            value=optional_serde(how.value),
        )
        return KGroupedTable(self._plan, self._plan.add(node))

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> KTable[K, V]:
        """Hold updates back, until windows close or for a time: fewer updates, or only final ones."""
        line = user_line()
        if not isinstance(suppressed, Suppressed):
            raise TopologyError(
                f"{line} suppress needs a Suppressed, not {type(suppressed).__name__}",
                next_step='write Suppressed.until_window_closes() or Suppressed.until_time_limit("10s")',
            )
        bounds = suppressed.buffer
        node = nodes.Suppress(
            line=line,
            name=joins.one_name(name, suppressed.name, "suppress", line),
            parent=self._at,
            until=suppressed.until,
            max_records=bounds.max_records,
            max_bytes=bounds.max_bytes,
            when_full=bounds.when_full or "emit_early",
            logged=bounds.logging,
        )
        return self._then(node)

    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO], R],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[False] = ...,
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[Any] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, Any]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO], R],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[True],
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[KO, VO],
        joiner: Callable[[V, VO], R],
        *,
        foreign_key: Callable[[V], KO | None] | Expression,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[False] = ...,
        table_joined: TableJoined | None = ...,
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[KO, VO],
        joiner: Expression,
        *,
        foreign_key: Callable[..., KO | None] | Expression,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[Any] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: bool = ...,
        table_joined: TableJoined | None = ...,
    ) -> KTable[K, Any]: ...
    @overload
    def join(
        self,
        other: KTable[KO, VO],
        joiner: Callable[[V, VO], R],
        *,
        foreign_key: Callable[[K, V], KO | None] | Expression,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[True],
        table_joined: TableJoined | None = ...,
    ) -> KTable[K, R]: ...
    def join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any] | Expression,
        *more: object,
        foreign_key: Callable[..., Any] | Expression | None = None,
        store: str | Materialized | None = None,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        with_key: bool = False,
        table_joined: TableJoined | None = None,
    ) -> KTable[Any, Any]:
        """Give `joiner(left, right)` for keys that both tables have.

        With `foreign_key(value)` (or `(key, value)` with `with_key=True`) rows meet the row of the other
        table that has this key.
        """
        line = user_line()
        _no_window(more, "join", line)
        node = joins.of_tables(
            nodes.Join,
            self,
            _table(other, "join", line),
            joiner,
            foreign_key,
            with_key,
            table_joined,
            store,
            key,
            value,
            name,
            line,
            on_error,
        )
        return KTable(self._plan, self._plan.add(node))

    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO | None], R],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[False] = ...,
    ) -> KTable[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[Any] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, Any]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO | None], R],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[True],
    ) -> KTable[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[KO, VO],
        joiner: Callable[[V, VO | None], R],
        *,
        foreign_key: Callable[[V], KO | None] | Expression,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[False] = ...,
        table_joined: TableJoined | None = ...,
    ) -> KTable[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[KO, VO],
        joiner: Expression,
        *,
        foreign_key: Callable[..., KO | None] | Expression,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[Any] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: bool = ...,
        table_joined: TableJoined | None = ...,
    ) -> KTable[K, Any]: ...
    @overload
    def left_join(
        self,
        other: KTable[KO, VO],
        joiner: Callable[[V, VO | None], R],
        *,
        foreign_key: Callable[[K, V], KO | None] | Expression,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[True],
        table_joined: TableJoined | None = ...,
    ) -> KTable[K, R]: ...
    def left_join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any] | Expression,
        *more: object,
        foreign_key: Callable[..., Any] | Expression | None = None,
        store: str | Materialized | None = None,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        with_key: bool = False,
        table_joined: TableJoined | None = None,
    ) -> KTable[Any, Any]:
        """As `join`, and for keys of this table alone, with `None` on the right.

        With `foreign_key(value)` (or `(key, value)` with `with_key=True`) rows meet the row of the other
        table that has this key.
        """
        line = user_line()
        _no_window(more, "left_join", line)
        node = joins.of_tables(
            nodes.LeftJoin,
            self,
            _table(other, "left_join", line),
            joiner,
            foreign_key,
            with_key,
            table_joined,
            store,
            key,
            value,
            name,
            line,
            on_error,
        )
        return KTable(self._plan, self._plan.add(node))

    @overload
    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V | None, VO | None], R],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[False] = ...,
    ) -> KTable[K, R]: ...
    @overload
    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[Any] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, Any]: ...
    @overload
    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V | None, VO | None], R],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[True],
    ) -> KTable[K, R]: ...
    def outer_join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any] | Expression,
        *more: object,
        store: str | Materialized | None = None,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        with_key: bool = False,
    ) -> KTable[Any, Any]:
        """As `left_join`, and for keys of the other table alone, with `None` on the left."""
        line = user_line()
        _no_window(more, "outer_join", line)
        node = joins.of_tables(
            nodes.OuterJoin,
            self,
            _table(other, "outer_join", line),
            joiner,
            None,
            with_key,
            None,
            store,
            key,
            value,
            name,
            line,
            on_error,
        )
        return KTable(self._plan, self._plan.add(node))

    def _then(self, node: nodes.Node) -> KTable[Any, Any]:
        return KTable(self._plan, self._plan.add(node))

    @overload
    def to_stream(self, *, name: str | None = ...) -> KStream[K, V]: ...
    @overload
    def to_stream(self, key_fn: Expression, *, name: str | None = ...) -> KStream[Any, V]: ...
    @overload
    def to_stream(self, key_fn: Callable[[K, V], K2], *, name: str | None = ...) -> KStream[K2, V]: ...
    def to_stream(
        self, key_fn: Callable[..., Any] | Expression | None = None, *, name: str | None = None
    ) -> KStream[Any, Any]:
        """Give its updates; deletions are null values. `key_fn(key, value)` gives them another key."""
        # The stream's module needs this one for `count`, so it can't be imported above.
        from stoatflow.stream import KStream

        line = user_line()
        fn = None if key_fn is None else function(key_fn, KEY_VALUE, "to_stream", line)
        at = self._plan.add(nodes.ToStream(line=line, name=name, parent=self._at))
        if fn is not None:
            at = self._plan.add(nodes.SelectKey(line=line, parent=at, function=fn))
        return KStream(self._plan, at)


def _table(other: object, method: str, line: str) -> KTable[Any, Any]:
    if not isinstance(other, KTable):
        raise TopologyError(
            f"{line} {method} of a table needs another table, not {type(other).__name__}",
            next_step="turn a stream into a table with .to_table(), or begin the join with the stream",
        )
    return other


def _no_window(more: tuple[object, ...], method: str, line: str) -> None:
    if not more:
        return
    window = any(type(one).__name__ == "JoinWindows" for one in more)
    raise TopologyError(
        f"{line} {method}: a table meets a table, which has no window"
        if window
        else f"{line} {method} takes a table and a joiner, and was given {len(more)} more without a name",
        next_step="leave the window out, or join streams: table.to_stream()"
        if window
        else "name the others: store=, key=, value=, name=",
    )
