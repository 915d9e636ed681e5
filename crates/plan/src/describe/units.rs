//! The graph that Kafka Streams builds before it writes a topology.
//!
//! Takes the plan and its names, returns units with the priority that decides when each one is written.
//! The priority counts every addition of a node to the graph, also for stores, and again for each
//! parent.

use super::{DescribedCall, Piece, Unit};
use crate::aggregation::{grouping_of, members};
use crate::check::{Kind, Shape};
use crate::function::Function;
use crate::logical::{DslCall, LogicalPlan};
use crate::name::{Names, Repartition};
use crate::offloading::OffloadSpec;
use crate::spec::AsyncSpec;
use crate::tables::{Tables, is_materialized_on_demand};
use std::collections::BTreeMap;

/// A unit, and the name of its piece that children are attached to.
pub(super) type Place<'a> = (usize, &'a str);

pub(super) struct Graph<'a> {
    pub(super) plan: &'a LogicalPlan,
    pub(super) shape: &'a Shape,
    pub(super) names: &'a Names,
    pub(super) tables: &'a Tables,
    pub(super) units: Vec<Unit<'a>>,
    pub(super) priority: usize,
    /// Where the children of each call are attached.
    pub(super) of: Vec<Place<'a>>,
    /// The units of repartition topics.
    pub(super) repartitions: BTreeMap<(usize, usize), usize>,
}

pub(super) fn units<'a>(
    plan: &'a LogicalPlan,
    shape: &'a Shape,
    names: &'a Names,
    tables: &'a Tables,
) -> Vec<Unit<'a>> {
    let mut graph = Graph {
        plan,
        shape,
        names,
        tables,
        units: vec![],
        priority: 0,
        of: Vec::with_capacity(plan.nodes.len()),
        repartitions: BTreeMap::new(),
    };
    for i in 0..plan.nodes.len() {
        let place = graph.node(i);
        graph.of.push(place);
    }
    graph.units
}

pub(super) fn piece<'a>(
    name: &'a str,
    what: DescribedCall<'a>,
    parents: Vec<&'a str>,
) -> Piece<'a> {
    Piece {
        name,
        what,
        parents,
        global: false,
    }
}

impl<'a> Graph<'a> {
    fn node(&mut self, i: usize) -> Place<'a> {
        let (plan, names) = (self.plan, self.names);
        if self.shape.same[i] != i {
            self.priority += 1;
            return self.of[self.shape.same[i]];
        }
        let own = names.node[i].as_str();
        let call = &plan.nodes[i].call;
        match call {
            DslCall::GroupByKey { from, .. }
            | DslCall::WindowedBy { from, .. }
            | DslCall::EmitStrategy { from, .. }
            | DslCall::Cogroup { from, .. } => self.of[*from],
            DslCall::StateStore { .. } => {
                self.priority += 1;
                (0, "")
            }
            DslCall::Table { topic, .. }
            | DslCall::GlobalTable { topic, .. }
            | DslCall::GlobalStore { topic, .. } => self.table(i, topic),
            DslCall::Count { from, .. }
            | DslCall::Reduce { from, .. }
            | DslCall::Aggregate { from, .. } => self.aggregation(i, *from),
            DslCall::Repartition { from, .. } => {
                let parent = self.of[*from];
                self.repartition(&names.repartition[i][&0], parent, true)
            }
            DslCall::ToTable { from, .. } | DslCall::Deduplicate { from, .. } => {
                let mut parent = self.of[*from];
                if let Some(r) = names.repartition[i].get(&0) {
                    parent = self.repartition(r, parent, true);
                }
                let stores = self.own_store(i);
                self.processor(own, stores, &[parent])
            }
            DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => self.join(i, j),
            DslCall::Offload(o) => self.offload(i, o),
            _ => {
                let mut from = call.inputs();
                // When a merged source hands its children over, each child lists the new parent last.
                from.sort_by_key(|&f| if self.shape.same[f] == f { 0 } else { f + 1 });
                let parents: Vec<Place<'a>> = from.iter().map(|&f| self.of[f]).collect();
                let what = self.what(i, call);
                let pieces = vec![piece(own, what, parents.iter().map(|p| p.1).collect())];
                self.unit(parents.iter().map(|p| p.0).collect(), pieces, own)
            }
        }
    }

    fn what(&self, i: usize, call: &'a DslCall) -> DescribedCall<'a> {
        match call {
            DslCall::Stream {
                pattern: Some(pattern),
                ..
            } => DescribedCall::Pattern(pattern),
            DslCall::Stream { topics, .. } => {
                DescribedCall::Source(topics.iter().map(String::as_str).collect())
            }
            DslCall::Scheduled(times) => DescribedCall::Scheduled(times.words()),
            DslCall::To {
                topic: Some(topic), ..
            } => DescribedCall::Sink(topic),
            DslCall::To { topic_function, .. } => DescribedCall::Extractor(match topic_function {
                Some(Function::Udf(u) | Function::Async(AsyncSpec { udf: u, .. })) => {
                    let name = self.plan.functions.get(*u as usize);
                    name.map_or("function", String::as_str)
                }
                _ => "expression",
            }),
            DslCall::Process { stores, .. } | DslCall::ProcessValues { stores, .. } => {
                DescribedCall::Processor(self.connected(stores))
            }
            DslCall::TransformValues { stores, .. } => {
                let mut all = self.connected(stores);
                all.extend(self.own_store(i));
                DescribedCall::Processor(all)
            }
            _ => DescribedCall::Processor(self.own_store(i)),
        }
    }

    /// Connected stores of a processor; global ones need no connection.
    fn connected(&self, stores: &'a [String]) -> Vec<&'a str> {
        let global = |name: &str| {
            (0..self.plan.nodes.len()).any(|i| {
                matches!(
                    self.plan.nodes[i].call,
                    DslCall::GlobalTable { .. } | DslCall::GlobalStore { .. }
                ) && self.names.store[i].as_ref().is_some_and(|s| s.0 == name)
            })
        };
        let all = stores.iter().map(String::as_str);
        all.filter(|s| !global(s)).collect()
    }

    /// The store of a call, if Kafka Streams creates one.
    pub(super) fn own_store(&self, i: usize) -> Vec<&'a str> {
        let names: &'a Names = self.names;
        let store = names.store[i].as_ref().map(|s| s.0.as_str());
        // Kafka Streams creates none for a table that is neither named nor read.
        let lazy = is_materialized_on_demand(&self.plan.nodes[i].call);
        store
            .filter(|_| !lazy || self.tables.kept[i])
            .into_iter()
            .collect()
    }

    pub(super) fn unit(
        &mut self,
        parents: Vec<usize>,
        pieces: Vec<Piece<'a>>,
        own: &'a str,
    ) -> Place<'a> {
        let count = parents.len().max(1);
        self.units.push(Unit {
            priority: self.priority,
            parents,
            pieces,
            written: false,
        });
        self.priority += count;
        (self.units.len() - 1, own)
    }

    pub(super) fn processor(
        &mut self,
        own: &'a str,
        stores: Vec<&'a str>,
        parents: &[Place<'a>],
    ) -> Place<'a> {
        let names = parents.iter().map(|p| p.1).collect();
        let pieces = vec![piece(own, DescribedCall::Processor(stores), names)];
        self.unit(parents.iter().map(|p| p.0).collect(), pieces, own)
    }

    fn table(&mut self, i: usize, topic: &'a str) -> Place<'a> {
        let names: &'a Names = self.names;
        let source = names.source[i].as_deref().unwrap_or_default();
        let own = names.node[i].as_str();
        let global = !matches!(self.plan.nodes[i].call, DslCall::Table { .. });
        let mut pieces = vec![
            piece(source, DescribedCall::Source(vec![topic]), vec![]),
            piece(
                own,
                DescribedCall::Processor(self.own_store(i)),
                vec![source],
            ),
        ];
        pieces.iter_mut().for_each(|p| p.global = global);
        self.unit(vec![], pieces, own)
    }

    /// `again`: it is added to the graph even if it is already there, and so is written as late as the
    /// last addition.
    pub(super) fn repartition(
        &mut self,
        r: &'a Repartition,
        parent: Place<'a>,
        again: bool,
    ) -> Place<'a> {
        if let Some(&unit) = self.repartitions.get(&r.owner) {
            if again {
                self.units[unit].priority = self.priority;
                self.priority += 1;
            }
            return (unit, &r.source);
        }
        let mut pieces = Vec::new();
        let mut above = parent.1;
        if let Some(filter) = &r.filter {
            pieces.push(piece(filter, DescribedCall::Processor(vec![]), vec![above]));
            above = filter;
        }
        pieces.push(piece(&r.sink, DescribedCall::Sink(&r.topic), vec![above]));
        pieces.push(piece(
            &r.source,
            DescribedCall::Source(vec![&r.topic]),
            vec![],
        ));
        let place = self.unit(vec![parent.0], pieces, &r.source);
        self.repartitions.insert(r.owner, place.0);
        place
    }

    /// The source of responses and the sink of requests are part of its unit.
    fn offload(&mut self, i: usize, o: &'a OffloadSpec) -> Place<'a> {
        let names: &'a Names = self.names;
        let own = names.node[i].as_str();
        let source = names.source[i].as_deref().unwrap_or_default();
        let mut parent = self.of[o.from];
        if let Some(r) = names.repartition[i].get(&0) {
            parent = self.repartition(r, parent, true);
        }
        let pieces = vec![
            piece(source, DescribedCall::Source(vec![&o.responses]), vec![]),
            piece(
                own,
                DescribedCall::Processor(self.own_store(i)),
                vec![parent.1, source],
            ),
            piece(
                &names.parts[i][0],
                DescribedCall::Sink(&o.requests),
                vec![own],
            ),
        ];
        self.unit(vec![parent.0], pieces, own)
    }

    fn aggregation(&mut self, i: usize, from: usize) -> Place<'a> {
        let names: &'a Names = self.names;
        let own = names.node[i].as_str();
        let store = self.own_store(i);
        if !self.shape.kind(from).is_cogrouped() {
            let group = match self.shape.kind(from) {
                Kind::GroupedTable => from,
                _ => grouping_of(self.plan, from),
            };
            let mut parent = self.of[group];
            if let Some(r) = names.repartition[i].get(&0) {
                parent = self.repartition(r, parent, true);
            }
            return self.processor(own, store, &[parent]);
        }
        let members = members(self.plan, from, None);
        let mut parents = Vec::new();
        for (slot, (member, _)) in members.iter().enumerate() {
            let parent = self.of[*member];
            parents.push(match names.repartition[i].get(&slot) {
                Some(r) => self.repartition(r, parent, true),
                None => parent,
            });
        }
        let mut parts = Vec::new();
        for (part, parent) in names.parts[i].iter().zip(parents) {
            parts.push(self.processor(part, store.clone(), &[parent]));
        }
        self.processor(own, vec![], &parts)
    }
}
