//! Who may refuse a write: the unique indexes of a store.

use super::{KeyValueStore, Stored};
use std::fmt::Debug;
use std::sync::Arc;
use stoatflow_core::{Epoch, Result};

/// Looks at writes before they are made.
pub trait WriteGuard: Send + Sync + Debug {
    /// May `epoch` give this value to a key (`None` or null: delete it)? What is admitted is taken into
    /// account from now on.
    ///
    /// # Errors
    /// `User` if not; what reading the store fails with.
    fn admit(
        &self,
        store: &KeyValueStore,
        epoch: Epoch,
        key: &[u8],
        value: Option<&Stored>,
    ) -> Result<()>;
    /// The epoch is in the back end.
    fn committed(&self, epoch: Epoch);
}

impl KeyValueStore {
    /// With one that is asked by [`Self::admit`].
    #[must_use]
    pub fn with_guard(mut self, guard: Arc<dyn WriteGuard>) -> Self {
        self.guard = Some(guard);
        self
    }

    /// Is there one?
    #[inline]
    #[must_use]
    pub const fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    /// May this be written? Call it before the write, without any lock of the store.
    ///
    /// # Errors
    /// Those of the guard; without one there are none.
    #[inline]
    pub fn admit(&self, epoch: Epoch, key: &[u8], value: Option<&Stored>) -> Result<()> {
        match &self.guard {
            None => Ok(()),
            Some(guard) => guard.admit(self, epoch, key, value),
        }
    }
}
