//! Queries of the committed state of a running application.

use super::Engine;
use crate::query::{
    CommittedCut, CommittedSnapshot, FollowSpec, Follower, StoreReader, StoreReaders, StoreRequest,
    read_listing, readable,
};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Result, TopicPartition};
use stoatflow_operators::StoreBatches;
use stoatflow_operators::offload::{self, Parked};
use stoatflow_plan::{Store, StoreKind};
use stoatflow_protocol::Lifecycle;

impl Engine {
    /// The records that an offload has parked, as of the last commit.
    ///
    /// # Errors
    /// `Config` if there is no such offload, or nothing runs; errors of the state.
    pub fn parked(&self, offload: &str) -> Result<Vec<Parked>> {
        let spec = &self.inner.spec;
        let listing = offload::parked(&spec.plan, &spec.foreign, offload)?;
        read_listing(&listing, self.inner.readers.state()?.as_ref())
    }

    /// The rows of a store, as of the last commit.
    ///
    /// # Errors
    /// `Config` if there is no such store, or nothing runs; errors of the state.
    pub fn store_batches(&self, question: StoreRequest) -> Result<StoreBatches> {
        let spec = &self.inner.spec;
        let (plan, foreign) = (&spec.plan, &spec.foreign);
        self.inner.readers.ask(plan, foreign, question)
    }

    /// A snapshot of one committed epoch, of a store or of all stores; if positions are given, of an
    /// epoch that has all input before them.
    ///
    /// # Errors
    /// `Config` if nothing runs, if there is no such store or partition, or if the positions are not
    /// committed in time; errors of the state.
    pub fn snapshot(
        &self,
        store: Option<&str>,
        at_least: &[(TopicPartition, Offset)],
        timeout: Duration,
    ) -> Result<CommittedSnapshot> {
        self.once_committed(at_least, timeout, |readers| {
            readers.snapshot(&self.inner.spec.plan, store)
        })
    }

    /// Follows a store from a committed epoch on; if positions are given, from one that has all input
    /// before them.
    ///
    /// # Errors
    /// As [`Self::snapshot`]; `Config` if the store can't be followed, `Serde` for keys that it can't have.
    pub fn follow(
        &self,
        store: &str,
        spec: &FollowSpec,
        at_least: &[(TopicPartition, Offset)],
        timeout: Duration,
    ) -> Result<Follower> {
        let store = self.inner.spec.plan.store_named(store)?;
        self.once_committed(at_least, timeout, |_| self.follow_as(store, spec))
    }

    /// Likewise, without waiting for positions, for a store of the plan whose serdes may be others.
    ///
    /// # Errors
    /// As [`Self::follow`].
    pub(super) fn follow_as(&self, store: &Store, spec: &FollowSpec) -> Result<Follower> {
        let run = &self.inner.spec;
        (self.inner.readers).follow(&run.plan, &run.foreign, store, spec)
    }

    /// Calls `ask` once these positions are committed.
    fn once_committed<T>(
        &self,
        at_least: &[(TopicPartition, Offset)],
        timeout: Duration,
        ask: impl FnOnce(&StoreReaders) -> Result<T>,
    ) -> Result<T> {
        let readers = &self.inner.readers;
        let taken = || {
            if !at_least.is_empty() && !readers.wait(at_least, timeout)? {
                return Err(Error::config(format!(
                    "what at_least asks for was not committed within {} ms",
                    timeout.as_millis()
                ))
                .hint("wait longer with timeout=, or look at app.lag() and app.state"));
            }
            ask(readers)
        };
        let restores = self.inner.status.state() == Lifecycle::Restoring;
        taken().map_err(|error| if restores { restoring() } else { error })
    }

    /// The committed epoch that reads of stores see now; `None` if nothing runs. The broker has it a
    /// moment earlier.
    #[must_use]
    pub fn visible_cut(&self) -> Option<Arc<CommittedCut>> {
        self.inner.readers.cut()
    }

    /// The kind of a store that can be read.
    ///
    /// # Errors
    /// `Config` if there is no such store, or if only its operator can read it.
    pub fn store_kind(&self, store: &str) -> Result<StoreKind> {
        readable(self.inner.spec.plan.store_named(store)?)
    }

    /// Reads a store of a snapshot.
    ///
    /// # Errors
    /// As [`CommittedSnapshot::reader`].
    pub fn reader(&self, of: &CommittedSnapshot, store: &str) -> Result<StoreReader> {
        let spec = &self.inner.spec;
        of.reader(&spec.plan, &spec.foreign, store)
    }
}

fn restoring() -> Error {
    Error::config("the stores of this application are being restored, so they can't be read yet")
        .hint("ask again when its state is RUNNING")
}
