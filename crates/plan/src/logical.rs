//! The plan as it crosses the border: the user's DSL calls in their order, as data.
//!
//! Python encodes it, [`LogicalPlan::decode`] takes it, unknown fields are refused. Functions and
//! custom serdes are indices into tables that cross beside it. Never decides anything.

use crate::columns::Column;
use crate::function::Function;
use crate::materialized::{IndexSpec, Materialized};
use crate::offloading::Offloading;
use crate::spec::{Reset, SerdeSpec, yes};
use crate::timetable::Times;
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
pub struct Node {
    /// Where the user wrote it (`app.py:12`), for errors.
    #[serde(default)]
    pub line: Option<String>,
    /// The user's name for it.
    #[serde(default)]
    pub name: Option<String>,
    /// What becomes of a record that fails there; nearer than the application's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<Handler>,
    /// What it does.
    #[serde(flatten)]
    pub call: Call,
}

/// How a join is made; which fields count depends on the kinds of its two sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Joining {
    /// The left side: a stream or a table.
    pub from: usize,
    /// The right side: a stream, a table or a global table.
    pub other: usize,
    /// The joiner: `(left, right)`.
    pub function: Function,
    /// Does the joiner get the key first? (Of a global join: the key of the stream.)
    #[serde(default)]
    pub with_key: bool,
    /// Stream-stream: the window.
    #[serde(default)]
    pub window: Option<JoinWindow>,
    /// Serde of keys, where they must be written.
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
    /// Global table: `(key, value)` of the stream give the table's key.
    #[serde(default)]
    pub key_function: Option<Function>,
    /// Table-table by foreign key: gives the right key.
    #[serde(default)]
    pub foreign_key: Option<Function>,
    /// Does `foreign_key` get `(key, value)` instead of `(value)`?
    #[serde(default)]
    pub foreign_with_key: bool,
    /// Table-table: how the result is kept.
    #[serde(default)]
    pub materialized: Option<Materialized>,
    /// Stream-stream: are the stores written to changelogs?
    #[serde(default = "yes")]
    pub logged: bool,
}

/// What a DSL call does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[allow(missing_docs)] // the fields are those of the DSL methods of the same names
pub enum Call {
    Stream {
        /// Empty if there is a pattern.
        #[serde(default)]
        topics: Vec<String>,
        /// A regular expression that whole topic names match.
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
    /// A table that is complete before anything else is read, and is looked up by any key.
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
    },
    /// A store that a processor keeps from a topic, complete before anything else is read.
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
    /// A source that ticks by the clock: key = its name, value = the time of the tick.
    Scheduled(Times),
    /// Of a stream or a table (there the result may be kept).
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
    /// Of a stream or a table (there the result may be kept).
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
    /// A function of whole batches, as Arrow columns.
    MapBatches {
        from: usize,
        function: Function,
        /// The columns of the values; without them they are what the first values say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<Vec<Column>>,
        max_rows: u32,
        max_wait_ms: i64,
        /// The column that says which row of its input a row comes from.
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
    /// A function of whole batches, as Arrow columns, that gives nothing.
    ForeachBatch {
        from: usize,
        function: Function,
        /// As of `MapBatches`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<Vec<Column>>,
        max_rows: u32,
        max_wait_ms: i64,
    },
    Merge {
        from: usize,
        other: usize,
    },
    /// Gives nothing itself: its branches are the `branch` calls that name it.
    Split {
        from: usize,
    },
    /// A branch of the split `from`: records that no earlier branch took and that fit. Without a
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
        /// Added by `Topology.add_processor`: no stage is cut below it, as in Kafka Streams.
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
    /// Of a table.
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
    /// Of a stream (the function gives a key) or of a table (it gives a pair).
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
        /// Close windows when no record has come for so long by the wall clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        close_when_idle_ms: Option<i64>,
    },
    /// `from` is windowed.
    EmitStrategy {
        from: usize,
        strategy: Emit,
    },
    /// Of a grouped stream; or of a cogroup `from` and one more grouped stream `other`.
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
    /// `function` adds; of a grouped table `subtractor` takes away.
    Reduce {
        from: usize,
        function: Function,
        #[serde(default)]
        subtractor: Option<Function>,
        #[serde(default)]
        materialized: Option<Materialized>,
    },
    /// `initializer` is a callable without arguments or a literal expression. `function` adds (absent
    /// for a cogroup, which has its own), `subtractor` takes away (of a grouped table), `merger` puts
    /// sessions together.
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
    Join(Joining),
    LeftJoin(Joining),
    OuterJoin(Joining),
    /// Passes the first record of each key (or of each `function` of a record) within a time on.
    Deduplicate {
        from: usize,
        #[serde(default)]
        function: Option<Function>,
        within_ms: i64,
        #[serde(default)]
        materialized: Option<Materialized>,
    },
    /// Parks records until a worker has answered.
    Offload(Box<Offloading>),
    ToStream {
        from: usize,
    },
    /// One of `topic` and `topic_function` (`(key, value, context)`) is given. Several parents only in a
    /// topology built of processors.
    To {
        from: Parents,
        #[serde(default)]
        topic: Option<String>,
        #[serde(default)]
        topic_function: Option<Function>,
        /// `(topic, key, value, partitions)` gives partitions.
        #[serde(default)]
        partitioner: Option<Function>,
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
    /// As the DSL has it.
    One(usize),
    /// As a topology built of processors may have it.
    Many(Vec<usize>),
}

impl Parents {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<usize> {
        match self {
            Self::One(at) => vec![*at],
            Self::Many(all) => all.clone(),
        }
    }
}

/// What the annotation of a function says of its results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Returned {
    /// What a built-in serde writes.
    Builtin(String),
    /// A pair, such as a key and a value; `None`: anything.
    Pair {
        /// Both sides.
        pair: [Option<Box<Returned>>; 2],
    },
    /// Many of a kind; `None`: of any.
    List {
        /// One of them.
        list: Option<Box<Returned>>,
    },
}

/// The whole plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogicalPlan {
    /// See [`VERSION`].
    pub version: u32,
    /// DSL calls in their order (names count up along it).
    pub nodes: Vec<Node>,
    /// Names of the callables: `app.py:12 is_large`.
    pub functions: Vec<String>,
    /// What annotations say of the results of functions, by their number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub results: BTreeMap<u32, Returned>,
    /// Names of the custom serdes.
    #[serde(default)]
    pub serdes: Vec<String>,
    /// Names of the processors.
    #[serde(default)]
    pub processors: Vec<String>,
    /// The setting `default.key.serde`: for keys whose serde nothing else says.
    #[serde(default, alias = "default.key.serde")]
    pub default_key: Option<SerdeSpec>,
    /// The setting `default.value.serde`: for values whose serde nothing else says.
    #[serde(default, alias = "default.value.serde")]
    pub default_value: Option<SerdeSpec>,
}
