//! Tables whose rows expire.
//!
//! Takes the node of such a table, creates a node after it that deletes expired rows, and its store of
//! timers. It runs in the stage of the table; nodes that read the table come after it.

use super::{Built, StageBuilder};
use crate::logical::DslCall;
use crate::materialized::Expiry;
use crate::physical::{Op, Store};
use crate::window::StoreKind;
use stoatflow_core::{ClockId, RocksDbConfig};

/// The stream time of the application: its clock is the first one in a plan with such tables.
const APPLICATION: ClockId = ClockId(0);

/// The expiry of a call's table.
pub(super) fn of(call: &DslCall) -> Option<&Expiry> {
    call.materialized()?.expiry.as_ref()
}

impl StageBuilder<'_> {
    /// Adds the node that deletes expired rows after a table.
    pub(super) fn expire(&mut self, i: usize, table: Built) -> Built {
        let call = &self.plan.nodes[i].call;
        let (Some(expiry), Some(&store)) = (of(call), self.kept.get(&i)) else {
            return table;
        };
        let name = self.names.expiry[i]
            .clone()
            .expect("a table whose rows expire was given a name for their timers");
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
        let op = Op::Expire {
            table: store,
            timers: self.new_store(timers),
            expiry: expiry.clone(),
            old: self.tables.old[i],
            clock: APPLICATION,
            time: None,
        };
        self.each(i, &[table], &name, &op)
    }
}
