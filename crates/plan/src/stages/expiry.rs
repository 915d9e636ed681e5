//! Tables and stores of processors whose rows expire.
//!
//! Takes such a table or store, creates a node that deletes expired rows, and its store of timers. For a
//! table the node comes after it, in the stage of the table, and nodes that read the table come after
//! the node. For a store of processors it is the last node of their stage, without parents and children.

#[cfg(test)]
mod tests;

use super::{Built, StageBuilder, index};
use crate::logical::DslCall;
use crate::materialized::Expiry;
use crate::physical::{Op, Store};
use crate::window::StoreKind;
use stoatflow_core::{ClockId, RocksDbConfig, StoreId};

/// The stream time of the application: its clock is the first one in a plan with such tables.
const APPLICATION: ClockId = ClockId(0);

impl StageBuilder<'_> {
    /// Adds the node that deletes expired rows after a table.
    pub(super) fn expire(&mut self, i: usize, table: Built) -> Built {
        let call = &self.plan.nodes[i].call;
        let (Some(expiry), Some(&store)) = (call.expiry(), self.kept.get(&i)) else {
            return table;
        };
        let op = self.expire_op(i, store, expiry, self.tables.old[i]);
        let name = self.expiry_name(i);
        self.each(i, &[table], &name, &op)
    }

    /// Adds the nodes that delete expired rows of processors' stores.
    pub(super) fn expire_declared(&mut self) {
        for i in 0..self.plan.nodes.len() {
            let call = &self.plan.nodes[i].call;
            let (DslCall::StateStore { store, .. }, Some(expiry)) = (call, call.expiry()) else {
                continue;
            };
            let store = self.named[store];
            let used = |id: usize| matches!(&self.out.nodes[id].op, Op::Process { stores, .. } if stores.contains(&store));
            let users = (0..self.out.nodes.len()).filter(|id| used(*id));
            // While stages are still being found, they may be in several.
            let stage = users.map(|id| self.out.nodes[id].stage.0).max();
            let stage = stage.expect("checked: a declared store has a processor");
            let op = self.expire_op(i, store, expiry, false);
            let name = self.expiry_name(i);
            let node = self.add(i, &name, stage, &op);
            if let Op::Expire { of_processors, .. } = &mut self.out.nodes[index(node)].op {
                *of_processors = true;
            }
        }
    }

    fn expiry_name(&self, i: usize) -> String {
        self.names.expiry[i]
            .clone()
            .expect("a store whose rows expire was given a name for their timers")
    }

    /// The operation, and its store of timers.
    fn expire_op(&mut self, i: usize, store: StoreId, expiry: &Expiry, old: bool) -> Op {
        let name = self.expiry_name(i);
        let (key, _) = self.used(i);
        let kept = &self.out.stores[usize::from(store.0)];
        let timers = Store {
            named: kept.named,
            logged: kept.logged,
            in_memory: kept.in_memory,
            rocksdb: kept.rocksdb.map(RocksDbConfig::without_cache),
            topic: kept.topic.clone(),
            ordered: true,
            upstream_topics: kept.upstream_topics.clone(),
            ..Store::new(&name, StoreKind::Timers, key, super::stores::raw())
        };
        Op::Expire {
            table: store,
            timers: self.new_store(timers),
            expiry: expiry.clone(),
            old,
            of_processors: false,
            clock: APPLICATION,
            time: None,
        }
    }
}
