//! Joins.
//!
//! Takes the two sides of a join, creates its nodes. If both sides write, they run in one stage: the
//! lower one is raised by exchanges. The table of a stream-table join is not exchanged: it is read by
//! key.

use super::exchange_path::ExchangePath;
use super::tables::kind_of;
use super::{Built, StageBuilder, highest};
use crate::check::Kind;
use crate::logical::JoinArguments;
use crate::physical::{Op, Store};
use crate::serdes::JoinSerdes;
use crate::view::View;
use crate::window::StoreKind;
use stoatflow_core::{NodeId, StoreId};

impl StageBuilder<'_> {
    pub(super) fn join(&mut self, i: usize, j: &JoinArguments) -> Built {
        match (self.shape.kind(j.from), self.shape.kind(j.other)) {
            (Kind::Stream, Kind::Stream) => self.stream_join(i, j),
            (Kind::Stream, Kind::Table) => self.stream_table_join(i, j),
            (Kind::Stream, _) => self.global_join(i, j),
            _ if j.foreign_key.is_some() => self.foreign_join(i, j),
            _ => self.table_join(i, j),
        }
    }

    pub(super) fn join_serdes(&self, i: usize) -> JoinSerdes {
        self.serdes.join[i]
            .clone()
            .expect("a missing serde is a finding, and findings end before the cut")
    }

    fn stream_join(&mut self, i: usize, j: &JoinArguments) -> Built {
        let plan = self.plan;
        let kind = kind_of(&plan.nodes[i].call);
        let window = j
            .window
            .expect("a join of streams without a window is a finding");
        let serdes = self.join_serdes(i);
        let names = self.names.streams[i]
            .clone()
            .expect("a join of streams was given its names");
        let streams = [j.from, j.other];
        let stage = streams
            .iter()
            .map(|&s| highest(&self.built[s]) + 1)
            .max()
            .expect("a join has two sides");
        let size_ms = window.before_ms.saturating_add(window.after_ms);
        let layout = StoreKind::Window {
            retention_ms: size_ms.saturating_add(window.grace_ms),
            size_ms,
            duplicates: true,
            timestamped: false,
        };
        let upstream_topics = self.topics_above(i);
        let mut stores = [StoreId(0); 2];
        let one_store = plan.keeps_one_store(i, j, &self.shape.rekeyed);
        for (side, value) in [&serdes.left, &serdes.right].into_iter().enumerate() {
            if side == 1 && one_store {
                stores[1] = stores[0];
                break;
            }
            let own = Store::new(
                &names.stores[side],
                layout,
                serdes.key.clone(),
                value.clone(),
            );
            stores[side] = self.new_store(Store {
                named: names.named,
                logged: j.logged,
                upstream_topics: upstream_topics.clone(),
                other_side: one_store.then(|| names.stores[1].clone()),
                ..own
            });
        }
        let pending = names
            .pending
            .as_ref()
            .map(|name| self.buffer_store(i, name, names.named, j.logged));
        let clock = self.clock(&names.stores[0]);
        let mut last: Vec<Option<NodeId>> = Vec::new();
        for (slot, &stream) in streams.iter().enumerate() {
            last.push(self.exchange(
                &ExchangePath {
                    alone: None,
                    of: stream,
                    parents: &self.built[stream].clone(),
                    name: &self.exchange_name(i, slot),
                    key: &serdes.key,
                    keep_null: self.keeps_null_keys[i] || !self.shape.rekeyed[stream],
                    ahead: !self.shape.rekeyed[stream],
                },
                stage,
            ));
        }
        let mut sides = Vec::new();
        for (slot, &stream) in streams.iter().enumerate() {
            let op = Op::StreamJoin {
                left: slot == 0,
                kind,
                window,
                own: stores[slot],
                other: stores[1 - slot],
                pending,
                function: j.function.clone(),
                with_key: j.with_key,
                key: serdes.key.clone(),
                left_value: serdes.left.clone(),
                right_value: serdes.right.clone(),
                clock,
            };
            let own = self.add(i, &names.sides[slot], stage, &op);
            self.arrive(own, &self.built[stream].clone(), last[slot]);
            sides.push(own);
        }
        let own = self.add(i, &self.names.node[i], stage, &Op::Merge);
        for side in sides {
            self.child(side, own);
        }
        Built::from([(stage, own)])
    }

    fn stream_table_join(&mut self, i: usize, j: &JoinArguments) -> Built {
        let plan = self.plan;
        let serdes = self.join_serdes(i);
        let parents = self.built[j.from].clone();
        let rekeyed = self.shape.rekeyed[j.from];
        let table = self.view(j.other);
        let (buffer, clock) = match j.grace_ms {
            None => (None, None),
            Some(_) => {
                let (name, named) = self.store_name(i);
                let buffer = self.buffer_store(i, &name, named, j.logged);
                (Some(buffer), Some(self.clock(&name)))
            }
        };
        let op = Op::StreamTableJoin {
            kind: kind_of(&plan.nodes[i].call),
            table,
            function: j.function.clone(),
            with_key: j.with_key,
            grace_ms: j.grace_ms,
            buffer,
            clock,
            key: serdes.key.clone(),
            value: serdes.left,
        };
        let name = &self.names.node[i];
        // The record must be joined with the table as it was when the record was read: both run in one
        // stage, which processes its records in the order of the input.
        let above = highest(&parents) + u16::from(rekeyed || buffer.is_some());
        let stage = above.max(highest(&self.built[j.other]));
        if parents.len() == 1 && parents.contains_key(&stage) {
            return self.each(i, &[parents], name, &op);
        }
        let last = self.exchange(
            &ExchangePath {
                alone: None,
                of: j.from,
                parents: &parents,
                name: &self.exchange_name(i, 0),
                key: &serdes.key,
                keep_null: self.keeps_null_keys[i] || !rekeyed,
                ahead: !rekeyed,
            },
            stage,
        );
        let own = self.add(i, name, stage, &op);
        self.arrive(own, &parents, last);
        Built::from([(stage, own)])
    }

    fn global_join(&mut self, i: usize, j: &JoinArguments) -> Built {
        let plan = self.plan;
        let op = Op::GlobalJoin {
            kind: kind_of(&plan.nodes[i].call),
            table: self.view(j.other),
            key_function: j
                .key_function
                .clone()
                .expect("a global join without a key is a finding"),
            function: j.function.clone(),
            with_key: j.with_key,
        };
        let parents = [self.built[j.from].clone()];
        self.each(i, &parents, &self.names.node[i], &op)
    }

    fn table_join(&mut self, i: usize, j: &JoinArguments) -> Built {
        let plan = self.plan;
        let kind = kind_of(&plan.nodes[i].call);
        let old = self.tables.old[i];
        let tables = [j.from, j.other];
        let stage = tables
            .iter()
            .map(|&t| highest(&self.built[t]))
            .max()
            .expect("a join has two sides");
        let stage = self.at_least(i, stage);
        let mut last: Vec<Option<NodeId>> = Vec::new();
        for (slot, &table) in tables.iter().enumerate() {
            last.push(self.exchange_up(
                table,
                &format!("{}-exchange", self.names.parts[i][slot]),
                stage,
            ));
        }
        let views = tables.map(|table| self.view(table));
        let apart = views.iter().any(|view| self.below(view, stage));
        let mut sides = Vec::new();
        for (slot, &table) in tables.iter().enumerate() {
            let op = Op::TableJoin {
                left: slot == 0,
                kind,
                other: views[1 - slot].clone(),
                function: j.function.clone(),
                with_key: j.with_key,
                key: self.table_key(i),
                apart,
                old,
            };
            let own = self.add(i, &self.names.parts[i][slot], stage, &op);
            self.arrive(own, &self.built[table].clone(), last[slot]);
            sides.push(own);
        }
        // The sides read the tables above; the store of the result is created after them.
        let store = j.materialized.is_some().then(|| self.store(i).0);
        let op = Op::TableMerge {
            store,
            key: self.table_key(i),
            old,
        };
        let own = self.add(i, &self.names.node[i], stage, &op);
        for side in sides {
            self.child(side, own);
        }
        Built::from([(stage, own)])
    }

    /// Whether one of its tables is written in a lower stage.
    fn below(&self, view: &View, stage: u16) -> bool {
        let stores = view.tables();
        let lower = self.out.nodes.iter().filter(|n| n.stage.0 < stage);
        lower
            .flat_map(|n| n.op.stores())
            .any(|store| stores.contains(&store))
    }

    /// Exchanges that raise a table's updates to the stage in which they are needed.
    pub(super) fn exchange_up(&mut self, table: usize, name: &str, stage: u16) -> Option<NodeId> {
        let key = self.table_key(table);
        self.exchange(
            &ExchangePath {
                alone: None,
                of: table,
                parents: &self.built[table].clone(),
                name,
                key: &key,
                keep_null: false,
                ahead: true,
            },
            stage,
        )
    }
}
