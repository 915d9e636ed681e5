//! Commit: the only part that sends records, and the only one that ends a transaction.
//!
//! Takes from the outbox what lanes have produced; makes one transaction per epoch, applies the
//! epoch's writes to the local store, and announces it. Owns the producer.
//! [`stoatflow_protocol::CommitMachine`] decides the order of steps and what a failure means.

mod changelog;
pub mod commit_failure;
mod deadline;
mod ending;
pub mod guard;
pub mod offsets_topic;
pub mod outbox;
mod refetch;

use crate::admin::status::CommitStatus;
use crate::commit::deadline::Deadline;
use crate::commit::guard::InstanceGuard;
use crate::commit::offsets_topic::OffsetsTopic;
use crate::commit::outbox::OutboxItem;
use crate::commit::refetch::refetch;
use crate::index::StoreIndexes;
use crate::lane::stream_time;
use crate::runtime::failpoint::Failpoint;
use crate::runtime::shared::Shared;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{Epoch, Error, ErrorKind, Guarantee, Result, Serde, StoreId, Timestamp};
use stoatflow_log::{Broker, CommitOutcome, CutEntry, Producer, ProducerRecord};
use stoatflow_protocol::{CommitMachine, CommitOrder, Decision, Step};
use stoatflow_state::{Backend, EpochBatch, KeyRange, KeyValueStore, Sealed};

/// How often the producer is polled while it has unacknowledged records.
const PENDING_POLL: Duration = Duration::from_millis(1);

/// How often the local stores are marked as current.
const NOTE_CURRENT_EVERY_MS: i64 = 60_000;

/// A store and its changelog topic.
#[derive(Clone, Debug)]
pub struct LoggedStore {
    /// The store.
    pub store: Arc<KeyValueStore>,
    /// The changelog topic; `None` if it has none of its own.
    pub changelog: Option<Arc<str>>,
    /// The topic that it is restored from instead: a table's own source.
    pub source: Option<SourceTopic>,
    /// Do its rows wait for a time or an answer? Then deleting a row says that its result was
    /// emitted.
    pub waiting: bool,
    /// Its indexes, if it has some.
    pub indexes: Option<Arc<StoreIndexes>>,
}

/// A compacted topic that a table is read from and restored from.
#[derive(Clone, Debug)]
pub struct SourceTopic {
    /// The topic.
    pub topic: Arc<str>,
    /// Serde of its keys.
    pub key: Serde,
    /// Serde of its values.
    pub value: Serde,
}

impl LoggedStore {
    /// The topic that it is restored from.
    #[must_use]
    pub fn restored_from(&self) -> Option<&Arc<str>> {
        let source = self.source.as_ref().map(|source| &source.topic);
        self.changelog.as_ref().or(source)
    }

    /// Does this write delete a row that waited?
    fn is_over(&self, write: &Sealed) -> bool {
        self.waiting && write.changelog && write.value.is_none()
    }
}

/// A row in the store of times: does it say that something waits from now on?
fn waits_now(write: &Sealed) -> bool {
    !stream_time::is_time(&write.key) && write.value.is_some()
}

/// What it is built from.
pub struct CommitParts {
    /// Shared by all parts of the run.
    pub shared: Arc<Shared>,
    /// The producer; opening it has fenced older ones.
    pub producer: Box<dyn Producer>,
    /// Only for a producer without transactional fencing.
    pub guard: Option<InstanceGuard>,
    /// The local back end.
    pub backend: Arc<dyn Backend>,
    /// Stores by number.
    pub stores: Vec<LoggedStore>,
    /// The store of stream times.
    pub times: Option<StoreId>,
    /// `application.id`, which is also the consumer group.
    pub group: String,
    /// `processing.guarantee`.
    pub guarantee: Guarantee,
    /// `commit.timeout.ms`.
    pub timeout: Duration,
    /// How many lanes must seal.
    pub lanes: u32,
    /// The order of steps.
    pub order: CommitOrder,
    /// For fetching the records of dead letters again.
    pub broker: Arc<dyn Broker>,
    /// The offsets topic, if the broker expires committed offsets.
    pub offsets: Option<OffsetsTopic>,
}

/// The writes of all lanes, and the key ranges that retention drops.
#[derive(Debug, Default)]
struct Writes {
    stores: Vec<(StoreId, Vec<Sealed>)>,
    drops: Vec<(StoreId, KeyRange)>,
}

#[derive(Debug, Default)]
struct Cut {
    entries: Vec<CutEntry>,
    records: u64,
    at: Duration,
}

/// See the module.
pub struct CommitRoom {
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
    seals: u32,
    outputs: u64,
    /// Of the commit under way.
    deadline: Option<Deadline>,
    /// Bytes of the in-flight budget held by records that aren't acknowledged.
    unacknowledged: i64,
    /// The broker's time at which local stores were last marked as current.
    current_at: Option<Timestamp>,
    /// How often producer epochs have been exhausted in this run.
    rollovers: u64,
}

impl CommitRoom {
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
            parts.producer.note_end(&at.topic, at.partition, end);
        }
        Self {
            machine: CommitMachine::new(parts.order),
            open: Epoch(1),
            begun: false,
            inbox: VecDeque::new(),
            held: VecDeque::new(),
            cut: None,
            sealed: Writes::default(),
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
    pub(crate) const fn producer(&mut self) -> &mut Box<dyn Producer> {
        &mut self.parts.producer
    }

    /// Handles what waits in the outbox; commits an epoch when all of it is there. Waits at most
    /// this long for something to do. True if anything was done.
    ///
    /// # Errors
    /// What the producer and the back end fail with. The transaction is aborted where that is right.
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
            let kept = i64::try_from(self.parts.producer.pursue()?).unwrap_or(i64::MAX);
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
                at,
            } => {
                assert_eq!(epoch, self.open, "an epoch is committed as a whole");
                self.cut = Some(Cut {
                    entries: cut,
                    records,
                    at,
                });
            }
            OutboxItem::Sealed {
                epoch,
                stores,
                drops,
                ..
            } => {
                assert_eq!(epoch, self.open, "an epoch is committed as a whole");
                self.seals += 1;
                self.sealed.stores.extend(stores);
                self.sealed.drops.extend(drops);
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

    /// Of the commit under way; between commits: of one that begins now.
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
                        .with_barrier(|b| b.step = Some(format!("{step:?}").to_lowercase()));
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

    fn execute(&mut self, step: Step, cut: &Cut, sealed: &Writes) -> Result<()> {
        self.parts.shared.failpoints.reach(place_before(step))?;
        match step {
            Step::Changelog => {
                self.send_changelog(&sealed.stores)?;
                if self.parts.guarantee == Guarantee::ExactlyOnceV2 {
                    self.send_positions(&cut.entries)?;
                }
                Ok(())
            }
            Step::Flush => self.flush(),
            Step::Offsets => {
                self.begin()?;
                if self.parts.guarantee == Guarantee::ExactlyOnceV2 {
                    // On their way while the group's coordinator answers.
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
            Step::Commit => {
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
            Step::Apply => self.apply(sealed, cut),
            Step::Announce => Ok(()),
        }
    }

    fn apply(&mut self, sealed: &Writes, cut: &Cut) -> Result<()> {
        let mut batch = EpochBatch {
            epoch: self.open,
            drops: sealed.drops.clone(),
            ..EpochBatch::default()
        };
        for (id, writes) in &sealed.stores {
            batch.writes.push((
                *id,
                writes.iter().map(KeyValueStore::stored_bytes).collect(),
            ));
        }
        for logged in &self.parts.stores {
            if let Some(topic) = &logged.changelog {
                let positions = self.parts.producer.acknowledged(topic);
                batch.positions.extend(
                    positions
                        .into_iter()
                        .map(|(p, o)| (logged.store.id(), p, o)),
                );
            }
            if let Some(SourceTopic { topic, .. }) = &logged.source {
                let read = (cut.entries.iter()).filter(|e| e.partition.topic == *topic);
                let store = logged.store.id();
                (batch.positions).extend(read.map(|e| (store, e.partition.partition, e.offset)));
            }
        }
        (self.parts.shared.failpoints).reach(Failpoint::CommitDuringApply)?;
        let reached = cut.entries.iter();
        let reached = reached.map(|entry| (entry.partition.clone(), entry.offset));
        let (shared, backend) = (&self.parts.shared, self.parts.backend.as_ref());
        (shared.followers).apply(&shared.snapshot_lock, batch, reached.collect(), backend)?;
        self.note_current()
    }

    /// Marks the local stores as current now and then: see [`stoatflow_protocol::Age`].
    fn note_current(&mut self) -> Result<()> {
        let Some(now) = self.parts.producer.append_time() else {
            return Ok(());
        };
        let due = |then: Timestamp| now.0.saturating_sub(then.0) >= NOTE_CURRENT_EVERY_MS;
        if self.current_at.is_some_and(|then| !due(then)) {
            return Ok(());
        }
        let logged = (self.parts.stores.iter()).filter(|s| s.restored_from().is_some());
        let stores: Vec<StoreId> = logged.map(|s| s.store.id()).collect();
        self.current_at = Some(now);
        self.parts.backend.note_current(&stores, now)
    }

    fn done(&mut self, epoch: Epoch, mut status: CommitStatus, cut: &Cut) {
        for logged in &self.parts.stores {
            logged.store.committed(epoch);
        }
        let shared = &self.parts.shared;
        status.outputs = self.outputs;
        status.at_ms = shared.clock.now().0;
        shared.last_align_us.store(status.align_us, Relaxed);
        shared
            .last_commit_us
            .store(status.commit_us + status.apply_us, Relaxed);
        let now = u64::try_from(shared.clock.monotonic().as_millis()).unwrap_or(u64::MAX);
        shared.status.progress_ms.store(now, Relaxed);
        let rollovers = self.parts.producer.rollovers();
        let new = rollovers - std::mem::replace(&mut self.rollovers, rollovers);
        shared.status.rollovers.fetch_add(new, Relaxed);
        shared.status.committed(status);
        shared.status.with_partitions(|known| {
            for (partition, entry) in known.iter_mut().zip(&cut.entries) {
                partition.committed = entry.offset.0;
            }
        });
        shared
            .status
            .state_memory_bytes
            .store(self.parts.backend.memory_bytes(), Relaxed);
        shared.status.with_barrier(|b| {
            b.in_flight = None;
            b.step = None;
            b.committed = Some(epoch.0);
        });
        self.open = epoch.next();
        self.deadline = None;
        self.seals = 0;
        self.outputs = 0;
        shared.set_committed(epoch);
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

const fn place_before(step: Step) -> Failpoint {
    match step {
        Step::Changelog => Failpoint::CommitBeforeChangelog,
        Step::Flush => Failpoint::CommitBeforeFlush,
        Step::Offsets => Failpoint::CommitBeforeOffsets,
        Step::Commit => Failpoint::CommitBeforeCommit,
        Step::Apply => Failpoint::CommitBeforeApply,
        Step::Announce => Failpoint::CommitAfterApply,
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
