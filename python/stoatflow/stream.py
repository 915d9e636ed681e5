"""A stream of records, and its operators.

Takes functions or native expressions, adds nodes, returns new handles. `(key, value)` callbacks and `(value)` callbacks
are distinguished by the method, never by the function's arity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from stoatflow._dsl.by_keyword import by_keyword
from stoatflow._dsl.stateless import Stateless
from stoatflow._dsl.stream_joins import StreamJoins
from stoatflow._dsl.stream_offload import StreamOffload
from stoatflow.branched import BranchedKStream, _Branches
from stoatflow.durations import Duration
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
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
from stoatflow.plan.functions import KEY_VALUE, PARTITIONER, WITH_HEADERS, callable_only, function, given, user_line
from stoatflow.serdes import SerdeLike
from stoatflow.table import KTable
from stoatflow.windows import span_ms

if TYPE_CHECKING:
    from stoatflow.plan.node_base import Function
    from stoatflow.processor import FixedKeySupplier, ProcessorSupplier
    from stoatflow.record_context import Headers, RecordContext

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class KStream(Stateless[K, V], StreamJoins[K, V], StreamOffload[K, V]):
    """A stream of records, each independent of the others.

    >>> builder = sf.StreamsBuilder()
    >>> lines = builder.stream("lines", key=str, value=str)
    >>> lines.flat_map_values(sf.value.str.split()).filter(sf.value.len() > 3).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("lines", str, str).pipe("a", "the stoat runs")
    [filter]: a, stoat
    [filter]: a, runs
    """

    __slots__ = ()

    def merge(self, other: KStream[K, V], *others: KStream[K, V], name: str | None = None) -> KStream[K, V]:
        """Merge streams. The order between their records is undefined.

        >>> builder = sf.StreamsBuilder()
        >>> shop, web = (builder.stream(topic, key=str, value=int) for topic in ("shop", "web"))
        >>> shop.merge(web).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("shop", str, int).pipe("ann", 1)
        ...     driver.input("web", str, int).pipe("bob", 2)
        [merge]: ann, 1
        [merge]: bob, 2
        """
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

    @by_keyword
    def group_by_key(
        self,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        name: str | None = None,
        grouped: Grouped[K, V] | None = None,
    ) -> KGroupedStream[K, V]:
        """Group by the current key. Records with a null key or value are not aggregated.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.group_by_key().count(store="counts").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("a", 2)])
        [to_stream]: a, 1
        [to_stream]: a, 2
        """
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
    @by_keyword
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
        """Group by `fn(key, value)`; `key=` is the serde of the new key.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.group_by(sf.value % 2, key=int).count(store="counts").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("b", 3)])
        [to_stream]: 1, 1
        [to_stream]: 1, 2
        """
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
        """Send each record to the first branch whose predicate holds.

        `split().branch(p, "late").default_branch("rest")`, or shorter `split({"late": p}, default="rest")`, which
        returns the branches by these names. Without a default, records that match no branch are dropped.

        >>> builder = sf.StreamsBuilder()
        >>> branches = builder.stream("n", key=str, value=int).split({"large": sf.value > 1}, default="small")
        >>> branches["large"].print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("b", 2)])
        [large]: b, 2
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

    @by_keyword
    def repartition(
        self,
        repartitioned: Repartitioned[K, V] | None = None,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """Move records to the lanes of their keys, in memory; a record with a null key is dropped, as in Kafka Streams.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.select_key(sf.value % 2).repartition(key=int).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1)])
        [repartition]: 1, 1
        """
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

    @by_keyword
    def to_table(
        self,
        *,
        store: str | Materialized | None = None,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Read records as updates of a table: null keys are dropped, null values delete.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.to_table(store="latest").filter(sf.value > 1).to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 2), ("a", 1)])
        [to_stream]: a, 2
        [to_stream]: a, None
        """
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
        """Run your own `Processor`, which may change keys. `stores` are the names of the stores it uses.

        >>> class Twice(sf.ContextualProcessor[str, int, str, int]):
        ...     def process(self, record):
        ...         for _ in range(2):
        ...             self.context.forward(record)
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("n", key=str, value=int).process(Twice).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe("a", 1)
        [process]: a, 1
        [process]: a, 1
        """
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
        """Run your own `FixedKeyProcessor`, which keeps the keys.

        >>> class Sizes(sf.ContextualFixedKeyProcessor[str, str, int]):
        ...     def process(self, record):
        ...         self.context.forward(record.replace(value=len(record.value)))
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("words", key=str, value=str).process_values(Sizes).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("words", str, str).pipe("a", "stoat")
        [process_values]: a, 5
        """
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
        """Pass on the first record of each key, and drop further ones `within` this time.

        `key(key, value)` returns what makes two records of one key duplicates; by default the key alone does. Kafka
        Streams has no such operator.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.deduplicate(within="1m", store="seen").print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("a", 2), ("b", 3)])
        [deduplicate]: a, 1
        [deduplicate]: b, 3
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

    @overload
    def to(
        self,
        topic: str | Callable[[K, V, RecordContext], str] | Expression,
        *,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[V] | None = ...,
        partitioner: Callable[[str, K, V, int], Iterable[int] | None] | Expression | None = ...,
        partitioner_with_headers: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        produced: Produced[K, V] | None = ...,
    ) -> None: ...

    @overload
    def to(
        self,
        topic: str | Callable[[K, V, RecordContext], str] | Expression,
        *,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[V] | None = ...,
        partitioner: Callable[[str, Headers, K, V, int], Iterable[int] | None],
        partitioner_with_headers: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> None: ...

    @by_keyword
    def to(
        self,
        topic: str | Callable[[K, V, RecordContext], str] | Expression,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        partitioner: Callable[..., Iterable[int] | None] | Expression | None = None,
        partitioner_with_headers: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
        produced: Produced[K, V] | None = None,
    ) -> None:
        """Write to a topic, with timestamp and headers; a function `(key, value, context)` chooses it per record.

        `partitioner(topic, key, value, partitions)` returns partitions: `None` for the default, [] to drop. With
        `partitioner_with_headers=True` it is `partitioner(topic, headers, key, value, partitions)`; headers are pairs
        of a name and bytes. An expression may choose either: it returns a name, or a number (null for the default).

        >>> builder = sf.StreamsBuilder()
        >>> topic = sf.when(sf.value > 1).then("large").otherwise("small")
        >>> builder.stream("n", key=str, value=int).to(topic, key=str, value=int)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("b", 2)])
        ...     print(driver.output("large", str, int).read_key_value())
        ('b', 2)
        """
        line = user_line()
        how = given(produced, Produced, None, "to(produced=)", line)
        if how is not None:
            if (key, value, name, partitioner, partitioner_with_headers) != (None, None, None, None, False):
                raise beside("produced", "to", line)
            key, value, name, partitioner = how.key, how.value, how.name, how.partitioner
        chosen = None
        if callable(topic) or isinstance(topic, Expression):
            chosen = function(topic, ("key", "value", "context"), "to", line)
        parts: Function | None = None
        if partitioner_with_headers:
            parts = callable_only(partitioner, WITH_HEADERS, "to(partitioner=)", line, "give a function of the headers")
        elif partitioner is not None:
            parts = function(partitioner, PARTITIONER, "to(partitioner=)", line)
        self._plan.add(
            nodes.To(
                line=line,
                name=name,
                on_error=handler(on_error, "to", line),
                parent=self._at,
                topic=check_topic(topic, "to", line) if chosen is None else None,
                topic_function=chosen,
                partitioner=parts,
                partitioner_with_headers=partitioner_with_headers,
                key=optional_serde(key),
                value=optional_serde(value),
            )
        )
