//! Processors.
//!
//! Takes `process`, `process_values` and global stores, creates their nodes. A processor without stores
//! runs where its records are; one with stores runs once, in the lane of the key, and all that share a
//! store run in one stage.

use super::exchange_path::ExchangePath;
use super::{Built, StageBuilder, highest};
use crate::check::Kind;
use crate::logical::DslCall;
use crate::physical::{Op, Store};
use crate::problems::place;
use std::collections::{BTreeMap, BTreeSet};
use stoatflow_core::{ClockId, Error, ProcessorId, StoreId};

/// The stream time of the application: its clock is the first one in a plan with processors.
const APPLICATION: ClockId = ClockId(0);

impl StageBuilder<'_> {
    pub(super) fn process(
        &mut self,
        i: usize,
        from: &[usize],
        processor: u32,
        names: &[String],
        fixed_key: bool,
    ) -> Built {
        let stores = self.named_stores(i, names);
        let op = Op::Process {
            processor: ProcessorId(processor),
            stores,
            fixed_key,
            clock: APPLICATION,
            time: None,
        };
        let name = &self.names.node[i];
        let parents: Vec<Built> = from.iter().map(|&f| self.built[f].clone()).collect();
        if names.is_empty() {
            return self.each(i, &parents, name, &op);
        }
        let low_level = matches!(
            self.plan.nodes[i].call,
            DslCall::Process {
                low_level: true,
                ..
            }
        );
        let key = self.serdes.group_key[i].clone();
        let stage = from
            .iter()
            .zip(&parents)
            .map(|(&f, built)| {
                let walks = self.shape.rekeyed[f] && !low_level && key.is_some();
                highest(built) + u16::from(walks)
            })
            .chain(self.min_stage.get(&i).copied())
            .max()
            .expect("a processor has a parent");
        let key = key.unwrap_or_else(|| crate::spec::SerdeSpec::Builtin("json".into()));
        let walk_name = self.exchange_name(i, 0);
        let mut last = Vec::new();
        for (&of, parents) in from.iter().zip(&parents) {
            last.push(self.exchange(
                &ExchangePath {
                    alone: None,
                    of,
                    parents,
                    name: &walk_name,
                    key: &key,
                    keep_null: true,
                    ahead: low_level || !self.shape.rekeyed[of],
                },
                stage,
            ));
        }
        let own = self.add(i, name, stage, &op);
        for (parents, last) in parents.iter().zip(last) {
            self.arrive(own, parents, last);
        }
        Built::from([(stage, own)])
    }

    /// Gives processors a clock for the stream time of their tasks. Processors of global stores have
    /// none.
    pub(super) fn clocks_of_processors(&mut self) {
        let global = self.out.sources.iter().filter(|source| source.global);
        let global: BTreeSet<_> = global
            .flat_map(|source| self.out.nodes[super::index(source.entry)].children.clone())
            .collect();
        for at in 0..self.out.nodes.len() {
            let node = &self.out.nodes[at];
            let is_processor = matches!(
                node.op,
                Op::Process { .. } | Op::TransformValues { .. } | Op::Expire { .. }
            );
            if !is_processor || global.contains(&node.id) {
                continue;
            }
            let clock = self.clock(&format!("{}-{}-stream-time", node.name, node.stage.0));
            if let Op::Process { time, .. }
            | Op::TransformValues { time, .. }
            | Op::Expire { time, .. } = &mut self.out.nodes[at].op
            {
                *time = Some(clock);
            }
        }
    }

    pub(super) fn global_store(&mut self, i: usize, processor: u32) -> Built {
        let plan = self.plan;
        let DslCall::GlobalStore {
            store,
            kind,
            topic,
            rocksdb,
            ..
        } = &plan.nodes[i].call
        else {
            unreachable!("called for global stores");
        };
        let source = self.names.source[i].clone().unwrap_or_default();
        let parents = self.source(i, &source);
        let (key, value) = self.used(i);
        let id = self.new_store(crate::physical::Store {
            logged: false,
            ordered: true,
            upstream_topics: vec![topic.clone()],
            rocksdb: *rocksdb,
            ..Store::new(store, *kind, key, value)
        });
        self.named.insert(store.clone(), id);
        let op = Op::Process {
            processor: ProcessorId(processor),
            stores: vec![id],
            fixed_key: false,
            clock: APPLICATION,
            time: None,
        };
        self.each(i, &[parents], &self.names.node[i], &op);
        Built::new()
    }

    /// Stores that are filled from global topics.
    pub(super) fn global_stores(&self) -> Vec<StoreId> {
        let mut found = Vec::new();
        for source in self.out.sources.iter().filter(|s| s.global) {
            for child in &self.out.nodes[super::index(source.entry)].children {
                found.extend(match &self.out.nodes[super::index(*child)].op {
                    Op::TableSource { store, .. } => Some(*store),
                    Op::Process { stores, .. } => stores.first().copied(),
                    _ => None,
                });
            }
        }
        found
    }

    /// Raises a table to the stage of the streams that look it up, and of the subscriptions by foreign
    /// key that read it, unless the reader depends on the table, or is raised by a join that does.
    fn raise_tables(&self, min_stage: &mut BTreeMap<usize, u16>) {
        let mut raises = Vec::new();
        for (i, node) in self.plan.nodes.iter().enumerate() {
            let Some(j) = node.call.joining() else {
                continue;
            };
            let stage = match (self.shape.kind(j.from), self.shape.kind(j.other)) {
                (Kind::Stream, Kind::Table) => highest(&self.built[i]),
                // Answers return one stage higher.
                (Kind::Table, Kind::Table) if j.foreign_key.is_some() => {
                    highest(&self.built[i]).saturating_sub(1)
                }
                _ => continue,
            };
            self.raise_table(j.other, j.from, stage, min_stage, &mut raises);
        }
    }

    /// Raises a table with the tables it is made of: a join of tables reads both where it runs. `raises`:
    /// tables, each with the call that raises it.
    fn raise_table(
        &self,
        table: usize,
        by: usize,
        stage: u16,
        min_stage: &mut BTreeMap<usize, u16>,
        raises: &mut Vec<(usize, usize)>,
    ) {
        for table in self.keepers(table) {
            if self.depends_on(by, table, raises) {
                continue;
            }
            raises.push((table, by));
            if highest(&self.built[table]) >= stage {
                continue;
            }
            min_stage.insert(table, stage);
            if self.plan.nodes[table]
                .call
                .joining()
                .is_some_and(|j| j.foreign_key.is_none())
            {
                for from in self.plan.nodes[table].call.inputs() {
                    self.raise_table(from, by, stage, min_stage, raises);
                }
            }
        }
    }

    /// Whether a call depends on another one, directly or through a call that raises one of its inputs.
    fn depends_on(&self, i: usize, other: usize, raises: &[(usize, usize)]) -> bool {
        let (mut open, mut seen) = (vec![i], BTreeSet::new());
        while let Some(at) = open.pop() {
            if at == other {
                return true;
            }
            if seen.insert(at) {
                open.extend(self.plan.nodes[at].call.inputs());
                let by = raises.iter().filter(|(table, _)| *table == at);
                open.extend(by.map(|(_, by)| by));
            }
        }
        false
    }

    /// The error if no stage is found: processors that share a store are on both sides of a re-keying.
    pub(super) fn cycle_error(&self, min_stage: &BTreeMap<usize, u16>) -> Error {
        let stores_of = |i: usize| match &self.plan.nodes[i].call {
            DslCall::Process { stores, .. } | DslCall::ProcessValues { stores, .. } => {
                stores.as_slice()
            }
            _ => &[],
        };
        let users = |store: &String| -> Vec<usize> {
            let all = 0..self.plan.nodes.len();
            all.filter(|i| stores_of(*i).contains(store)).collect()
        };
        let mut stores = min_stage.keys().flat_map(|i| stores_of(*i));
        let Some(store) = stores.find(|store| users(store).len() > 1) else {
            return Error::topology("tables and streams look into each other in a circle")
                .hint("split the topology at a topic: write what one side needs, and read it");
        };
        let lines = users(store).into_iter();
        let lines: Vec<String> = lines.map(|i| place(&self.plan.nodes[i], i)).collect();
        Error::topology(format!(
            "processors that share the store '{store}' stand before and behind a new key, where they run in \
             different transactions: {}",
            lines.join(", ")
        ))
        .hint("give each a store of its own, or put what needs the store before or behind the new key")
    }

    /// The processors that must move to a higher stage, because they share a store with one that runs
    /// there.
    pub(super) fn raise_stages(&self) -> BTreeMap<usize, u16> {
        let plan = self.plan;
        let mut min_stage = self.min_stage.clone();
        let users: Vec<(usize, &[String])> = plan
            .nodes
            .iter()
            .enumerate()
            .filter_map(|(i, n)| match &n.call {
                DslCall::Process { stores, .. } | DslCall::ProcessValues { stores, .. }
                    if !stores.is_empty() =>
                {
                    Some((i, stores.as_slice()))
                }
                _ => None,
            })
            .collect();
        for &(i, stores) in &users {
            let shared = users
                .iter()
                .filter(|(_, others)| others.iter().any(|s| stores.contains(s)))
                .map(|(j, _)| highest(&self.built[*j]))
                .max()
                .expect("it shares a store with itself");
            if shared > highest(&self.built[i]) {
                min_stage.insert(i, shared);
            }
        }
        self.raise_tables(&mut min_stage);
        min_stage
    }
}
