//! The objects an engine is built from: what differs between the product, the test driver and the
//! simulator. Plain data goes into `Settings`, objects go here.

use crate::restore::RestoreListener;
use std::sync::Arc;
use stoatflow_core::{Clock, SystemClock};
use stoatflow_log::Broker;
use stoatflow_operators::Flaw;
use stoatflow_protocol::{CommitOrder, Lease};
use stoatflow_state::Backend;

/// The parts.
#[derive(Clone)]
pub struct Components {
    /// Where topics are.
    pub broker: Arc<dyn Broker>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// A back end to use instead of the one that the settings name (the simulator's disk).
    pub backend: Option<Arc<dyn Backend>>,
    /// The order of a commit; anything but [`CommitOrder::SAFE`] is a test of the tests.
    pub commit_order: CommitOrder,
    /// Who wants to know how a restore goes on.
    pub on_restore: Option<RestoreListener>,
    /// Align barriers? `false` is a test of the tests.
    pub align_barriers: bool,
    /// How instances keep apart whose records nothing fences; anything but [`Lease::STANDARD`] is a test of
    /// the tests.
    pub lease: Lease,
    /// What operators leave undone; anything but [`Flaw::None`] is a test of the tests.
    pub flaw: Flaw,
}

impl Components {
    /// The product's parts over a broker.
    #[must_use]
    pub fn new(broker: Arc<dyn Broker>) -> Self {
        Self {
            broker,
            clock: Arc::new(SystemClock::new()),
            backend: None,
            commit_order: CommitOrder::SAFE,
            on_restore: None,
            align_barriers: true,
            lease: Lease::STANDARD,
            flaw: Flaw::None,
        }
    }
}
