"""Turns the steps of the vector format into the graph.

Takes one step at a time, in order: children of a node run in the order in which they were added. Owns the named
results and the named stores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conformance.functions import PYTHON
from semantics import aggregations, stateless
from semantics.aggregations import Aggregation, StreamAggregate, TableAggregate
from semantics.foreign_key import ForeignKeyJoin
from semantics.nodes import Call, Function, Node, Source, World
from semantics.processors import PROCESSORS
from semantics.sessions import SessionAggregate
from semantics.sliding import SlidingAggregate
from semantics.stores import KeyValueStore, SessionStore, VersionedStore, WindowStore
from semantics.stream_joins import Shared, join_streams
from semantics.suppress import SuppressedTable
from semantics.table_joins import JoinedTable, StreamTableJoin
from semantics.tables import (
    DerivedTable,
    FilteredTable,
    MappedTable,
    SourceTable,
    StoredTable,
    Table,
    TableStore,
    to_stream,
)
from semantics.values import Record
from semantics.versioned import VersionedStreamTableJoin
from semantics.windows import CountWindowedAggregate, OnClose, TimeWindowedAggregate

Json = dict[str, Any]


@dataclass
class Stream:
    """A stream, and whether its key may have changed since it was read."""

    node: Node
    rekeyed: bool = False


@dataclass
class Grouped:
    """A grouped stream: `node` is the input of the aggregation; each aggregation gets its own."""

    stream: Stream


@dataclass
class GroupedTable:
    """A grouped table, after its repartition topic."""

    node: Node


@dataclass
class Cogroup:
    """Grouped streams, each with its aggregator."""

    parts: list[tuple[Grouped, Function]]


@dataclass
class Windowing:
    """A grouped stream in windows."""

    of: Grouped | Cogroup
    window: Json
    on_close: bool = False


class GlobalTable(SourceTable):
    """Filled separately from the streams."""


class Builder:
    """The graph so far."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.stores: dict[str, Any] = {}
        self._made: dict[str, Any] = {}
        self._topics = 0

    def add(self, step: Json) -> None:
        """Add one step."""
        adding: Callable[[Json, Any], Any] = getattr(self, f"_{step['op']}")
        made = adding(step, self._made.get(step.get("from", "")))
        if "id" in step:
            self._made[step["id"]] = made

    # Sources and sinks -----------------------------------------------------------------------

    def _read(self, topics: list[str], node: Node, extractor: str | None = None) -> None:
        for topic in topics:
            sources = self.world.sources.setdefault(topic, [])
            sources.append(Source(node, PYTHON[extractor] if extractor else None))

    def _stream(self, step: Json, _: None) -> Stream:
        node = Node(step.get("name"))
        self._read(step["topics"], node, step.get("timestamp_extractor"))
        return Stream(node)

    def _table(self, step: Json, _: None) -> Table:
        table = SourceTable(self._store(step))
        self._read([step["topic"]], table)
        return table

    def _global_table(self, step: Json, _: None) -> Table:
        table = GlobalTable(self._store(step))
        table.need_values()
        self.world.globals[step["topic"]] = table
        return table

    def _state_store(self, step: Json, _: None) -> None:
        made: dict[str, Callable[[], Any]] = {
            "kv": lambda: KeyValueStore(stamped=False),
            "timestamped_kv": KeyValueStore,
            "window": lambda: WindowStore(step["window_size_ms"], step["retention_ms"], stamped=False),
            "session": lambda: SessionStore(step["retention_ms"]),
            "versioned": lambda: VersionedStore(step["versioned_history_ms"]),
        }
        self.stores[step["store"]] = made[step["kind"]]()

    def _to(self, step: Json, of: Stream) -> None:
        topic: str | None = step.get("topic")
        if topic is not None:
            self.world.outputs.setdefault(topic, [])

        def write(r: Record) -> list[Record]:
            chosen = PYTHON[step["topic_fn"]](r.key, r.value, None) if topic is None else topic
            self.world.send(chosen, r)
            return []

        of.node.then(Call(write))

    def _store(self, step: Json) -> TableStore | None:
        """The store of a step, if it has one."""
        kept = step.get("materialized") or {}
        if "store" not in kept:
            return None
        history = kept.get("versioned_history_ms")
        store: TableStore = KeyValueStore() if history is None else VersionedStore(history)
        self.stores[kept["store"]] = store
        return store

    def _topic(self, before: Node, name: str | None = None) -> Node:
        self._topics += 1
        return self.world.through_topic(before, f"golden-{name or self._topics}-repartition")

    def _keyed(self, stream: Stream, *, keep_null: bool = False) -> Node:
        """The stream after a topic, if its key may have changed; joins keep null keys in there."""
        if not stream.rekeyed:
            return stream.node
        return self._topic(stream.node if keep_null else stateless.not_null_key(stream.node))

    # Stateless -------------------------------------------------------------------------------

    def _filter(self, step: Json, of: Stream | Table) -> Stream | Table:
        predicate, matching = PYTHON[step["predicate"]], step["op"] == "filter"
        if isinstance(of, Table):
            return self._view(step, of, FilteredTable(of, predicate, matching, self._store(step)))
        kept = Call(stateless.keep(predicate, matching=matching), step.get("name"))
        return Stream(of.node.then(kept), of.rekeyed)

    _filter_not = _filter

    def _map_values(self, step: Json, of: Stream | Table) -> Stream | Table:
        if isinstance(of, Table):
            return self._view(step, of, MappedTable(of, PYTHON[step["fn"]], self._store(step)))
        return self._stateless(step, of)

    @staticmethod
    def _view(step: Json, of: Table, table: DerivedTable) -> Table:
        # With a Materialized it is no longer versioned, even without a store
        # (`KTableImpl.maybeSetOutputVersioned`).
        if "materialized" in step and table.store is None:
            table.versioned = False
        of.then(table)
        return table

    def _stateless(self, step: Json, of: Stream) -> Stream:
        node = Call(stateless.OPERATORS[step["op"]](PYTHON[step["fn"]]), step.get("name"))
        return Stream(of.node.then(node), of.rekeyed or step["op"] in stateless.REKEYING)

    _map = _flat_map = _flat_map_values = _select_key = _peek = _stateless

    def _merge(self, step: Json, of: Stream) -> Stream:
        other: Stream = self._made[step["other"]]
        node = Node(step.get("name"))
        of.node.then(node)
        other.node.then(node)
        return Stream(node, of.rekeyed or other.rekeyed)

    def _split(self, step: Json, of: Stream) -> None:
        branches = [*step["branches"], *([{**step["default"], "predicate": None}] if "default" in step else [])]
        predicates = [PYTHON[b["predicate"]] if b["predicate"] else lambda k, v: True for b in branches]
        node = of.node.then(stateless.Branches(predicates))
        for branch in branches:
            self._made[branch["id"]] = Stream(node.then(Node(branch.get("name"))), of.rekeyed)

    def _repartition(self, step: Json, of: Stream) -> Stream:
        return Stream(self._topic(stateless.not_null_key(of.node), step.get("name")))

    def _to_table(self, step: Json, of: Stream) -> Table:
        table = SourceTable(self._store(step))
        self._keyed(of).then(table)
        return table

    def _to_stream(self, step: Json, of: Table) -> Stream:
        node = of.then(Call(to_stream, step.get("name")))
        if "fn" not in step:
            return Stream(node)
        return Stream(node.then(Call(stateless.select_key(PYTHON[step["fn"]]))), rekeyed=True)

    def _process(self, step: Json, of: Stream) -> Stream:
        stores = [self.stores[name] for name in step.get("stores", [])]
        node = of.node.then(PROCESSORS[step["processor"]](self.world, stores))
        return Stream(node, of.rekeyed or step["op"] == "process")

    _process_values = _process

    # Aggregations ----------------------------------------------------------------------------

    def _group_by_key(self, step: Json, of: Stream) -> Grouped:
        return Grouped(of)

    def _group_by(self, step: Json, of: Stream | Table) -> Grouped | GroupedTable:
        fn = PYTHON[step["fn"]]
        if isinstance(of, Table):
            return GroupedTable(self._topic(of.then(Call(aggregations.regroup(of, fn)))))
        return Grouped(Stream(of.node.then(Call(stateless.select_key(fn))), rekeyed=True))

    def _windowed_by(self, step: Json, of: Grouped | Cogroup) -> Windowing:
        return Windowing(of, step["window"])

    def _emit_strategy(self, step: Json, of: Windowing) -> Windowing:
        return Windowing(of.of, of.window, on_close=True)

    def _cogroup(self, step: Json, of: Grouped | Cogroup) -> Cogroup:
        added = of if isinstance(of, Grouped) else self._made[step["other"]]
        earlier = of.parts if isinstance(of, Cogroup) else []
        return Cogroup([*earlier, (added, PYTHON[step["aggregator"]])])

    def _count(self, step: Json, of: Any) -> Table:
        return self._aggregated(step, of, lambda _: aggregations.COUNT, lambda k, a, b: a + b)

    def _reduce(self, step: Json, of: Any) -> Table:
        reducer = PYTHON[step.get("reducer") or step["adder"]]
        reducing = aggregations.reducing(reducer, PYTHON[step["subtractor"]] if "subtractor" in step else None)

        def merger(key: Any, a: Any, b: Any) -> Any:
            return b if a is None else reducer(a, b)

        return self._aggregated(step, of, lambda _: reducing, merger)

    def _aggregate(self, step: Json, of: Any) -> Table:
        initializer = PYTHON[step["initializer"]]
        adder = PYTHON[step.get("aggregator") or step["adder"]] if "aggregator" in step or "adder" in step else None
        subtractor = PYTHON[step["subtractor"]] if "subtractor" in step else None

        def aggregation(own: Function | None) -> Aggregation:
            add = own or adder
            assert add is not None
            return Aggregation(initializer, add, subtractor)

        return self._aggregated(step, of, aggregation, PYTHON[step["merger"]] if "merger" in step else None)

    def _aggregated(
        self, step: Json, of: Any, aggregation: Callable[[Function | None], Aggregation], merger: Function | None
    ) -> Table:
        """Build `aggregation(aggregator)` of a grouped stream: one operator, or one for each cogrouped stream."""
        if isinstance(of, GroupedTable):
            regrouped = TableAggregate(aggregation(None), self._store(step) or KeyValueStore())
            of.node.then(regrouped)
            return regrouped
        windowing = of if isinstance(of, Windowing) else None
        grouped: Grouped | Cogroup = windowing.of if windowing else of
        parts: list[tuple[Grouped, Function | None]]
        parts = [(grouped, None)] if isinstance(grouped, Grouped) else [*grouped.parts]
        operator = self._operator(step, windowing, merger)
        tables = []
        for part, own in parts:
            table = operator(aggregation(own))
            self._keyed(part.stream).then(table)
            tables.append(table)
        return tables[0] if len(tables) == 1 else Together(tables)

    def _operator(
        self, step: Json, windowing: Windowing | None, merger: Function | None
    ) -> Callable[[Aggregation], Table]:
        """How to build the operator. All parts of a cogroup share the store, but each has its own stream time."""
        if windowing is None:
            kept = self._store(step) or KeyValueStore()
            return lambda aggregation: StreamAggregate(aggregation, kept)
        window, named = windowing.window, step.get("materialized") or {}
        kind, grace = window["type"], window.get("grace_ms", 0)

        def on_close() -> OnClose:
            return OnClose(self.world, windowing.on_close)

        if kind == "session":
            assert merger is not None
            gap, merging = window["gap_ms"], merger
            sessions = SessionStore(named.get("retention_ms", gap + grace))
            self.stores.update({named["store"]: sessions} if "store" in named else {})
            return lambda aggregation: SessionAggregate(aggregation, merging, sessions, gap, grace, on_close())
        if kind == "count":
            # Window starts are record numbers, so no window expires by them.
            full = WindowStore(window["records"], 2**62)
            self.stores.update({named["store"]: full} if "store" in named else {})
            positions: dict[bytes, int] = {}
            return lambda aggregation: CountWindowedAggregate(aggregation, full, positions, on_close())
        size: int = window["difference_ms"] if kind == "sliding" else window["size_ms"]
        retention = named.get("retention_ms", (2 * size if kind == "sliding" else size) + grace)
        windows = WindowStore(size, retention)
        self.stores.update({named["store"]: windows} if "store" in named else {})
        if kind == "sliding":
            return lambda aggregation: SlidingAggregate(aggregation, windows, grace, on_close())
        advance: int = window.get("advance_ms", size)
        return lambda aggregation: TimeWindowedAggregate(aggregation, windows, grace, on_close(), advance)

    def _suppress(self, step: Json, of: Table) -> Table:
        until_close = step["until"] == "window_closes"
        wait = of.open_ms if until_close else step["time_limit_ms"]
        assert wait is not None
        table = SuppressedTable(
            of, wait, until_close=until_close, max_records=step.get("buffer", {}).get("max_records")
        )
        of.then(table)
        return table

    # Joins -----------------------------------------------------------------------------------

    def _join(self, step: Json, of: Any) -> Any:
        other = self._made[step["other"]]
        joiner, outer = PYTHON[step["joiner"]], step["op"] == "left_join"
        if "fk_fn" in step:
            return self._foreign_key_join(step, of, other)
        if isinstance(of, Table):
            # A materialized join keeps a store even without a name (`KTableImpl.doJoin` takes `storeName()`;
            # filters and mapped tables take `queryableStoreName()`, which is null then).
            store = self._store(step) or (KeyValueStore() if "materialized" in step else None)
            return JoinedTable(of, other, step["op"], joiner, store)
        if isinstance(other, GlobalTable):
            key_fn = PYTHON[step["key_fn"]]
            return Stream(of.node.then(StreamTableJoin(other, joiner, outer=outer, key_fn=key_fn)), of.rekeyed)
        if isinstance(other, Table):
            stream = self._keyed(of, keep_null=outer)
            if other.versioned:
                return Stream(
                    stream.then(VersionedStreamTableJoin(other, joiner, outer=outer, grace_ms=step.get("grace_ms")))
                )
            return Stream(stream.then(StreamTableJoin(other, joiner, outer=outer)))
        bounds = step["window"]
        shared = Shared(self.world, bounds["before_ms"], bounds["after_ms"], bounds["grace_ms"])
        left = self._keyed(of, keep_null=step["op"] != "join")
        right = self._keyed(other, keep_null=step["op"] == "outer_join")
        return Stream(join_streams(left, right, step["op"], joiner, shared))

    _left_join = _outer_join = _join

    def _foreign_key_join(self, step: Json, left: Table, right: Table) -> Table:
        self._topics += 1
        joined = ForeignKeyJoin(
            self.world,
            left,
            right,
            PYTHON[step["fk_fn"]],
            PYTHON[step["joiner"]],
            outer=step["op"] == "left_join",
            name=f"internal-{self._topics}",
        )
        table = SourceTable(self._store(step))
        joined.result.then(table)
        return table


class Together(StoredTable):
    """The table of a cogroup: the output of all its operators, which write into one store."""

    def __init__(self, parts: list[Any]) -> None:
        super().__init__(parts[0].store if isinstance(parts[0], StoredTable) else None)
        self.parts: list[Any] = parts
        self.open_ms = parts[0].open_ms
        for part in parts:
            part.then(self)

    def process(self, record: Record) -> None:
        self.forward(record)

    def enable_old(self, force: bool) -> bool:
        for part in self.parts:
            part.enable_old(force)
        return True

    def need_values(self) -> None:
        pass

    def get(self, key: Any) -> Any:
        return self.parts[0].get(key)
