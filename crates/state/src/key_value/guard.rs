//! Write guards: the unique indexes of a store, which may refuse a write.

use super::{KeyValueStore, Stored};
use std::fmt::Debug;
use std::sync::Arc;
use stoatflow_core::{Epoch, Result};

/// Checks writes before they are made.
pub trait WriteGuard: Send + Sync + Debug {
    /// Checks whether `epoch` may write this value to the key (`None` or null: delete it). Later checks
    /// take an admitted write into account.
    ///
    /// # Errors
    /// `User` if the write is refused; errors of reading the store.
    fn admit(
        &self,
        store: &KeyValueStore,
        epoch: Epoch,
        key: &[u8],
        value: Option<&Stored>,
    ) -> Result<()>;
    /// Called when the epoch has been applied to the back end.
    fn committed(&self, epoch: Epoch);
}

impl KeyValueStore {
    /// Sets the guard that [`Self::admit`] calls.
    #[must_use]
    pub fn with_guard(mut self, guard: Arc<dyn WriteGuard>) -> Self {
        self.guard = Some(guard);
        self
    }

    /// True if the store has a guard.
    #[inline]
    #[must_use]
    pub const fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    /// Checks a write with the guard. Call it before the write, without any lock of the store.
    ///
    /// # Errors
    /// Those of the guard; none without a guard.
    #[inline]
    pub fn admit(&self, epoch: Epoch, key: &[u8], value: Option<&Stored>) -> Result<()> {
        match &self.guard {
            None => Ok(()),
            Some(guard) => guard.admit(self, epoch, key, value),
        }
    }
}
