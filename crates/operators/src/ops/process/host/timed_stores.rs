//! By which time the rows of a processor's stores expire.
//!
//! Takes the record that the processor is called for and the clocks of its stores, gives views of window,
//! session and versioned stores as of that time.

use super::Host;
use crate::LaneStore;
use crate::ops::process::processor_env::Connected;
use bytes::Bytes;
use stoatflow_core::{Result, Task};
use stoatflow_state::{Dirty, SessionView, VersionedView, WindowView};

impl Host<'_, '_> {
    /// The task of a key: that of the record which the processor is called for, as in Kafka Streams.
    /// A schedule or a timer is called for none.
    pub(super) fn task(&self, store: &Connected, key: &Bytes) -> Task {
        match self.place {
            Some(place) => place.task(),
            None => self.context.clocks.task_of(store.clock, key),
        }
    }

    /// By which time rows of a key have expired; of all keys: what has expired in every task.
    pub(super) fn observed(&self, store: &Connected, key: Option<&Bytes>) -> i64 {
        let clocks = &self.context.clocks;
        match key {
            Some(key) => clocks.stream(store.clock, self.task(store, key)),
            None => clocks.lowest(store.clock),
        }
    }

    /// A store has taken something of this time.
    pub(super) fn see(&mut self, store: &Connected, key: &Bytes, time: i64) {
        let task = self.task(store, key);
        self.context.clocks.see(store.clock, task, time);
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
