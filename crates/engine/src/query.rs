//! Reads committed state from outside the engine.
//!
//! Reads from a snapshot as of the last commit, while lanes and commits continue. Snapshots end with the
//! run, so that the state can be closed even while a reader holds one. Uncommitted writes are never
//! visible.

mod cached_snapshot;
mod committed;
mod find;
mod follower;
pub mod followers;
mod reader;
mod snapshot_backend;
#[cfg(test)]
mod tests;

use cached_snapshot::CachedSnapshot;
pub use committed::{CommittedCut, SnapshotLock};
pub use find::{Explained, FoundPage, FoundRow};
pub use follower::{ChangeBatch, ChangedRow, FollowSpec, Follower};
pub use reader::{EntryPage, KeySpan, StoreReader, TimedEntry, TimedPage, TimedSpan, readable};

use crate::index::index_stores;
use crate::lane::stream_time::{self, Timing};
use crate::runtime::shared::Shared;
use parking_lot::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;
use stoatflow_core::{Error, Offset, Result, StoreId, TopicPartition};
use stoatflow_operators::offload::{Listing, Parked};
use stoatflow_operators::{
    ForeignCode, OpenSnapshot, StoreBatches, StoreQuery, other_task_marker_key,
};
use stoatflow_plan::{Column, PhysicalPlan, Store};
use stoatflow_state::{Backend, KeyRange};

/// A request for a store's rows.
#[derive(Clone, Debug)]
pub struct StoreRequest {
    /// The store's name.
    pub store: String,
    /// The columns of its values; `None`: inferred from the values.
    pub schema: Option<Vec<Column>>,
    /// Maximum rows per batch.
    pub max_rows: usize,
}

impl StoreRequest {
    /// Opens a snapshot of the stores that the request needs.
    ///
    /// # Errors
    /// `Config` if the store can't be read like this; errors of `open` and the state.
    pub fn of(
        self,
        plan: &PhysicalPlan,
        foreign: &ForeignCode,
        open: impl FnOnce(&[StoreId]) -> Result<Arc<OpenSnapshot>>,
    ) -> Result<StoreBatches> {
        let Self {
            store,
            schema,
            max_rows,
        } = self;
        let query = StoreQuery::new(plan, foreign, &store, schema, max_rows)?;
        let open = open(&with_times(plan, query.store()))?;
        let observed = observed(plan, query.store(), &open)?;
        query.ask(open, observed)
    }
}

/// The store, its indexes, and the store of stream times: the stores that a snapshot of it needs.
fn with_times(plan: &PhysicalPlan, store: &Store) -> Vec<StoreId> {
    let times = store.clock.and_then(|_| Timing::new(plan).store);
    let indexes = index_stores(plan).into_iter();
    let indexes = indexes.filter(|(_, of, _)| of.id == store.id);
    let beside = times.into_iter().chain(indexes.map(|(id, ..)| id));
    std::iter::once(store.id).chain(beside).collect()
}

/// The stream times that a store has seen, by task.
fn observed(plan: &PhysicalPlan, store: &Store, open: &OpenSnapshot) -> Result<Vec<i64>> {
    let times = store.clock.and_then(|_| Timing::new(plan).store);
    let clock = store.clock;
    let clock = clock.and_then(|clock| plan.clocks.get(usize::from(clock.0)));
    let (Some(times), Some(clock)) = (times, clock) else {
        return Ok(Vec::new());
    };
    open.read(|snapshot| {
        let name = clock.name.as_bytes();
        let Some(row) = snapshot.get(times, name)? else {
            return Ok(Vec::new());
        };
        let observed = stream_time::stream_times(&row)?;
        if snapshot.get(times, &other_task_marker_key(name))?.is_none() {
            return Ok(observed);
        }
        // A row's task isn't known, so a row is hidden only if every task would hide it.
        let seen = observed.into_iter().filter(|time| *time >= 0);
        Ok(seen.min().into_iter().collect())
    })
}

/// A snapshot of some or all stores, as of one commit.
#[derive(Clone, Debug)]
pub struct CommittedSnapshot {
    open: Arc<OpenSnapshot>,
    cut: Arc<CommittedCut>,
    run: u64,
    /// True if other readers may share it.
    is_shared: bool,
}

impl CommittedSnapshot {
    /// The epoch and the input positions that it reflects.
    #[must_use]
    pub fn cut(&self) -> &CommittedCut {
        &self.cut
    }

    /// The number of the run in this process. Each run counts its epochs from 1.
    #[must_use]
    pub const fn run(&self) -> u64 {
        self.run
    }

    /// A reader of one store.
    ///
    /// # Errors
    /// `Config` if there is no such store, if it can't be read like this, or if the run has ended.
    pub fn reader(
        &self,
        plan: &PhysicalPlan,
        foreign: &ForeignCode,
        store: &str,
    ) -> Result<StoreReader> {
        self.reader_as(plan, foreign, plan.store_named(store)?)
    }

    /// As [`Self::reader`], for a store of the plan whose serdes may have been replaced.
    ///
    /// # Errors
    /// As [`Self::reader`].
    pub fn reader_as(
        &self,
        plan: &PhysicalPlan,
        foreign: &ForeignCode,
        store: &Store,
    ) -> Result<StoreReader> {
        self.open.read(|_| Ok(()))?;
        let observed = observed(plan, store, &self.open)?;
        StoreReader::new((plan, store), foreign, Arc::clone(&self.open), observed)
    }

    /// The same state, for a reader that must not wait for the disk, and a flag. A read that would have to
    /// wait fails and sets the flag.
    #[must_use]
    pub fn cached(&self) -> (Self, Arc<AtomicBool>) {
        let (cached, is_on_disk) = CachedSnapshot::new(Arc::clone(&self.open));
        let of = Self {
            open: OpenSnapshot::new(Box::new(cached)),
            ..self.clone()
        };
        (of, is_on_disk)
    }

    /// Whether it can still be read.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.read(|_| Ok(())).is_ok()
    }

    /// Releases it; later reads fail. A shared snapshot stays open until its last reader drops it.
    pub fn close(&self) {
        if !self.is_shared {
            self.open.close();
        }
    }
}

/// The state of the current run, and its open snapshots.
#[derive(Debug, Default)]
pub struct StoreReaders(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Option<Weak<dyn Backend>>,
    shared: Option<Arc<Shared>>,
    open: Vec<Weak<OpenSnapshot>>,
    /// Number of runs so far.
    runs: u64,
}

impl StoreReaders {
    /// A run begins.
    pub fn begin(&self, state: &Arc<dyn Backend>, shared: &Arc<Shared>) {
        let mut inner = self.0.lock();
        inner.state = Some(Arc::downgrade(state));
        inner.shared = Some(Arc::clone(shared));
        inner.runs += 1;
    }

    /// The run ends: all snapshots are closed when this returns.
    pub fn end(&self) {
        let mut inner = self.0.lock();
        let runs = inner.runs;
        let Inner {
            state,
            shared,
            open,
            ..
        } = std::mem::take(&mut *inner);
        inner.runs = runs;
        drop(inner);
        drop((state, shared));
        for snapshot in open.iter().filter_map(Weak::upgrade) {
            snapshot.close();
        }
    }

    /// The back end of the current run.
    ///
    /// # Errors
    /// `Config` if nothing runs.
    pub fn state(&self) -> Result<Arc<dyn Backend>> {
        self.0.lock().running()
    }

    /// Reads the rows of a store in batches.
    ///
    /// # Errors
    /// `Config` if nothing runs, or as [`StoreRequest::of`].
    pub fn ask(
        &self,
        plan: &PhysicalPlan,
        foreign: &ForeignCode,
        question: StoreRequest,
    ) -> Result<StoreBatches> {
        question.of(plan, foreign, |stores| Ok(self.take(stores, false)?.open))
    }

    /// A snapshot of a store, or of all of them. That of one store is shared with other readers if it is
    /// kept on disk.
    ///
    /// # Errors
    /// `Config` if nothing runs, or if there is no such store.
    pub fn snapshot(&self, plan: &PhysicalPlan, store: Option<&str>) -> Result<CommittedSnapshot> {
        if let Some(name) = store {
            return self.take(&with_times(plan, plan.store_named(name)?), true);
        }
        let all = plan.stores.iter().map(|store| store.id);
        let indexes = index_stores(plan).into_iter().map(|(id, ..)| id);
        let stores: Vec<_> = all.chain(Timing::new(plan).store).chain(indexes).collect();
        self.take(&stores, false)
    }

    /// The snapshot of a store that readers share, if there is one. Never waits.
    #[must_use]
    pub fn shared_snapshot(&self, plan: &PhysicalPlan, store: &Store) -> Option<CommittedSnapshot> {
        let inner = self.0.try_lock()?;
        inner.running().ok()?;
        let (shared, run) = (inner.shared.clone()?, inner.runs);
        drop(inner);
        let (open, cut) = shared.snapshot_lock.shared(&with_times(plan, store))?;
        Some(CommittedSnapshot {
            open,
            cut,
            run,
            is_shared: true,
        })
    }

    /// Waits while an epoch is applied, without blocking other readers. Doesn't wait for a snapshot that
    /// is already shared.
    fn take(&self, stores: &[StoreId], share: bool) -> Result<CommittedSnapshot> {
        let inner = self.0.lock();
        let share = share && !inner.running()?.snapshot_forces_copy(stores);
        let (shared, run) = (inner.shared.clone(), inner.runs);
        drop(inner);
        let open = || self.0.lock().open(stores, run);
        let lock = shared.as_ref().map(|shared| &shared.snapshot_lock);
        let (open, cut) = match lock {
            Some(lock) if share => match lock.shared(stores) {
                Some(found) => found,
                None => lock.share(stores, open)?,
            },
            Some(lock) => lock.take(open)?,
            None => (open()?, Arc::default()),
        };
        let is_shared = share && shared.is_some();
        Ok(CommittedSnapshot {
            open,
            cut,
            run,
            is_shared,
        })
    }

    /// Follows a store from the committed epoch on. Its serdes may have been replaced.
    ///
    /// # Errors
    /// `Config` if nothing runs, or if the store can't be followed; `Serde` for keys that it can't
    /// encode.
    pub fn follow(
        &self,
        plan: &PhysicalPlan,
        foreign: &ForeignCode,
        store: &Store,
        spec: &FollowSpec,
    ) -> Result<Follower> {
        let keys = spec.keys_of(store, foreign)?;
        let inner = self.0.lock();
        inner.running()?;
        let run = inner.runs;
        let shared = inner.shared.clone().ok_or_else(not_running)?;
        drop(inner);
        let stores = with_times(plan, store);
        let ((open, handle), cut) = shared.snapshot_lock.take(|| {
            let open = self.0.lock().open(&stores, run)?;
            let handle = (shared.followers).join(store.id, keys.clone(), spec.buffer_bytes);
            Ok((open, handle))
        })?;
        let snapshot = CommittedSnapshot {
            open,
            cut,
            run,
            is_shared: false,
        };
        let reader = snapshot.reader_as(plan, foreign, store)?;
        Follower::new(reader, snapshot, handle, (spec, keys))
    }

    /// The committed epoch that reads see, after waiting for one that is being applied; `None` if
    /// nothing runs.
    #[must_use]
    pub fn cut(&self) -> Option<Arc<CommittedCut>> {
        let inner = self.0.lock();
        inner.running().ok()?;
        let shared = inner.shared.clone()?;
        drop(inner);
        let ((), cut) = shared.snapshot_lock.take(|| Ok(())).ok()?;
        Some(cut)
    }

    /// Whether the input before these positions is committed. Never waits: false if that can't be
    /// checked at once.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn is_committed(&self, wanted: &[(TopicPartition, Offset)]) -> Result<bool> {
        let Some(inner) = self.0.try_lock() else {
            return Ok(false);
        };
        inner.running()?;
        let now = (inner.shared.as_ref()).and_then(|shared| shared.snapshot_lock.try_now());
        now.map_or(Ok(false), |now| now.has(wanted))
    }

    /// Waits until the input before these positions is committed; false if it wasn't in time.
    ///
    /// # Errors
    /// `Config` if nothing runs, or for a partition that isn't read.
    pub fn wait(&self, wanted: &[(TopicPartition, Offset)], timeout: Duration) -> Result<bool> {
        let inner = self.0.lock();
        inner.running()?;
        let Some(shared) = inner.shared.clone() else {
            return Ok(false);
        };
        drop(inner);
        let clock = shared.clock.as_ref();
        let over = || shared.run.has_ended();
        (shared.snapshot_lock).wait(wanted, timeout, clock, over)
    }
}

impl Inner {
    /// Runs under the lock, so that the end of the run finds the new snapshot.
    fn open(&mut self, stores: &[StoreId], run: u64) -> Result<Arc<OpenSnapshot>> {
        let state = self.running()?;
        if self.runs != run {
            // The caller's positions are those of an earlier run.
            return Err(not_running());
        }
        let open = OpenSnapshot::new(state.snapshot(stores)?);
        self.open.retain(|other| other.strong_count() > 0);
        self.open.push(Arc::downgrade(&open));
        Ok(open)
    }

    fn running(&self) -> Result<Arc<dyn Backend>> {
        let state = self.state.as_ref().and_then(Weak::upgrade);
        state.ok_or_else(not_running)
    }
}

fn not_running() -> Error {
    Error::config("this application is not running, so its state can't be read")
        .hint("ask again when its state is RUNNING")
}

/// All entries of a listing.
///
/// # Errors
/// Errors of the state.
pub fn read_listing(listing: &Listing, state: &dyn Backend) -> Result<Vec<Parked>> {
    let rows = state.scan(listing.store, &KeyRange::default(), usize::MAX)?;
    let entries = rows.iter();
    entries
        .map(|(row, stored)| listing.entry(row, stored))
        .collect()
}
