//! The environment of a processor: its stores, children and clock, created once from the plan.
//!
//! Takes a node of the plan, returns what the host needs beside the lane's context. Doesn't change while
//! records are processed.

use super::key_task_rows::is_written;
use super::key_tasks::{KeyTasks, by_murmur2};
use crate::support::node_context::NodeContext;
use crate::support::row_ttl::RowTtl;
use crate::{Context, ForeignCode, LaneClocks};
use bytes::Bytes;
use std::sync::Arc;
use stoatflow_core::{ClockId, Datum, Error, Origin, Result, Serde, StoreId, Task};
use stoatflow_plan::{Op, PhysicalNode, PhysicalPlan, StoreKind};

/// A store that a processor may access.
#[derive(Debug)]
pub(crate) struct Connected {
    pub name: String,
    pub id: StoreId,
    pub kind: StoreKind,
    /// Whether each value has headers.
    pub headers: bool,
    pub key: Serde,
    pub value: Serde,
    /// For a window, session or versioned store: the clock of the highest time in it.
    pub clock: ClockId,
    pub read_only: bool,
    /// True if nodes of another stage use it too. They may be in another epoch.
    pub elsewhere: bool,
    /// True for the store of a global table, which every task has as a whole.
    pub global: bool,
    /// The tasks of its keys, if the processor writes it and there are several tasks.
    pub key_tasks: Option<Arc<KeyTasks>>,
    /// When its rows expire, for a store of processors with a ttl.
    pub ttl: Option<Arc<RowTtl>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ProcessorEnv {
    pub node_context: NodeContext,
    pub stores: Vec<Connected>,
    /// Names of the children, in their order.
    pub children: Vec<String>,
    pub clock: ClockId,
    /// The stream-time clock of its tasks; a global store's processor has none.
    pub time: Option<ClockId>,
    /// True if it gets only ticks of scheduled sources, which have no task.
    pub ticks: bool,
}

impl ProcessorEnv {
    /// `clock`: the application's, and that of its tasks.
    pub fn new(
        plan: &PhysicalPlan,
        node: &PhysicalNode,
        stores: &[StoreId],
        (clock, time): (ClockId, Option<ClockId>),
        node_context: NodeContext,
        foreign: &ForeignCode,
    ) -> Result<Self> {
        let connected = stores.iter().map(|id| {
            let store = plan
                .stores
                .get(usize::from(id.0))
                .ok_or_else(|| Error::internal(format!("the plan has no store {id}")))?;
            Ok(Connected {
                name: store.name.clone(),
                id: *id,
                kind: store.kind,
                key: foreign.serde(&store.key)?,
                value: foreign.store_value(store)?,
                headers: store.headers,
                clock: store.clock.unwrap_or(clock),
                read_only: is_kept_by_another(plan, node, *id),
                elsewhere: is_written_elsewhere(plan, node, *id),
                global: is_global(plan, *id),
                key_tasks: None,
                ttl: ttl_of(plan, *id)?,
            })
        });
        let children = node.children.iter().map(|child| {
            plan.nodes
                .get(child.0 as usize)
                .map_or_else(String::new, |child| child.name.clone())
        });
        Ok(Self {
            stores: connected.collect::<Result<_>>()?,
            children: children.collect(),
            node_context,
            clock,
            time,
            ticks: plan.clock_driven_nodes().get(node.id.0 as usize) == Some(&true),
        })
    }

    /// Starts tracking the tasks of the keys in its stores.
    pub fn watch_keys(&mut self, context: &mut Context<'_>) -> Result<()> {
        let Some(clock) = self.time.filter(|clock| context.clocks.has_tasks(*clock)) else {
            return Ok(());
        };
        let tasks = context.clocks.task_count(clock);
        let run = Arc::clone(context.run);
        for store in &mut self.stores {
            if store.read_only || store.global || store.kind == StoreKind::Timers {
                continue;
            }
            let open = || KeyTasks::open(tasks, |misfit| is_written(&store.name, misfit, context));
            store.key_tasks = Some(run.key_tasks(store.id, open)?);
        }
        Ok(())
    }

    /// The task whose stream time a timer waits for: `own`, or that of the key in this store.
    pub fn timer_task(
        &self,
        own: Option<Task>,
        store: &Connected,
        key: &Bytes,
        clocks: &LaneClocks,
    ) -> Task {
        let clock = self.time.unwrap_or(self.clock);
        let by_key = || clocks.task_of(clock, store.key.affinity(key));
        clocks.task(own.unwrap_or_else(by_key))
    }

    /// Stores whose keys don't determine their task.
    pub fn scattered(&self) -> impl Iterator<Item = &str> {
        let unknown = |store: &&Connected| {
            let tasks = store.key_tasks.as_ref();
            tasks.is_some_and(|tasks| !tasks.are_known())
        };
        self.stores.iter().filter(unknown).map(|store| &*store.name)
    }

    /// The stream time of each task. A single entry without a task applies to all of them: with watermarks,
    /// and, as the lowest stream time, if keys don't determine their task.
    pub fn times(&self, clocks: &LaneClocks) -> Vec<(Option<Task>, i64)> {
        match self.time.filter(|clock| clocks.has_tasks(*clock)) {
            Some(clock) if self.scattered().next().is_none() => {
                let tasks = (0..clocks.task_count(clock)).map(Task);
                let time = |task| (Some(task), clocks.stream(clock, task));
                tasks.map(time).collect()
            }
            Some(clock) => vec![(None, clocks.lowest(clock))],
            None => vec![(None, clocks.task_time(self.clock, self.time, Task(0)))],
        }
    }

    /// Sets the time up to which the schedules of a task (or of all tasks) were run.
    pub fn set_mark(&self, task: Option<Task>, time: i64, context: &mut Context<'_>) {
        let clock = self.time.unwrap_or(self.clock);
        match task {
            Some(task) => context.clocks.set_mark(clock, task, time),
            None => {
                for task in (0..context.clocks.task_count(clock)).map(Task) {
                    context.clocks.set_mark(clock, task, time);
                }
            }
        }
    }

    /// The time up to which schedules were run, by task.
    pub fn marks(&self, clocks: &LaneClocks) -> Vec<i64> {
        let clock = self.time.unwrap_or(self.clock);
        let task = (0..clocks.task_count(clock)).map(Task);
        task.map(|task| clocks.mark(clock, task)).collect()
    }

    /// Adds the origin of a record to an error.
    pub fn locate(&self, error: Error, origin: &Origin, function: &str) -> Error {
        self.node_context.locate_call(error, origin, Some(function))
    }

    /// Indexes of the children with this name: a child that is in several stages has several.
    pub fn child(&self, name: &str) -> Result<impl Iterator<Item = u32>> {
        let found: Vec<u32> = (0..)
            .zip(&self.children)
            .filter(|(_, child)| *child == name)
            .map(|(at, _)| at)
            .collect();
        if found.is_empty() {
            let error = Error::user(format!("there is no child named '{name}'"));
            return Err(match self.children.as_slice() {
                [] => {
                    error.hint("nothing follows this processor: use its result, or don't forward")
                }
                children => error.hint(format!(
                    "forward to one of its children: {}, or leave the child out for all of them",
                    children.join(", ")
                )),
            });
        }
        Ok(found.into_iter())
    }
}

/// The node that deletes expired rows of a store that processors write.
pub(crate) fn expires_at(plan: &PhysicalPlan, store: StoreId) -> Option<&PhysicalNode> {
    let deletes = |node: &&PhysicalNode| matches!(node.op, Op::Expire { table, of_processors: true, .. } if table == store);
    plan.nodes.iter().find(deletes)
}

fn ttl_of(plan: &PhysicalPlan, store: StoreId) -> Result<Option<Arc<RowTtl>>> {
    match expires_at(plan, store).map(|node| &node.op) {
        Some(Op::Expire { expiry, .. }) => Ok(Some(Arc::new(RowTtl::new(expiry)?))),
        _ => Ok(None),
    }
}

/// Whether a table (or a global store) maintains it. Then processors must not write to it: its readers
/// would miss their writes.
fn is_kept_by_another(plan: &PhysicalPlan, node: &PhysicalNode, store: StoreId) -> bool {
    let global = |other: &PhysicalNode| {
        plan.sources
            .iter()
            .any(|source| source.global && below(plan, source.entry, other))
    };
    plan.nodes.iter().any(|other| {
        other.id != node.id
            && (other.op.store() == Some(store)
                || (other.op.stores().contains(&store) && global(other) && !global(node)))
    })
}

/// Whether a processor or transformer of another stage accesses it.
fn is_written_elsewhere(plan: &PhysicalPlan, node: &PhysicalNode, store: StoreId) -> bool {
    let users = plan.nodes.iter().filter(|other| match &other.op {
        Op::Process { stores, .. } | Op::TransformValues { stores, .. } => stores.contains(&store),
        _ => false,
    });
    let own = |other: &PhysicalNode| {
        let mut stages = plan.stages.iter();
        stages.any(|stage| stage.nodes.contains(&other.id) && stage.nodes.contains(&node.id))
    };
    users
        .filter(|other| other.id != node.id)
        .any(|other| !own(other))
}

fn below(plan: &PhysicalPlan, entry: stoatflow_core::NodeId, node: &PhysicalNode) -> bool {
    entry == node.id
        || plan
            .nodes
            .get(entry.0 as usize)
            .is_some_and(|above| above.children.contains(&node.id))
}

fn is_global(plan: &PhysicalPlan, store: StoreId) -> bool {
    let global = plan.sources.iter().filter(|source| source.global);
    global
        .flat_map(|source| &plan.nodes[source.entry.0 as usize].children)
        .any(|node| plan.nodes[node.0 as usize].op.stores().contains(&store))
}

impl Connected {
    /// The task whose part of the store a key belongs to. If that is not known (a store that is only
    /// read, or a schedule that has just put a key of another task), each row is assigned to one task as
    /// most producers would.
    pub fn task_of(&self, key: &[u8], tasks: u16) -> Task {
        let key = self.key.affinity(key);
        let known = self.key_tasks.as_ref().and_then(|tasks| tasks.of(key));
        known.unwrap_or_else(|| by_murmur2(key, tasks))
    }

    pub fn key_bytes(&self, key: &Datum) -> Result<Bytes> {
        let bytes = self.key.encode(key).map_err(|e| self.named(e))?;
        bytes.ok_or_else(|| {
            self.named(
                Error::user("a store has no null keys")
                    .hint("skip records without a key: if record.key is None: return"),
            )
        })
    }

    pub fn key_of(&self, bytes: Bytes) -> Result<Datum> {
        self.key.decode(Some(bytes)).map_err(|e| self.named(e))
    }

    /// A value as it is stored: checked here, so that an error points to the user's line, and detached
    /// from the object that it was made of.
    pub fn taken(&self, value: Datum) -> Result<Datum> {
        match (&self.value, &value) {
            (_, Datum::Null)
            | (Serde::String, Datum::Str(_))
            | (Serde::Bytes, Datum::Bytes(_))
            | (Serde::Int64, Datum::Int(_))
            | (Serde::Double, Datum::Float(_))
            | (Serde::Json, Datum::Json(_)) => Ok(value),
            _ => self.copy(&value),
        }
    }

    /// A value as it is passed to a processor.
    pub fn given(&self, value: Datum) -> Result<Datum> {
        match &value {
            Datum::Opaque(_) => self.copy(&value),
            Datum::List(parts) if self.headers && matches!(parts[..], [_, Datum::Opaque(_)]) => {
                self.copy(&value)
            }
            _ => Ok(value),
        }
    }

    /// A value as expressions read it: without its headers.
    pub fn shown(&self, value: Datum) -> Result<Datum> {
        match self.given(value)? {
            Datum::List(parts) if self.headers => match &parts[..] {
                [_, value] => Ok(value.clone()),
                _ => Err(Error::internal("a value of a store with headers has none")),
            },
            value => Ok(value),
        }
    }

    fn copy(&self, value: &Datum) -> Result<Datum> {
        self.value.copy(value).map_err(|e| self.named(e))
    }

    pub fn named(&self, error: Error) -> Error {
        error.at(|at| at.store = Some(self.name.clone()))
    }

    pub fn writable(&self) -> Result<()> {
        if !self.read_only {
            return Ok(());
        }
        Err(self.named(
            Error::user(format!(
                "the store '{}' is a table's: processors may only read it",
                self.name
            ))
            .hint("give the processor a store of its own: builder.add_state_store(...)"),
        ))
    }

    /// Fails if keys can't be read and written atomically: only the lanes of one stage finish an epoch
    /// together.
    pub fn one_step(&self) -> Result<()> {
        if !self.elsewhere {
            return Ok(());
        }
        Err(self.named(
            Error::user(format!(
                "the store '{}' is used in several stages, which may be in two transactions at a time: \
                 nothing can be one step for all of them",
                self.name
            ))
            .hint("use get() and put() with keys that only one of them writes, or give each a store of its own"),
        ))
    }
}
