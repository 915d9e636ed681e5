//! From a stage of the plan to a chain of operators.
//!
//! Takes the physical plan and the host language's functions; returns a chain with every expression
//! compiled and every serde resolved, so that nothing is looked up while records are processed. Never
//! changes the plan.

mod foreign_key;
mod joins;
mod lookups;
mod offload;
mod processors;
mod routing;
mod stateless;
mod tables;
mod windows;

use super::chain::{Chain, ChainOptions, Scope, Step};
use crate::ops::aggregates::fold::Fold;
use crate::ops::windows::idle::{ClosesWhenIdle, TooLate};
use crate::support::function::Function;
use crate::support::node_context::NodeContext;
use crate::support::table_writer::{ForwardMode, TableWriter};
use crate::support::update_cache::SharedUpdateCache;
use crate::{Args, ErrorPolicy, ForeignCode, Operator};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use stoatflow_core::{ClockId, Error, FailureKind, Result, StageId, StoreId};
use stoatflow_plan::{
    Delivery, Fold as FoldSpec, Function as Spec, Op, PhysicalNode, PhysicalPlan, SerdeSpec, Stage,
    Store, StoreKind, View, side_by_side,
};

impl Chain {
    /// Builds a stage.
    ///
    /// # Errors
    /// `Topology` for an expression or a serde that can't work; `Internal` if the plan doesn't fit
    /// together.
    pub fn build(
        plan: &PhysicalPlan,
        stage: StageId,
        foreign: &ForeignCode,
        options: ChainOptions,
    ) -> Result<Self> {
        let stage = plan
            .stages
            .get(usize::from(stage.0))
            .ok_or_else(|| Error::internal(format!("the plan has no stage {stage}")))?;
        let mut places = vec![None; plan.nodes.len()];
        for (at, id) in stage.nodes.iter().enumerate() {
            *places
                .get_mut(id.0 as usize)
                .ok_or_else(|| Error::internal(format!("the plan has no node {id}")))? = Some(at);
        }
        let topics = NodeContext::topics(plan);
        let shared = joins::Shared::default();
        let cache = RefCell::default();
        let mut steps = Vec::with_capacity(stage.nodes.len());
        for (at, id) in stage.nodes.iter().enumerate() {
            let node = &plan.nodes[id.0 as usize];
            let children = node
                .children
                .iter()
                .map(
                    |child| match places.get(child.0 as usize).copied().flatten() {
                        // Parents before children: barriers go through the steps once, in this order.
                        Some(place) if place > at => Ok(place),
                        _ => Err(Error::internal(format!(
                            "node {child} must come after node {id}, in the same stage"
                        ))),
                    },
                )
                .collect::<Result<SmallVec<_>>>()?;
            let policy = error_policy(FailureKind::Processing, plan, node, foreign, &options)?;
            let node_context =
                NodeContext::new(*id, &node.name, topics.clone()).with_policy(policy);
            let operator = Builder {
                plan,
                foreign,
                options: options.clone(),
                node_context,
                shared: &shared,
                cache: &cache,
            }
            .operator(node)
            .map_err(|e| {
                e.at(|place| {
                    place.node = Some(node.name.clone());
                    place.function.clone_from(&node.line);
                })
            })?;
            let forks = node.fork == Delivery::Record && !children.is_empty();
            let below = below(plan, node);
            let single = below.iter().any(|other| touches(other, &node.op.stores()));
            let with_own: Vec<&PhysicalNode> = below.iter().copied().chain([node]).collect();
            let scope = match (single, forks) {
                (true, _) => scope(&with_own, foreign)?,
                (_, true) => scope(&below, foreign)?,
                _ => None,
            };
            steps.push(Step {
                operator,
                children,
                fork: node.fork,
                scope,
                single,
                clocks: SmallVec::new(),
                by_task: of_node(&options.by_task, node),
                opened: false,
                out: Vec::new(),
                share: Vec::new(),
            });
        }
        for (clock, at) in last_users(plan, stage) {
            steps[at].clocks.push(clock);
        }
        let counts = stage.nodes.iter().map(|id| (*id, 0)).collect();
        Ok(Self {
            steps,
            counts,
            active: options.active,
            places,
        })
    }
}

/// A node's entry in a list by node; the list may be empty.
fn of_node(all: &[Option<u16>], node: &PhysicalNode) -> Option<u16> {
    all.get(node.id.0 as usize).copied().flatten()
}

/// The clocks of a stage's operators and their stores, each with the last step that uses it: the two
/// sides of a join share a clock, and a record of the second side must not be late because the first had
/// its turn.
fn last_users(plan: &PhysicalPlan, stage: &Stage) -> BTreeMap<ClockId, usize> {
    let mut last = BTreeMap::new();
    for (at, id) in stage.nodes.iter().enumerate() {
        let op = &plan.nodes[id.0 as usize].op;
        let stores = op.stores().into_iter();
        let kept = stores.filter_map(|s| plan.stores.get(usize::from(s.0))?.clock);
        for clock in op.clock().into_iter().chain(kept) {
            last.insert(clock, at);
        }
    }
    last
}

/// The error policy for records that fail at a node; the nearest handler wins.
fn error_policy(
    failing: FailureKind,
    plan: &PhysicalPlan,
    node: &PhysicalNode,
    foreign: &ForeignCode,
    options: &ChainOptions,
) -> Result<Option<Arc<ErrorPolicy>>> {
    let far = match failing {
        FailureKind::Production => &plan.handlers.production,
        _ => &plan.handlers.processing,
    };
    let handler = node.on_error.as_ref().or(far.as_ref());
    let place = (node.id, node.name.as_str());
    ErrorPolicy::new(
        failing,
        handler,
        place,
        foreign,
        options.partitions.as_ref(),
    )
}

/// All nodes of the stage that get records from `node`, directly or not.
fn below<'a>(plan: &'a PhysicalPlan, node: &PhysicalNode) -> Vec<&'a PhysicalNode> {
    let mut found: Vec<&PhysicalNode> = Vec::new();
    let mut open = node.children.clone();
    while let Some(id) = open.pop() {
        let Some(next) = plan
            .nodes
            .get(id.0 as usize)
            .filter(|next| found.iter().all(|seen| seen.id != next.id))
        else {
            continue;
        };
        open.extend(&next.children);
        found.push(next);
    }
    found
}

/// Whether a node reads or writes one of these stores.
fn touches(node: &PhysicalNode, stores: &[StoreId]) -> bool {
    let views: &[&View] = match &node.op {
        // Views of foreign-key joins are not included: they read the row that is current when an answer
        // arrives.
        Op::TableJoin { other: view, .. }
        | Op::StreamTableJoin { table: view, .. }
        | Op::GlobalJoin { table: view, .. } => &[view],
        _ => &[],
    };
    let read = views.iter().flat_map(|view| view.stores());
    node.op
        .stores()
        .into_iter()
        .chain(read)
        .any(|store| stores.contains(&store))
}

/// What attaches the interpreter that some of these nodes use. `None` if one of them waits for async
/// calls, which need the interpreter to finish. Offload answers are joined by functions of another node,
/// which may be async too.
fn scope(nodes: &[&PhysicalNode], foreign: &ForeignCode) -> Result<Option<Scope>> {
    let waits = |op: &Op| match op {
        Op::OffloadAnswers { .. } => true,
        op => !side_by_side(op).is_empty(),
    };
    if nodes.iter().any(|node| waits(&node.op)) {
        return Ok(None);
    }
    let udf = nodes.iter().find_map(|node| function(&node.op)?.udf());
    if let Some(index) = udf {
        return Ok(Some(Scope::Udf(foreign.udf(index)?)));
    }
    let processor = nodes.iter().find_map(|node| match &node.op {
        Op::Process { processor, .. } | Op::TransformValues { processor, .. } => Some(*processor),
        _ => None,
    });
    processor
        .map(|id| Ok(Scope::Processor(foreign.processor(id)?)))
        .transpose()
}

/// A function that is called for each record.
fn function(op: &Op) -> Option<&Spec> {
    match op {
        Op::Filter { function }
        | Op::FilterNot { function }
        | Op::Map { function }
        | Op::MapValues { function, .. }
        | Op::FlatMap { function }
        | Op::FlatMapValues { function, .. }
        | Op::SelectKey { function }
        | Op::Peek { function }
        | Op::Foreach { function }
        | Op::Reduce { function, .. }
        | Op::Aggregate { function, .. }
        | Op::TableFilter { function, .. }
        | Op::TableMapValues { function, .. }
        | Op::TableGroupBy { function, .. }
        | Op::TableJoin { function, .. }
        | Op::ForeignJoin { function, .. }
        | Op::StreamTableJoin { function, .. }
        | Op::GlobalJoin { function, .. }
        | Op::StreamJoin { function, .. }
        | Op::ForeignSubscribe {
            foreign_key: function,
            ..
        } => Some(function),
        Op::Split { functions } => functions.first(),
        Op::Offload {
            request, function, ..
        } => Some(request.as_ref().unwrap_or(function)),
        Op::Deduplicate { function, .. } => function.as_ref(),
        Op::WindowAggregate { fold, .. }
        | Op::SlidingAggregate { fold, .. }
        | Op::SessionAggregate { fold, .. }
        | Op::TableAggregate { fold, .. } => match fold {
            FoldSpec::Reduce { function } | FoldSpec::Aggregate { function, .. } => Some(function),
            FoldSpec::Count => None,
        },
        _ => None,
    }
}

/// What one node is built from. Each family of operators has its own file; its method returns `None` for
/// a node of another family.
struct Builder<'a> {
    plan: &'a PhysicalPlan,
    foreign: &'a ForeignCode,
    options: ChainOptions,
    node_context: NodeContext,
    shared: &'a joins::Shared,
    cache: &'a RefCell<HashMap<StoreId, SharedUpdateCache>>,
}

/// An operator; `None` if the node is of another family.
type Built = Result<Option<Box<dyn Operator>>>;

impl Builder<'_> {
    fn operator(&self, node: &PhysicalNode) -> Result<Box<dyn Operator>> {
        let families = [
            Self::routing,
            Self::stateless,
            Self::tables,
            Self::lookups,
            Self::foreign_keys,
            Self::windows,
            Self::suppress,
            Self::joins,
            Self::offloads,
            Self::processors,
        ];
        for family in families {
            if let Some(operator) = family(self, node)? {
                return Ok(match (node.idle, node.op.clock()) {
                    (Some(idle), Some(time)) => {
                        let too_late =
                            TooLate::new(self.plan, self.foreign, self.node_context.clone())?;
                        Box::new(ClosesWhenIdle::new(operator, time, idle, too_late))
                    }
                    _ => operator,
                });
            }
        }
        let name = node.op.name();
        Err(Error::internal(format!("no operator runs '{name}'")))
    }

    /// The context of a node that writes: records that it can't encode are production errors, not
    /// processing errors.
    fn writing(&self, node: &PhysicalNode) -> Result<NodeContext> {
        let options = &self.options;
        let policy = error_policy(
            FailureKind::Production,
            self.plan,
            node,
            self.foreign,
            options,
        )?;
        Ok(self.node_context.clone().with_policy(policy))
    }

    fn function(&self, spec: &Spec, args: Args) -> Result<Function> {
        Function::new(spec, args, self.node_context.clone(), self.foreign)
    }

    /// The writer of a node's result; `old`: its children need the previous value.
    fn writer(&self, store: StoreId, key: &SerdeSpec, old: bool) -> Result<TableWriter> {
        let kept = self.kept(store)?;
        let versioned = matches!(kept.kind, StoreKind::Versioned { .. });
        let sending = ForwardMode {
            old,
            cache: self.cache(kept, true),
            versions: versioned.then(|| lookups::clock(kept)).transpose()?,
        };
        Ok(TableWriter::new(
            self.node_context.clone(),
            store,
            self.foreign.serde(key)?,
            self.foreign.serde(&kept.value)?,
            sending,
        ))
    }

    /// The cache that holds a store's updates until the barrier; `None` if nothing is held back, as for
    /// versioned stores, where every version of a key must be seen.
    fn cache(&self, store: &Store, may: bool) -> Option<SharedUpdateCache> {
        let versioned = matches!(store.kind, StoreKind::Versioned { .. });
        (may && !versioned && self.options.cached && store.cached)
            .then(|| Arc::clone(self.cache.borrow_mut().entry(store.id).or_default()))
    }

    fn fold(
        &self,
        node: &PhysicalNode,
        store: StoreId,
        key: &SerdeSpec,
        old: bool,
    ) -> Result<Fold> {
        let leaves_lane = below(self.plan, node)
            .iter()
            .any(|node| matches!(node.op, Op::Exchange { .. }));
        Ok(Fold::new(self.writer(store, key, old)?, leaves_lane))
    }

    fn kept(&self, store: StoreId) -> Result<&Store> {
        self.plan
            .stores
            .get(usize::from(store.0))
            .ok_or_else(|| Error::internal(format!("the plan has no store {store}")))
    }
}
