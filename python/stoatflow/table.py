"""A table: the last value of each key, and its operators.

Adds nodes, returns new handles. In a table's updates, deletions are null values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from stoatflow._dsl import joins
from stoatflow._dsl.by_keyword import by_keyword
from stoatflow._dsl.table_joins import TableJoins
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.expressions.expression import Operand
from stoatflow.handlers import OnError, handler
from stoatflow.materialized import Grouped, Materialized, grouped_how, optional_serde, store_spec
from stoatflow.plan import nodes
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


class KTable(TableJoins[K, V]):
    """A table: the last value of each key.

    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> users.map_values(str.upper).to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("users", str, str).pipe_all([("u1", "ann"), ("u1", None)])
    [to_stream]: u1, ANN
    [to_stream]: u1, None
    """

    __slots__ = ()

    @property
    def queryable_store_name(self) -> str | None:
        """The name of its store, if one was given.

        >>> table = sf.StreamsBuilder().table("users", key=str, value=str, store="users")
        >>> table.queryable_store_name
        'users'
        """
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
        """Keep rows for which `predicate(key, value)` holds; for other rows deletions are passed on.

        >>> builder = sf.StreamsBuilder()
        >>> table = builder.table("n", key=str, value=int, store="n")
        >>> table.filter(sf.value > 1).to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 2), ("a", 1)])
        [to_stream]: a, 2
        [to_stream]: a, None
        """
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
        """Drop rows for which `predicate(key, value)` holds.

        >>> builder = sf.StreamsBuilder()
        >>> table = builder.table("n", key=str, value=int, store="n")
        >>> table.filter_not(sf.value > 1).to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("a", 2)])
        [to_stream]: a, 1
        [to_stream]: a, None
        """
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
        """Replace each value by `fn(value)`, or by `fn(key, value)`; the function is not called for deletions.

        Without `store=` the result is not stored: reads of it call `fn` again.

        >>> builder = sf.StreamsBuilder()
        >>> table = builder.table("n", key=str, value=int, store="n")
        >>> table.map_values(lambda n: n * 10).to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("a", None)])
        [to_stream]: a, 10
        [to_stream]: a, None
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
        """Run your own `ValueTransformer`, which may read stores. `stores` are their names.

        >>> class Named(sf.ValueTransformer[str, int, str]):
        ...     def transform(self, key, value):
        ...         return f"{key}={value}"
        >>> builder = sf.StreamsBuilder()
        >>> table = builder.table("n", key=str, value=int, store="n")
        >>> table.transform_values(Named).to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe("a", 1)
        [to_stream]: a, a=1
        """
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

    @overload
    def group_by(
        self,
        fn: Callable[[K, V], tuple[K2, V2]],
        *,
        key: SerdeLike[K2] | None = ...,
        value: SerdeLike[V2] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        grouped: Grouped[K2, V2] | None = ...,
    ) -> KGroupedTable[K2, V2]: ...
    @overload
    def group_by(
        self,
        fn: tuple[Expression, Operand] | Expression,
        *,
        key: SerdeLike[K2],
        value: SerdeLike[V2],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KGroupedTable[K2, V2]: ...
    @overload
    def group_by(
        self,
        fn: tuple[Expression, Operand] | Expression,
        *,
        key: SerdeLike[K2],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KGroupedTable[K2, Any]: ...
    @overload
    def group_by(
        self,
        fn: tuple[Expression, Operand] | Expression,
        *,
        value: SerdeLike[V2],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KGroupedTable[Any, V2]: ...
    @overload
    def group_by(
        self, fn: tuple[Expression, Operand] | Expression, *, grouped: Grouped[K2, V2], on_error: OnError | None = ...
    ) -> KGroupedTable[K2, V2]: ...
    @overload
    def group_by(
        self, fn: tuple[Expression, Operand] | Expression, *, name: str | None = ..., on_error: OnError | None = ...
    ) -> KGroupedTable[Any, Any]: ...
    @by_keyword
    def group_by(
        self,
        fn: Callable[[K, V], tuple[Any, Any]] | tuple[Expression, Operand] | Expression,
        *,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        grouped: Grouped[Any, Any] | None = None,
    ) -> KGroupedTable[Any, Any]:
        """Group rows by the key of `fn(key, value) -> (key, value)`, or of two expressions `(key, value)`.

        The function is called for the old and for the new row of an update, so it must be deterministic.

        >>> builder = sf.StreamsBuilder()
        >>> cities = builder.table("cities", key=str, value=str, store="cities")
        >>> by_city = cities.group_by(lambda user, city: (city, user), key=str, value=str)
        >>> by_city.count(store="counts").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("cities", str, str).pipe_all([("ann", "Oslo"), ("bob", "Oslo"), ("ann", "Bergen")])
        [to_stream]: Oslo, 1
        [to_stream]: Oslo, 2
        [to_stream]: Oslo, 1
        [to_stream]: Bergen, 1
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
        """Suppress updates, until windows close or for a time: fewer updates, or only final ones.

        >>> builder = sf.StreamsBuilder()
        >>> windowed = builder.stream("n").group_by_key().windowed_by(sf.TimeWindows("1m", grace="0s"))
        >>> counts = windowed.count(store="counts").suppress(sf.Suppressed.until_window_closes(), name="final")
        >>> counts.to_stream(lambda windowed, n: windowed.window).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     for seconds in (1, 2, 61):
        ...         driver.input("n").pipe(b"a", b"1", timestamp=seconds * 1000)
        [select_key]: Window(start=0, end=60000), 2
        """
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
        """Return its updates as a stream; deletions are null values. `key_fn(key, value)` sets another key.

        >>> builder = sf.StreamsBuilder()
        >>> table = builder.table("n", key=str, value=int, store="n")
        >>> table.to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("a", None)])
        [to_stream]: a, 1
        [to_stream]: a, None
        """
        # Imported here: the stream's module needs this one for `count`.
        from stoatflow.stream import KStream

        line = user_line()
        fn = None if key_fn is None else function(key_fn, KEY_VALUE, "to_stream", line)
        at = self._plan.add(nodes.ToStream(line=line, name=name, parent=self._at))
        if fn is not None:
            at = self._plan.add(nodes.SelectKey(line=line, parent=at, function=fn))
        return KStream(self._plan, at)
