//! What a processor holds at the moment: at most one set of locks.

use stoatflow_operators::HeldLocks;

/// The locks of a section, or of a store's method.
pub struct Holding {
    pub locks: HeldLocks,
    /// Tells it apart from others.
    pub number: u64,
    /// The method that took them, if it is not a section.
    pub method: Option<&'static str>,
}
