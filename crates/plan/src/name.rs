//! Kafka Streams' names for nodes, stores and topics.
//!
//! Takes the checked plan, returns the names that `InternalStreamsBuilder` would generate: one counter
//! for the whole topology, incremented in the same places (even if the user named the node, and twice
//! for a count whose materialization has no store name), so that a plan ported from Java finds its
//! topics and stores again. Invents no rules: every oddity here exists there too.

mod joins;
mod repartition;
mod unique;

use crate::aggregation::{members, window_of};
use crate::calls::calls;
use crate::check::{Kind, Shape};
use crate::logical::{DslCall, LogicalPlan};
use crate::problems::Problems;
use crate::window::Window;
pub(crate) use joins::{ForeignNames, StreamJoinNames};
pub(crate) use repartition::Repartition;
use std::collections::BTreeMap;

/// Names by node.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// The processor, source or sink; empty for calls without a node (`group_by_key`, `windowed_by`).
    /// For a join of tables and a cogroup: the node where their parts are merged.
    pub(crate) node: Vec<String>,
    /// The source of a table.
    pub(crate) source: Vec<Option<String>>,
    /// The store, and whether the user named it.
    pub(crate) store: Vec<Option<(String, bool)>>,
    /// For count windows: the store with the number of records of each key.
    pub(crate) positions: Vec<Option<String>>,
    /// For a store whose rows expire: the store of the timers.
    pub(crate) expiry: Vec<Option<String>>,
    /// The repartition topics in front of a node: for an aggregation one per grouped stream, for a join
    /// those of its left and its right side.
    pub(crate) repartition: Vec<BTreeMap<usize, Repartition>>,
    /// Nodes in front of the node: the parts of a cogroup, the sides of a join of tables.
    pub(crate) parts: Vec<Vec<String>>,
    /// Names of stream-stream joins.
    pub(crate) streams: Vec<Option<StreamJoinNames>>,
    /// Names of joins by foreign key.
    pub(crate) foreign: Vec<Option<ForeignNames>>,
}

struct Counter(u32);

impl Counter {
    fn next(&mut self, prefix: &str) -> String {
        let name = format!("{prefix}{:010}", self.0);
        self.0 += 1;
        name
    }

    /// Increments the counter even if the user chose the name.
    fn named(&mut self, prefix: &str, given: Option<&str>, suffix: &str) -> String {
        let generated = self.next(prefix);
        given.map_or(generated, |g| format!("{g}{suffix}"))
    }

    /// Doesn't increment the counter if the user chose the name.
    fn or_next(&mut self, prefix: &str, given: Option<&str>) -> String {
        given.map_or_else(|| self.next(prefix), str::to_owned)
    }

    fn store(&mut self, prefix: &str, given: Option<&str>) -> (String, bool) {
        match given {
            Some(given) => (given.to_owned(), true),
            None => (self.next(&format!("{prefix}STATE-STORE-")), false),
        }
    }
}

/// The names of one node.
#[derive(Default)]
struct NodeNames {
    node: String,
    source: Option<String>,
    store: Option<(String, bool)>,
    repartition: BTreeMap<usize, Repartition>,
    parts: Vec<String>,
    streams: Option<StreamJoinNames>,
    foreign: Option<ForeignNames>,
}

impl NodeNames {
    fn node(node: String) -> Self {
        Self {
            node,
            ..Self::default()
        }
    }
}

struct Pass<'a> {
    plan: &'a LogicalPlan,
    shape: &'a Shape,
    counter: Counter,
    names: Names,
    /// The repartition topic of a stream that was joined before.
    joined: BTreeMap<usize, Repartition>,
}

/// Names all nodes; duplicate names are findings.
pub(crate) fn name(plan: &LogicalPlan, shape: &Shape, problems: &mut Problems) -> Names {
    let mut pass = Pass {
        plan,
        shape,
        counter: Counter(0),
        names: Names::default(),
        joined: BTreeMap::new(),
    };
    for i in 0..plan.nodes.len() {
        let own = if shape.kinds[i] == Kind::Broken {
            NodeNames::default()
        } else {
            pass.node(i)
        };
        let counted = matches!(&plan.nodes[i].call,
            DslCall::Count { from, .. } | DslCall::Reduce { from, .. } | DslCall::Aggregate { from, .. }
                if matches!(window_of(plan, *from), Some(Window::Count { .. })));
        let names = &mut pass.names;
        let store = own.store.as_ref().filter(|_| counted);
        names
            .positions
            .push(store.map(|(name, _)| format!("{name}-positions")));
        let expires = plan.nodes[i].call.expiry().is_some();
        let store = own.store.as_ref().filter(|_| expires);
        names
            .expiry
            .push(store.map(|(name, _)| format!("{name}-expiry")));
        names.node.push(own.node);
        names.source.push(own.source);
        names.store.push(own.store);
        names.repartition.push(own.repartition);
        names.parts.push(own.parts);
        names.streams.push(own.streams);
        names.foreign.push(own.foreign);
    }
    let names = pass.names;
    unique::unique(plan, shape, &names, problems);
    names
}

impl Pass<'_> {
    fn node(&mut self, i: usize) -> NodeNames {
        let node = &self.plan.nodes[i];
        let given = node.name.as_deref();
        let wished = node.call.materialized().and_then(|m| m.store.as_deref());
        let table = self.shape.kinds[i] == Kind::Table;
        match &node.call {
            DslCall::Table { topic, .. } | DslCall::GlobalTable { topic, .. } => {
                let store = Some(self.counter.store(&format!("{topic}-"), wished));
                let source = Some(self.counter.named("KSTREAM-SOURCE-", given, "-source"));
                NodeNames {
                    source,
                    store,
                    ..NodeNames::node(self.counter.named("KTABLE-SOURCE-", given, ""))
                }
            }
            DslCall::GlobalStore { store, .. } => {
                let source = Some(self.counter.named("KSTREAM-SOURCE-", given, "-source"));
                NodeNames {
                    source,
                    store: Some((store.clone(), true)),
                    ..NodeNames::node(self.counter.named("KTABLE-SOURCE-", given, ""))
                }
            }
            DslCall::StateStore { store, .. } => NodeNames {
                store: Some((store.clone(), true)),
                ..NodeNames::default()
            },
            DslCall::GroupByKey { .. }
            | DslCall::WindowedBy { .. }
            | DslCall::EmitStrategy { .. }
            | DslCall::Cogroup { .. } => NodeNames::default(),
            DslCall::Filter { materialized, .. }
            | DslCall::FilterNot { materialized, .. }
            | DslCall::MapValues { materialized, .. }
                if table =>
            {
                let prefix = table_prefix(&node.call);
                // A materialization without a name keeps nothing, but uses up the number of its store.
                if materialized.is_some() && wished.is_none() {
                    self.counter.next(prefix);
                }
                NodeNames {
                    store: wished.map(|s| (s.to_owned(), true)),
                    ..NodeNames::node(self.counter.named(prefix, given, ""))
                }
            }
            DslCall::TransformValues { .. } => NodeNames {
                store: wished.map(|s| (s.to_owned(), true)),
                ..NodeNames::node(self.counter.named("KTABLE-TRANSFORMVALUES-", given, ""))
            },
            DslCall::GroupBy { from, .. } if self.shape.kinds[*from] == Kind::Table => {
                NodeNames::node(self.counter.named("KTABLE-SELECT-", given, ""))
            }
            DslCall::Suppress { .. } => {
                let own = self.counter.or_next("KTABLE-SUPPRESS-", given);
                let store = match given {
                    Some(given) => (format!("{given}-store"), true),
                    None => self.counter.store("KTABLE-SUPPRESS-", None),
                };
                NodeNames {
                    store: Some(store),
                    ..NodeNames::node(own)
                }
            }
            DslCall::ToTable { from, .. } => {
                let own = self.counter.named("KSTREAM-TOTABLE-", given, "");
                let store = Some(self.counter.store("KSTREAM-TOTABLE-", wished));
                let mut repartition = BTreeMap::new();
                if self.shape.rekeyed[*from] {
                    repartition.insert(0, self.repartition(i, 0, &own));
                }
                NodeNames {
                    store,
                    repartition,
                    ..NodeNames::node(own)
                }
            }
            DslCall::Repartition { .. } => {
                let own = self.counter.or_next("KSTREAM-REPARTITION-", given);
                let r = self.repartition(i, 0, &own);
                NodeNames {
                    repartition: BTreeMap::from([(0, r.clone())]),
                    ..NodeNames::node(r.source)
                }
            }
            DslCall::Deduplicate { from, .. } => {
                let store = self.counter.store("KSTREAM-DEDUPLICATE-", wished);
                let own = self.counter.named("KSTREAM-DEDUPLICATE-", given, "");
                let mut repartition = BTreeMap::new();
                if self.shape.rekeyed[*from] {
                    let prefix = given.unwrap_or(&store.0).to_owned();
                    repartition.insert(0, self.repartition(i, 0, &prefix));
                }
                NodeNames {
                    store: Some(store),
                    repartition,
                    ..NodeNames::node(own)
                }
            }
            DslCall::Offload(o) => {
                let own = self.counter.named("KSTREAM-OFFLOAD-", given, "");
                let mut repartition = BTreeMap::new();
                if self.shape.rekeyed[o.from] {
                    repartition.insert(0, self.repartition(i, 0, &own));
                }
                // Kafka Streams has no such operator: its parts use no numbers.
                let parked = || (format!("{own}-parked"), given.is_some());
                NodeNames {
                    source: Some(format!("{own}-responses")),
                    store: Some(wished.map_or_else(parked, |s| (s.to_owned(), true))),
                    repartition,
                    parts: ["requests", "answers", "result"]
                        .map(|part| format!("{own}-{part}"))
                        .to_vec(),
                    ..NodeNames::node(own)
                }
            }
            DslCall::Branch { from, function } => {
                let number = match function {
                    None => 0,
                    Some(_) => (0..=i)
                        .filter(|&b| {
                            matches!(&self.plan.nodes[b].call, DslCall::Branch { from: f, function: Some(_) } if f == from)
                        })
                        .count(),
                };
                let split = &self.names.node[*from];
                let own = match given {
                    Some(given) => format!("{split}{given}"),
                    None => format!("{split}{number}"),
                };
                self.counter.next("");
                NodeNames::node(own)
            }
            DslCall::Process { .. } => {
                NodeNames::node(self.counter.or_next("KSTREAM-PROCESSOR-", given))
            }
            DslCall::ProcessValues { .. } => {
                NodeNames::node(self.counter.or_next("KSTREAM-PROCESSVALUES-", given))
            }
            DslCall::Count { from, .. }
            | DslCall::Reduce { from, .. }
            | DslCall::Aggregate { from, .. } => self.aggregation(i, *from),
            DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => self.join(i, j),
            call => {
                let own = self.counter.named(prefix(call), given, "");
                // Kafka Streams has no such store: it uses no number.
                let store = calls(self.plan, self.shape, i)
                    .map(|_| (format!("{own}-parked"), given.is_some()));
                NodeNames {
                    store,
                    ..NodeNames::node(own)
                }
            }
        }
    }

    fn aggregation(&mut self, i: usize, from: usize) -> NodeNames {
        let node = &self.plan.nodes[i];
        let given = node.name.as_deref();
        let wished = node.call.materialized().and_then(|m| m.store.as_deref());
        let kind = self.shape.kinds[from];
        if kind == Kind::GroupedTable {
            return self.table_aggregation(i, from);
        }
        if kind.is_cogrouped() {
            let store = self.counter.store("COGROUPKSTREAM-AGGREGATE-", wished);
            let members = members(self.plan, from, None);
            let mut repartition = BTreeMap::new();
            for (slot, (member, _)) in members.iter().enumerate() {
                if self.shape.rekeyed[*member] {
                    repartition.insert(slot, self.grouped(i, slot, *member, &store.0));
                }
            }
            let parts = (0..members.len())
                .map(|n| {
                    let suffix = format!("-cogroup-agg-{n}");
                    self.counter
                        .named("COGROUPKSTREAM-AGGREGATE-", given, &suffix)
                })
                .collect();
            let own = self
                .counter
                .named("COGROUPKSTREAM-MERGE-", given, "-cogroup-merge");
            return NodeNames {
                store: Some(store),
                repartition,
                parts,
                ..NodeNames::node(own)
            };
        }
        let prefix = prefix(&node.call);
        let sliding = matches!(window_of(self.plan, from), Some(Window::Sliding { .. }));
        if matches!(
            node.call,
            DslCall::Count {
                materialized: Some(_),
                ..
            }
        ) && wished.is_none()
            && !sliding
        {
            self.counter.next(prefix);
        }
        let store = self.counter.store(prefix, wished);
        let own = self.counter.named(prefix, given, "");
        let group = crate::aggregation::grouping_of(self.plan, from);
        let mut repartition = BTreeMap::new();
        if self.shape.rekeyed[group] {
            repartition.insert(0, self.grouped(i, 0, group, &store.0));
        }
        NodeNames {
            store: Some(store),
            repartition,
            ..NodeNames::node(own)
        }
    }

    fn table_aggregation(&mut self, i: usize, group: usize) -> NodeNames {
        let node = &self.plan.nodes[i];
        let given = node.name.as_deref();
        let wished = node.call.materialized().and_then(|m| m.store.as_deref());
        let store = self.counter.store("KTABLE-AGGREGATE-", wished);
        let sink = self.counter.named("KSTREAM-SINK-", given, "-sink");
        let source = self.counter.named("KSTREAM-SOURCE-", given, "-source");
        let prefix = match &node.call {
            DslCall::Reduce { .. } => "KTABLE-REDUCE-",
            _ => "KTABLE-AGGREGATE-",
        };
        let own = self.counter.named(prefix, given, "");
        let named = self.plan.nodes[group].name.as_deref();
        let shared = named.and_then(|_| self.earlier(i, group));
        let repartition = shared.unwrap_or_else(|| Repartition {
            topic: format!("{}-repartition", named.unwrap_or(&store.0)),
            filter: None,
            sink,
            source,
            owner: (i, 0),
        });
        NodeNames {
            store: Some(store),
            repartition: BTreeMap::from([(0, repartition)]),
            ..NodeNames::node(own)
        }
    }
}

const fn table_prefix(call: &DslCall) -> &'static str {
    match call {
        DslCall::MapValues { .. } => "KTABLE-MAPVALUES-",
        _ => "KTABLE-FILTER-",
    }
}

const fn prefix(call: &DslCall) -> &'static str {
    match call {
        DslCall::Stream { .. } | DslCall::Scheduled(_) => "KSTREAM-SOURCE-",
        DslCall::Filter { .. } | DslCall::FilterNot { .. } => "KSTREAM-FILTER-",
        DslCall::Map { .. } => "KSTREAM-MAP-",
        DslCall::MapValues { .. } => "KSTREAM-MAPVALUES-",
        DslCall::FlatMap { .. } => "KSTREAM-FLATMAP-",
        DslCall::FlatMapValues { .. } => "KSTREAM-FLATMAPVALUES-",
        DslCall::MapBatches { .. } => "KSTREAM-MAPBATCHES-",
        DslCall::SelectKey { .. } | DslCall::GroupBy { .. } => "KSTREAM-KEY-SELECT-",
        DslCall::Peek { .. } => "KSTREAM-PEEK-",
        DslCall::Foreach { .. } => "KSTREAM-FOREACH-",
        DslCall::ForeachBatch { .. } => "KSTREAM-FOREACHBATCH-",
        DslCall::Merge { .. } => "KSTREAM-MERGE-",
        DslCall::Split { .. } => "KSTREAM-BRANCH-",
        DslCall::Count { .. } | DslCall::Aggregate { .. } => "KSTREAM-AGGREGATE-",
        DslCall::Reduce { .. } => "KSTREAM-REDUCE-",
        DslCall::ToStream { .. } => "KTABLE-TOSTREAM-",
        DslCall::To { .. } => "KSTREAM-SINK-",
        // The other nodes are named with their parts.
        _ => "",
    }
}

#[cfg(test)]
mod tests;
