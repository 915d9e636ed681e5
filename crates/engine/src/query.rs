//! Reads committed state from outside the engine.
//!
//! Reads from a snapshot as of the last commit, while lanes and commits continue. Snapshots end
//! with the run, so that the state can be closed even if a reader is still held. Uncommitted writes
//! are never visible.

use crate::lane::stream_time::{self, Timing};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use stoatflow_core::{Error, Result, StoreId};
use stoatflow_operators::offload::{Listing, Parked};
use stoatflow_operators::{Foreign, OpenSnapshot, StoreBatches, StoreQuery, away_row};
use stoatflow_plan::{Column, PhysicalPlan};
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
        let clock = query.store().clock;
        // The times of this commit.
        let times = clock.and(Timing::new(plan).store);
        let stores: Vec<StoreId> = std::iter::once(query.store().id).chain(times).collect();
        let open = open(&stores)?;
        let clock = clock.and_then(|clock| plan.clocks.get(usize::from(clock.0)));
        let observed = match (times, clock) {
            (Some(times), Some(clock)) => open.read(|snapshot| {
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
            })?,
            _ => Vec::new(),
        };
        query.ask(open, observed)
    }
}

/// The state of the current run, and its open readers.
#[derive(Debug, Default)]
pub struct StoreReaders(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Option<Weak<dyn Backend>>,
    open: Vec<Weak<OpenSnapshot>>,
}

impl StoreReaders {
    /// A run has started.
    pub fn begin(&self, state: &Arc<dyn Backend>) {
        self.0.lock().state = Some(Arc::downgrade(state));
    }

    /// The run is over: the state is closed when this returns.
    pub fn end(&self) {
        let Inner { state, open } = std::mem::take(&mut *self.0.lock());
        drop(state);
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
        question.of(plan, foreign, |stores| {
            // Under the lock, so that the end of the run finds what was opened.
            let mut inner = self.0.lock();
            let opened = OpenSnapshot::new(inner.running()?.snapshot(stores)?);
            inner.open.retain(|other| other.strong_count() > 0);
            inner.open.push(Arc::downgrade(&opened));
            Ok(opened)
        })
    }
}

impl Inner {
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
