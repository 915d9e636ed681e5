//! The updates that each side of a table-table join has received in this epoch.
//!
//! A join must see each side as of the updates that have reached it. A store is ahead of them if it is
//! written in a lower stage, or if record caching holds its updates back. A join that read such a store
//! would miss deletions (when both sides are deleted, each deletion finds nothing) and would retract
//! rows that were never emitted. So a side is what it has reported in this epoch, and otherwise what it
//! was when the epoch began.
//!
//! Takes updates, returns the other side's newest one. Owns references to values for one epoch, one per
//! updated key. Never reads a store. Shared by the two sides of one lane, so its lock is always free.

use crate::ops::tables::table_update;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stoatflow_core::{Epoch, Record};
use stoatflow_state::Stored;

/// Current row of each key; `None`: deleted.
type Side = HashMap<Bytes, Option<Stored>>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct EpochUpdates {
    epoch: Epoch,
    left: Side,
    right: Side,
}

/// One for both sides.
pub(crate) type Shared = Arc<Mutex<EpochUpdates>>;

/// The updates of this epoch.
pub(crate) fn lock(shared: &Shared, epoch: Epoch) -> MutexGuard<'_, EpochUpdates> {
    let mut updates = shared.lock().unwrap_or_else(PoisonError::into_inner);
    if updates.epoch != epoch {
        *updates = EpochUpdates {
            epoch,
            ..EpochUpdates::default()
        };
    }
    updates
}

impl EpochUpdates {
    fn side(&mut self, left: bool) -> &mut Side {
        if left {
            &mut self.left
        } else {
            &mut self.right
        }
    }

    /// Records an update of a side.
    pub fn record_update(&mut self, left: bool, key: Bytes, update: &Record) {
        let new = table_update::new(&update.value);
        let now = (!new.is_null()).then(|| Stored {
            value: new.clone(),
            timestamp: update.timestamp,
        });
        self.side(left).insert(key, now);
    }

    /// The last update of a key on a side; `None` if there was none in this epoch.
    pub fn last_update(&mut self, left: bool, key: &Bytes) -> Option<Option<Stored>> {
        self.side(left).get(key).cloned()
    }
}
