//! What will run: stages of nodes, with sources, sinks and stores numbered.
//!
//! Given by [`crate::compile`], read by the engine and the admin page. A stage ends where a record
//! must walk to the lane of another key; nodes know whether their children may take a whole batch at
//! a time or must see each record in turn (see [`Fork`]).

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
    /// The topics; a record's origin holds the index.
    pub topics: Vec<String>,
    /// A regular expression that whole topic names match; the topics are found when it starts.
    pub pattern: Option<String>,
    /// How the time of a record is found.
    pub timestamp: TimestampExtractor,
    /// What is said about its event time; `None`: as the settings say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark: Option<Watermark>,
    /// Is it read to its end before anything else (a global table)?
    pub global: bool,
    /// Serde of keys.
    pub key: SerdeSpec,
    /// Serde of values.
    pub value: SerdeSpec,
    /// Where it starts without a committed position.
    pub reset: Option<Reset>,
    /// The node that stands for it in stage 0.
    pub entry: NodeId,
    /// What becomes of its records that are older than the watermark.
    #[serde(skip_serializing_if = "Late::is_grace")]
    pub late: Late,
    /// Does it bring answers to an `offload`? They are no part of the application's time, and go before
    /// others.
    #[serde(skip_serializing_if = "is_false")]
    pub answers: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
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
    /// The topic, unless a function chooses.
    pub topic: Option<String>,
    /// `(key, value, context)` gives the topic.
    pub topic_function: Option<Function>,
    /// `(topic, key, value, partitions)` gives partitions.
    pub partitioner: Option<Function>,
    /// Serde of keys.
    pub key: SerdeSpec,
    /// Serde of values.
    pub value: SerdeSpec,
    /// Are its keys still what a stream read?
    #[serde(skip_serializing_if = "is_false")]
    pub key_as_read: bool,
    /// And its values?
    #[serde(skip_serializing_if = "is_false")]
    pub value_as_read: bool,
}

/// A store.
#[derive(Clone, Debug, Serialize)]
pub struct Store {
    /// Its number.
    pub id: StoreId,
    /// Its name: part of the changelog topic and of the place on disk.
    pub name: String,
    /// Was the name given by the user?
    pub named: bool,
    /// Serde of keys.
    pub key: SerdeSpec,
    /// Serde of values.
    pub value: SerdeSpec,
    /// What it keeps.
    pub kind: StoreKind,
    /// Written to a changelog topic?
    pub logged: bool,
    /// Settings of that topic.
    pub topic: std::collections::BTreeMap<String, String>,
    /// In memory only (restored from the changelog at each start)?
    pub in_memory: bool,
    /// May updates wait for the barrier, where the application caches?
    pub cached: bool,
    /// Is it read in ranges (by a processor)?
    pub ordered: bool,
    /// Of a window or session store: the clock of the newest window it has taken.
    pub clock: Option<ClockId>,
    /// A source topic that serves as the changelog (a `table()` of a compacted topic).
    pub source_changelog: Option<String>,
    /// Topics whose partition count the changelog follows.
    pub upstream_topics: Vec<String>,
    /// Its secondary indexes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexSpec>,
    /// How RocksDB keeps it, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rocksdb: Option<RocksDbConfig>,
}

impl Store {
    /// With what most have: a name of the user's, a changelog, a place on the disk, no cache.
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
            upstream_topics: Vec::new(),
            indexes: Vec::new(),
            rocksdb: None,
        }
    }
}

/// How the children of a node take its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fork {
    /// A whole batch at a time: at most one child, or children that share no sink, store or exchange.
    Batch,
    /// Record by record, child after child: they meet again below, and order would show.
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

/// Stream time that advances while no record comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Idle {
    /// No record for so long by the wall clock.
    pub after_ms: i64,
    /// How far beyond the newest record: then everything that was open is closed.
    pub reach_ms: i64,
    /// The clock of when records were seen.
    pub seen: ClockId,
}

/// A node of what will run.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    /// Its number.
    pub id: NodeId,
    /// Its name, as in `describe()` (an exchange has that of the repartition sink). Where streams of
    /// several stages meet, stateless nodes exist once for each stage, with one name.
    pub name: String,
    /// The stage it runs in.
    pub stage: StageId,
    /// What it does.
    pub op: Op,
    /// Who gets its output, in the same stage.
    pub children: Vec<NodeId>,
    /// How they get it.
    pub fork: Fork,
    /// Does its stream time advance while no record comes?
    pub idle: Option<Idle>,
    /// Does it call a foreign function, or a serde written by the user?
    pub foreign: bool,
    /// Where the user wrote it.
    pub line: Option<String>,
    /// What becomes of a record that fails here (at a source: that can't be decoded), if the user says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<Handler>,
}

/// A part of the topology that a record walks in one lane.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    /// Its number; exchanges lead to higher ones only.
    pub id: StageId,
    /// Its nodes, parents before children.
    pub nodes: Vec<NodeId>,
    /// Does any of them call a foreign function?
    pub foreign: bool,
    /// May records of different entries be grouped within a batch? (They share no sink, store or exchange.)
    pub independent_entries: bool,
    /// The exchanges into it: what comes through those of one group meets in some node, store or topic,
    /// what comes through those of different groups doesn't.
    pub meeting: Vec<Vec<NodeId>>,
}

/// What will run.
#[derive(Clone, Debug, Serialize)]
pub struct PhysicalPlan {
    /// Sources by number.
    pub sources: Vec<Source>,
    /// Sinks by number.
    pub sinks: Vec<Sink>,
    /// Stores by number.
    pub stores: Vec<Store>,
    /// Clocks by number.
    pub clocks: Vec<ClockSpec>,
    /// Names of the processors.
    pub processors: Vec<String>,
    /// Nodes by number.
    pub nodes: Vec<Node>,
    /// Stages by number; 0 holds the sources.
    pub stages: Vec<Stage>,
    /// Names of the callables.
    pub functions: Vec<String>,
    /// What becomes of records that fail where no node says it.
    #[serde(skip_serializing_if = "Handlers::is_empty")]
    pub handlers: Handlers,
    /// The text of Kafka Streams' `topology.describe()`.
    pub description: String,
    /// The same topology for handlers that leave out what can't be decoded, if that is another plan: then
    /// dispatch doesn't know which records reach a window, and a stage boundary stands before it.
    #[serde(skip)]
    pub guarded: Option<Arc<Self>>,
}

impl PhysicalPlan {
    /// The plan to run with these handlers of the application.
    #[must_use]
    pub fn for_handlers(self: &Arc<Self>, handlers: &Handlers) -> Arc<Self> {
        let handlers = self.handlers.or(handlers);
        match &self.guarded {
            Some(guarded) if handlers.may_leave_out_input() => Arc::new(Self {
                handlers: self.handlers.clone(),
                ..(**guarded).clone()
            }),
            _ => Arc::clone(self),
        }
    }

    /// By node: does it get only records of scheduled sources, or answers to an offload of such?
    /// They tell nothing of event time. Children have higher numbers than parents.
    #[must_use]
    pub fn by_clock(&self) -> Vec<bool> {
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

    /// May a lane wait for user code: a function, a processor, a handler?
    #[must_use]
    pub fn calls_out(&self) -> bool {
        let mut handlers = self.nodes.iter().filter_map(|node| node.on_error.as_ref());
        self.stages.iter().any(|stage| stage.foreign)
            || handlers.any(Handler::waits)
            || self.handlers.each().any(Handler::waits)
    }

    /// May a record have done something that is seen before its epoch is committed: called a function for
    /// what it does, begun to wait for one?
    #[must_use]
    pub fn acts_at_once(&self) -> bool {
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

    /// The store of this name.
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

    /// All topics that handlers and late policies name for dead letters, each once.
    #[must_use]
    pub fn dead_letter_topics(&self) -> Vec<&str> {
        let nodes = self.nodes.iter().filter_map(|node| node.on_error.as_ref());
        let timeouts = self.nodes.iter().filter_map(|node| match &node.op {
            Op::Offload {
                timeout_handler, ..
            } => timeout_handler.as_ref(),
            _ => None,
        });
        let mut topics: Vec<&str> = nodes
            .chain(timeouts)
            .chain(self.handlers.each())
            .flat_map(Handler::topics)
            .chain(self.sources.iter().flat_map(|source| source.late.topics()))
            .collect();
        topics.sort_unstable();
        topics.dedup();
        topics
    }
}
