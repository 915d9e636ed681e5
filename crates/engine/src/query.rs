//! Reads of committed state from outside.
//!
//! Takes a question about a store, gives its rows as of the last commit: from a snapshot, so that lanes and commits go on
//! meanwhile. Owns what is open of the run that is on: when the run ends, snapshots are let go of, and the state can be
//! closed, whoever still holds a reader. Never sees what is not committed.

use crate::lane::stream_time::{self, Timing};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use stoatflow_core::{Error, Result, StoreId};
use stoatflow_operators::offload::{Listing, Parked};
use stoatflow_operators::{Foreign, OpenSnapshot, StoreBatches, StoreQuery, away_row};
use stoatflow_plan::{Column, PhysicalPlan};
use stoatflow_state::{Backend, KeyRange};

/// What is asked.
#[derive(Clone, Debug)]
pub struct StoreRequest {
    /// The store's name.
    pub store: String,
    /// The columns of its values; `None`: the values tell.
    pub schema: Option<Vec<Column>>,
    /// Rows per batch, at most.
    pub max_rows: usize,
}

impl StoreRequest {
    /// Reads from a snapshot of the stores that it needs.
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
        // Times are written with the epoch whose records have moved them.
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
                // Which task a row is in isn't known: hidden is what all of them hide.
                let seen = observed.into_iter().filter(|time| *time >= 0);
                Ok(seen.min().into_iter().collect())
            })?,
            _ => Vec::new(),
        };
        query.ask(open, observed)
    }
}

/// The state of the run that is on, and who reads it.
#[derive(Debug, Default)]
pub struct StoreReaders(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Option<Weak<dyn Backend>>,
    open: Vec<Weak<OpenSnapshot>>,
}

impl StoreReaders {
    /// A run has begun.
    pub fn begin(&self, state: &Arc<dyn Backend>) {
        self.0.lock().state = Some(Arc::downgrade(state));
    }

    /// The run is over: the state is closed as soon as this returns.
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

    /// Reads.
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
            // Under the lock: a run that ends meanwhile must find what was opened.
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
