//! Counters and states of a running engine: written by its parts, read by the admin port.
//!
//! Relaxed atomics, or short locks. Mostly for display: the engine bases decisions only on the lifecycle
//! state and a few counters (`announced`, `broker_away`, `progress_ms`, the lanes' busy times). Reading
//! never waits for a lane, the interpreter or a broker.

mod clients;
mod commits;
mod drops;
pub mod duration_buckets;
mod hints;
mod partitions;
mod readiness;

use crate::admin::dead_letters::DeadLetterLog;
use crate::admin::drop_log::DropLog;
use crate::admin::endpoints::Endpoints;
use crate::admin::error_log::ErrorLog;
use crate::admin::function_calls::FunctionCalls;
use crate::admin::health_checks::HealthChecks;
use crate::admin::status::duration_buckets::DurationBuckets;
use crate::commit::commit_failure::CommitFailure;
use crate::index::state::IndexStatus;
use crate::lane::hot_keys::HotKeys;
use commits::COMMITS_KEPT;
pub use commits::{BarrierStatus, CommitStatus, LaneEnd, StepStatus, step_name};
pub(super) use drops::is_expected_drop;
use parking_lot::Mutex;
pub use partitions::PartitionStatus;
pub(super) use readiness::REASONS;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;
use stoatflow_core::{Error, Lane, RocksDbOptions, Timestamp};
use stoatflow_log::ClientCounts;
use stoatflow_operators::{
    ActiveNode, ForeignCode, RunCoordinator, current_call::CurrentCall,
    custom_metrics::CustomMetrics, offload::Occupancy,
};
use stoatflow_plan::PhysicalPlan;
use stoatflow_protocol::Lifecycle;

/// Counters of one lane.
#[derive(Debug, Default)]
pub struct LaneStatus {
    /// Items in its queue.
    pub queued_items: AtomicI64,
    /// Bytes waiting in its queue.
    pub queued_bytes: AtomicI64,
    /// Records taken from the queue since the start (all stages).
    pub records: AtomicU64,
    /// The open epoch of its last stage.
    pub epoch: AtomicU64,
    /// Monotonic milliseconds at which its current batch began; 0 while idle.
    pub busy_since_ms: AtomicU64,
    /// Nanoseconds spent working.
    pub busy_ns: AtomicU64,
    /// The stage of its current batch, plus one; 0 while idle.
    pub stage_plus_one: AtomicU64,
    /// The user function that it is running.
    pub current_call: Arc<CurrentCall>,
    /// The node that it is running.
    pub active_node: Arc<ActiveNode>,
    /// The most frequent keys of its records.
    pub(crate) hot_keys: Mutex<HotKeys>,
}

/// Progress of one store's restore.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RestoreProgress {
    /// The store.
    pub store: String,
    /// Changelog offsets to read: records, and gaps left by compaction and markers.
    pub total: u64,
    /// How many of them are loaded.
    pub done: u64,
    /// True once the store has caught up.
    pub complete: bool,
    /// Why the local data was discarded at the start, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuilt: Option<&'static str>,
}

/// A lifecycle state and when it began.
#[derive(Clone, Debug, Serialize)]
pub struct StateEntry {
    /// Its name.
    pub state: &'static str,
    /// Wall clock, ms.
    pub at_ms: i64,
}

/// An error as the admin port shows it.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorStatus {
    /// Its kind.
    pub kind: &'static str,
    /// The whole message.
    pub message: String,
    /// What to do.
    pub next_step: String,
}

/// See the module.
#[derive(Debug)]
pub struct Status {
    /// The application's id.
    pub application_id: String,
    /// The topology.
    pub plan: Arc<PhysicalPlan>,
    /// Counters per lane.
    pub lanes: Vec<LaneStatus>,
    /// The user function that intake is running: an extractor, a watermark, a late policy.
    pub intake: Arc<CurrentCall>,
    /// Records that entered each node.
    pub nodes: Vec<AtomicU64>,
    /// Nanoseconds that lanes spent in each node, estimated from samples.
    pub node_times: Vec<AtomicU64>,
    /// User functions, and their cost.
    pub calls: FunctionCalls,
    /// The last errors.
    pub errors: ErrorLog,
    /// The last dead letters.
    pub dead_letters: DeadLetterLog,
    /// Metrics that the user's code defines.
    pub custom_metrics: Arc<CustomMetrics>,
    /// Health checks of the user's code.
    pub health_checks: HealthChecks,
    /// Endpoints of the user's code.
    pub endpoints: Endpoints,
    /// Limits how often dropped records are logged.
    pub drop_log: DropLog,
    /// Input records admitted.
    pub records_in: AtomicU64,
    /// Output records handed to the producer (sinks only).
    pub records_out: AtomicU64,
    /// Changelog records handed to the producer.
    pub changelog_out: AtomicU64,
    /// Input records in committed epochs.
    pub records_committed: AtomicU64,
    /// Bytes admitted whose lane hasn't finished with them.
    pub in_flight_bytes: AtomicI64,
    /// Admission stops at this many bytes; adapts to the speed of the lanes.
    pub in_flight_budget_bytes: AtomicI64,
    /// Commits done.
    pub commits: AtomicU64,
    /// Bytes staged by uncommitted epochs in all stores.
    pub staged_bytes: AtomicU64,
    /// Memory of the state back end.
    pub state_memory_bytes: AtomicU64,
    /// How often the run was restarted.
    pub restarts: AtomicU64,
    /// The application's watermark of the last barrier (-1: none).
    pub watermark: AtomicI64,
    /// True if event time is the watermark (`time.semantics`).
    pub by_watermark: AtomicBool,
    /// The current run, which knows how many records offloads have parked.
    run: Mutex<Weak<RunCoordinator>>,
    /// True if the broker didn't answer the last request.
    pub broker_away: AtomicBool,
    /// How often the producer got a new id because the epochs of the old one were used up.
    pub rollovers: AtomicU64,
    /// When this instance announced itself in the offsets topic; 0: not yet.
    pub announced: AtomicI64,
    /// For how long brokers have throttled this application, in milliseconds.
    pub broker_throttle_ms: AtomicU64,
    /// True if the application ends because nothing was committed for too long.
    pub stalled: AtomicBool,
    /// Monotonic ms of the last progress (a commit, or idle with nothing to do).
    pub progress_ms: AtomicU64,
    /// By node, hints about functions that could be expressions.
    hints: Mutex<Vec<(String, String)>>,
    detail: Mutex<Detail>,
}

#[derive(Debug)]
struct Detail {
    state: Lifecycle,
    history: Vec<StateEntry>,
    restore: Vec<RestoreProgress>,
    indexes: Vec<Arc<IndexStatus>>,
    /// RocksDB options of the stores on disk.
    rocksdb: BTreeMap<String, RocksDbOptions>,
    /// By store, the source topics of tables that are restored from them.
    source_topics: BTreeMap<String, Arc<str>>,
    partitions: Vec<PartitionStatus>,
    commits: VecDeque<CommitStatus>,
    barrier: BarrierStatus,
    dropped: Vec<(String, &'static str, u64)>,
    late: Vec<(String, &'static str, u64)>,
    error: Option<ErrorStatus>,
    /// The last failed commit.
    commit_failure: Option<CommitFailure>,
    /// Since when the broker hasn't answered.
    silent_since: Option<Duration>,
    commit_seconds: hdrhistogram::Histogram<u64>,
    commit_buckets: DurationBuckets,
    /// By phase, in the order of their first commit.
    phase_buckets: Vec<(String, DurationBuckets)>,
    record_buckets: DurationBuckets,
    clients: Vec<ClientCounts>,
}

/// Adds to a count, or creates it.
fn add(counts: &mut Vec<(String, &'static str, u64)>, of: &str, word: &'static str, count: u64) {
    match counts.iter_mut().find(|c| c.0 == of && c.1 == word) {
        Some(entry) => entry.2 += count,
        None => counts.push((of.to_owned(), word, count)),
    }
}

impl Status {
    /// For a plan and this many lanes.
    #[must_use]
    pub fn new(application_id: &str, plan: Arc<PhysicalPlan>, lanes: u32) -> Self {
        let commit_seconds = hdrhistogram::Histogram::new_with_bounds(1, 600_000_000, 3)
            .expect("constant bounds are valid");
        Self {
            application_id: application_id.to_owned(),
            lanes: (0..lanes).map(|_| LaneStatus::default()).collect(),
            intake: Arc::default(),
            nodes: plan.nodes.iter().map(|_| AtomicU64::new(0)).collect(),
            node_times: plan.nodes.iter().map(|_| AtomicU64::new(0)).collect(),
            calls: FunctionCalls::default(),
            errors: ErrorLog::default(),
            dead_letters: DeadLetterLog::default(),
            custom_metrics: Arc::default(),
            health_checks: HealthChecks::default(),
            endpoints: Endpoints::default(),
            drop_log: DropLog::default(),
            plan,
            records_in: AtomicU64::new(0),
            records_out: AtomicU64::new(0),
            changelog_out: AtomicU64::new(0),
            records_committed: AtomicU64::new(0),
            in_flight_bytes: AtomicI64::new(0),
            in_flight_budget_bytes: AtomicI64::new(0),
            commits: AtomicU64::new(0),
            staged_bytes: AtomicU64::new(0),
            state_memory_bytes: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            watermark: AtomicI64::new(-1),
            by_watermark: AtomicBool::new(false),
            run: Mutex::default(),
            broker_away: AtomicBool::new(false),
            rollovers: AtomicU64::new(0),
            announced: AtomicI64::new(0),
            broker_throttle_ms: AtomicU64::new(0),
            stalled: AtomicBool::new(false),
            progress_ms: AtomicU64::new(0),
            hints: Mutex::default(),
            detail: Mutex::new(Detail {
                state: Lifecycle::Created,
                history: Vec::new(),
                indexes: Vec::new(),
                rocksdb: BTreeMap::new(),
                source_topics: BTreeMap::new(),
                restore: Vec::new(),
                partitions: Vec::new(),
                commits: VecDeque::with_capacity(COMMITS_KEPT),
                barrier: BarrierStatus::default(),
                dropped: Vec::new(),
                late: Vec::new(),
                error: None,
                commit_failure: None,
                silent_since: None,
                commit_seconds,
                commit_buckets: DurationBuckets::default(),
                phase_buckets: Vec::new(),
                record_buckets: DurationBuckets::default(),
                clients: Vec::new(),
            }),
        }
    }

    /// Adds the user functions of the plan.
    #[must_use]
    pub fn calling(mut self, foreign: &ForeignCode) -> Self {
        self.calls = FunctionCalls::of(&self.plan, foreign);
        self.errors = ErrorLog::of(foreign.runtime.clone());
        self.custom_metrics = Arc::clone(&foreign.metrics);
        self
    }

    /// A run begins.
    pub fn watch(&self, run: &Arc<RunCoordinator>) {
        self.current_calls().for_each(CurrentCall::begin);
        *self.run.lock() = Arc::downgrade(run);
    }

    /// The current calls of all threads that call user functions.
    pub fn current_calls(&self) -> impl Iterator<Item = &CurrentCall> {
        let lanes = self.lanes.iter().map(|lane| &*lane.current_call);
        lanes.chain(std::iter::once(&*self.intake))
    }

    /// What each offload has parked, by node name.
    pub fn parked(&self) -> Vec<(String, Occupancy)> {
        let run = self.run.lock().upgrade();
        let all = run.map(|run| run.occupancy()).unwrap_or_default();
        let named = all.into_iter().filter_map(|lot| {
            let node = self.plan.nodes.get(lot.node.0 as usize)?;
            Some((node.name.clone(), lot))
        });
        named.collect()
    }

    /// The state.
    pub fn state(&self) -> Lifecycle {
        self.detail.lock().state
    }

    /// Enters a state; false if it can't follow the current one.
    pub fn enter(&self, next: Lifecycle, now: Timestamp) -> bool {
        let mut detail = self.detail.lock();
        if !detail.state.may_become(next) {
            return false;
        }
        detail.state = next;
        detail.history.push(StateEntry {
            state: next.name(),
            at_ms: now.0,
        });
        true
    }

    /// All states so far.
    pub fn history(&self) -> Vec<StateEntry> {
        self.detail.lock().history.clone()
    }

    /// Records the first error.
    pub fn failed(&self, error: &Error) {
        // Formatting may run user code, so it is done before locking.
        let status = ErrorStatus {
            kind: error.kind().name(),
            message: error.to_string(),
            next_step: error.next_step().to_owned(),
        };
        self.detail.lock().error.get_or_insert(status);
    }

    /// The run restarts: its queues are gone, and the error is cleared. A broker that was away stays
    /// away until it answers.
    pub fn reset_for_restart(&self) {
        self.dead_letters.restarted();
        self.in_flight_bytes.store(0, Relaxed);
        self.staged_bytes.store(0, Relaxed);
        for lane in &self.lanes {
            lane.queued_items.store(0, Relaxed);
            lane.queued_bytes.store(0, Relaxed);
            lane.busy_since_ms.store(0, Relaxed);
            lane.stage_plus_one.store(0, Relaxed);
        }
        let mut detail = self.detail.lock();
        detail.barrier = BarrierStatus::default();
        detail.error = None;
    }

    /// Records a failed commit. Kept when the run restarts.
    pub fn commit_failed(&self, commit_failure: CommitFailure) {
        self.detail.lock().commit_failure = Some(commit_failure);
    }

    /// The last failed commit.
    pub fn commit_failure(&self) -> Option<CommitFailure> {
        self.detail.lock().commit_failure.clone()
    }

    /// The broker has answered.
    pub fn broker_answers(&self) {
        self.broker_away.store(false, Relaxed);
        self.detail.lock().silent_since = None;
    }

    /// The broker hasn't answered a request made at this time.
    pub fn broker_is_silent(&self, asked: Duration) {
        self.broker_away.store(true, Relaxed);
        self.detail.lock().silent_since.get_or_insert(asked);
    }

    /// The first error.
    pub fn error(&self) -> Option<ErrorStatus> {
        self.detail.lock().error.clone()
    }

    /// The status of all indexes.
    pub fn indexes(&self) -> Vec<Arc<IndexStatus>> {
        self.detail.lock().indexes.clone()
    }

    /// Sets the indexes of a run.
    pub fn set_indexes(&self, indexes: Vec<Arc<IndexStatus>>) {
        self.detail.lock().indexes = indexes;
    }

    /// Sets the stores that a run keeps on disk, with their options.
    pub fn set_rocksdb(&self, kept: BTreeMap<String, RocksDbOptions>) {
        self.detail.lock().rocksdb = kept;
    }

    /// Sets the tables that are restored from their source topics, with these topics.
    pub fn set_source_topics(&self, topics: BTreeMap<String, Arc<str>>) {
        self.detail.lock().source_topics = topics;
    }

    /// The source topic that a table is restored from, if it has no changelog of its own.
    pub fn source_topic(&self, store: &str) -> Option<Arc<str>> {
        self.detail.lock().source_topics.get(store).cloned()
    }

    /// The RocksDB options of a store; `None` for one that is not on disk.
    pub fn rocksdb(&self, store: &str) -> Option<RocksDbOptions> {
        self.detail.lock().rocksdb.get(store).copied()
    }

    /// Restore progress of all stores.
    pub fn restore(&self) -> Vec<RestoreProgress> {
        self.detail.lock().restore.clone()
    }

    /// Replaces the restore progress of a store.
    pub fn restoring(&self, progress: RestoreProgress) {
        let mut detail = self.detail.lock();
        match detail
            .restore
            .iter_mut()
            .find(|p| p.store == progress.store)
        {
            Some(entry) => *entry = progress,
            None => detail.restore.push(progress),
        }
    }

    /// Counts dropped records; the caller logs them.
    pub fn dropped(&self, node: &str, reason: &'static str, count: u64) {
        add(&mut self.detail.lock().dropped, node, reason, count);
    }

    /// Dropped records: node, reason, count.
    pub fn drops(&self) -> Vec<(String, &'static str, u64)> {
        self.detail.lock().dropped.clone()
    }

    /// Counts late records by outcome.
    pub fn late(&self, topic: &str, policy: &'static str, count: u64) {
        add(&mut self.detail.lock().late, topic, policy, count);
    }

    /// Late records: topic, policy, count.
    pub fn lates(&self) -> Vec<(String, &'static str, u64)> {
        self.detail.lock().late.clone()
    }

    /// Counters of a lane.
    pub fn lane(&self, lane: Lane) -> &LaneStatus {
        &self.lanes[lane.0 as usize]
    }

    /// Working time of all lanes together.
    pub fn worked(&self) -> Duration {
        let each = self.lanes.iter().map(|lane| lane.busy_ns.load(Relaxed));
        Duration::from_nanos(each.sum())
    }
}
