//! Aggregations.
//!
//! Takes `count`, `reduce` and `aggregate` of any grouping, returns one node for each grouped stream,
//! all in the stage in which their store is written. Never decides what a window contains.

#[cfg(test)]
mod tests;

use super::exchange_path::ExchangePath;
use super::{Built, StageBuilder, highest};
use crate::aggregation::{emit_of, idle_of, members, window_of};
use crate::check::Kind;
use crate::function::Function;
use crate::logical::DslCall;
use crate::native_aggregation::Aggregation;
use crate::op::Fold;
use crate::physical::Op;
use crate::spec::SerdeSpec;
use crate::window::Emit;
use crate::window::Window;
use stoatflow_core::{ClockId, Handler, NodeId, StoreId};

/// What the aggregators of one store share.
struct Shared {
    store: StoreId,
    positions: Option<StoreId>,
    key: SerdeSpec,
    old: bool,
    window: Option<Window>,
    emit: Emit,
}

impl StageBuilder<'_> {
    pub(super) fn aggregation(&mut self, i: usize, from: usize) -> Built {
        if self.shape.kind(from) == Kind::GroupedTable {
            return self.table_aggregation(i, from);
        }
        let plan = self.plan;
        let function = match &plan.nodes[i].call {
            DslCall::Aggregate { function, .. } => function.as_ref(),
            DslCall::Reduce { function, .. } => Some(function),
            _ => None,
        };
        let members = completed(members(plan, from, function));
        let window = window_of(plan, from);
        // Stream time over all lanes decides which records are late, so all records must be known first.
        let timed = matches!(&window, Some(window) if !matches!(window, Window::Count { .. }));
        let (store, key) = self.store(i);
        let source_fed = self.is_source_fed(&members, window, from);
        let timed = timed && !source_fed || self.keeps_versions(store);
        let stage = members
            .iter()
            .map(|(m, _)| highest(&self.built[*m]) + u16::from(timed || self.shape.rekeyed[*m]))
            .max()
            .expect("there is a grouped stream");
        let stage = self.at_least(i, stage);
        self.source_fed |= source_fed && stage == 0;
        let positions = matches!(window, Some(Window::Count { .. })).then(|| self.positions(i));
        let shared = Shared {
            store,
            positions,
            key,
            old: self.tables.old[i],
            window,
            emit: emit_of(plan, from),
        };
        let cogrouped = self.shape.kind(from).is_cogrouped();
        let mut parts: Vec<NodeId> = Vec::new();
        for (slot, (member, function)) in members.into_iter().enumerate() {
            let parents = self.built[member].clone();
            let by = self.serdes.group_key[member]
                .clone()
                .expect("a missing serde is a finding");
            let name = self.exchange_name(i, slot);
            // The exchange is created before the node that it leads to.
            let last = self.exchange(
                &ExchangePath {
                    alone: None,
                    of: member,
                    parents: &parents,
                    name: &name,
                    key: &by,
                    // Without a repartition topic it is the operator that drops null keys.
                    keep_null: self.keeps_null_keys[i] || !self.shape.rekeyed[member],
                    ahead: !self.shape.rekeyed[member],
                },
                stage,
            );
            // Each stream of a cogroup has its own stream time, which decides which of its records are
            // late.
            let clock_name = {
                let store = &self.out.stores[usize::from(store.0)].name;
                match slot {
                    0 => store.clone(),
                    n => format!("{store}-{n}"),
                }
            };
            let clock = shared.window.map(|_| self.clock(&clock_name));
            let op = self.operator(i, &shared, function.as_ref(), clock);
            let name = if cogrouped {
                &self.names.parts[i][slot]
            } else {
                &self.names.node[i]
            };
            let own = self.add(i, name, stage, &op);
            self.idles(own, &clock_name, idle_of(plan, from));
            self.arrive(own, &parents, last);
            parts.push(own);
        }
        let own = match (cogrouped, parts.as_slice()) {
            (false, [own]) => *own,
            _ => {
                let own = self.add(i, &self.names.node[i], stage, &Op::Merge);
                for part in parts {
                    self.child(part, own);
                }
                own
            }
        };
        Built::from([(stage, own)])
    }

    /// Whether a window gets exactly the records of one source that have a key. Then dispatch determines
    /// how they advance its time, and no stage boundary is needed before it. Windows that emit when they
    /// close need one anyway: a record of another lane may close them.
    fn is_source_fed(
        &self,
        members: &[(usize, Option<Function>)],
        window: Option<Window>,
        from: usize,
    ) -> bool {
        let (
            [(member, _)],
            Some(Window::Tumbling { .. } | Window::Hopping { .. } | Window::Session { .. }),
        ) = (members, window)
        else {
            return false;
        };
        let DslCall::GroupByKey { from: source, .. } = &self.plan.nodes[*member].call else {
            return false;
        };
        let source = &self.plan.nodes[self.shape.same[*source]];
        let DslCall::Stream {
            topics,
            pattern: None,
            ..
        } = &source.call
        else {
            return false;
        };
        let shared = self.plan.nodes.iter().filter(|other| match &other.call {
            DslCall::Stream {
                topics: others,
                pattern,
                ..
            } => pattern.is_some() || others.iter().any(|topic| topics.contains(topic)),
            DslCall::Table { topic, .. }
            | DslCall::GlobalTable { topic, .. }
            | DslCall::GlobalStore { topic, .. } => topics.contains(topic),
            _ => false,
        });
        !self.with_window_boundary
            && !source.on_error.as_ref().is_some_and(Handler::may_drop)
            && shared.count() == 1
            && emit_of(self.plan, from) != Emit::OnWindowClose
            && idle_of(self.plan, from).is_none()
    }

    fn operator(
        &self,
        i: usize,
        shared: &Shared,
        function: Option<&Function>,
        clock: Option<ClockId>,
    ) -> Op {
        let call = &self.plan.nodes[i].call;
        let (store, key, old, emit) = (shared.store, shared.key.clone(), shared.old, shared.emit);
        let (Some(window), Some(clock)) = (shared.window, clock) else {
            return match fold(call, function) {
                Fold::Count => Op::Count { store, key, old },
                Fold::Reduce { function } => Op::Reduce {
                    store,
                    key,
                    function,
                    old,
                },
                Fold::Aggregate {
                    initializer,
                    function,
                    ..
                } => Op::Aggregate {
                    store,
                    key,
                    initializer,
                    function,
                    old,
                },
            };
        };
        let fold = fold(call, function);
        match window {
            Window::Sliding {
                difference_ms,
                grace_ms,
            } => Op::SlidingAggregate {
                store,
                key,
                difference_ms,
                grace_ms,
                fold,
                emit,
                clock,
                old,
            },
            Window::Session { gap_ms, grace_ms } => Op::SessionAggregate {
                store,
                key,
                gap_ms,
                grace_ms,
                fold,
                emit,
                clock,
                old,
            },
            window => Op::WindowAggregate {
                store,
                positions: shared.positions,
                key,
                window,
                fold,
                emit,
                clock,
                old,
            },
        }
    }

    fn table_aggregation(&mut self, i: usize, group: usize) -> Built {
        let parents = self.built[group].clone();
        let stage = self.at_least(i, highest(&parents) + 1);
        let (store, key) = self.store(i);
        let by = self.serdes.group_key[group]
            .clone()
            .expect("a missing serde is a finding");
        let name = self.exchange_name(i, 0);
        let last = self.exchange(
            &ExchangePath {
                alone: None,
                of: group,
                parents: &parents,
                name: &name,
                key: &by,
                keep_null: false,
                ahead: false,
            },
            stage,
        );
        let (function, subtractor) = match &self.plan.nodes[i].call {
            DslCall::Reduce {
                function,
                subtractor,
                ..
            } => (Some(function), subtractor.clone()),
            DslCall::Aggregate {
                function,
                subtractor,
                ..
            } => (function.as_ref(), subtractor.clone()),
            _ => (None, None),
        };
        let op = Op::TableAggregate {
            store,
            key,
            fold: fold(&self.plan.nodes[i].call, function),
            subtractor,
            old: self.tables.old[i],
        };
        let own = self.add(i, &self.names.node[i], stage, &op);
        self.arrive(own, &parents, last);
        Built::from([(stage, own)])
    }
}

/// The members with their own functions. Native aggregations of a cogroup share one aggregate, so each
/// gets the measures of all.
fn completed(members: Vec<(usize, Option<&Function>)>) -> Vec<(usize, Option<Function>)> {
    let native = members.iter().filter_map(|(_, function)| match function {
        Some(Function::Aggregation(aggregation)) => Some(aggregation.as_ref()),
        _ => None,
    });
    let native: Vec<&Aggregation> = native.collect();
    let together = Aggregation::together(&native).expect("what doesn't fit together is a finding");
    let mut together = together.into_iter();
    let each = members.into_iter().map(|(member, function)| {
        let function = match function {
            Some(Function::Aggregation(_)) => {
                together.next().map(Box::new).map(Function::Aggregation)
            }
            other => other.cloned(),
        };
        (member, function)
    });
    each.collect()
}

fn fold(call: &DslCall, function: Option<&Function>) -> Fold {
    match (call, function) {
        (DslCall::Reduce { .. }, Some(function)) => Fold::Reduce {
            function: function.clone(),
        },
        (
            DslCall::Aggregate {
                initializer,
                merger,
                ..
            },
            Some(function),
        ) => Fold::Aggregate {
            initializer: initializer.clone(),
            function: function.clone(),
            merger: merger.clone(),
        },
        _ => Fold::Count,
    }
}
