//! Cuts the plan into stages.
//!
//! Takes the checked, named plan and its serdes, returns sources, sinks, stores, clocks, nodes and
//! stages. A stage ends only where a record must be in the lane of its key and may not be: before an
//! aggregation, a join, a table or a processor with stores on a re-keyed stream. An exchange leads to
//! the next stage, never further. Where streams of several stages are merged (a merge after an
//! aggregation), the stateless nodes below are created once per stage, and nodes with a store once, in
//! the highest of these stages, so that a store is never written from two stages in one epoch. Never
//! decides how nodes process batches.

mod aggregations;
mod calls;
mod exchange_path;
mod expiry;
mod foreign;
mod joins;
mod offload;
mod processors;
mod stores;
mod streams;
mod tables;

use crate::calls::calls;
use crate::check::{Kind, Shape};
use crate::logical::{DslCall, LogicalPlan};
use crate::name::Names;
use crate::physical::{ClockSpec, Delivery, Idle, Op, PhysicalNode, PhysicalPlan, Stage};
use crate::serdes::Serdes;
use crate::tables::Tables;
use exchange_path::Exchanges;
use std::collections::BTreeMap;
use stoatflow_core::{ClockId, NodeId, Result, StageId, StoreId};

/// Cuts the plan, which must be free of findings. `with_window_boundary`: whether a stage boundary is put
/// before every window. Also returns whether there is a window without a boundary.
pub(crate) fn cut_into_stages(
    plan: &LogicalPlan,
    shape: &Shape,
    names: &Names,
    serdes: &Serdes,
    tables: &Tables,
    with_window_boundary: bool,
) -> Result<(PhysicalPlan, bool)> {
    // Processors that share a store must be in one stage, which is only known at the end: those in lower
    // stages are raised until nothing moves any more. A processor that raises itself moves for ever.
    let most = 4 * plan.nodes.len() + 4;
    let mut min_stage = BTreeMap::new();
    loop {
        let mut builder = StageBuilder::new(plan, shape, names, serdes, tables, &min_stage);
        builder.with_window_boundary = with_window_boundary;
        builder.run();
        let next = builder.raise_stages();
        if next == min_stage {
            builder.stages();
            return Ok((builder.out, builder.source_fed));
        }
        if next.values().any(|stage| usize::from(*stage) > most) {
            return Err(builder.cycle_error(&next));
        }
        min_stage = next;
    }
}

/// The nodes of a call, by stage.
type Built = BTreeMap<u16, NodeId>;

struct StageBuilder<'a> {
    plan: &'a LogicalPlan,
    shape: &'a Shape,
    names: &'a Names,
    serdes: &'a Serdes,
    tables: &'a Tables,
    out: PhysicalPlan,
    built: Vec<Built>,
    exchanges: Exchanges,
    /// The store of each table, by call.
    kept: BTreeMap<usize, StoreId>,
    /// Stores by name, for processors.
    named: BTreeMap<String, StoreId>,
    /// The lowest stage allowed for a processor or table, by call.
    min_stage: &'a BTreeMap<usize, u16>,
    /// Whether a join below accepts records without a key, which must then reach it.
    keeps_null_keys: Vec<bool>,
    with_window_boundary: bool,
    source_fed: bool,
}

impl<'a> StageBuilder<'a> {
    fn new(
        plan: &'a LogicalPlan,
        shape: &'a Shape,
        names: &'a Names,
        serdes: &'a Serdes,
        tables: &'a Tables,
        min_stage: &'a BTreeMap<usize, u16>,
    ) -> Self {
        let mut builder = Self {
            plan,
            shape,
            names,
            serdes,
            tables,
            out: PhysicalPlan {
                sources: vec![],
                sinks: vec![],
                stores: vec![],
                clocks: vec![],
                processors: plan.processors.clone(),
                nodes: vec![],
                stages: vec![],
                functions: plan.functions.clone(),
                handlers: stoatflow_core::Handlers::default(),
                description: String::new(),
                with_window_boundary: None,
            },
            built: Vec::with_capacity(plan.nodes.len()),
            exchanges: Exchanges::default(),
            kept: BTreeMap::new(),
            named: BTreeMap::new(),
            min_stage,
            keeps_null_keys: exchange_path::keeps_null_keys(plan, shape),
            with_window_boundary: false,
            source_fed: false,
        };
        let processes = |call: &DslCall| {
            matches!(
                call,
                DslCall::Process { .. }
                    | DslCall::ProcessValues { .. }
                    | DslCall::TransformValues { .. }
                    | DslCall::GlobalStore { .. }
            )
        };
        if plan
            .nodes
            .iter()
            .any(|n| processes(&n.call) || n.call.expiry().is_some())
        {
            builder.clock("application");
        }
        builder
    }

    fn run(&mut self) {
        self.declared();
        for i in 0..self.plan.nodes.len() {
            let built = self.node(i);
            let built = self.expire(i, built);
            self.built.push(built);
        }
        self.expire_declared();
        self.clocks_of_processors();
    }

    fn node(&mut self, i: usize) -> Built {
        let first = self.shape.same[i];
        if first != i {
            return self.built[first].clone();
        }
        let plan = self.plan;
        let call = &plan.nodes[i].call;
        let table = self.shape.kind(i) == Kind::Table;
        if let Some((form, awaiting)) = calls(plan, self.shape, i) {
            return self.async_calls(i, form, awaiting);
        }
        match call {
            DslCall::Stream { .. } => self.source(i, &self.names.node[i]),
            DslCall::Scheduled(times) => self.scheduled(i, times),
            DslCall::Table { .. } | DslCall::GlobalTable { .. } => self.source_table(i),
            DslCall::GlobalStore { processor, .. } => self.global_store(i, *processor),
            // Already created: a processor may come before the call that declares its store.
            DslCall::StateStore { .. } => Built::new(),
            DslCall::GroupByKey { from, .. }
            | DslCall::WindowedBy { from, .. }
            | DslCall::EmitStrategy { from, .. } => self.built[*from].clone(),
            // Each of its streams is exchanged to the aggregation by itself.
            DslCall::Cogroup { .. } => Built::new(),
            DslCall::Count { from, .. }
            | DslCall::Reduce { from, .. }
            | DslCall::Aggregate { from, .. } => self.aggregation(i, *from),
            DslCall::ToTable { from, .. } => self.table_of_stream(i, *from),
            DslCall::Repartition { from, .. } => self.repartition(i, *from),
            DslCall::Split { from } => self.split(i, *from),
            DslCall::Branch { from, function } => self.branch(i, *from, function.as_ref()),
            DslCall::Filter { .. }
            | DslCall::FilterNot { .. }
            | DslCall::MapValues { .. }
            | DslCall::TransformValues { .. }
            | DslCall::Suppress { .. }
                if table =>
            {
                self.table_view(i)
            }
            DslCall::GroupBy { from, function, .. } if self.shape.kind(*from) == Kind::Table => {
                self.table_group_by(i, *from, function)
            }
            DslCall::Process {
                from,
                processor,
                stores,
                ..
            } => self.process(i, from, *processor, stores, false),
            DslCall::ProcessValues {
                from,
                processor,
                stores,
            } => self.process(i, &[*from], *processor, stores, true),
            DslCall::Deduplicate { from, .. } => self.deduplicate(i, *from),
            DslCall::Offload(o) => self.offload(i, o),
            DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => self.join(i, j),
            DslCall::To { .. } => self.sink(i),
            call => self.stateless(i, call),
        }
    }

    /// Adds one node in each stage that has a parent.
    fn each(&mut self, i: usize, parents: &[Built], name: &str, op: &Op) -> Built {
        let mut built = Built::new();
        for parent in parents {
            for (&stage, &above) in parent {
                let own = match built.get(&stage) {
                    Some(own) => *own,
                    None => self.add(i, name, stage, op),
                };
                built.insert(stage, own);
                self.child(above, own);
            }
        }
        built
    }

    fn add(&mut self, i: usize, name: &str, stage: u16, op: &Op) -> NodeId {
        let id = NodeId(
            u32::try_from(self.out.nodes.len()).expect("a plan has fewer than four billion nodes"),
        );
        self.out.nodes.push(PhysicalNode {
            id,
            name: name.to_owned(),
            stage: StageId(stage),
            op: op.clone(),
            children: vec![],
            fork: Delivery::Batch,
            idle: None,
            foreign: false,
            line: self.plan.nodes[i].line.clone(),
            on_error: self.plan.nodes[i].on_error.clone(),
        });
        id
    }

    /// Lets the stream time of a node advance while no record arrives.
    fn idles(&mut self, node: NodeId, name: &str, idle: Option<(i64, i64)>) {
        let idle = idle.map(|(after_ms, reach_ms)| Idle {
            after_ms,
            reach_ms,
            seen: self.clock(&format!("{name}-idle")),
        });
        self.out.nodes[index(node)].idle = idle;
    }

    fn child(&mut self, above: NodeId, own: NodeId) {
        self.out.nodes[index(above)].children.push(own);
    }

    fn clock(&mut self, name: &str) -> ClockId {
        let id = ClockId(number(self.out.clocks.len()));
        self.out.clocks.push(ClockSpec {
            id,
            name: name.to_owned(),
        });
        id
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
                meeting: Vec::new(),
            })
            .collect();
    }
}

/// The highest stage of a call's nodes.
fn highest(built: &Built) -> u16 {
    built
        .keys()
        .next_back()
        .copied()
        .expect("what is read from is in some stage")
}

fn number(len: usize) -> u16 {
    u16::try_from(len).expect("checked: a plan is small enough for 16 bits")
}

fn index(id: NodeId) -> usize {
    id.0 as usize
}

#[cfg(test)]
mod tests;
