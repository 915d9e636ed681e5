//! The updates that each side of a join of tables has sent to it in this epoch.
//!
//! A join must see each side as the updates that have reached it say. A store is ahead of them where it is
//! written in a lower stage, or where record caching holds its updates back: who read it there would miss
//! that a row goes (both sides deleted: each deletion finds nothing), and would take back a row that was
//! never given. So a side is what it told in this epoch, and else what it was when the epoch began.
//!
//! Takes updates, gives the other side's newest one. Owns references to values for one epoch, one per key
//! that was told. Never reads a store. Shared by the two sides of one lane, so its lock is always free.

use crate::ops::tables::table_update;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stoatflow_core::{Epoch, Record};
use stoatflow_state::Stored;

/// By key: what a side has now; `None`: nothing.
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

/// What is told in an epoch.
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

    /// A side tells an update.
    pub fn tell(&mut self, left: bool, key: Bytes, update: &Record) {
        let new = table_update::new(&update.value);
        let now = (!new.is_null()).then(|| Stored {
            value: new.clone(),
            timestamp: update.timestamp,
        });
        self.side(left).insert(key, now);
    }

    /// What a side has told of a key, if it has.
    pub fn ask(&mut self, left: bool, key: &Bytes) -> Option<Option<Stored>> {
        self.side(left).get(key).cloned()
    }
}
