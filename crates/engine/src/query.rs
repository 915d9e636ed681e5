//! Reads committed state from outside the engine.
//!
//! Reads from a snapshot as of the last commit, while lanes and commits continue. Snapshots end
//! with the run, so that the state can be closed even if a reader is still held. Uncommitted writes
//! are never visible.

mod committed;
mod reader;
mod snapshot_backend;

pub use committed::{CommittedCut, SnapshotLock};
pub use reader::{EntryPage, KeySpan, StoreReader, readable};

use crate::lane::stream_time::{self, Timing};
use crate::runtime::shared::Shared;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Duration;
use stoatflow_core::{Error, Offset, Result, StoreId, TopicPartition};
use stoatflow_operators::offload::{Listing, Parked};
use stoatflow_operators::{Foreign, OpenSnapshot, StoreBatches, StoreQuery, away_row};
use stoatflow_plan::{Column, PhysicalPlan, Store};
use stoatflow_state::{Backend, KeyRange};

/// A request for a store's rows.
#[derive(Clone, Debug)]
pub struct StoreRequest {
    /// The store's name.
    pub store: String,
    /// The columns of its values; `None`: inferred from the values.
    pub schema: Option<Vec<Column>>,
    /// Most rows per batch.
    pub max_rows: usize,
}

impl StoreRequest {
    /// Opens a snapshot of the stores it needs.
    ///
    /// # Errors
    /// `Config` if that can't be asked, and what `open` and the state fail with.
    pub fn of(
        self,
        plan: &PhysicalPlan,
        foreign: &Foreign,
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

/// The store, and the one with the times of this commit.
fn with_times(plan: &PhysicalPlan, store: &Store) -> Vec<StoreId> {
    let times = store.clock.and(Timing::new(plan).store);
    std::iter::once(store.id).chain(times).collect()
}

/// The highest times that a store has seen, by task.
fn observed(plan: &PhysicalPlan, store: &Store, open: &OpenSnapshot) -> Result<Vec<i64>> {
    let times = store.clock.and(Timing::new(plan).store);
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
        if snapshot.get(times, &away_row(name))?.is_none() {
            return Ok(observed);
        }
        // A row's task isn't known, so a row is hidden only if every task would hide it.
        let seen = observed.into_iter().filter(|time| *time >= 0);
        Ok(seen.min().into_iter().collect())
    })
}

/// One committed epoch, of some stores or of all.
#[derive(Clone, Debug)]
pub struct CommittedSnapshot {
    open: Arc<OpenSnapshot>,
    cut: Arc<CommittedCut>,
}

impl CommittedSnapshot {
    /// The epoch and its input.
    #[must_use]
    pub fn cut(&self) -> &CommittedCut {
        &self.cut
    }

    /// Reads a store of it.
    ///
    /// # Errors
    /// `Config` if there is no such store, if it can't be read so, or if the run has ended.
    pub fn reader(
        &self,
        plan: &PhysicalPlan,
        foreign: &Foreign,
        store: &str,
    ) -> Result<StoreReader> {
        let store = plan.store_named(store)?;
        self.open.read(|_| Ok(()))?;
        let observed = observed(plan, store, &self.open)?;
        StoreReader::new(store, foreign, Arc::clone(&self.open), observed)
    }

    /// Lets it go; later reads get an error.
    pub fn close(&self) {
        self.open.close();
    }
}

/// The state of the current run, and its open readers.
#[derive(Debug, Default)]
pub struct StoreReaders(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Option<Weak<dyn Backend>>,
    shared: Option<Arc<Shared>>,
    open: Vec<Weak<OpenSnapshot>>,
}

impl StoreReaders {
    /// A run has started.
    pub fn begin(&self, state: &Arc<dyn Backend>, shared: &Arc<Shared>) {
        let mut inner = self.0.lock();
        inner.state = Some(Arc::downgrade(state));
        inner.shared = Some(Arc::clone(shared));
    }

    /// The run is over: the state is closed when this returns.
    pub fn end(&self) {
        let Inner {
            state,
            shared,
            open,
        } = std::mem::take(&mut *self.0.lock());
        drop((state, shared));
        for snapshot in open.iter().filter_map(Weak::upgrade) {
            snapshot.close();
        }
    }

    /// The state.
    ///
    /// # Errors
    /// `Config` if nothing runs.
    pub fn state(&self) -> Result<Arc<dyn Backend>> {
        self.0.lock().running()
    }

    /// Reads a store.
    ///
    /// # Errors
    /// `Config` if nothing runs, or as [`StoreRequest::of`].
    pub fn ask(
        &self,
        plan: &PhysicalPlan,
        foreign: &Foreign,
        question: StoreRequest,
    ) -> Result<StoreBatches> {
        question.of(plan, foreign, |stores| Ok(self.0.lock().take(stores)?.open))
    }

    /// One committed epoch of a store, or of all of them.
    ///
    /// # Errors
    /// `Config` if nothing runs, or if there is no such store.
    pub fn snapshot(&self, plan: &PhysicalPlan, store: Option<&str>) -> Result<CommittedSnapshot> {
        let stores = match store {
            Some(name) => with_times(plan, plan.store_named(name)?),
            None => {
                let all = plan.stores.iter().map(|store| store.id);
                all.chain(Timing::new(plan).store).collect()
            }
        };
        self.0.lock().take(&stores)
    }

    /// Waits until input before these positions is committed; false: it was not in time.
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
    /// Under the lock, so that the end of the run finds what was opened.
    fn take(&mut self, stores: &[StoreId]) -> Result<CommittedSnapshot> {
        let state = self.running()?;
        let (snapshot, cut) = match &self.shared {
            Some(shared) => (shared.snapshot_lock).take(|| state.snapshot(stores))?,
            None => (state.snapshot(stores)?, Arc::default()),
        };
        let open = OpenSnapshot::new(snapshot);
        self.open.retain(|other| other.strong_count() > 0);
        self.open.push(Arc::downgrade(&open));
        Ok(CommittedSnapshot { open, cut })
    }

    fn running(&self) -> Result<Arc<dyn Backend>> {
        self.state.as_ref().and_then(Weak::upgrade).ok_or_else(|| {
            Error::config("this application is not running, so its state can't be read")
                .hint("ask again when its state is RUNNING")
        })
    }
}

/// All entries of a listing.
///
/// # Errors
/// What the state fails with.
pub fn read_listing(listing: &Listing, state: &dyn Backend) -> Result<Vec<Parked>> {
    let rows = state.scan(listing.store, &KeyRange::default(), usize::MAX)?;
    let entries = rows.iter();
    entries
        .map(|(row, stored)| listing.entry(row, stored))
        .collect()
}
