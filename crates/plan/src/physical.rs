//! The physical plan: stages of nodes, with numbered sources, sinks and stores.
//!
//! Created by [`compile`](fn@crate::compile), read by the engine and the admin page. A stage ends where a
//! record must move to the lane of another key; nodes know whether their children may process a whole
//! batch at a time or must process record by record (see [`Delivery`]).

use crate::function::Function;
use crate::materialized::IndexSpec;
pub use crate::op::{Fold, Form, Op};
use crate::spec::{Reset, SerdeSpec};
use crate::suggestion::suggestion;
use crate::window::{StoreKind, TimestampExtractor, Watermark};
use serde::Serialize;
use std::sync::Arc;
use stoatflow_core::{
    ClockId, Error, Handler, Handlers, Late, NodeId, Result, RocksDbConfig, SinkId, SourceId,
    StageId, StoreId,
};

/// Reads topics.
#[derive(Clone, Debug, Serialize)]
pub struct Source {
    /// Its number.
    pub id: SourceId,
    /// Its name in `describe()`.
    pub name: String,
    /// The topics; a record's origin contains the index.
    pub topics: Vec<String>,
    /// A regular expression that must match whole topic names; the topics are looked up at the start.
    pub pattern: Option<String>,
    /// How the timestamp of a record is determined.
    pub timestamp: TimestampExtractor,
    /// The watermark of its event time; `None`: as in the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark: Option<Watermark>,
    /// Whether it is read to its end before anything else (a global table).
    pub global: bool,
    /// Serde of keys.
    pub key: SerdeSpec,
    /// Serde of values.
    pub value: SerdeSpec,
    /// Where it starts without a committed offset.
    pub reset: Option<Reset>,
    /// The node of this source in stage 0.
    pub entry: NodeId,
    /// The policy for records that are older than the watermark.
    #[serde(skip_serializing_if = "Late::is_grace")]
    pub late: Late,
    /// Whether it reads responses of an `offload`. They don't advance the application's time, and are
    /// processed before other records.
    #[serde(skip_serializing_if = "is_false")]
    pub answers: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde calls
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Writes a topic.
#[derive(Clone, Debug, Serialize)]
pub struct Sink {
    /// Its number.
    pub id: SinkId,
    /// Its name in `describe()`.
    pub name: String,
    /// The topic, unless a function chooses it.
    pub topic: Option<String>,
    /// `(key, value, context)` returns the topic.
    pub topic_function: Option<Function>,
    /// `(topic, key, value, partitions)` returns partitions.
    pub partitioner: Option<Function>,
    /// It is called with `(topic, headers, key, value, partitions)`.
    #[serde(skip_serializing_if = "is_false")]
    pub partitioner_with_headers: bool,
    /// Serde of keys.
    pub key: SerdeSpec,
    /// Serde of values.
    pub value: SerdeSpec,
    /// Whether its keys are unchanged since a stream read them.
    #[serde(skip_serializing_if = "is_false")]
    pub key_as_read: bool,
    /// Whether its values are unchanged since a stream read them.
    #[serde(skip_serializing_if = "is_false")]
    pub value_as_read: bool,
}

/// A store.
#[derive(Clone, Debug, Serialize)]
pub struct Store {
    /// Its number.
    pub id: StoreId,
    /// Its name: part of the changelog topic's name and of the path on disk.
    pub name: String,
    /// Whether the user chose the name.
    pub named: bool,
    /// Serde of keys.
    pub key: SerdeSpec,
    /// Serde of values.
    pub value: SerdeSpec,
    /// Its layout.
    pub kind: StoreKind,
    /// Whether it has a changelog topic.
    pub logged: bool,
    /// Configuration of that topic.
    pub topic: std::collections::BTreeMap<String, String>,
    /// Whether it is kept in memory only (and restored from the changelog at each start).
    pub in_memory: bool,
    /// Whether updates may wait for the barrier, if the application has a cache.
    pub cached: bool,
    /// Whether it is read in ranges (by a processor).
    pub ordered: bool,
    /// For a window, session or versioned store: the clock that its retention follows.
    pub clock: Option<ClockId>,
    /// A source topic that serves as the changelog (a `table()` of a compacted topic).
    pub source_changelog: Option<String>,
    /// If it is the only store of a stream joined with itself: the name of the other side's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_side: Option<String>,
    /// Topics whose partition count the changelog follows.
    pub upstream_topics: Vec<String>,
    /// Its secondary indexes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexSpec>,
    /// RocksDB options that differ from the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rocksdb: Option<RocksDbConfig>,
    /// Whether each value has headers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub headers: bool,
}

impl Store {
    /// Creates a store with common values: a user's name, a changelog, on disk, no cache.
    #[must_use]
    pub fn new(name: &str, kind: StoreKind, key: SerdeSpec, value: SerdeSpec) -> Self {
        Self {
            id: StoreId(0),
            name: name.to_owned(),
            named: true,
            key,
            value,
            kind,
            logged: true,
            topic: std::collections::BTreeMap::new(),
            in_memory: false,
            cached: false,
            ordered: !matches!(kind, StoreKind::TimestampedKeyValue),
            clock: None,
            source_changelog: None,
            other_side: None,
            upstream_topics: Vec::new(),
            indexes: Vec::new(),
            rocksdb: None,
            headers: false,
        }
    }
}

/// How the children of a node process its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// A whole batch at a time: at most one child, or children that share no sink, store or exchange.
    Batch,
    /// Record by record, child after child: they converge below, so the order matters.
    Record,
}

/// A clock of stream time, kept across restarts by its name.
#[derive(Clone, Debug, Serialize)]
pub struct ClockSpec {
    /// Its number.
    pub id: ClockId,
    /// Its name: that of the node or store it belongs to.
    pub name: String,
}

/// Advances stream time while no record arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Idle {
    /// After this much wall-clock time without a record.
    pub after_ms: i64,
    /// How far beyond the newest record: everything that was open is then closed.
    pub reach_ms: i64,
    /// The clock with the time of the last record.
    pub seen: ClockId,
}

/// A node of the physical plan.
#[derive(Clone, Debug, Serialize)]
pub struct PhysicalNode {
    /// Its number.
    pub id: NodeId,
    /// Its name, as in `describe()` (an exchange has that of the repartition sink). Where streams of
    /// several stages are merged, stateless nodes exist once per stage, with the same name.
    pub name: String,
    /// The stage it runs in.
    pub stage: StageId,
    /// What it does.
    pub op: Op,
    /// The nodes that get its output, in the same stage.
    pub children: Vec<NodeId>,
    /// How they process it.
    pub fork: Delivery,
    /// Whether its stream time advances while no record arrives.
    pub idle: Option<Idle>,
    /// Whether it calls a foreign function, or a serde of the user.
    pub foreign: bool,
    /// The line where the user wrote it.
    pub line: Option<String>,
    /// The error policy for records that fail here (at a source: that can't be decoded), if the user set
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<Handler>,
}

/// A part of the topology that a record passes in one lane.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    /// Its number; exchanges lead to higher ones only.
    pub id: StageId,
    /// Its nodes, parents before children.
    pub nodes: Vec<NodeId>,
    /// Whether any of them calls a foreign function.
    pub foreign: bool,
    /// Whether records of different entries may be grouped within a batch (they share no sink, store or
    /// exchange).
    pub independent_entries: bool,
    /// Groups of the exchanges into it: records from exchanges of one group meet in some node, store or
    /// topic; records from different groups don't.
    pub meeting: Vec<Vec<NodeId>>,
}

/// The physical plan.
#[derive(Clone, Debug, Serialize)]
pub struct PhysicalPlan {
    /// Sources by id.
    pub sources: Vec<Source>,
    /// Sinks by id.
    pub sinks: Vec<Sink>,
    /// Stores by id.
    pub stores: Vec<Store>,
    /// Clocks by id.
    pub clocks: Vec<ClockSpec>,
    /// Names of the processors.
    pub processors: Vec<String>,
    /// Nodes by id.
    pub nodes: Vec<PhysicalNode>,
    /// Stages by id; stage 0 holds the sources.
    pub stages: Vec<Stage>,
    /// Names of the callables.
    pub functions: Vec<String>,
    /// The error policies for nodes without their own.
    #[serde(skip_serializing_if = "Handlers::is_empty")]
    pub handlers: Handlers,
    /// The text of Kafka Streams' `topology.describe()`.
    pub description: String,
    /// The plan for deserialization handlers that may drop records, if it differs: then dispatch doesn't
    /// know which records reach a window, and a stage boundary is put before it.
    #[serde(skip)]
    pub with_window_boundary: Option<Arc<Self>>,
}

impl PhysicalPlan {
    /// The plan to run with these handlers of the application.
    #[must_use]
    pub fn for_handlers(self: &Arc<Self>, handlers: &Handlers) -> Arc<Self> {
        let handlers = self.handlers.or(handlers);
        match &self.with_window_boundary {
            Some(with_window_boundary) if handlers.may_drop_input() => Arc::new(Self {
                handlers: self.handlers.clone(),
                ..(**with_window_boundary).clone()
            }),
            _ => Arc::clone(self),
        }
    }

    /// For each node: whether it gets only records of scheduled sources, or responses to an offload of
    /// those. Their event time says nothing about the input. Children have higher ids than their
    /// parents.
    #[must_use]
    pub fn clock_driven_nodes(&self) -> Vec<bool> {
        let mut fed: Vec<Option<bool>> = vec![None; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            let own = match node.op {
                Op::Scheduled { .. } => true,
                Op::Source { source } => self.sources[usize::from(source.0)].answers,
                // It emits the parked records.
                Op::OffloadAnswers { of, .. } => fed[of.0 as usize] == Some(true),
                _ => fed[at].unwrap_or(false),
            };
            fed[at] = Some(own);
            let next = match &node.op {
                Op::Exchange { to, .. } => to,
                _ => &node.children,
            };
            for child in next {
                let fed = &mut fed[child.0 as usize];
                *fed = Some(fed.unwrap_or(true) && own);
            }
        }
        fed.into_iter().map(|fed| fed == Some(true)).collect()
    }

    /// Whether a lane may have to wait for user code: a function, a processor, a handler.
    #[must_use]
    pub fn may_block_on_user_code(&self) -> bool {
        let mut handlers = self.nodes.iter().filter_map(|node| node.on_error.as_ref());
        self.stages.iter().any(|stage| stage.foreign)
            || handlers.any(Handler::waits)
            || self.handlers.each().any(Handler::waits)
    }

    /// Whether a record may have side effects before its epoch is committed: it called a function for
    /// its effect, or started a call that is awaited.
    #[must_use]
    pub fn has_side_effects(&self) -> bool {
        let acts = |op: &Op| {
            matches!(
                op,
                Op::Peek { .. }
                    | Op::Foreach { .. }
                    | Op::ForeachBatch { .. }
                    | Op::Calls { .. }
                    | Op::Offload { .. }
                    | Op::OffloadAnswers { .. }
                    | Op::Process { .. }
            )
        };
        self.nodes.iter().any(|node| acts(&node.op))
    }

    /// The store with this name.
    ///
    /// # Errors
    /// `Config` if there is none.
    pub fn store_named(&self, name: &str) -> Result<&Store> {
        let found = self.stores.iter().find(|store| store.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.stores.iter().map(|s| s.name.as_str()).collect();
            let hint = if names.is_empty() {
                "the topology keeps nothing: aggregate a stream, or read a table".to_owned()
            } else {
                suggestion(name, &names)
            };
            Error::config(format!("there is no store named '{name}'")).hint(hint)
        })
    }

    /// All dead-letter topics of handlers and late policies, without duplicates.
    #[must_use]
    pub fn dead_letter_topics(&self) -> Vec<&str> {
        let mut topics: Vec<&str> = self
            .all_handlers()
            .flat_map(Handler::topics)
            .chain(self.sources.iter().flat_map(|source| source.late.topics()))
            .collect();
        topics.sort_unstable();
        topics.dedup();
        topics
    }

    /// Whether a function chooses a topic for each record: of a sink, or for dead letters.
    #[must_use]
    pub fn chooses_topics(&self) -> bool {
        self.sinks.iter().any(|sink| sink.topic.is_none())
            || self.all_handlers().any(Handler::names_topics)
    }

    fn all_handlers(&self) -> impl Iterator<Item = &Handler> {
        let nodes = self.nodes.iter().filter_map(|node| node.on_error.as_ref());
        let timeouts = self.nodes.iter().filter_map(|node| match &node.op {
            Op::Offload {
                timeout_handler, ..
            } => timeout_handler.as_ref(),
            _ => None,
        });
        nodes.chain(timeouts).chain(self.handlers.each())
    }
}
