//! What will run: stages of nodes, with sources, sinks and stores numbered.
//!
//! Given by [`crate::compile`], read by the engine and the admin page. A stage ends where a record
//! must walk to the lane of another key; nodes know whether their children may take a whole batch at
//! a time or must see each record in turn (see [`Fork`]).

pub use crate::logical::{Function, Reset, SerdeSpec};
use serde::Serialize;
use stoatflow_core::{NodeId, SinkId, SourceId, StageId, StoreId};

/// Reads topics.
#[derive(Clone, Debug, Serialize)]
pub struct Source {
    /// Its number.
    pub id: SourceId,
    /// Its name in `describe()`.
    pub name: String,
    /// The topics; a record's origin holds the index.
    pub topics: Vec<String>,
    /// Serde of keys.
    pub key: SerdeSpec,
    /// Serde of values.
    pub value: SerdeSpec,
    /// Where it starts without a committed position.
    pub reset: Option<Reset>,
    /// The node that stands for it in stage 0.
    pub entry: NodeId,
}

/// Writes a topic.
#[derive(Clone, Debug, Serialize)]
pub struct Sink {
    /// Its number.
    pub id: SinkId,
    /// Its name in `describe()`.
    pub name: String,
    /// The topic.
    pub topic: String,
    /// Serde of keys.
    pub key: SerdeSpec,
    /// Serde of values.
    pub value: SerdeSpec,
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
    /// Written to a changelog topic?
    pub logged: bool,
    /// A source topic that serves as the changelog (a `table()` of a compacted topic).
    pub source_changelog: Option<String>,
    /// Topics whose partition count the changelog follows.
    pub upstream_topics: Vec<String>,
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

/// What a node does.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[allow(missing_docs)] // the fields are those of the logical calls of the same names
pub enum Op {
    Source {
        source: SourceId,
    },
    /// Keeps a table's store: drops null keys, a null value deletes.
    TableSource {
        store: StoreId,
        key: SerdeSpec,
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
    SelectKey {
        function: Function,
    },
    Peek {
        function: Function,
    },
    Foreach {
        function: Function,
    },
    /// Several parents, one child list.
    Merge,
    /// Drops null keys, sends the others to the lane of their key, where `to` take them. `stage` is
    /// always the next one; `to` may hold another exchange, on its way to a later stage.
    /// `Node::fork` of an exchange speaks of `to`.
    Exchange {
        to: Vec<NodeId>,
        stage: StageId,
        key: SerdeSpec,
    },
    Count {
        store: StoreId,
        key: SerdeSpec,
    },
    Reduce {
        store: StoreId,
        key: SerdeSpec,
        function: Function,
    },
    Aggregate {
        store: StoreId,
        key: SerdeSpec,
        initializer: Function,
        function: Function,
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
            Self::TableSource { .. } => "table",
            Self::Filter { .. } => "filter",
            Self::FilterNot { .. } => "filter_not",
            Self::Map { .. } => "map",
            Self::MapValues { .. } => "map_values",
            Self::FlatMap { .. } => "flat_map",
            Self::FlatMapValues { .. } => "flat_map_values",
            Self::SelectKey { .. } => "select_key",
            Self::Peek { .. } => "peek",
            Self::Foreach { .. } => "foreach",
            Self::Merge => "merge",
            Self::Exchange { .. } => "exchange",
            Self::Count { .. } => "count",
            Self::Reduce { .. } => "reduce",
            Self::Aggregate { .. } => "aggregate",
            Self::ToStream => "to_stream",
            Self::Sink { .. } => "sink",
        }
    }

    /// The store it keeps.
    #[must_use]
    pub const fn store(&self) -> Option<StoreId> {
        match self {
            Self::TableSource { store, .. }
            | Self::Count { store, .. }
            | Self::Reduce { store, .. }
            | Self::Aggregate { store, .. } => Some(*store),
            _ => None,
        }
    }
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
    /// Does it call a foreign function, or a serde written by the user?
    pub foreign: bool,
    /// Where the user wrote it.
    pub line: Option<String>,
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
    /// Nodes by number.
    pub nodes: Vec<Node>,
    /// Stages by number; 0 holds the sources.
    pub stages: Vec<Stage>,
    /// Names of the callables.
    pub functions: Vec<String>,
    /// The text of Kafka Streams' `topology.describe()`.
    pub description: String,
}
