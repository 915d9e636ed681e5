//! Commit: the only part that sends records, and the only one that ends a transaction.
//!
//! Takes from the outbox what lanes have produced; makes one transaction per epoch, applies the
//! epoch's writes to the local store, and announces it. Owns the producer.
//! [`stoatflow_protocol::CommitMachine`] decides the order of steps and what a failure means.

mod apply;
mod changelog;
pub mod commit_failure;
mod deadline;
mod ending;
pub mod guard;
pub mod offsets_topic;
pub mod outbox;
mod parts;
mod refetch;

use crate::admin::status::{CommitStatus, LaneEnd, step_name};
use crate::commit::deadline::Deadline;
use crate::commit::offsets_topic::OffsetsTopic;
use crate::commit::outbox::{LaneTimes, OutboxItem};
use crate::commit::refetch::refetch;
use crate::lane::stream_time;
use crate::runtime::failpoint::Failpoint;
pub use parts::{CommitParts, LoggedStore, SourceTopic};
use parts::{Cut, Writes};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{Epoch, Error, ErrorKind, Guarantee, Lane, Result, Timestamp};
use stoatflow_log::{CommitOutcome, CutEntry, ProducerRecord};
use stoatflow_protocol::{CommitMachine, CommitStep, Decision};
use stoatflow_state::Sealed;

/// How often the producer is polled while it has unacknowledged records.
const PENDING_POLL: Duration = Duration::from_millis(1);

/// True if a row of the store of stream times says that something waits in a task from now on.
fn marks_waiting_task(write: &Sealed) -> bool {
    !stream_time::is_time(&write.key) && write.value.is_some()
}

/// See the module.
pub struct Committer {
    parts: CommitParts,
    machine: CommitMachine,
    /// The epoch of the open transaction.
    open: Epoch,
    begun: bool,
    inbox: VecDeque<OutboxItem>,
    /// Records of later epochs, which wait for their transaction.
    held: VecDeque<(Epoch, Vec<ProducerRecord>, i64)>,
    cut: Option<Cut>,
    sealed: Writes,
    /// When each lane sealed the open epoch.
    lane_times: Vec<(Lane, LaneTimes)>,
    seals: u32,
    outputs: u64,
    /// Deadline of the commit in progress.
    deadline: Option<Deadline>,
    /// Bytes of the in-flight budget held by records that aren't acknowledged.
    unacknowledged: i64,
    /// The broker's time at which local stores were last marked as current.
    current_at: Option<Timestamp>,
    /// How often producer epochs have been exhausted in this run.
    rollovers: u64,
}

impl Committer {
    /// Starts with epoch 1.
    #[must_use]
    pub fn new(mut parts: CommitParts) -> Self {
        let changelogs: Vec<_> = parts
            .stores
            .iter()
            .filter_map(|s| s.changelog.clone())
            .collect();
        parts.producer.remember(&changelogs);
        for (at, end) in parts.offsets.iter().flat_map(OffsetsTopic::ends) {
            parts
                .producer
                .expect_end_offset(&at.topic, at.partition, end);
        }
        Self {
            machine: CommitMachine::new(parts.order),
            open: Epoch(1),
            begun: false,
            inbox: VecDeque::new(),
            held: VecDeque::new(),
            cut: None,
            sealed: Writes::default(),
            lane_times: Vec::new(),
            seals: 0,
            outputs: 0,
            deadline: None,
            unacknowledged: 0,
            current_at: None,
            rollovers: 0,
            parts,
        }
    }

    /// For tests that wrap the producer.
    #[cfg(test)]
    pub(crate) const fn producer(&mut self) -> &mut Box<dyn stoatflow_log::Producer> {
        &mut self.parts.producer
    }

    /// Handles the items of the outbox, and commits the epoch once its cut and all seals are there.
    /// Waits at most `wait` for items. True if anything was done.
    ///
    /// # Errors
    /// Errors of the producer and the back end. The transaction is aborted if its state allows that.
    pub fn step(&mut self, wait: Duration) -> Result<bool> {
        self.poll_pending().map_err(|error| self.give_up(error))?;
        let wait = if self.unacknowledged > 0 {
            wait.min(PENDING_POLL)
        } else {
            wait
        };
        if self.inbox.is_empty() && !self.parts.shared.outbox.take_all(&mut self.inbox, wait) {
            return Ok(false);
        }
        while let Some(item) = self.inbox.pop_front() {
            self.handle(item).map_err(|error| self.give_up(error))?;
            if self.seals == self.parts.lanes && self.cut.is_some() {
                self.commit()?;
            }
        }
        Ok(true)
    }

    /// Polls the producer, and releases the bytes of records that are acknowledged.
    fn poll_pending(&mut self) -> Result<()> {
        if self.unacknowledged > 0 {
            let kept = i64::try_from(self.parts.producer.send_pending()?).unwrap_or(i64::MAX);
            self.release_beyond(kept);
        }
        Ok(())
    }

    fn release_beyond(&mut self, kept: i64) {
        if self.unacknowledged > kept {
            self.parts.shared.release(self.unacknowledged - kept);
            self.unacknowledged = kept;
        }
    }

    fn handle(&mut self, item: OutboxItem) -> Result<()> {
        match item {
            OutboxItem::Records {
                epoch,
                records,
                bytes,
            } => self.take(epoch, records, bytes)?,
            OutboxItem::DeadLetters {
                epoch,
                letters,
                bytes,
            } => {
                let (shared, group) = (&self.parts.shared, &self.parts.group);
                let (broker, timeout) = (self.parts.broker.as_ref(), self.parts.timeout);
                let records = refetch(broker, group, letters, timeout, shared.clock.as_ref())?;
                shared.status.dead_letters.sent(epoch, &records);
                self.take(epoch, records, bytes)?;
            }
            OutboxItem::Cut {
                epoch,
                cut,
                records,
                oldest,
                at,
            } => {
                assert_eq!(epoch, self.open, "an epoch is committed as a whole");
                self.cut = Some(Cut {
                    entries: cut,
                    records,
                    oldest,
                    at,
                });
            }
            OutboxItem::Sealed {
                epoch,
                lane,
                stores,
                drops,
                times,
            } => {
                assert_eq!(epoch, self.open, "an epoch is committed as a whole");
                self.seals += 1;
                self.sealed.stores.extend(stores);
                self.sealed.drops.extend(drops);
                self.lane_times.push((lane, times));
            }
        }
        Ok(())
    }

    fn take(&mut self, epoch: Epoch, records: Vec<ProducerRecord>, bytes: i64) -> Result<()> {
        // At-least-once needs no transaction: an output is visible as soon as it is acknowledged.
        if epoch == self.open || self.parts.guarantee == Guarantee::AtLeastOnce {
            return self.send(records, bytes);
        }
        self.held.push_back((epoch, records, bytes));
        Ok(())
    }

    fn send(&mut self, mut records: Vec<ProducerRecord>, bytes: i64) -> Result<()> {
        self.prove_sole_instance()?;
        self.begin()?;
        self.parts.shared.failpoints.reach(Failpoint::EpochSend)?;
        self.outputs += records.len() as u64;
        self.parts
            .shared
            .status
            .records_out
            .fetch_add(records.len() as u64, Relaxed);
        self.unacknowledged += bytes;
        self.parts.producer.send(&mut records)?;
        self.poll_pending()
    }

    /// Call before anything is sent. If the last proof is too old, proves that this is the only
    /// instance by committing the same offsets again.
    fn prove_sole_instance(&mut self) -> Result<()> {
        let asked = self.parts.shared.clock.monotonic();
        let Some(standing) = self.parts.guard.as_ref().and_then(|g| g.renewal(asked)) else {
            return Ok(());
        };
        self.commit_only(&standing, self.deadline())?;
        if let Some(guard) = &mut self.parts.guard {
            guard.committed(asked);
        }
        Ok(())
    }

    /// Commits offsets outside of an epoch.
    fn commit_only(&mut self, cut: &[CutEntry], deadline: Deadline) -> Result<()> {
        self.begin()?;
        let left = deadline.before_end(self.now());
        let added = self.parts.producer.offsets(&self.parts.group, cut, left);
        // Once fenced, not even an abort may be sent; after a commit there is nothing to abort.
        self.begun = added.as_ref().is_err_and(|e| e.kind() != ErrorKind::Fenced);
        added?;
        let left = deadline.for_end(self.now());
        match self.parts.producer.commit(left)? {
            CommitOutcome::Committed => Ok(()),
            CommitOutcome::Aborted => Err(Error::unavailable(
                "the broker aborted the transaction that proves that this is the only instance",
            )
            .hint(
                "nothing is lost: it restarts by itself from its last commit. If this comes again, the machine or \
                 the broker stands still for longer than transaction.timeout.ms: give them more CPU, or raise it",
            )),
        }
    }

    fn flush(&mut self) -> Result<()> {
        if self.outputs > 0 {
            self.prove_sole_instance()?;
        }
        let left = self.left_before_end();
        self.parts.producer.flush(left)?;
        self.release_beyond(0);
        Ok(())
    }

    fn now(&self) -> Duration {
        self.parts.shared.clock.monotonic()
    }

    /// The deadline of the commit in progress; between commits, of one that begins now.
    fn deadline(&self) -> Deadline {
        let begins = || Deadline::new(self.now(), self.parts.timeout);
        self.deadline.unwrap_or_else(begins)
    }

    fn left_before_end(&self) -> Duration {
        self.deadline().before_end(self.now())
    }

    fn begin(&mut self) -> Result<()> {
        if !self.begun {
            self.parts.producer.begin()?;
            self.begun = true;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let clock = Arc::clone(&self.parts.shared.clock);
        let cut = self.cut.take().unwrap_or_default();
        let sealed = std::mem::take(&mut self.sealed);
        let began = clock.monotonic();
        self.deadline = Some(Deadline::new(began, self.parts.timeout));
        let mut status = CommitStatus {
            epoch: self.open.0,
            records: cut.records,
            outputs: self.outputs,
            align_us: micros(began.saturating_sub(cut.at)),
            lanes: by_lane(&mut self.lane_times, cut.at),
            ..CommitStatus::default()
        };
        let mut decision = self.machine.sealed(self.open);
        let mut last = began;
        loop {
            match decision {
                Decision::Do(step) => {
                    self.parts
                        .shared
                        .status
                        .with_barrier(|b| b.step = Some(step_name(step)));
                    let done = self.execute(step, &cut, &sealed);
                    let now = clock.monotonic();
                    status.took(step, micros(now.saturating_sub(last)));
                    last = now;
                    decision = match done {
                        Ok(()) => self.machine.succeeded(),
                        Err(error) => return Err(self.commit_failed(step, error, &cut)),
                    };
                }
                Decision::Done(epoch) => {
                    self.done(epoch, status, &cut);
                    for (store, range) in &sealed.drops {
                        self.parts.stores[usize::from(store.0)].store.forget(range);
                    }
                    return self.send_held();
                }
                Decision::Abort(_) | Decision::Stop(_) => {
                    return Err(Error::internal(
                        "the commit protocol stopped without a failure",
                    ));
                }
            }
        }
    }

    fn execute(&mut self, step: CommitStep, cut: &Cut, sealed: &Writes) -> Result<()> {
        self.parts.shared.failpoints.reach(failpoint_before(step))?;
        match step {
            CommitStep::Changelog => {
                self.send_changelog(&sealed.stores)?;
                if self.parts.guarantee == Guarantee::ExactlyOnceV2 {
                    self.send_positions(&cut.entries)?;
                }
                Ok(())
            }
            CommitStep::Flush => self.flush(),
            CommitStep::Offsets => {
                self.begin()?;
                if self.parts.guarantee == Guarantee::ExactlyOnceV2 {
                    // Sent now, so that they are in flight while the group coordinator answers.
                    self.send_ends()?;
                }
                let left = self.left_before_end();
                let cut = match &mut self.parts.guard {
                    Some(guard) => guard.begin_commit(&cut.entries),
                    None => &cut.entries,
                };
                self.parts.producer.offsets(&self.parts.group, cut, left)?;
                match self.parts.guarantee {
                    Guarantee::ExactlyOnceV2 => {
                        let left = self.left_before_end();
                        self.parts.producer.flush(left)
                    }
                    Guarantee::AtLeastOnce => Ok(()),
                }
            }
            CommitStep::Commit => {
                self.begun = false;
                let asked = self.now();
                let left = self.deadline().for_end(asked);
                match self.parts.producer.commit(left)? {
                    CommitOutcome::Committed => {
                        if let Some(guard) = &mut self.parts.guard {
                            guard.committed(asked);
                        }
                        self.send_times(&sealed.stores)?;
                        if self.parts.guarantee == Guarantee::AtLeastOnce {
                            self.send_positions(&cut.entries)?;
                            self.send_ends()?;
                        }
                        Ok(())
                    }
                    CommitOutcome::Aborted => Err(Error::unavailable(format!(
                        "the broker aborted the transaction of epoch {}",
                        self.open
                    ))),
                }
            }
            CommitStep::Apply => self.apply(sealed, cut),
            CommitStep::Announce => Ok(()),
        }
    }

    fn send_held(&mut self) -> Result<()> {
        while self
            .held
            .front()
            .is_some_and(|(epoch, ..)| *epoch == self.open)
        {
            if let Some((_, records, bytes)) = self.held.pop_front() {
                let sent = self.send(records, bytes);
                sent.map_err(|error| self.give_up(error))?;
            }
        }
        Ok(())
    }
}

const fn failpoint_before(step: CommitStep) -> Failpoint {
    match step {
        CommitStep::Changelog => Failpoint::CommitBeforeChangelog,
        CommitStep::Flush => Failpoint::CommitBeforeFlush,
        CommitStep::Offsets => Failpoint::CommitBeforeOffsets,
        CommitStep::Commit => Failpoint::CommitBeforeCommit,
        CommitStep::Apply => Failpoint::CommitBeforeApply,
        CommitStep::Announce => Failpoint::CommitAfterApply,
    }
}

/// The times of all lanes, since the barrier was inserted.
fn by_lane(times: &mut Vec<(Lane, LaneTimes)>, barrier: Duration) -> Vec<LaneEnd> {
    let since = |at: Duration| micros(at.saturating_sub(barrier));
    let mut lanes: Vec<LaneEnd> = times
        .drain(..)
        .map(|(lane, at)| LaneEnd {
            lane: lane.0,
            reached_us: since(at.reached),
            passed_us: since(at.passed),
            aligned_us: since(at.seal),
            sealed_us: since(at.sealed),
        })
        .collect();
    lanes.sort_by_key(|at| at.lane);
    lanes
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
