//! The logical plan as it arrives from Python: the user's DSL calls in order, as data.
//!
//! Python encodes it, [`LogicalPlan::decode`] decodes it, unknown fields are refused. Functions and
//! custom serdes are indexes into tables that are passed beside it. Never decides anything.

use crate::columns::Column;
use crate::function::Function;
use crate::materialized::{Expiry, IndexSpec, Materialized};
use crate::offloading::OffloadSpec;
use crate::spec::{Reset, SerdeSpec, yes};
use crate::timetable::TimetableSpec;
use crate::window::{
    Emit, JoinWindow, StoreKind, TimestampExtractor, Until, Watermark, WhenFull, Window,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use stoatflow_core::{Handler, Late, RocksDbConfig};

/// The version of this format; another one is refused.
pub const VERSION: u32 = 1;

/// One DSL call. `from` names earlier nodes by their position in the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogicalNode {
    /// The line where the user wrote it (`app.py:12`), for errors.
    #[serde(default)]
    pub line: Option<String>,
    /// The user's name for it.
    #[serde(default)]
    pub name: Option<String>,
    /// The error policy for records that fail in this node; overrides the application's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<Handler>,
    /// The call.
    #[serde(flatten)]
    pub call: DslCall,
}

/// The arguments of a join; which fields are used depends on the kinds of its two sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinArguments {
    /// The left side: a stream or a table.
    pub from: usize,
    /// The right side: a stream, a table or a global table.
    pub other: usize,
    /// The joiner: `(left, right)`.
    pub function: Function,
    /// Whether the joiner gets the key as its first argument. (For a global join: the key of the
    /// stream.)
    #[serde(default)]
    pub with_key: bool,
    /// Stream-stream: the window.
    #[serde(default)]
    pub window: Option<JoinWindow>,
    /// Serde of keys, if they must be written.
    #[serde(default)]
    pub key: Option<SerdeSpec>,
    /// Serde of the left values.
    #[serde(default)]
    pub value: Option<SerdeSpec>,
    /// Serde of the right values.
    #[serde(default)]
    pub other_value: Option<SerdeSpec>,
    /// Stream-stream: base name of the stores.
    #[serde(default)]
    pub store: Option<String>,
    /// Stream-table with a versioned table: how long stream records wait for late table records.
    #[serde(default)]
    pub grace_ms: Option<i64>,
    /// Global table: `(key, value)` of the stream returns the table's key.
    #[serde(default)]
    pub key_function: Option<Function>,
    /// Table-table by foreign key: returns the right key.
    #[serde(default)]
    pub foreign_key: Option<Function>,
    /// Whether `foreign_key` gets `(key, value)` instead of `(value)`.
    #[serde(default)]
    pub foreign_with_key: bool,
    /// Table-table: how the result is materialized.
    #[serde(default)]
    pub materialized: Option<Materialized>,
    /// Stream-stream: whether the stores have changelogs.
    #[serde(default = "yes")]
    pub logged: bool,
}

/// A DSL call with its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[allow(missing_docs)] // the fields are those of the DSL methods of the same names
pub enum DslCall {
    Stream {
        /// Empty if there is a pattern.
        #[serde(default)]
        topics: Vec<String>,
        /// A regular expression that must match whole topic names.
        #[serde(default)]
        pattern: Option<String>,
        key: SerdeSpec,
        value: SerdeSpec,
        #[serde(default)]
        reset: Option<Reset>,
        #[serde(default)]
        timestamp: Option<TimestampExtractor>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        watermark: Option<Watermark>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        late: Option<Late>,
    },
    Table {
        topic: String,
        key: SerdeSpec,
        value: SerdeSpec,
        #[serde(default)]
        materialized: Option<Materialized>,
        #[serde(default)]
        reset: Option<Reset>,
        #[serde(default)]
        timestamp: Option<TimestampExtractor>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        watermark: Option<Watermark>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        late: Option<Late>,
    },
    /// A table that is read completely before anything else, and can be looked up by any key.
    GlobalTable {
        topic: String,
        key: SerdeSpec,
        value: SerdeSpec,
        #[serde(default)]
        materialized: Option<Materialized>,
        #[serde(default)]
        timestamp: Option<TimestampExtractor>,
    },
    /// A store for processors.
    StateStore {
        store: String,
        kind: StoreKind,
        key: SerdeSpec,
        value: SerdeSpec,
        #[serde(default = "yes")]
        logged: bool,
        #[serde(default)]
        in_memory: bool,
        #[serde(default)]
        topic: std::collections::BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        indexes: Vec<IndexSpec>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rocksdb: Option<RocksDbConfig>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expiry: Option<Expiry>,
        /// Whether it keeps headers with each value.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        headers: bool,
    },
    /// A store that a processor fills from a topic, completely before anything else is read.
    GlobalStore {
        store: String,
        kind: StoreKind,
        topic: String,
        key: SerdeSpec,
        value: SerdeSpec,
        processor: u32,
        #[serde(default)]
        timestamp: Option<TimestampExtractor>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rocksdb: Option<RocksDbConfig>,
    },
    /// A source of clock ticks: key = its name, value = the time of the tick.
    Scheduled(TimetableSpec),
    /// On a stream or a table (where the result may be materialized).
    Filter {
        from: usize,
        function: Function,
        #[serde(default)]
        materialized: Option<Materialized>,
    },
    FilterNot {
        from: usize,
        function: Function,
        #[serde(default)]
        materialized: Option<Materialized>,
    },
    Map {
        from: usize,
        function: Function,
    },
    /// On a stream or a table (where the result may be materialized).
    MapValues {
        from: usize,
        function: Function,
        #[serde(default)]
        with_key: bool,
        #[serde(default)]
        materialized: Option<Materialized>,
    },
    FlatMap {
        from: usize,
        function: Function,
    },
    FlatMapValues {
        from: usize,
        function: Function,
        #[serde(default)]
        with_key: bool,
    },
    /// A function over whole batches, as Arrow columns.
    MapBatches {
        from: usize,
        function: Function,
        /// The columns of the values; without them they are inferred from the first values.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<Vec<Column>>,
        max_rows: u32,
        max_wait_ms: i64,
        /// The column with the number of the input row that an output row belongs to.
        by_row: String,
    },
    SelectKey {
        from: usize,
        function: Function,
    },
    Peek {
        from: usize,
        function: Function,
    },
    Foreach {
        from: usize,
        function: Function,
    },
    /// A function over whole batches, as Arrow columns, without a result.
    ForeachBatch {
        from: usize,
        function: Function,
        /// See `MapBatches`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<Vec<Column>>,
        max_rows: u32,
        max_wait_ms: i64,
    },
    Merge {
        from: usize,
        other: usize,
    },
    /// Has no output itself: its branches are the `branch` calls that refer to it.
    Split {
        from: usize,
    },
    /// A branch of the split `from`: records that match its function and no earlier branch. Without a
    /// function: the default branch. The node's name is the name of the branch.
    Branch {
        from: usize,
        #[serde(default)]
        function: Option<Function>,
    },
    Repartition {
        from: usize,
        #[serde(default)]
        key: Option<SerdeSpec>,
        #[serde(default)]
        value: Option<SerdeSpec>,
    },
    ToTable {
        from: usize,
        #[serde(default)]
        materialized: Option<Materialized>,
    },
    /// A processor whose results may have other keys. `from` has several parents only in a topology
    /// built of processors; `stores` are names of stores.
    Process {
        from: Vec<usize>,
        processor: u32,
        #[serde(default)]
        stores: Vec<String>,
        /// Added by `Topology.add_processor`: no stage boundary follows it, as in Kafka Streams.
        #[serde(default)]
        low_level: bool,
    },
    /// A processor whose results keep their keys.
    ProcessValues {
        from: usize,
        processor: u32,
        #[serde(default)]
        stores: Vec<String>,
    },
    /// On a table.
    TransformValues {
        from: usize,
        processor: u32,
        #[serde(default)]
        stores: Vec<String>,
        #[serde(default)]
        materialized: Option<Materialized>,
    },
    GroupByKey {
        from: usize,
        #[serde(default)]
        key: Option<SerdeSpec>,
        #[serde(default)]
        value: Option<SerdeSpec>,
    },
    /// On a stream (the function returns a key) or on a table (it returns a pair).
    GroupBy {
        from: usize,
        function: Function,
        #[serde(default)]
        key: Option<SerdeSpec>,
        #[serde(default)]
        value: Option<SerdeSpec>,
    },
    /// `from` is a grouped stream or a cogroup.
    WindowedBy {
        from: usize,
        window: Window,
        /// Closes windows after this much wall-clock time without a record.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        close_when_idle_ms: Option<i64>,
    },
    /// `from` is windowed.
    EmitStrategy {
        from: usize,
        strategy: Emit,
    },
    /// On a grouped stream; or on a cogroup `from`, with another grouped stream `other`.
    Cogroup {
        from: usize,
        #[serde(default)]
        other: Option<usize>,
        function: Function,
    },
    Count {
        from: usize,
        #[serde(default)]
        materialized: Option<Materialized>,
    },
    /// `function` adds; for a grouped table `subtractor` subtracts.
    Reduce {
        from: usize,
        function: Function,
        #[serde(default)]
        subtractor: Option<Function>,
        #[serde(default)]
        materialized: Option<Materialized>,
    },
    /// `initializer` is a callable without arguments or a literal expression. `function` adds (absent
    /// for a cogroup, which has its own), `subtractor` subtracts (for a grouped table), `merger` merges
    /// two sessions.
    Aggregate {
        from: usize,
        initializer: Function,
        #[serde(default)]
        function: Option<Function>,
        #[serde(default)]
        subtractor: Option<Function>,
        #[serde(default)]
        merger: Option<Function>,
        #[serde(default)]
        materialized: Option<Materialized>,
    },
    Suppress {
        from: usize,
        until: Until,
        #[serde(default)]
        max_records: Option<u64>,
        #[serde(default)]
        max_bytes: Option<u64>,
        #[serde(default)]
        when_full: WhenFull,
        #[serde(default = "yes")]
        logged: bool,
    },
    Join(JoinArguments),
    LeftJoin(JoinArguments),
    OuterJoin(JoinArguments),
    /// Forwards the first record of each key (or of each result of `function`) within a time.
    Deduplicate {
        from: usize,
        #[serde(default)]
        function: Option<Function>,
        within_ms: i64,
        #[serde(default)]
        materialized: Option<Materialized>,
    },
    /// Parks records until a worker has answered.
    Offload(Box<OffloadSpec>),
    ToStream {
        from: usize,
    },
    /// Either `topic` or `topic_function` (`(key, value, context)`) is set. Several parents only in a
    /// topology built of processors.
    To {
        from: Parents,
        #[serde(default)]
        topic: Option<String>,
        #[serde(default)]
        topic_function: Option<Function>,
        /// `(topic, key, value, partitions)` returns partitions.
        #[serde(default)]
        partitioner: Option<Function>,
        /// It is called with `(topic, headers, key, value, partitions)`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        partitioner_with_headers: bool,
        #[serde(default)]
        key: Option<SerdeSpec>,
        #[serde(default)]
        value: Option<SerdeSpec>,
    },
}

/// One parent or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Parents {
    /// In a plan of the DSL.
    One(usize),
    /// In a topology built of processors.
    Many(Vec<usize>),
}

impl Parents {
    /// All parents.
    #[must_use]
    pub fn all(&self) -> Vec<usize> {
        match self {
            Self::One(at) => vec![*at],
            Self::Many(all) => all.clone(),
        }
    }
}

/// The return annotation of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Returned {
    /// A type with a built-in serde.
    Builtin(String),
    /// A pair, such as a key and a value; `None`: any type.
    Pair {
        /// The types of both sides.
        pair: [Option<Box<Returned>>; 2],
    },
    /// A list; `None`: of any type.
    List {
        /// The type of its elements.
        list: Option<Box<Returned>>,
    },
}

/// The whole plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogicalPlan {
    /// See [`VERSION`].
    pub version: u32,
    /// The DSL calls in order (the counter in generated names follows it).
    pub nodes: Vec<LogicalNode>,
    /// Names of the callables: `app.py:12 is_large`.
    pub functions: Vec<String>,
    /// Return annotations of functions, by index.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub results: BTreeMap<u32, Returned>,
    /// Names of the custom serdes.
    #[serde(default)]
    pub serdes: Vec<String>,
    /// Names of the processors.
    #[serde(default)]
    pub processors: Vec<String>,
    /// The setting `default.key.serde`, for keys without any other serde.
    #[serde(default, alias = "default.key.serde")]
    pub default_key: Option<SerdeSpec>,
    /// The setting `default.value.serde`, for values without any other serde.
    #[serde(default, alias = "default.value.serde")]
    pub default_value: Option<SerdeSpec>,
    /// Whether the setting `topology.optimization` has `single.store.self.join`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub single_store_self_join: bool,
}

impl LogicalPlan {
    /// Whether this inner join of a stream with itself keeps one store. Records that were rekeyed have two
    /// repartition topics in Kafka Streams, which then keeps two stores.
    pub(crate) fn keeps_one_store(&self, i: usize, j: &JoinArguments, rekeyed: &[bool]) -> bool {
        let inner = matches!(self.nodes[i].call, DslCall::Join(_));
        let same = j.from == j.other && j.value == j.other_value;
        self.single_store_self_join && inner && same && !rekeyed[j.from]
    }
}
