//! From a stage of the plan to a chain of operators.
//!
//! Takes the physical plan and the foreign tables, gives a chain with every expression compiled and
//! every serde resolved, so that nothing is looked up while records walk. Never changes the plan.

use super::{Chain, ChainOptions, Step};
use crate::fold::Fold;
use crate::function::Function;
use crate::keeper::Keeper;
use crate::site::Site;
use crate::{Args, Foreign, Operator};
use crate::{
    aggregate, count, exchange, filter, filter_not, flat_map, flat_map_values, foreach, map,
    map_values,
};
use crate::{merge, peek, reduce, select_key, sink, source, table, to_stream};
use smallvec::SmallVec;
use stoatflow_core::{Error, Result, StageId, StoreId};
use stoatflow_plan::{Fork, Function as Spec, Node, Op, PhysicalPlan, SerdeSpec};

impl Chain {
    /// Builds a stage.
    ///
    /// # Errors
    /// `Topology` for an expression or a serde that can't work; `Internal` if the plan doesn't fit
    /// together.
    pub fn build(
        plan: &PhysicalPlan,
        stage: StageId,
        foreign: &Foreign,
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
        let topics = Site::topics(plan);
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
            let site = Site::new(*id, &node.name, topics.clone());
            let operator = Builder {
                plan,
                foreign,
                options,
                site,
            }
            .operator(node)
            .map_err(|e| {
                e.at(|place| {
                    place.node = Some(node.name.clone());
                    place.function.clone_from(&node.line);
                })
            })?;
            let forks = node.fork == Fork::Record && children.len() > 1;
            let scope = callable(&below(plan, node))
                .filter(|_| forks)
                .map(|index| foreign.udf(index))
                .transpose()?;
            steps.push(Step {
                operator,
                children,
                fork: node.fork,
                scope,
                out: Vec::new(),
                share: Vec::new(),
            });
        }
        let counts = stage.nodes.iter().map(|id| (*id, 0)).collect();
        Ok(Self {
            steps,
            counts,
            places,
        })
    }
}

/// All nodes of the stage that get what `node` gives.
fn below<'a>(plan: &'a PhysicalPlan, node: &Node) -> Vec<&'a Node> {
    let mut found: Vec<&Node> = Vec::new();
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

/// A callable that some node below uses.
fn callable(nodes: &[&Node]) -> Option<u32> {
    nodes.iter().find_map(|node| match &node.op {
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
        | Op::Aggregate { function, .. } => match function {
            Spec::Udf(index) => Some(*index),
            Spec::Expr(_) => None,
        },
        _ => None,
    })
}

struct Builder<'a> {
    plan: &'a PhysicalPlan,
    foreign: &'a Foreign,
    options: ChainOptions,
    site: Site,
}

impl Builder<'_> {
    fn operator(&self, node: &Node) -> Result<Box<dyn Operator>> {
        use Args::{KeyValue, Value};
        let args = |with_key: bool| if with_key { KeyValue } else { Value };
        Ok(match &node.op {
            Op::Source { .. } => Box::new(source::Source),
            Op::TableSource { store, key, .. } => {
                Box::new(table::Table::new(self.keeper(*store, key)?))
            }
            Op::Filter { function } => {
                Box::new(filter::Filter::new(self.function(function, KeyValue)?))
            }
            Op::FilterNot { function } => Box::new(filter_not::FilterNot::new(
                self.function(function, KeyValue)?,
            )),
            Op::Map { function } => Box::new(map::Map::new(self.function(function, KeyValue)?)),
            Op::MapValues { function, with_key } => Box::new(map_values::MapValues::new(
                self.function(function, args(*with_key))?,
            )),
            Op::FlatMap { function } => {
                Box::new(flat_map::FlatMap::new(self.function(function, KeyValue)?))
            }
            Op::FlatMapValues { function, with_key } => Box::new(
                flat_map_values::FlatMapValues::new(self.function(function, args(*with_key))?),
            ),
            Op::SelectKey { function } => Box::new(select_key::SelectKey::new(
                self.function(function, KeyValue)?,
            )),
            Op::Peek { function } => Box::new(peek::Peek::new(self.function(function, KeyValue)?)),
            Op::Foreach { function } => {
                Box::new(foreach::Foreach::new(self.function(function, KeyValue)?))
            }
            Op::Merge => Box::new(merge::Merge),
            Op::Exchange { stage, key, .. } => Box::new(exchange::Exchange::new(
                self.site.clone(),
                *stage,
                self.foreign.serde(key)?,
            )),
            Op::Count { store, key, .. } => Box::new(count::Count::new(self.keeper(*store, key)?)),
            Op::Reduce {
                store,
                key,
                function,
                ..
            } => Box::new(reduce::Reduce::new(
                self.fold(node, *store, key)?,
                self.function(function, KeyValue)?,
            )?),
            Op::Aggregate {
                store,
                key,
                initializer,
                function,
                ..
            } => Box::new(aggregate::Aggregate::new(
                self.fold(node, *store, key)?,
                self.function(initializer, KeyValue)?,
                self.function(function, KeyValue)?,
            )?),
            Op::ToStream => Box::new(to_stream::ToStream),
            Op::Sink { sink } => {
                let to = self
                    .plan
                    .sinks
                    .get(usize::from(sink.0))
                    .ok_or_else(|| Error::internal(format!("the plan has no sink {sink}")))?;
                Box::new(sink::Sink::new(
                    self.site.clone(),
                    *sink,
                    self.foreign.serde(&to.key)?,
                    self.foreign.serde(&to.value)?,
                ))
            }
            op => {
                return Err(Error::internal(format!("no operator runs '{}'", op.name())));
            }
        })
    }

    fn function(&self, spec: &Spec, args: Args) -> Result<Function> {
        Function::new(spec, args, self.site.clone(), self.foreign)
    }

    fn keeper(&self, store: StoreId, key: &SerdeSpec) -> Result<Keeper> {
        let kept = self
            .plan
            .stores
            .get(usize::from(store.0))
            .ok_or_else(|| Error::internal(format!("the plan has no store {store}")))?;
        Ok(Keeper::new(
            self.site.clone(),
            store,
            self.foreign.serde(key)?,
            self.foreign.serde(&kept.value)?,
            self.options.cached,
        ))
    }

    fn fold(&self, node: &Node, store: StoreId, key: &SerdeSpec) -> Result<Fold> {
        let leaves_lane = below(self.plan, node)
            .iter()
            .any(|node| matches!(node.op, Op::Exchange { .. }));
        Ok(Fold::new(self.keeper(store, key)?, leaves_lane))
    }
}
