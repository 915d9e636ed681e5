//! The cut into stages.
//!
//! Takes the checked, named plan and its serdes, gives sources, sinks, stores, nodes and stages.
//! A stage ends only where a record must be in the lane of its key and may not be: before the
//! aggregation of a re-keyed stream. An exchange leads to the next stage, never further; where
//! streams of several stages meet (a merge after an aggregation), the stateless nodes below are
//! made once for each stage, and what keeps a store is made once, in the highest of them, so that
//! an epoch of a store is never written from two stages. Never decides how nodes take batches.

use crate::check::Shape;
use crate::logical::{Call, LogicalPlan, SerdeSpec};
use crate::name::Names;
use crate::physical::{Fork, Node, Op, PhysicalPlan, Sink, Source, Stage, Store};
use crate::serdes::Serdes;
use crate::window::{StoreKind, TimestampExtractor};
use indexmap::IndexSet;
use std::collections::BTreeMap;
use stoatflow_core::{NodeId, SinkId, SourceId, StageId, StoreId};

/// Cuts the plan; nothing in it may be wrong any more.
pub(crate) fn cut(
    plan: &LogicalPlan,
    shape: &Shape,
    names: &Names,
    serdes: &Serdes,
) -> PhysicalPlan {
    let mut cut = Cut {
        plan,
        shape,
        names,
        serdes,
        out: PhysicalPlan {
            sources: vec![],
            sinks: vec![],
            stores: vec![],
            clocks: vec![],
            processors: plan.processors.clone(),
            nodes: vec![],
            stages: vec![],
            functions: plan.functions.clone(),
            description: String::new(),
        },
        made: Vec::with_capacity(plan.nodes.len()),
        exchanges: BTreeMap::new(),
    };
    for i in 0..plan.nodes.len() {
        let made = cut.node(i);
        cut.made.push(made);
    }
    cut.stages();
    cut.out
}

/// The nodes that stand for a call, by stage.
type Made = BTreeMap<u16, NodeId>;

struct Cut<'a> {
    plan: &'a LogicalPlan,
    shape: &'a Shape,
    names: &'a Names,
    serdes: &'a Serdes,
    out: PhysicalPlan,
    made: Vec<Made>,
    /// By grouping and stage.
    exchanges: BTreeMap<(usize, u16), NodeId>,
}

impl Cut<'_> {
    fn node(&mut self, i: usize) -> Made {
        let first = self.shape.same[i];
        if first != i {
            return self.made[first].clone();
        }
        let call = &self.plan.nodes[i].call;
        let name = self.names.node[i].clone();
        match call {
            Call::Stream { .. } => self.source(i, name),
            Call::Table { .. } => {
                let source = self.names.source[i].clone().unwrap_or_default();
                let parents = self.source(i, source);
                let (store, key) = self.store(i);
                self.each(
                    i,
                    &[parents],
                    &name,
                    &Op::TableSource {
                        store,
                        key,
                        old: false,
                    },
                )
            }
            Call::GroupByKey { from, .. } => self.made[*from].clone(),
            Call::Count { from, .. } | Call::Reduce { from, .. } | Call::Aggregate { from, .. } => {
                self.aggregation(i, *from)
            }
            Call::To { from, topic, .. } => {
                let sink = SinkId(number(self.out.sinks.len()));
                let (key, value) = self.used(i);
                let from = &from.all()[0];
                self.out.sinks.push(Sink {
                    id: sink,
                    name: name.clone(),
                    topic: topic.clone(),
                    topic_function: None,
                    partitioner: None,
                    key,
                    value,
                });
                self.each(i, &[self.made[*from].clone()], &name, &Op::Sink { sink })
            }
            call => {
                let parents: Vec<Made> = call
                    .inputs()
                    .iter()
                    .map(|&f| self.made[f].clone())
                    .collect();
                self.each(i, &parents, &name, &stateless(call))
            }
        }
    }

    /// One node in each stage that a parent is in.
    fn each(&mut self, i: usize, parents: &[Made], name: &str, op: &Op) -> Made {
        let mut made = Made::new();
        for parent in parents {
            for (&stage, &above) in parent {
                let own = *made
                    .entry(stage)
                    .or_insert_with(|| add(&mut self.out, self.plan, i, name, stage, op));
                self.out.nodes[index(above)].children.push(own);
            }
        }
        made
    }

    fn source(&mut self, i: usize, name: String) -> Made {
        let (topics, key, value, reset) = match &self.plan.nodes[i].call {
            Call::Stream {
                topics,
                key,
                value,
                reset,
                ..
            } => (topics.clone(), key, value, *reset),
            Call::Table {
                topic,
                key,
                value,
                reset,
                ..
            } => (vec![topic.clone()], key, value, *reset),
            _ => unreachable!("only streams and tables have sources"),
        };
        let source = SourceId(number(self.out.sources.len()));
        let entry = add(
            &mut self.out,
            self.plan,
            i,
            &name,
            0,
            &Op::Source { source },
        );
        let (key, value) = (key.clone(), value.clone());
        self.out.sources.push(Source {
            id: source,
            name,
            topics,
            pattern: None,
            timestamp: TimestampExtractor::FailOnInvalid,
            global: false,
            key,
            value,
            reset,
            entry,
        });
        Made::from([(0, entry)])
    }

    fn used(&self, i: usize) -> (SerdeSpec, SerdeSpec) {
        self.serdes.used[i]
            .clone()
            .expect("a missing serde is a finding, and findings end before the cut")
    }

    fn store(&mut self, i: usize) -> (StoreId, SerdeSpec) {
        let call = &self.plan.nodes[i].call;
        let (name, named) = self.names.store[i]
            .clone()
            .expect("what keeps a store was given its name");
        let (key, value) = self.used(i);
        let logged = call.materialized().is_none_or(|m| m.logged);
        let source_changelog = match call {
            // The bytes of the topic are the bytes of the changelog only with the same serdes.
            Call::Table {
                topic,
                key: k,
                value: v,
                ..
            } if logged && *k == key && *v == value => Some(topic.clone()),
            _ => None,
        };
        let mut upstream_topics = IndexSet::new();
        self.upstream(i, &mut upstream_topics);
        let id = StoreId(number(self.out.stores.len()));
        self.out.stores.push(Store {
            id,
            name,
            named,
            key: key.clone(),
            value,
            kind: StoreKind::TimestampedKeyValue,
            logged,
            topic: call
                .materialized()
                .map(|m| m.topic.clone())
                .unwrap_or_default(),
            in_memory: call.materialized().is_some_and(|m| m.in_memory),
            cached: call.materialized().is_none_or(|m| m.cached),
            ordered: false,
            clock: None,
            source_changelog,
            upstream_topics: upstream_topics.into_iter().collect(),
        });
        (id, key)
    }

    fn upstream(&self, i: usize, topics: &mut IndexSet<String>) {
        match &self.plan.nodes[i].call {
            Call::Stream { topics: own, .. } => topics.extend(own.iter().cloned()),
            Call::Table { topic, .. } => topics.extend([topic.clone()]),
            call => call
                .inputs()
                .into_iter()
                .for_each(|from| self.upstream(from, topics)),
        }
    }

    fn aggregation(&mut self, i: usize, group: usize) -> Made {
        let parents = self.made[group].clone();
        let highest = parents
            .keys()
            .next_back()
            .copied()
            .expect("every node is in a stage");
        let rekeyed = self.shape.rekeyed[group];
        let stage = if rekeyed { highest + 1 } else { highest };
        let (store, key) = self.store(i);
        let op = match &self.plan.nodes[i].call {
            Call::Reduce { function, .. } => Op::Reduce {
                store,
                key,
                function: function.clone(),
                old: false,
            },
            Call::Aggregate {
                initializer,
                function: Some(function),
                ..
            } => Op::Aggregate {
                store,
                key,
                initializer: initializer.clone(),
                function: function.clone(),
                old: false,
            },
            _ => Op::Count {
                store,
                key,
                old: false,
            },
        };
        // The exchange stands before what it leads to.
        let last = self.exchange(i, group, &parents, stage);
        let own = add(&mut self.out, self.plan, i, &self.names.node[i], stage, &op);
        if let Some(last) = last
            && let Op::Exchange { to, .. } = &mut self.out.nodes[index(last)].op
        {
            to.push(own);
        }
        if let Some(&parent) = parents.get(&stage) {
            self.out.nodes[index(parent)].children.push(own);
        }
        Made::from([(stage, own)])
    }

    /// Exchanges from every stage below `stage` up to it, made once for each grouping.
    fn exchange(&mut self, i: usize, group: usize, parents: &Made, stage: u16) -> Option<NodeId> {
        let lowest = parents.keys().next().copied()?;
        let name = match &self.names.repartition[i] {
            Some(r) => r.sink.clone(),
            None => format!("{}-exchange", self.names.node[i]),
        };
        let mut before: Option<NodeId> = None;
        for at in lowest..stage {
            if let Some(&there) = self.exchanges.get(&(group, at)) {
                before = Some(there);
                continue;
            }
            let key = self.serdes.group_key[group]
                .clone()
                .expect("a missing serde is a finding");
            let op = Op::Exchange {
                to: vec![],
                stage: StageId(at + 1),
                key,
                keep_null: false,
            };
            let own = add(&mut self.out, self.plan, group, &name, at, &op);
            self.exchanges.insert((group, at), own);
            if let Some(&parent) = parents.get(&at) {
                self.out.nodes[index(parent)].children.push(own);
            }
            if let Some(before) = before
                && let Op::Exchange { to, .. } = &mut self.out.nodes[index(before)].op
            {
                to.push(own);
            }
            before = Some(own);
        }
        before
    }

    fn stages(&mut self) {
        let count = self
            .out
            .nodes
            .iter()
            .map(|n| n.stage.0 + 1)
            .max()
            .unwrap_or(0);
        self.out.stages = (0..count)
            .map(|s| Stage {
                id: StageId(s),
                nodes: self
                    .out
                    .nodes
                    .iter()
                    .filter(|n| n.stage.0 == s)
                    .map(|n| n.id)
                    .collect(),
                foreign: false,
                independent_entries: false,
            })
            .collect();
    }
}

fn stateless(call: &Call) -> Op {
    match call {
        Call::Filter { function, .. } => Op::Filter {
            function: function.clone(),
        },
        Call::FilterNot { function, .. } => Op::FilterNot {
            function: function.clone(),
        },
        Call::Map { function, .. } => Op::Map {
            function: function.clone(),
        },
        Call::MapValues {
            function, with_key, ..
        } => Op::MapValues {
            function: function.clone(),
            with_key: *with_key,
        },
        Call::FlatMap { function, .. } => Op::FlatMap {
            function: function.clone(),
        },
        Call::FlatMapValues {
            function, with_key, ..
        } => Op::FlatMapValues {
            function: function.clone(),
            with_key: *with_key,
        },
        // A grouping by a function is a new key; what waits for it comes later.
        Call::SelectKey { function, .. } | Call::GroupBy { function, .. } => Op::SelectKey {
            function: function.clone(),
        },
        Call::Peek { function, .. } => Op::Peek {
            function: function.clone(),
        },
        Call::Foreach { function, .. } => Op::Foreach {
            function: function.clone(),
        },
        Call::Merge { .. } => Op::Merge,
        Call::ToStream { .. } => Op::ToStream,
        _ => unreachable!("sources, sinks, groupings by key and aggregations are made elsewhere"),
    }
}

fn add(
    out: &mut PhysicalPlan,
    plan: &LogicalPlan,
    i: usize,
    name: &str,
    stage: u16,
    op: &Op,
) -> NodeId {
    let id =
        NodeId(u32::try_from(out.nodes.len()).expect("a plan has fewer than four billion nodes"));
    out.nodes.push(Node {
        id,
        name: name.to_owned(),
        stage: StageId(stage),
        op: op.clone(),
        children: vec![],
        fork: Fork::Batch,
        foreign: false,
        line: plan.nodes[i].line.clone(),
    });
    id
}

fn number(len: usize) -> u16 {
    u16::try_from(len).expect("checked: a plan has fewer than 65536 nodes")
}

fn index(id: NodeId) -> usize {
    id.0 as usize
}

#[cfg(test)]
mod tests;
