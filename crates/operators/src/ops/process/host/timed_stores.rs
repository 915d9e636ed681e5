//! The stream times by which the rows of a processor's stores expire.
//!
//! Uses the record that the processor is called for and the clocks of its stores; returns views of
//! window, session and versioned stores as of these times.

use super::Host;
use crate::LaneStore;
use crate::ops::process::processor_env::Connected;
use bytes::Bytes;
use stoatflow_core::Result;
use stoatflow_state::{Dirty, SessionView, VersionedView, WindowView};

impl Host<'_, '_> {
    /// The stream time by which rows of a key expire. Without a key: the lowest of all tasks, or that of
    /// the task that is scanned.
    pub(super) fn observed(&self, store: &Connected, key: Option<&Bytes>) -> i64 {
        let clocks = &self.context.clocks;
        match (key, self.task.filter(|_| self.scans.is_some())) {
            (Some(key), _) => clocks.stream(store.clock, self.task(store, key)),
            (None, Some(task)) => clocks.stream(store.clock, task),
            (None, None) => clocks.lowest(store.clock),
        }
    }

    /// Notes that a store has taken a row with this time.
    pub(super) fn see(&mut self, store: &Connected, key: &Bytes, time: i64) -> Result<()> {
        let task = self.task(store, key);
        self.context.clocks.see(store.clock, task, time);
        self.watch_key(store, key)
    }

    pub(super) fn windows(
        &mut self,
        store: &Connected,
        key: Option<&Bytes>,
    ) -> Result<(WindowView<'_>, &mut Dirty)> {
        let (epoch, observed) = (self.context.epoch, self.observed(store, key));
        let LaneStore {
            store: shared,
            dirty,
        } = self.context.store(store.id);
        Ok((WindowView::new(shared, epoch, observed)?, dirty))
    }

    pub(super) fn sessions(
        &mut self,
        store: &Connected,
        key: Option<&Bytes>,
    ) -> Result<(SessionView<'_>, &mut Dirty)> {
        let (epoch, observed) = (self.context.epoch, self.observed(store, key));
        let LaneStore {
            store: shared,
            dirty,
        } = self.context.store(store.id);
        Ok((SessionView::new(shared, epoch, observed)?, dirty))
    }

    pub(super) fn versions(
        &mut self,
        store: &Connected,
        key: Option<&Bytes>,
    ) -> Result<(VersionedView<'_>, &mut Dirty)> {
        let (epoch, observed) = (self.context.epoch, self.observed(store, key));
        let LaneStore {
            store: shared,
            dirty,
        } = self.context.store(store.id);
        Ok((VersionedView::new(shared, epoch, observed)?, dirty))
    }
}
