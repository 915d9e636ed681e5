//! What [`super::alternating`] needs of a client that writes the transactions of one id.

use crate::Producer;

/// What writes the transactions of one id.
pub(super) trait TransactionalSide: Producer {
    /// Is the id still its own, as far as it can find out? An open transaction is lost by asking.
    fn owns_its_id(&mut self) -> bool;
}
