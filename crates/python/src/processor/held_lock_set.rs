//! The locks that a processor holds: at most one set at a time.

use stoatflow_operators::HeldLocks;

/// Locks of a section, or of a store's method.
pub struct HeldLockSet {
    pub locks: HeldLocks,
    /// Identifies this set of locks.
    pub id: u64,
    /// The store method that took the locks; `None` for a section.
    pub method: Option<&'static str>,
}
