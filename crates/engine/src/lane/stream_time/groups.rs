//! Which records move which clock, and the tasks of Kafka Streams.
//!
//! Computes for each clock the group of exchanges whose records move it, and for each exchange the
//! groups of its records. A clock has a group if its operator gets all records through exchanges: then
//! its time at each record is known before the first record of a tick is processed. Tasks are counted as
//! in Kafka Streams: partitions of a sub-topology's sources, or of the repartition topic that an
//! exchange stands for.

use crate::intake::source_partitions::{SourcePartition, SourcePartitions};
use std::collections::{BTreeMap, BTreeSet};
use stoatflow_core::{ClockId, NodeId, Record, StageId, StoreId};
use stoatflow_operators::ClockRule;
use stoatflow_plan::{Emit, Op, PhysicalNode, PhysicalPlan, Source, Stage, StoreKind, Window};

/// Which records move a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClockFilter {
    /// All records.
    Any,
    /// Records with a key.
    Keyed,
    /// Records with a key and a value.
    Full,
}

impl ClockFilter {
    /// True if this record moves the clock.
    #[must_use]
    pub const fn accepts(self, record: &Record) -> bool {
        match self {
            Self::Any => true,
            Self::Keyed => !record.key.is_null(),
            Self::Full => !record.key.is_null() && !record.value.is_null(),
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// By stage: number of groups.
    pub count: Vec<usize>,
    /// By exchange node: the groups of the next stage that its records belong to.
    pub fed: Vec<Vec<(u16, ClockFilter)>>,
    /// By stage and group: true if its results carry the headers of the record that made them due.
    pub named: Vec<Vec<bool>>,
    /// By clock: its group.
    pub of_clock: Vec<Option<u16>>,
    /// By exchange node: the clocks of processors that its records move.
    pub processors: Vec<Vec<ClockId>>,
    /// By source: the clocks of the first stage's processors that its records move.
    pub read: Vec<Vec<ClockId>>,
    /// By clock: its node.
    nodes: Vec<Option<NodeId>>,
}

impl Groups {
    /// The groups of a plan.
    #[must_use]
    pub fn new(plan: &PhysicalPlan) -> Self {
        let mut groups = Self {
            count: vec![0; plan.stages.len()],
            fed: vec![Vec::new(); plan.nodes.len()],
            named: vec![Vec::new(); plan.stages.len()],
            of_clock: vec![None; plan.clocks.len()],
            processors: vec![Vec::new(); plan.nodes.len()],
            read: vec![Vec::new(); plan.sources.len()],
            nodes: vec![None; plan.clocks.len()],
        };
        let mut wanted: BTreeMap<ClockId, BTreeSet<(NodeId, ClockFilter)>> = BTreeMap::new();
        let mut loose = BTreeSet::new();
        let topologies = sub_topologies(plan);
        let by_clock = plan.clock_driven_nodes();
        for node in &plan.nodes {
            for (clock, filter) in clocks(plan, &node.op) {
                groups.nodes[usize::from(clock.0)] = Some(node.id);
                match fed_by(plan, node.id) {
                    Some(exchanges) => wanted
                        .entry(clock)
                        .or_default()
                        .extend(exchanges.into_iter().map(|exchange| (exchange, filter))),
                    None => {
                        loose.insert(clock);
                    }
                }
            }
            if let Op::Process { time, .. }
            | Op::TransformValues { time, .. }
            | Op::Expire { time, .. } = node.op
                && let Some(clock) = time
            {
                groups.nodes[usize::from(clock.0)] = Some(node.id);
                let exchanges = into_sub_topology(plan, &topologies, &by_clock, node);
                for exchange in &exchanges {
                    groups.processors[exchange.0 as usize].push(clock);
                }
                if node.stage == StageId(0) {
                    let own = topologies[node.id.0 as usize];
                    for source in plan.sources.iter().filter(|source| moves_time(source)) {
                        if topologies[source.entry.0 as usize] == own {
                            groups.read[usize::from(source.id.0)].push(clock);
                        }
                    }
                }
                let exchanges = exchanges
                    .into_iter()
                    .map(|exchange| (exchange, ClockFilter::Any));
                wanted.entry(clock).or_default().extend(exchanges);
            }
        }
        groups.place_stores(plan);
        let mut known: BTreeMap<(StageId, BTreeSet<(NodeId, ClockFilter)>), u16> = BTreeMap::new();
        for (clock, from) in wanted {
            let Some(node) = groups.nodes[usize::from(clock.0)] else {
                continue;
            };
            if loose.contains(&clock) || from.is_empty() {
                continue;
            }
            let stage = plan.nodes[node.0 as usize].stage;
            let count = &mut groups.count[usize::from(stage.0)];
            let group = *known.entry((stage, from.clone())).or_insert_with(|| {
                *count += 1;
                u16::try_from(*count - 1).unwrap_or(u16::MAX)
            });
            groups.of_clock[usize::from(clock.0)] = Some(group);
            let named = &mut groups.named[usize::from(stage.0)];
            named.resize(*count, false);
            named[usize::from(group)] |=
                results_carry_trigger_headers(&plan.nodes[node.0 as usize].op);
            for (exchange, filter) in from {
                let fed = &mut groups.fed[exchange.0 as usize];
                if !fed.contains(&(group, filter)) {
                    fed.push((group, filter));
                }
            }
        }
        groups
    }

    /// A store has as many tasks as the nodes that use it.
    fn place_stores(&mut self, plan: &PhysicalPlan) {
        for node in &plan.nodes {
            for store in node.op.stores() {
                let kept = plan.stores.get(usize::from(store.0));
                if let Some(clock) = kept.and_then(|store| store.clock) {
                    self.nodes[usize::from(clock.0)].get_or_insert(node.id);
                }
            }
        }
    }

    /// The rule of each clock in each stage; `alone`: there is one lane, which sees all records.
    #[must_use]
    pub fn rules(&self, plan: &PhysicalPlan, tasks: &Tasks, alone: bool) -> Vec<Vec<ClockRule>> {
        let by_key = by_key(plan, &tasks.of_exchanges(plan));
        let in_stage = |stage: &Stage| {
            let clocks = self.of_clock.iter().zip(&self.nodes);
            let rule = |(group, node): (&Option<u16>, &Option<NodeId>)| ClockRule {
                // Groups are numbered per stage.
                group: group.filter(|_| !alone && node.is_some_and(|n| stage.nodes.contains(&n))),
                tasks: node.map_or(1, |node| tasks.of(node)),
                by_application: node.is_some_and(|node| !tasks.has_sources(node)),
                by_key: node.is_some_and(|node| by_key[node.0 as usize]),
                dispatched: node.is_some_and(|node| {
                    stage.id.0 == 0 && is_straight(&plan.nodes[node.0 as usize].op)
                }),
            };
            clocks.map(rule).collect()
        };
        plan.stages.iter().map(in_stage).collect()
    }
}

/// True if the records of a source advance event time. Those of global tables and answers don't.
pub const fn moves_time(source: &Source) -> bool {
    !source.global && !source.answers
}

/// By node: true if all of its records come through exchanges that stand for a topic. Children have
/// higher numbers than parents.
pub(super) fn by_key(plan: &PhysicalPlan, tasks_of_exchanges: &[Option<u16>]) -> Vec<bool> {
    let mut found = vec![None; plan.nodes.len()];
    for source in &plan.sources {
        found[source.entry.0 as usize] = Some(false);
    }
    for (at, node) in plan.nodes.iter().enumerate() {
        let own = tasks_of_exchanges[at].is_some() || found[at].unwrap_or(false);
        let next = match &node.op {
            Op::Exchange { to, .. } => to,
            _ => &node.children,
        };
        for child in next {
            let child = &mut found[child.0 as usize];
            *child = Some(child.unwrap_or(true) && own);
        }
    }
    found.into_iter().map(|by| by == Some(true)).collect()
}

/// True for the window aggregations that, in the first stage, take their records directly from a source.
pub const fn is_straight(op: &Op) -> bool {
    match op {
        Op::WindowAggregate { window, .. } => !matches!(window, Window::Count { .. }),
        Op::SessionAggregate { .. } => true,
        _ => false,
    }
}

/// True if a stage uses the times that dispatch notes at records. Only the first one can.
#[must_use]
pub fn uses_dispatch_times(plan: &PhysicalPlan, stage: StageId) -> bool {
    let goes = |node: &PhysicalNode| {
        is_straight(&node.op)
            || matches!(
                node.op,
                Op::Process { .. } | Op::TransformValues { .. } | Op::Expire { .. }
            )
    };
    stage == StageId(0)
        && plan
            .nodes
            .iter()
            .any(|node| node.stage == stage && goes(node))
}

/// True if its results carry the headers of the record that made them due.
const fn results_carry_trigger_headers(op: &Op) -> bool {
    match op {
        Op::WindowAggregate { emit, .. }
        | Op::SlidingAggregate { emit, .. }
        | Op::SessionAggregate { emit, .. } => matches!(emit, Emit::OnWindowClose),
        Op::StreamJoin { pending, .. } => pending.is_some(),
        _ => false,
    }
}

/// The clocks that an operator moves with its records.
fn clocks(plan: &PhysicalPlan, op: &Op) -> Vec<(ClockId, ClockFilter)> {
    let filter = match op {
        Op::WindowAggregate { .. } | Op::SessionAggregate { .. } => ClockFilter::Keyed,
        Op::SlidingAggregate { .. } | Op::StreamTableJoin { .. } => ClockFilter::Full,
        Op::StreamJoin { .. } | Op::Suppress { .. } | Op::Deduplicate { .. } => ClockFilter::Any,
        Op::TableSource { store, .. } => return versions(plan, *store, ClockFilter::Keyed),
        Op::Count { store, .. } | Op::Reduce { store, .. } | Op::Aggregate { store, .. } => {
            return versions(plan, *store, ClockFilter::Full);
        }
        _ => return Vec::new(),
    };
    let mut found: Vec<(ClockId, ClockFilter)> = op
        .clock()
        .map(|clock| (clock, filter))
        .into_iter()
        .collect();
    if let Op::StreamJoin { own, .. } = op {
        let store = plan.stores.get(usize::from(own.0));
        let clock = store.and_then(|store| store.clock);
        found.extend(clock.map(|clock| (clock, ClockFilter::Full)));
    }
    found
}

/// The clock of a versioned store, which is moved by the records that the store accepts.
fn versions(
    plan: &PhysicalPlan,
    store: StoreId,
    filter: ClockFilter,
) -> Vec<(ClockId, ClockFilter)> {
    let store = plan.stores.get(usize::from(store.0));
    let kept = store.filter(|store| matches!(store.kind, StoreKind::Versioned { .. }));
    let clock = kept.and_then(|store| store.clock);
    clock.map(|clock| (clock, filter)).into_iter().collect()
}

/// The exchanges through which records of a node's sub-topology enter its stage. Those with ticks of
/// scheduled sources don't count, because ticks come from no topic.
fn into_sub_topology(
    plan: &PhysicalPlan,
    topologies: &[usize],
    by_clock: &[bool],
    node: &PhysicalNode,
) -> Vec<NodeId> {
    let own = topologies[node.id.0 as usize];
    let leads = |one: &PhysicalNode| {
        matches!(&one.op, Op::Exchange { to, stage, .. }
            if *stage == node.stage && to.iter().any(|to| topologies[to.0 as usize] == own))
            && !by_clock[one.id.0 as usize]
    };
    let exchanges = plan.nodes.iter().filter(|one| leads(one));
    exchanges.map(|one| one.id).collect()
}

/// The exchanges that all records of a node come from; `None` if some come another way.
fn fed_by(plan: &PhysicalPlan, node: NodeId) -> Option<Vec<NodeId>> {
    let direct = plan.nodes.iter().any(|n| n.children.contains(&node));
    let read = plan.sources.iter().any(|source| source.entry == node);
    (!direct && !read).then(|| {
        let to = |op: &Op| matches!(op, Op::Exchange { to, .. } if to.contains(&node));
        let exchanges = plan.nodes.iter().filter(|n| to(&n.op));
        exchanges.map(|n| n.id).collect()
    })
}

/// By slot: the index of the Kafka Streams task that reads it. `None` for global tables and answers,
/// which belong to no task.
pub fn source_tasks(plan: &PhysicalPlan, slots: &SourcePartitions) -> Vec<Option<usize>> {
    let topologies = sub_topologies(plan);
    let mut known = BTreeMap::new();
    let task = |slot: &SourcePartition| {
        let entry = slot.bindings.first()?.entry;
        if slot.is_global || slot.is_answers {
            return None;
        }
        let next = known.len();
        let task = (topologies[entry.0 as usize], slot.partition.partition);
        Some(*known.entry(task).or_insert(next))
    };
    slots.iter().map(task).collect()
}

/// How many tasks each sub-topology has.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    /// By node; 0 if its sub-topology reads no topic.
    count: Vec<u16>,
}

impl Tasks {
    /// Counts the tasks for sources with these partitions.
    #[must_use]
    pub fn new(plan: &PhysicalPlan, slots: &SourcePartitions) -> Self {
        let mut of_source = vec![0u16; plan.sources.len()];
        for slot in slots.iter() {
            let partitions = u16::try_from(slot.partition.partition.0 + 1).unwrap_or(u16::MAX);
            for reader in &slot.bindings {
                let known = &mut of_source[usize::from(reader.source.0)];
                *known = (*known).max(partitions);
            }
        }
        let topologies = sub_topologies(plan);
        let mut sources = vec![0u16; plan.nodes.len()];
        for source in plan.sources.iter().filter(|source| !source.global) {
            let own = &mut sources[topologies[source.entry.0 as usize]];
            *own = (*own).max(of_source[usize::from(source.id.0)]);
        }
        let mut count = sources.clone();
        // Exchanges lead only to higher stages, so one round per stage is enough.
        for _ in &plan.stages {
            for node in &plan.nodes {
                let Op::Exchange { to, ahead, .. } = &node.op else {
                    continue;
                };
                let from = count[topologies[node.id.0 as usize]];
                for to in to.iter().filter(|_| !ahead) {
                    let topology = topologies[to.0 as usize];
                    // If a sub-topology also reads a source topic, that determines the number of
                    // partitions of its repartition topics.
                    if sources[topology] == 0 {
                        count[topology] = count[topology].max(from);
                    }
                }
            }
        }
        Self {
            count: topologies.into_iter().map(|at| count[at]).collect(),
        }
    }

    /// How many tasks run a node.
    #[must_use]
    pub fn of(&self, node: NodeId) -> u16 {
        self.count.get(node.0 as usize).copied().unwrap_or(1).max(1)
    }

    /// True if its sub-topology reads a source topic, or a topic that an exchange stands for.
    #[must_use]
    pub fn has_sources(&self, node: NodeId) -> bool {
        self.count
            .get(node.0 as usize)
            .is_some_and(|tasks| *tasks > 0)
    }

    /// By exchange node: the number of partitions of the topic it stands for.
    #[must_use]
    pub fn of_exchanges(&self, plan: &PhysicalPlan) -> Vec<Option<u16>> {
        let tasks = |op: &Op| match op {
            Op::Exchange {
                to, ahead: false, ..
            } => to.first().map(|to| self.of(*to)),
            _ => None,
        };
        plan.nodes.iter().map(|node| tasks(&node.op)).collect()
    }
}

/// The sub-topology of each node. Nodes are in the same one if records pass between them without a
/// topic of Kafka Streams, or if they share a store.
fn sub_topologies(plan: &PhysicalPlan) -> Vec<usize> {
    fn root(of: &[usize], mut at: usize) -> usize {
        while of[at] != at {
            at = of[at];
        }
        at
    }
    let mut of: Vec<usize> = (0..plan.nodes.len()).collect();
    let mut join = |one: usize, two: usize| {
        let (one, two) = (root(&of, one), root(&of, two));
        of[one.max(two)] = one.min(two);
    };
    let mut stores: BTreeMap<_, usize> = BTreeMap::new();
    for (at, node) in plan.nodes.iter().enumerate() {
        let direct = match &node.op {
            Op::Exchange {
                to, ahead: true, ..
            } => to,
            _ => &node.children,
        };
        for next in direct {
            join(at, next.0 as usize);
        }
        let read = match &node.op {
            Op::StreamTableJoin { table: view, .. } | Op::TableJoin { other: view, .. } => {
                view.stores()
            }
            _ => Vec::new(),
        };
        for store in node.op.stores().into_iter().chain(read) {
            let first = *stores.entry(store).or_insert(at);
            join(first, at);
        }
    }
    (0..of.len()).map(|at| root(&of, at)).collect()
}
