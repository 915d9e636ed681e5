"""A stream of records and what can be done with it.

Takes functions or native expressions, adds nodes, gives new handles. `(key, value)` callbacks and
`(value)` callbacks are told apart by the method, never by the function's arity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from stoatflow._dsl.stream_joins import StreamJoins
from stoatflow._dsl.stream_offload import StreamOffload
from stoatflow.branched import BranchedKStream, _Branches
from stoatflow.durations import Duration
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.expressions.expression import Operand
from stoatflow.grouped import KGroupedStream
from stoatflow.handlers import OnError, handler
from stoatflow.materialized import (
    Grouped,
    Materialized,
    Produced,
    Repartitioned,
    beside,
    check_topic,
    grouped_how,
    optional_serde,
    store_spec,
)
from stoatflow.plan import nodes
from stoatflow.plan.builder import same_plan
from stoatflow.plan.functions import KEY_VALUE, VALUE, callable_only, function, given, pairing, user_line
from stoatflow.printed import Printed
from stoatflow.serdes import SerdeLike
from stoatflow.table import KTable
from stoatflow.windows import span_ms

if TYPE_CHECKING:
    from stoatflow.arrow import ArrowResult
    from stoatflow.processor import FixedKeySupplier, ProcessorSupplier
    from stoatflow.record_context import RecordContext

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
VO = TypeVar("VO")
KO = TypeVar("KO")
R = TypeVar("R")


class KStream(StreamJoins[K, V], StreamOffload[K, V]):
    """A stream of records: each one stands for itself."""

    __slots__ = ()

    def _then(self, node: nodes.Node) -> KStream[Any, Any]:
        return KStream(self._plan, self._plan.add(node))

    def filter(
        self,
        predicate: Callable[[K, V], object] | Expression,
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V]:
        """Keep records for which `predicate(key, value)` holds. It gets null values too."""
        line = user_line()
        fn = function(predicate, KEY_VALUE, "filter", line)
        return self._then(
            nodes.Filter(line=line, name=name, on_error=handler(on_error, "filter", line), parent=self._at, function=fn)
        )

    def filter_not(
        self,
        predicate: Callable[[K, V], object] | Expression,
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V]:
        """Drop records for which `predicate(key, value)` holds."""
        line = user_line()
        fn = function(predicate, KEY_VALUE, "filter_not", line)
        return self._then(
            nodes.FilterNot(
                line=line, name=name, on_error=handler(on_error, "filter_not", line), parent=self._at, function=fn
            )
        )

    @overload
    def map(
        self, fn: tuple[Expression, Operand] | Expression, *, name: str | None = ..., on_error: OnError | None = ...
    ) -> KStream[Any, Any]: ...
    @overload
    def map(
        self, fn: Callable[[K, V], tuple[K2, V2]], *, name: str | None = ..., on_error: OnError | None = ...
    ) -> KStream[K2, V2]: ...
    def map(
        self,
        fn: Callable[[K, V], tuple[K2, V2]] | tuple[Expression, Operand] | Expression,
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[Any, Any]:
        """Give another `(key, value)` for each `fn(key, value)`. Where the key stays, use `map_values`.

        Two expressions do as well: `map((sf.value["id"], sf.key))`.
        """
        line = user_line()
        udf = pairing(fn, "map", line, "write map((key, value)) or select_key(key).map_values(value)")
        return self._then(
            nodes.Map(line=line, name=name, on_error=handler(on_error, "map", line), parent=self._at, function=udf)
        )

    @overload
    def map_values(
        self, fn: Expression, *, name: str | None = ..., on_error: OnError | None = ...
    ) -> KStream[K, Any]: ...
    @overload
    def map_values(
        self,
        fn: Callable[[K, V], V2],
        *,
        with_key: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self,
        fn: Callable[[V], V2],
        *,
        with_key: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, V2]: ...
    def map_values(
        self,
        fn: Callable[..., Any] | Expression,
        *,
        with_key: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[Any, Any]:
        """Give another value for each `fn(value)`, or `fn(key, value)` with `with_key=True`."""
        line = user_line()
        checked = function(fn, KEY_VALUE if with_key else VALUE, "map_values", line)
        return self._then(
            nodes.MapValues(
                line=line,
                name=name,
                on_error=handler(on_error, "map_values", line),
                parent=self._at,
                function=checked,
                with_key=with_key,
            )
        )

    def flat_map(
        self, fn: Callable[[K, V], Iterable[tuple[K2, V2]]], *, name: str | None = None, on_error: OnError | None = None
    ) -> KStream[K2, V2]:
        """Give any number of `(key, value)` pairs for each `fn(key, value)`."""
        line = user_line()
        udf = callable_only(
            fn, KEY_VALUE, "flat_map", line, "write flat_map_values(values).select_key(key) with two expressions"
        )
        return self._then(
            nodes.FlatMap(
                line=line, name=name, on_error=handler(on_error, "flat_map", line), parent=self._at, function=udf
            )
        )

    @overload
    def flat_map_values(
        self, fn: Expression, *, name: str | None = ..., on_error: OnError | None = ...
    ) -> KStream[K, Any]: ...
    @overload
    def flat_map_values(
        self,
        fn: Callable[[K, V], Iterable[V2]],
        *,
        with_key: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, V2]: ...
    @overload
    def flat_map_values(
        self,
        fn: Callable[[V], Iterable[V2]],
        *,
        with_key: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, V2]: ...
    def flat_map_values(
        self,
        fn: Callable[..., Any] | Expression,
        *,
        with_key: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[Any, Any]:
        """Give any number of values for each `fn(value)`. A function that returns text is refused."""
        line = user_line()
        checked = function(fn, KEY_VALUE if with_key else VALUE, "flat_map_values", line)
        return self._then(
            nodes.FlatMapValues(
                line=line,
                name=name,
                on_error=handler(on_error, "flat_map_values", line),
                parent=self._at,
                function=checked,
                with_key=with_key,
            )
        )

    def map_batches(
        self,
        fn: Callable[[Any], ArrowResult],
        *,
        schema: object = None,
        max_rows: int = 1024,
        max_wait: Duration = "50ms",
        by_row: str = "_row",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, Any]:
        """Give other values for many records at once: `fn` takes a `pyarrow.RecordBatch` and returns columns.

        A column for each member of the JSON objects (or one column `value`), beside `_key`, `_timestamp` and
        `by_row`. The result has a row for each row, or the column `by_row` says which one a row comes from.
        """
        from stoatflow.arrow import batches  # only this method needs it

        line = user_line()
        how, failing = (schema, max_rows, max_wait, by_row), handler(on_error, "map_batches", line)
        return self._then(batches(fn, *how, line=line, name=name, on_error=failing, parent=self._at))

    @overload
    def select_key(
        self, fn: Expression, *, name: str | None = ..., on_error: OnError | None = ...
    ) -> KStream[Any, V]: ...
    @overload
    def select_key(
        self, fn: Callable[[K, V], K2], *, name: str | None = ..., on_error: OnError | None = ...
    ) -> KStream[K2, V]: ...
    def select_key(
        self, fn: Callable[..., Any] | Expression, *, name: str | None = None, on_error: OnError | None = None
    ) -> KStream[Any, Any]:
        """Give another key for each `fn(key, value)`."""
        line = user_line()
        checked = function(fn, KEY_VALUE, "select_key", line)
        return self._then(
            nodes.SelectKey(
                line=line, name=name, on_error=handler(on_error, "select_key", line), parent=self._at, function=checked
            )
        )

    def peek(
        self, fn: Callable[[K, V], object], *, name: str | None = None, on_error: OnError | None = None
    ) -> KStream[K, V]:
        """Call `fn(key, value)` and pass the record on. After a crash it may see a record again."""
        line = user_line()
        udf = callable_only(fn, KEY_VALUE, "peek", line, "pass a function: an expression has no effect to peek for")
        return self._then(
            nodes.Peek(line=line, name=name, on_error=handler(on_error, "peek", line), parent=self._at, function=udf)
        )

    def foreach(
        self, fn: Callable[[K, V], object], *, name: str | None = None, on_error: OnError | None = None
    ) -> None:
        """Call `fn(key, value)` at the end of the stream. After a crash it may see a record again."""
        line = user_line()
        udf = callable_only(fn, KEY_VALUE, "foreach", line, "pass a function: an expression has no effect")
        self._plan.add(
            nodes.Foreach(
                line=line, name=name, on_error=handler(on_error, "foreach", line), parent=self._at, function=udf
            )
        )

    def foreach_batch(
        self,
        fn: Callable[[Any], object],
        *,
        schema: object = None,
        max_rows: int = 1024,
        max_wait: Duration = "50ms",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Call `fn` at the end of the stream for many records at once, with a `pyarrow.RecordBatch`.

        Columns, batches and errors are those of `map_batches`; beside them `_topic`, `_partition` and `_offset` say
        where the record was read that a row comes from. After a crash it may see records again, in other batches.
        """
        from stoatflow.arrow import batches_to  # only this method needs it

        line = user_line()
        how, failing = (schema, max_rows, max_wait), handler(on_error, "foreach_batch", line)
        self._plan.add(batches_to(fn, *how, line=line, name=name, on_error=failing, parent=self._at))

    def merge(self, other: KStream[K, V], *others: KStream[K, V], name: str | None = None) -> KStream[K, V]:
        """Put streams together. No order holds between their records."""
        line = user_line()
        if others and name is not None:
            raise TopologyError(f"{line} merge: one name for several merges", next_step="merge one stream at a time")
        merged = self
        for stream in (other, *others):
            if not isinstance(stream, KStream):
                raise TopologyError(
                    f"{line} merge needs a KStream, not {type(stream).__name__}",
                    next_step="turn a table into a stream with .to_stream()",
                )
            at = same_plan(self, stream, line, "merge")
            merged = merged._then(nodes.Merge(line=line, name=name, parent=merged._at, other=at))
        return merged

    def group_by_key(
        self,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        name: str | None = None,
        grouped: Grouped[K, V] | None = None,
    ) -> KGroupedStream[K, V]:
        """Group by the key there is. Records with a null key or value will not be aggregated."""
        line = user_line()
        how = grouped_how(grouped, key, value, name, "group_by_key", line)
        node = nodes.GroupByKey(
            line=line, name=how.name, parent=self._at, key=optional_serde(how.key), value=optional_serde(how.value)
        )
        return KGroupedStream(self._plan, self._plan.add(node))

    @overload
    def group_by(
        self,
        fn: Expression,
        *,
        key: SerdeLike[K2],
        value: SerdeLike[V] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KGroupedStream[K2, V]: ...
    @overload
    def group_by(
        self,
        fn: Expression,
        *,
        value: SerdeLike[V] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        grouped: Grouped[Any, V] | None = ...,
    ) -> KGroupedStream[Any, V]: ...
    @overload
    def group_by(
        self,
        fn: Callable[[K, V], K2],
        *,
        key: SerdeLike[K2] | None = ...,
        value: SerdeLike[V] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        grouped: Grouped[K2, V] | None = ...,
    ) -> KGroupedStream[K2, V]: ...
    def group_by(
        self,
        fn: Callable[..., Any] | Expression,
        *,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        grouped: Grouped[Any, Any] | None = None,
    ) -> KGroupedStream[Any, Any]:
        """Group by `fn(key, value)`; `key=` says how the new key is written."""
        line = user_line()
        how = grouped_how(grouped, key, value, name, "group_by", line)
        node = nodes.GroupBy(
            line=line,
            name=how.name,
            on_error=handler(on_error, "group_by", line),
            parent=self._at,
            function=function(fn, KEY_VALUE, "group_by", line),
            key=optional_serde(how.key),
            value=optional_serde(how.value),
        )
        return KGroupedStream(self._plan, self._plan.add(node))

    @overload
    def split(self, *, name: str | None = ..., on_error: OnError | None = ...) -> BranchedKStream[K, V]: ...
    @overload
    def split(
        self,
        branches: Mapping[str, Callable[[K, V], object] | Expression],
        *,
        default: str | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> dict[str, KStream[K, V]]: ...
    def split(
        self,
        branches: Mapping[str, Callable[[K, V], object] | Expression] | None = None,
        *,
        default: str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> BranchedKStream[K, V] | dict[str, KStream[K, V]]:
        """Give each record to the first branch that fits.

        `split().branch(p, "late").default_branch("rest")`, or shorter `split({"late": p}, default="rest")`,
        which gives the branches by these names. Without a default the others are dropped.
        """
        line = user_line()
        instead = 'write split({"late": predicate}), or split().branch(predicate, "late")'
        given(branches, Mapping, None, "split", line, instead)  # type: ignore[type-abstract]  # it is only looked for
        node = nodes.Split(line=line, name=name, on_error=handler(on_error, "split", line), parent=self._at)
        split: BranchedKStream[K, V] = BranchedKStream(self._plan, self._plan.add(node), name)
        if branches is None:
            return split
        for branch, predicate in branches.items():
            split.branch(predicate, branch)
        made = split.no_default_branch() if default is None else split.default_branch(default)
        prefix = name or ""
        return _Branches(
            {branch: made[prefix + branch] for branch in [*branches, *([] if default is None else [default])]}
        )

    def repartition(
        self,
        repartitioned: Repartitioned[K, V] | None = None,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """Walk to the lane of the key, in memory; records with a null key are dropped, as in Kafka Streams."""
        line = user_line()
        how = given(repartitioned, Repartitioned, None, "repartition", line)
        if how is not None:
            if (key, value, name) != (None, None, None):
                raise beside("repartitioned", "repartition", line)
            key, value, name = how.key, how.value, how.name
        node = nodes.Repartition(
            line=line, name=name, parent=self._at, key=optional_serde(key), value=optional_serde(value)
        )
        return self._then(node)

    def to_table(
        self,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Take records as updates of a table: null keys are dropped, null values delete."""
        line = user_line()
        kept = store_spec(store, key, value, "to_table", line)
        return KTable(
            self._plan, self._plan.add(nodes.ToTable(line=line, name=name, parent=self._at, materialized=kept))
        )

    def process(
        self,
        supplier: ProcessorSupplier[K, V, K2, V2],
        *,
        stores: Sequence[str] = (),
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, V2]:
        """Run a `Processor` of your own, which may give other keys. `stores` are the names of those it uses."""
        line = user_line()
        ref, connected = self._supplied(supplier, stores, "process", line)
        node = nodes.Process(
            line=line,
            name=name,
            on_error=handler(on_error, "process", line),
            parent=(self._at,),
            processor=ref,
            stores=connected,
        )
        return self._then(node)

    def process_values(
        self,
        supplier: FixedKeySupplier[K, V, V2],
        *,
        stores: Sequence[str] = (),
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V2]:
        """Run a `FixedKeyProcessor` of your own, which keeps the keys."""
        line = user_line()
        ref, connected = self._supplied(supplier, stores, "process_values", line)
        node = nodes.ProcessValues(
            line=line,
            name=name,
            on_error=handler(on_error, "process_values", line),
            parent=self._at,
            processor=ref,
            stores=connected,
        )
        return self._then(node)

    def _supplied(
        self, supplier: object, stores: Sequence[str], method: str, line: str
    ) -> tuple[nodes.ProcessorRef, tuple[str, ...]]:
        from stoatflow.processor import supplied

        return supplied(self._plan, supplier, stores, method, line)

    def deduplicate(
        self,
        key: Callable[[K, V], object] | Expression | None = None,
        *,
        within: Duration,
        store: str | Materialized | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V]:
        """Pass the first record of each key on, and drop those that follow `within` this time of it.

        `key(key, value)` says what makes two records of one key the same; without it the key alone does.
        Kafka Streams has no such operator.
        """
        line = user_line()
        node = nodes.Deduplicate(
            line=line,
            name=name,
            on_error=handler(on_error, "deduplicate", line),
            parent=self._at,
            function=None if key is None else function(key, KEY_VALUE, "deduplicate", line),
            within_ms=span_ms(within, "deduplicate(within=)", least=1),
            materialized=store_spec(store, None, None, "deduplicate", line),
        )
        return self._then(node)

    def print(
        self, printed: Printed[K, V] | None = None, *, name: str | None = None, on_error: OnError | None = None
    ) -> None:
        """Write a line per record, to standard output unless `Printed` says otherwise."""
        line = user_line()
        how = given(printed, Printed, Printed(), "print", line)
        node = self._plan.snapshot()[self._at]
        writer = nodes.Udf(how.writer(node.name or node.op), f"{line} print")
        self._plan.add(
            nodes.Foreach(
                line=line, name=name, on_error=handler(on_error, "print", line), parent=self._at, function=writer
            )
        )

    def to(
        self,
        topic: str | Callable[[K, V, RecordContext], str] | Expression,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        partitioner: Callable[[str, K, V, int], Iterable[int] | None] | Expression | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        produced: Produced[K, V] | None = None,
    ) -> None:
        """Write to a topic, with timestamp and headers; a function `(key, value, context)` chooses it per record.

        `partitioner(topic, key, value, partitions)` gives partitions: `None` for the default, none to drop. An
        expression may choose either: it gives a name, or a number (null for the default).
        """
        line = user_line()
        how = given(produced, Produced, None, "to(produced=)", line)
        if how is not None:
            if (key, value, name, partitioner) != (None, None, None, None):
                raise beside("produced", "to", line)
            key, value, name, partitioner = how.key, how.value, how.name, how.partitioner
        chosen = None
        if callable(topic) or isinstance(topic, Expression):
            chosen = function(topic, ("key", "value", "context"), "to", line)
        shape = ("topic", "key", "value", "partitions")
        parts = None if partitioner is None else function(partitioner, shape, "to(partitioner=)", line)
        self._plan.add(
            nodes.To(
                line=line,
                name=name,
                on_error=handler(on_error, "to", line),
                parent=self._at,
                topic=check_topic(topic, "to", line) if chosen is None else None,
                topic_function=chosen,
                partitioner=parts,
                key=optional_serde(key),
                value=optional_serde(value),
            )
        )
