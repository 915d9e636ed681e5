//! The operations of the nodes of the physical plan.
//!
//! One variant per operator, with everything it needs to know besides its parents and children. Created
//! by the `stages` pass, read by `operators::exec::build`. Never holds state.

mod form;
mod stores;

use crate::columns::Column;
use crate::function::Function;
use crate::materialized::Expiry;
use crate::offloading::RetryPolicy;
use crate::spec::{AsyncSpec, SerdeSpec};
use crate::timetable::TimetableSpec;
use crate::view::{Kind, View};
use crate::window::{Emit, JoinWindow, Until, WhenFull, Window};
pub use form::Form;
use serde::Serialize;
use stoatflow_core::{ClockId, Handler, NodeId, ProcessorId, SinkId, SourceId, StageId, StoreId};

/// How the records of a key are folded into one value.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "fold", rename_all = "snake_case")]
#[allow(missing_docs)] // named as the DSL methods
pub enum Fold {
    Count,
    Reduce {
        function: Function,
    },
    Aggregate {
        initializer: Function,
        function: Function,
        /// Merges two sessions.
        merger: Option<Function>,
    },
}

/// The operation of a node. `old` of a table's node: its updates must carry the previous value
/// ([`stoatflow_core::Datum::Change`]), because a node below needs it. A node that gets a `Change` but
/// needs only the new value uses that.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[allow(missing_docs)] // the fields are those of the logical calls of the same names
pub enum Op {
    Source {
        source: SourceId,
    },
    /// Ticks by the clock; the key of its records is its name. Its clock stores the last completed tick.
    Scheduled {
        times: TimetableSpec,
        clock: ClockId,
    },
    /// Fills a table's store (`table`, `to_table`): drops null keys; a null value deletes. A versioned
    /// store marks updates that are not the latest. A global store can be read by any lane.
    TableSource {
        store: StoreId,
        key: SerdeSpec,
        old: bool,
    },
    Filter {
        function: Function,
    },
    FilterNot {
        function: Function,
    },
    Map {
        function: Function,
    },
    MapValues {
        function: Function,
        with_key: bool,
    },
    FlatMap {
        function: Function,
    },
    FlatMapValues {
        function: Function,
        with_key: bool,
    },
    /// Collects records, and passes many at a time to its function, as Arrow columns.
    MapBatches {
        function: Function,
        schema: Option<Vec<Column>>,
        max_rows: u32,
        max_wait_ms: i64,
        by_row: String,
    },
    SelectKey {
        function: Function,
    },
    /// A stateless operator with an async function. `store` keeps calls that outlive their epoch.
    Calls {
        form: Form,
        with_key: bool,
        awaiting: AsyncSpec,
        store: StoreId,
        key: SerdeSpec,
        /// Serde of its input values, as far as known: for values without a form of their own.
        value: SerdeSpec,
    },
    Peek {
        function: Function,
    },
    Foreach {
        function: Function,
    },
    /// Like `MapBatches`, without a result.
    ForeachBatch {
        function: Function,
        schema: Option<Vec<Column>>,
        max_rows: u32,
        max_wait_ms: i64,
    },
    /// Merges several parents into one child list.
    Merge,
    /// Passes each record to one of its children: child `i` is the branch of `functions[i]`; a child
    /// after the last function, if there is one, is the default branch.
    Split {
        functions: Vec<Function>,
    },
    /// Sends records to the lane of their key, where the nodes in `to` process them. `stage` is always
    /// the next one; `to` may contain another exchange, on the way to a later stage. Null keys are
    /// dropped and counted unless `keep_null` is set (then the origin decides the lane). `Node::fork` of
    /// an exchange applies to `to`.
    Exchange {
        to: Vec<NodeId>,
        stage: StageId,
        key: SerdeSpec,
        keep_null: bool,
        /// Kafka Streams has no topic here, so it processes these records before those of topics: within
        /// a batch, they are sent first.
        ahead: bool,
    },
    Count {
        store: StoreId,
        key: SerdeSpec,
        old: bool,
    },
    Reduce {
        store: StoreId,
        key: SerdeSpec,
        function: Function,
        old: bool,
    },
    Aggregate {
        store: StoreId,
        key: SerdeSpec,
        initializer: Function,
        function: Function,
        old: bool,
    },
    /// Tumbling, hopping, unlimited and count windows.
    WindowAggregate {
        store: StoreId,
        /// Count windows: the store with the number of records of each key.
        positions: Option<StoreId>,
        key: SerdeSpec,
        window: Window,
        fold: Fold,
        emit: Emit,
        clock: ClockId,
        old: bool,
    },
    SlidingAggregate {
        store: StoreId,
        key: SerdeSpec,
        difference_ms: i64,
        grace_ms: i64,
        fold: Fold,
        emit: Emit,
        clock: ClockId,
        old: bool,
    },
    SessionAggregate {
        store: StoreId,
        key: SerdeSpec,
        gap_ms: i64,
        grace_ms: i64,
        fold: Fold,
        emit: Emit,
        clock: ClockId,
        old: bool,
    },
    /// `filter` and `filter_not` of a table. `store`: the result is materialized.
    TableFilter {
        function: Function,
        not: bool,
        store: Option<StoreId>,
        key: SerdeSpec,
        old: bool,
    },
    TableMapValues {
        function: Function,
        with_key: bool,
        store: Option<StoreId>,
        key: SerdeSpec,
        old: bool,
    },
    TransformValues {
        processor: ProcessorId,
        stores: Vec<StoreId>,
        store: Option<StoreId>,
        key: SerdeSpec,
        old: bool,
        /// See [`Self::Process`].
        time: Option<ClockId>,
    },
    /// After a view of a versioned table that has its own `Materialized` but no store: its updates are
    /// no longer versions, and each counts as the newest.
    Unversioned,
    /// `group_by` of a table: takes changes, emits changes under the keys of the old and the new value.
    TableGroupBy {
        function: Function,
        /// Serde of the new keys, to compare them.
        key: SerdeSpec,
    },
    /// `count`, `reduce`, `aggregate` of a grouped table: subtracts the old value, adds the new one.
    TableAggregate {
        store: StoreId,
        key: SerdeSpec,
        fold: Fold,
        /// Subtracts (not for `count`).
        subtractor: Option<Function>,
        old: bool,
    },
    /// One side of a join of two tables by key. Its child is a `TableMerge`.
    TableJoin {
        /// Whether it processes the left side.
        left: bool,
        kind: Kind,
        /// The other side.
        other: View,
        function: Function,
        with_key: bool,
        /// Serde of both tables' keys.
        key: SerdeSpec,
        /// True if a table behind a side is written in a lower stage: its store is then ahead of the
        /// updates that arrive here.
        apart: bool,
        old: bool,
    },
    /// Where the two sides of a join are merged; materializes the result if it has a store.
    TableMerge {
        store: Option<StoreId>,
        key: SerdeSpec,
        old: bool,
    },
    /// Join by foreign key, in the left key's lane: sends subscriptions to the foreign keys' lanes.
    /// Takes changes.
    ForeignSubscribe {
        kind: Kind,
        foreign_key: Function,
        with_key: bool,
        /// Serde of left keys.
        key: SerdeSpec,
        /// Serde of left values: their hash detects stale answers.
        value: SerdeSpec,
        /// Serde of foreign keys.
        foreign: SerdeSpec,
        /// The number of this join in the topology.
        join: u32,
    },
    /// In the foreign key's lane: stores subscriptions, answers with the right value.
    ForeignAnswer {
        store: StoreId,
        kind: Kind,
        right: View,
        key: SerdeSpec,
        foreign: SerdeSpec,
    },
    /// In the foreign key's lane: notifies all subscribers of a changed right value.
    ForeignNotify {
        store: StoreId,
        key: SerdeSpec,
        foreign: SerdeSpec,
    },
    /// Back in the left key's lane: joins an answer with the left value, if that hasn't changed.
    ForeignJoin {
        kind: Kind,
        left: View,
        function: Function,
        with_key: bool,
        key: SerdeSpec,
        value: SerdeSpec,
        /// The number of this join in the topology.
        join: u32,
    },
    /// Stream-table. With a grace (and a versioned table) records wait in `buffer`.
    StreamTableJoin {
        kind: Kind,
        table: View,
        function: Function,
        with_key: bool,
        grace_ms: Option<i64>,
        buffer: Option<StoreId>,
        clock: Option<ClockId>,
        key: SerdeSpec,
        value: SerdeSpec,
    },
    /// Stream with a global table.
    GlobalJoin {
        kind: Kind,
        table: View,
        key_function: Function,
        function: Function,
        with_key: bool,
    },
    /// One side of a stream-stream join.
    StreamJoin {
        /// Whether it processes the left side.
        left: bool,
        kind: Kind,
        window: JoinWindow,
        own: StoreId,
        other: StoreId,
        /// Left and outer joins: records of both sides that wait for a partner.
        pending: Option<StoreId>,
        function: Function,
        with_key: bool,
        key: SerdeSpec,
        /// Serdes of the left and the right values of waiting records.
        left_value: SerdeSpec,
        right_value: SerdeSpec,
        /// Shared by both sides.
        clock: ClockId,
    },
    /// `store` keeps the updates that are held back.
    Suppress {
        store: StoreId,
        key: SerdeSpec,
        value: SerdeSpec,
        until: Until,
        max_records: Option<u64>,
        max_bytes: Option<u64>,
        when_full: WhenFull,
        clock: ClockId,
        old: bool,
    },
    Deduplicate {
        store: StoreId,
        key: SerdeSpec,
        function: Option<Function>,
        within_ms: i64,
        clock: ClockId,
    },
    /// Parks records until a worker has answered, and emits results in the order of each key: its first
    /// child gets the results, its second one the requests.
    Offload {
        store: StoreId,
        key: SerdeSpec,
        /// Serde of parked values, as far as known: for values without a form of their own.
        value: SerdeSpec,
        response: SerdeSpec,
        /// Serde of requests: its sink gets bytes, so that a record whose request can't be written is
        /// never parked.
        request_value: SerdeSpec,
        request: Option<Function>,
        function: Function,
        with_key: bool,
        patience: RetryPolicy,
        instead_of_timeout: Option<Function>,
        instead_of_error: Option<Function>,
        timeout_handler: Option<Handler>,
        max_parked: u64,
        /// Sources that are paused while the parking lot is full.
        feeders: Vec<SourceId>,
    },
    /// Processes the responses for the node `of`; it has the same children.
    OffloadAnswers {
        store: StoreId,
        of: NodeId,
    },
    /// `process`, `process_values`, `add_processor`, and the processor of a global store.
    Process {
        processor: ProcessorId,
        stores: Vec<StoreId>,
        /// Whether it must keep the key.
        fixed_key: bool,
        clock: ClockId,
        /// The clock for the stream time of its tasks; global stores have none.
        time: Option<ClockId>,
    },
    /// Deletes expired rows of the table above, or of a processor's store.
    Expire {
        /// The store. The table or the processors write it too, in the same stage.
        table: StoreId,
        timers: StoreId,
        expiry: Expiry,
        old: bool,
        /// Whether processors write it. Then the node has no parent: writes register their timers.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        of_processors: bool,
        clock: ClockId,
        /// The clock for the stream time of its tasks.
        time: Option<ClockId>,
    },
    ToStream,
    Sink {
        sink: SinkId,
    },
}

impl Op {
    /// Its name in the plan, equal to the method, the operator file and the doc page.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Source { .. } => "source",
            Self::Scheduled { .. } => "scheduled",
            Self::TableSource { .. } => "table",
            Self::Filter { .. } => "filter",
            Self::FilterNot { .. } => "filter_not",
            Self::Map { .. } => "map",
            Self::MapValues { .. } => "map_values",
            Self::FlatMap { .. } => "flat_map",
            Self::FlatMapValues { .. } => "flat_map_values",
            Self::MapBatches { .. } => "map_batches",
            Self::SelectKey { .. } => "select_key",
            Self::Calls { .. } => "calls",
            Self::Peek { .. } => "peek",
            Self::Foreach { .. } => "foreach",
            Self::ForeachBatch { .. } => "foreach_batch",
            Self::Merge => "merge",
            Self::Split { .. } => "split",
            Self::Exchange { .. } => "exchange",
            Self::Count { .. } => "count",
            Self::Reduce { .. } => "reduce",
            Self::Aggregate { .. } => "aggregate",
            Self::WindowAggregate { .. } => "window_aggregate",
            Self::SlidingAggregate { .. } => "sliding_aggregate",
            Self::SessionAggregate { .. } => "session_aggregate",
            Self::TableFilter { .. } => "table_filter",
            Self::TableMapValues { .. } => "table_map_values",
            Self::TransformValues { .. } => "transform_values",
            Self::Unversioned => "unversioned",
            Self::TableGroupBy { .. } => "table_group_by",
            Self::TableAggregate { .. } => "table_aggregate",
            Self::TableJoin { .. } => "table_join",
            Self::TableMerge { .. } => "table_merge",
            Self::ForeignSubscribe { .. } => "foreign_subscribe",
            Self::ForeignAnswer { .. } => "foreign_answer",
            Self::ForeignNotify { .. } => "foreign_notify",
            Self::ForeignJoin { .. } => "foreign_join",
            Self::StreamTableJoin { .. } => "stream_table_join",
            Self::GlobalJoin { .. } => "global_join",
            Self::StreamJoin { .. } => "stream_join",
            Self::Suppress { .. } => "suppress",
            Self::Deduplicate { .. } => "deduplicate",
            Self::Offload { .. } => "offload",
            Self::OffloadAnswers { .. } => "offload_answers",
            Self::Process { .. } => "process",
            Self::Expire { .. } => "expire",
            Self::ToStream => "to_stream",
            Self::Sink { .. } => "sink",
        }
    }
}
