//! The interface that [`super::alternating`] needs of a client that writes the transactions of one id.

use crate::Producer;

/// A client that writes the transactions of one id.
pub(super) trait TransactionalSide: Producer {
    /// Whether this client still owns its id, as far as it can find out. Asking aborts an open
    /// transaction.
    fn owns_its_id(&mut self) -> bool;
}
