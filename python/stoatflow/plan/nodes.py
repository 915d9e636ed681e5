"""One frozen class per DSL call, equal in name and fields to the engine's `plan/src/logical.rs`.

A field `parent` is `from` in the JSON (a keyword of Python). Nodes name earlier nodes by position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stoatflow.plan.node_base import Function as Function
from stoatflow.plan.node_base import Late, Timestamps, WatermarkSpec
from stoatflow.plan.node_base import LateFunction as LateFunction
from stoatflow.plan.node_base import Node as Node
from stoatflow.plan.node_base import ProcessorRef as ProcessorRef
from stoatflow.plan.node_base import StoreKindSpec as StoreKindSpec
from stoatflow.plan.node_base import StoreSpec as StoreSpec
from stoatflow.plan.node_base import TimestampFunction as TimestampFunction
from stoatflow.plan.node_base import Udf as Udf
from stoatflow.plan.specs import (
    ExpirySpec,
    IndexSpec,
    JoinWindowSpec,
    PatienceSpec,
    RocksDBSpec,
    UntilSpec,
    WindowSpec,
)
from stoatflow.serdes import Serde

if TYPE_CHECKING:
    from stoatflow.handlers import ErrorHandler


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Stream(Node):
    """A source of records."""

    op = "stream"
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    key: Serde[Any]
    value: Serde[Any]
    reset: str | Mapping[str, int] | None = None
    timestamp: Timestamps | None = None
    watermark: WatermarkSpec | None = None
    late: Late | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Table(Node):
    """A source topic as a table."""

    op = "table"
    topic: str
    key: Serde[Any]
    value: Serde[Any]
    materialized: StoreSpec | None = None
    reset: str | Mapping[str, int] | None = None
    timestamp: Timestamps | None = None
    watermark: WatermarkSpec | None = None
    late: Late | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GlobalTable(Node):
    """A table that is complete before other input is read."""

    op = "global_table"
    topic: str
    key: Serde[Any]
    value: Serde[Any]
    materialized: StoreSpec | None = None
    timestamp: Timestamps | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StateStore(Node):
    """A store for processors."""

    op = "state_store"
    store: str
    kind: StoreKindSpec
    key: Serde[Any]
    value: Serde[Any]
    logged: bool = True
    in_memory: bool = False
    topic: Mapping[str, str] = field(default_factory=dict)
    indexes: tuple[IndexSpec, ...] = ()
    rocksdb: RocksDBSpec | None = None
    expiry: ExpirySpec | None = None
    headers: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GlobalStore(Node):
    """A global store, which a processor keeps from a topic."""

    op = "global_store"
    store: str
    kind: StoreKindSpec
    topic: str
    key: Serde[Any]
    value: Serde[Any]
    processor: ProcessorRef
    timestamp: Timestamps | None = None
    rocksdb: RocksDBSpec | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Scheduled(Node):
    """A source that ticks by the clock."""

    op = "scheduled"
    every_ms: int | None = None
    cron: str | None = None
    tz: str = "UTC"
    start_ms: int | None = None
    catch_up: str = "latest"
    max_catch_up: int = 1000


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Filter(Node):
    """Keep records that match."""

    op = "filter"
    parent: int
    function: Function
    materialized: StoreSpec | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FilterNot(Node):
    """Drop records that match."""

    op = "filter_not"
    parent: int
    function: Function
    materialized: StoreSpec | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Map(Node):
    """Map keys and values."""

    op = "map"
    parent: int
    function: Function


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MapValues(Node):
    """Map values."""

    op = "map_values"
    parent: int
    function: Function
    with_key: bool = False
    materialized: StoreSpec | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FlatMap(Node):
    """Map each record to any number of keys and values."""

    op = "flat_map"
    parent: int
    function: Function


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FlatMapValues(Node):
    """Map each value to any number of values."""

    op = "flat_map_values"
    parent: int
    function: Function
    with_key: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MapBatches(Node):
    """Map values of many records at once, as columns; `schema` holds name and type of each."""

    op = "map_batches"
    parent: int
    function: Function
    schema: tuple[Mapping[str, object], ...] | None = None
    max_rows: int
    max_wait_ms: int
    by_row: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SelectKey(Node):
    """Map keys."""

    op = "select_key"
    parent: int
    function: Function


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Peek(Node):
    """Call a function with each record, and pass the record on."""

    op = "peek"
    parent: int
    function: Function


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Foreach(Node):
    """Call a function with each record, at the end of the stream."""

    op = "foreach"
    parent: int
    function: Function


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ForeachBatch(Node):
    """Call a function with many records at once, at the end of the stream."""

    op = "foreach_batch"
    parent: int
    function: Function
    schema: tuple[Mapping[str, object], ...] | None = None
    max_rows: int
    max_wait_ms: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Merge(Node):
    """Merge two streams."""

    op = "merge"
    parent: int
    other: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Split(Node):
    """Split a stream into branches."""

    op = "split"
    parent: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Branch(Node):
    """A branch: records that match it and no earlier branch of the split; without a function, all the rest."""

    op = "branch"
    parent: int
    function: Function | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Repartition(Node):
    """Move records to the lanes of their keys."""

    op = "repartition"
    parent: int
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ToTable(Node):
    """Read a stream as updates of a table."""

    op = "to_table"
    parent: int
    materialized: StoreSpec | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Process(Node):
    """A processor whose results may have other keys."""

    op = "process"
    parent: tuple[int, ...]
    processor: ProcessorRef
    stores: tuple[str, ...] = ()
    low_level: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ProcessValues(Node):
    """A processor whose results keep their keys."""

    op = "process_values"
    parent: int
    processor: ProcessorRef
    stores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TransformValues(Node):
    """Transform a table's values with a transformer."""

    op = "transform_values"
    parent: int
    processor: ProcessorRef
    stores: tuple[str, ...] = ()
    materialized: StoreSpec | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GroupByKey(Node):
    """Group by the current key."""

    op = "group_by_key"
    parent: int
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GroupBy(Node):
    """Group by another key."""

    op = "group_by"
    parent: int
    function: Function
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WindowedBy(Node):
    """Group the records of a key into windows."""

    op = "windowed_by"
    parent: int
    window: WindowSpec
    close_when_idle_ms: int | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EmitStrategyNode(Node):
    """When windows emit results."""

    op = "emit_strategy"
    parent: int
    strategy: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Cogroup(Node):
    """Add a grouped stream with its aggregator."""

    op = "cogroup"
    parent: int
    other: int | None = None
    function: Function


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Count(Node):
    """Count the records of each key."""

    op = "count"
    parent: int
    materialized: StoreSpec | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reduce(Node):
    """Reduce the values of each key to one."""

    op = "reduce"
    parent: int
    function: Function
    subtractor: Function | None = None
    materialized: StoreSpec | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Aggregate(Node):
    """Aggregate the values of each key."""

    op = "aggregate"
    parent: int
    initializer: Function
    function: Function | None = None
    subtractor: Function | None = None
    merger: Function | None = None
    materialized: StoreSpec | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Suppress(Node):
    """Suppress intermediate updates."""

    op = "suppress"
    parent: int
    until: UntilSpec
    max_records: int | None = None
    max_bytes: int | None = None
    when_full: str = "emit_early"
    logged: bool = True


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Joining(Node):
    """Fields of all joins; which of them apply depends on the two sides."""

    parent: int
    other: int
    function: Function
    with_key: bool = False
    window: JoinWindowSpec | None = None
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    other_value: Serde[Any] | None = None
    store: str | None = None
    grace_ms: int | None = None
    key_function: Function | None = None
    foreign_key: Function | None = None
    foreign_with_key: bool = False
    materialized: StoreSpec | None = None
    logged: bool = True


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Join(Joining):
    """Inner join."""

    op = "join"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LeftJoin(Joining):
    """Left join."""

    op = "left_join"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OuterJoin(Joining):
    """Outer join."""

    op = "outer_join"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Deduplicate(Node):
    """Keep the first record of each key within a time."""

    op = "deduplicate"
    parent: int
    function: Function | None = None
    within_ms: int
    materialized: StoreSpec | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Offload(Node):
    """Park records while a worker answers their requests."""

    op = "offload"
    parent: int
    requests: str
    responses: str
    request: Function | None = None
    function: Function
    with_key: bool = False
    key: Serde[Any] | None = None
    request_value: Serde[Any] | None = None
    response_value: Serde[Any]
    patience: PatienceSpec
    instead_of_timeout: Function | None = None
    instead_of_error: Function | None = None
    timeout_handler: ErrorHandler | None = None
    max_parked: int
    materialized: StoreSpec | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ToStream(Node):
    """The updates of a table as a stream."""

    op = "to_stream"
    parent: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class To(Node):
    """Write to a topic."""

    op = "to"
    parent: int | tuple[int, ...]
    topic: str | None = None
    topic_function: Function | None = None
    partitioner: Function | None = None
    partitioner_with_headers: bool = False
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None


NODE_CLASSES: tuple[type[Node], ...] = (
    Stream, Table, GlobalTable, StateStore, GlobalStore, Scheduled, Filter, FilterNot, Map, MapValues, FlatMap,
    FlatMapValues, MapBatches, SelectKey, Peek, Foreach, ForeachBatch, Merge, Split, Branch, Repartition, ToTable,
    Process, ProcessValues, TransformValues, GroupByKey, GroupBy, WindowedBy, EmitStrategyNode, Cogroup, Count, Reduce,
    Aggregate, Suppress, Join, LeftJoin, OuterJoin, Deduplicate, Offload, ToStream, To,
)  # fmt: skip
"""All node classes; a test keeps their tags equal to the engine's."""
