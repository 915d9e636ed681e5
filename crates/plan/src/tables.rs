//! Which tables send old values, and which are materialized.
//!
//! Takes the plan and the kinds of its nodes, returns for each table whether it sends the previous value
//! (`old`), and whether Kafka Streams keeps a store for it (`kept`). Kafka Streams decides this while
//! the topology is built: a call below asks its parents for old values, and the answer depends on
//! earlier requests. The calls are replayed here in order, because the output of a filter (a tombstone
//! or nothing) depends on the answer. Never looks at stages.

use crate::check::{Kind, Shape};
use crate::logical::{DslCall, LogicalPlan};

/// By node; false for calls that are not tables.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// Whether its updates must carry the previous value.
    pub(crate) old: Vec<bool>,
    /// Whether Kafka Streams keeps a store for it.
    pub(crate) kept: Vec<bool>,
    /// Whether sending old values was enabled for the whole node.
    sending: Vec<bool>,
}

/// The store name that the user gave to a call's table.
pub(crate) fn named_store(call: &DslCall) -> Option<&str> {
    call.materialized().and_then(|m| m.store.as_deref())
}

/// Whether Kafka Streams keeps its rows only if it is named, read by key, or asked for old values.
pub(crate) fn is_materialized_on_demand(call: &DslCall) -> bool {
    match call {
        DslCall::Table { .. } | DslCall::ToTable { .. } => true,
        DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => j.foreign_key.is_some(),
        _ => false,
    }
}

/// Replays the calls.
pub(crate) fn tables(plan: &LogicalPlan, shape: &Shape) -> Tables {
    let n = plan.nodes.len();
    let mut pass = Pass {
        plan,
        shape,
        tables: Tables {
            old: vec![false; n],
            kept: vec![false; n],
            sending: vec![false; n],
        },
    };
    for i in 0..n {
        if shape.kinds[i] != Kind::Broken {
            pass.node(i);
        }
    }
    pass.tables
}

struct Pass<'a> {
    plan: &'a LogicalPlan,
    shape: &'a Shape,
    tables: Tables,
}

impl Pass<'_> {
    fn node(&mut self, i: usize) {
        let call = &self.plan.nodes[i].call;
        match call {
            DslCall::Table { .. } | DslCall::ToTable { .. } => {
                self.tables.kept[i] = named_store(call).is_some();
            }
            DslCall::GlobalTable { .. }
            | DslCall::Count { .. }
            | DslCall::Reduce { .. }
            | DslCall::Aggregate { .. } => {
                self.tables.kept[i] = true;
            }
            DslCall::Filter { from, .. } | DslCall::FilterNot { from, .. }
                if self.shape.kinds[i] == Kind::Table =>
            {
                self.tables.kept[i] = named_store(call).is_some();
                self.tables.old[i] = self.enable_sending_old_values(*from, false);
            }
            DslCall::MapValues { .. } | DslCall::TransformValues { .. }
                if self.shape.kinds[i] == Kind::Table =>
            {
                self.tables.kept[i] = named_store(call).is_some();
            }
            DslCall::GroupBy { from, .. } if self.shape.kinds[*from] == Kind::Table => {
                self.enable_sending_old_values(*from, true);
            }
            DslCall::Suppress { from, .. } => {
                self.enable_sending_old_values(*from, true);
            }
            DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => {
                let left = self.shape.kinds[j.from] == Kind::Table;
                let right = self.shape.kinds[j.other] == Kind::Table;
                if left && right && j.foreign_key.is_some() {
                    self.enable_sending_old_values(j.other, true);
                    self.enable_sending_old_values(j.from, true);
                    self.read(j.other);
                    self.read(j.from);
                    self.tables.kept[i] = named_store(call).is_some();
                } else if left && right {
                    if !matches!(call, DslCall::Join(_)) {
                        self.enable_sending_old_values(j.from, true);
                    }
                    if matches!(call, DslCall::OuterJoin(_)) {
                        self.enable_sending_old_values(j.other, true);
                    }
                    self.read(j.from);
                    self.read(j.other);
                    self.tables.kept[i] = j.materialized.is_some();
                } else if right {
                    self.read(j.other);
                }
            }
            _ => {}
        }
    }

    /// Kafka Streams' `enableSendingOldValues`; returns whether the table sends them from now on.
    fn enable_sending_old_values(&mut self, i: usize, force: bool) -> bool {
        if self.tables.sending[i] {
            return true;
        }
        match &self.plan.nodes[i].call {
            call if is_materialized_on_demand(call) => {
                if !force && !self.tables.kept[i] {
                    return false;
                }
                self.tables.kept[i] = true;
            }
            DslCall::Filter { from, .. }
            | DslCall::FilterNot { from, .. }
            | DslCall::MapValues { from, .. }
            | DslCall::TransformValues { from, .. }
            | DslCall::Suppress { from, .. } => {
                // A table with a store knows the previous value by itself.
                let sent = self.tables.kept[i] || self.enable_sending_old_values(*from, force);
                if !sent {
                    return self.tables.old[i];
                }
            }
            DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => {
                self.enable_sending_old_values(j.from, true);
                self.enable_sending_old_values(j.other, true);
            }
            _ => {}
        }
        self.tables.old[i] = true;
        self.tables.sending[i] = true;
        true
    }

    /// The table is read by key: the table at its root must be materialized.
    fn read(&mut self, i: usize) {
        if self.tables.kept[i] {
            return;
        }
        match &self.plan.nodes[i].call {
            call if is_materialized_on_demand(call) => self.tables.kept[i] = true,
            DslCall::Filter { from, .. }
            | DslCall::FilterNot { from, .. }
            | DslCall::MapValues { from, .. }
            | DslCall::TransformValues { from, .. }
            | DslCall::Suppress { from, .. } => self.read(*from),
            DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => {
                self.read(j.from);
                self.read(j.other);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
