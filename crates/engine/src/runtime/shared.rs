//! State shared by the parts of one run: queues, alignment, in-flight budget, stop and failure.
//!
//! Every part may read and signal here; no part waits for a lock of another.

use crate::admin::status::Status;
use crate::commit::outbox::Outbox;
use crate::intake::invalid_timestamps::InvalidTimestamps;
use crate::lane::kept_records::KeptRecords;
use crate::lane::queue::LaneQueue;
use crate::query::SnapshotLock;
use crate::query::followers::Followers;
use crate::runtime::failpoint::Failpoints;
use crate::runtime::live_threads::LiveThreads;
use crate::runtime::signal::{Ending, EndingState, Latch, Signal};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use stoatflow_core::{Clock, Epoch, Error, ErrorKind, StageId};
use stoatflow_operators::current_call::CurrentCall;
use stoatflow_operators::{RunCoordinator, Steps, Times};
use stoatflow_plan::Op;
use stoatflow_protocol::Alignment;

/// See the module.
#[derive(Debug)]
pub struct Shared {
    /// Counters for the admin port.
    pub status: Arc<Status>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// One queue per lane.
    pub queues: Vec<LaneQueue>,
    /// Arrivals per stage and tick; the last entry counts seals, by epoch.
    pub alignment: Alignment,
    /// The committed positions, for reads from outside.
    pub snapshot_lock: SnapshotLock,
    /// The followers of changes to stores.
    pub followers: Arc<Followers>,
    /// Lanes that have done what was due at the end of a stage, by epoch.
    pub ends: Alignment,
    /// By stage: how records move its time, for ticks that not all lanes have sent yet.
    steps: Vec<Mutex<Vec<(u64, Steps)>>>,
    /// The last tick that all lanes have taken from dispatch.
    taken: AtomicU64,
    /// The queue to the commit thread.
    pub outbox: Outbox,
    /// Records without a valid timestamp, on their way to lanes.
    pub invalid_timestamps: InvalidTimestamps,
    /// Input records that dead letters may need.
    pub kept_records: KeptRecords,
    /// Bytes of all records in lane queues and the outbox (law 7).
    pub in_flight: AtomicI64,
    /// Intake admits more once `in_flight` is below this; until then, waking it is useless.
    pub opens_below: AtomicI64,
    /// Timers, batches and async calls of all lanes.
    pub run: Arc<RunCoordinator>,
    /// Armed failpoints; none outside of crash tests.
    pub failpoints: Failpoints,
    /// The times of all lanes except lane 0, as of their last barriers. They contain nothing of the next
    /// epoch until this one is committed.
    pub passed_times: Mutex<Times>,
    /// How long the last commit took, microseconds.
    pub last_commit_us: AtomicU64,
    /// How long the last barrier took through all lanes, microseconds.
    pub last_align_us: AtomicU64,
    /// Wall-clock time at which a punctuation is due, set by lane 0; `i64::MAX`: none.
    pub next_punctuation: AtomicI64,
    /// The application's watermark is at least this from the next barrier on.
    requested_watermark: AtomicI64,
    commit_requested: AtomicBool,
    sealed: AtomicU64,
    committed: AtomicU64,
    stopping: AtomicBool,
    paused: AtomicBool,
    grown: AtomicBool,
    aborting: AtomicBool,
    drained: Latch,
    failure: Mutex<Option<Error>>,
    ending: EndingState,
    /// The threads that haven't ended.
    pub(crate) live_threads: LiveThreads,
    credit: Signal,
}

impl Shared {
    /// For this many lanes and stages.
    pub fn new(
        status: Arc<Status>,
        clock: Arc<dyn Clock>,
        lanes: u32,
        stages: usize,
        align: bool,
        failpoints: Failpoints,
    ) -> Self {
        let aligned = |stages| {
            if align {
                Alignment::new(lanes, stages)
            } else {
                Alignment::broken_unaligned(lanes, stages)
            }
        };
        let run = Arc::new(RunCoordinator::new(&status.application_id));
        for node in &status.plan.nodes {
            if let Op::Offload { max_parked, .. } = node.op {
                run.register_offload(node.id, lanes, max_parked);
            }
        }
        status.watch(&run);
        Self {
            run,
            status,
            clock,
            queues: (0..lanes).map(|_| LaneQueue::default()).collect(),
            alignment: aligned(stages + 1),
            snapshot_lock: SnapshotLock::default(),
            followers: Arc::default(),
            ends: aligned(stages),
            steps: (0..=stages).map(|_| Mutex::default()).collect(),
            taken: AtomicU64::new(0),
            outbox: Outbox::new(lanes),
            invalid_timestamps: InvalidTimestamps::default(),
            kept_records: KeptRecords::new(lanes),
            in_flight: AtomicI64::new(0),
            opens_below: AtomicI64::new(i64::MAX),
            failpoints,
            passed_times: Mutex::default(),
            last_commit_us: AtomicU64::new(0),
            last_align_us: AtomicU64::new(0),
            next_punctuation: AtomicI64::new(i64::MAX),
            requested_watermark: AtomicI64::new(-1),
            commit_requested: AtomicBool::new(false),
            sealed: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            grown: AtomicBool::new(false),
            aborting: AtomicBool::new(false),
            drained: Latch::default(),
            failure: Mutex::new(None),
            ending: EndingState::default(),
            live_threads: LiveThreads::default(),
            credit: Signal::default(),
        }
    }

    /// The last committed epoch (0: none in this run).
    pub fn committed(&self) -> Epoch {
        Epoch(self.committed.load(Ordering::Acquire))
    }

    /// The last epoch that all lanes have sealed (0: none in this run).
    pub fn sealed(&self) -> Epoch {
        Epoch(self.sealed.load(Ordering::Acquire))
    }

    /// Adds how a lane's records in a tick move a stage's time.
    pub fn add_steps(&self, tick: u64, stage: StageId, steps: Steps) {
        let mut open = self.steps[usize::from(stage.0)].lock();
        match open.iter_mut().find(|(of, _)| *of == tick) {
            Some((_, all)) => all.append(steps),
            None => open.push((tick, steps)),
        }
    }

    /// Takes the sum, once all lanes have added theirs.
    pub fn take_steps(&self, tick: u64, stage: StageId) -> Option<Arc<Steps>> {
        let mut open = self.steps[usize::from(stage.0)].lock();
        let at = open.iter().position(|(of, _)| *of == tick)?;
        let (_, steps) = open.swap_remove(at);
        drop(open);
        Some(Arc::new(steps.settled()))
    }

    /// The last tick that all lanes have taken from dispatch (0: none).
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// Call when all lanes have taken a tick from dispatch.
    pub fn set_taken(&self, tick: u64) {
        self.taken.store(tick, Ordering::Release);
        self.wake_intake();
    }

    /// Call when all lanes have sealed an epoch.
    pub fn set_sealed(&self, epoch: Epoch) {
        self.sealed.store(epoch.0, Ordering::Release);
        self.run.set_barrier_late(false);
    }

    /// Call when an epoch is committed: dispatch may insert the next barrier.
    pub fn set_committed(&self, epoch: Epoch) {
        self.committed.store(epoch.0, Ordering::Release);
        self.wake_intake();
    }

    /// Requests a commit soon, for an operator.
    pub fn request_commit(&self) {
        self.commit_requested.store(true, Ordering::Relaxed);
        self.wake_intake();
    }

    /// True if a commit was requested since [`Self::commit_begins`].
    pub fn is_commit_requested(&self) -> bool {
        self.commit_requested.load(Ordering::Relaxed)
    }

    /// Call when a barrier is inserted: it serves all requests so far.
    pub fn commit_begins(&self) {
        self.run.clear_answered();
        self.commit_requested.store(false, Ordering::Relaxed);
    }

    /// Requests an application watermark of at least this.
    pub fn request_watermark(&self, at_least: i64) {
        if self
            .requested_watermark
            .fetch_max(at_least, Ordering::Relaxed)
            < at_least
        {
            self.wake_intake();
        }
    }

    /// The highest requested watermark; -1: none.
    pub fn requested_watermark(&self) -> i64 {
        self.requested_watermark.load(Ordering::Relaxed)
    }

    /// How long until a punctuation, timer, batch or parked record is due by the clock; `None`:
    /// nothing is scheduled.
    pub fn until_punctuation(&self) -> Option<Duration> {
        let at = self.next_punctuation.load(Ordering::Relaxed);
        let at = at.min(self.run.next_timer()).min(self.run.next_batch());
        let at = at.min(self.run.next_parked());
        (at != i64::MAX).then(|| {
            let left = at.saturating_sub(self.clock.now().0);
            Duration::from_millis(u64::try_from(left).unwrap_or(0))
        })
    }

    /// Adds bytes to those in flight.
    pub fn admit(&self, bytes: i64) {
        self.in_flight.fetch_add(bytes, Ordering::Relaxed);
        self.status
            .in_flight_bytes
            .fetch_add(bytes, Ordering::Relaxed);
    }

    /// Removes bytes from those in flight, and wakes intake if it may admit more.
    pub fn release(&self, bytes: i64) {
        let before = self.in_flight.fetch_sub(bytes, Ordering::Relaxed);
        self.status
            .in_flight_bytes
            .fetch_sub(bytes, Ordering::Relaxed);
        if before - bytes < self.opens_below.load(Ordering::Relaxed) {
            self.wake_intake();
        }
    }

    /// Wakes intake: credit was returned, an epoch is committed, or a stop was requested.
    pub fn wake_intake(&self) {
        self.credit.notify();
    }

    /// Waits for [`Shared::wake_intake`], at most this long.
    pub fn wait_for_credit(&self, at_most: Duration) {
        self.credit.wait(at_most);
    }

    /// Sleeps at most this long: a stop wakes it, and so does whatever wakes intake.
    pub fn pause(&self, at_most: Duration) {
        self.credit.wait(at_most);
    }

    /// Requests a clean stop.
    pub fn stop(&self) {
        self.status.current_calls().for_each(CurrentCall::stop);
        self.leave();
    }

    /// Pauses or resumes reading.
    pub fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
        self.wake_intake();
    }

    /// True if reading is paused.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// Sets when (monotonic) a clean stop that isn't done becomes an abort. The first call counts.
    pub fn stop_by(&self, at: Duration) {
        self.ending.update(|ending| {
            ending.stop_by.get_or_insert(at);
        });
    }

    fn leave(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake_all();
    }

    /// Ends the run cleanly because there are new partitions to read; the next run reads all of them.
    pub fn restart_for_new_partitions(&self) {
        self.grown.store(true, Ordering::Release);
        self.leave();
    }

    /// True if it ends because of [`Self::restart_for_new_partitions`].
    pub fn has_new_partitions(&self) -> bool {
        self.grown.load(Ordering::Acquire)
    }

    /// Stops at once, without a final barrier.
    pub fn abort(&self) {
        self.aborting.store(true, Ordering::Release);
        self.run.end();
        self.status.current_calls().for_each(CurrentCall::abort);
        self.leave();
        let now = self.clock.monotonic();
        self.ending.update(|ending| {
            ending.aborted.get_or_insert(now);
        });
    }

    /// Call when the run has ended.
    pub fn set_ended(&self) {
        self.ending.update(|ending| ending.over = true);
    }

    /// How the run is to end.
    pub fn ending(&self) -> Ending {
        self.ending.get()
    }

    /// Waits until [`Self::ending()`] differs from `known`, at most this long.
    pub fn wait_for_ending(&self, known: Ending, at_most: Duration) -> Ending {
        self.ending.wait_for_change(known, at_most)
    }

    /// Call when intake has ended: everything admitted is committed, or nothing more will be.
    pub fn set_drained(&self) {
        self.drained.set();
        self.wake_all();
    }

    /// True if intake has ended.
    pub fn is_drained(&self) -> bool {
        self.drained.is_set()
    }

    /// Waits until intake has ended, at most this long.
    pub fn wait_for_drain(&self, at_most: Duration) {
        self.drained.wait_unless(|| self.is_aborting(), at_most);
    }

    /// Keeps the first failure and aborts the run.
    pub fn fail(&self, error: Error) {
        if !self.is_aborting() {
            let now = self.clock.now();
            self.status.errors.note(&error, None, "failed", now);
        }
        self.status.failed(&error);
        self.failure.lock().get_or_insert(error);
        self.abort();
    }

    /// The kind of the failure, if the run has failed.
    pub fn failure_kind(&self) -> Option<ErrorKind> {
        self.failure.lock().as_ref().map(Error::kind)
    }

    /// Takes the failure.
    pub fn take_failure(&self) -> Option<Error> {
        self.failure.lock().take()
    }

    /// True if a stop was requested.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// True if all threads must end at once.
    pub fn is_aborting(&self) -> bool {
        self.aborting.load(Ordering::Acquire)
    }

    fn wake_all(&self) {
        self.wake_intake();
        self.drained.wake();
        self.outbox.wake_commit_thread();
        for queue in &self.queues {
            queue.wake_lane();
        }
    }
}
