//! The objects an engine is built from: what differs between the product, the test driver and the
//! simulator. Plain values belong in `Settings`.

use crate::restore::RestoreListener;
use std::sync::Arc;
use stoatflow_core::{Clock, SystemClock};
use stoatflow_log::Broker;
use stoatflow_operators::FaultInjection;
use stoatflow_protocol::{CommitOrder, Lease};
use stoatflow_state::Backend;

/// See the module.
#[derive(Clone)]
pub struct Components {
    /// The broker.
    pub broker: Arc<dyn Broker>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// A state back end to use instead of the one in the settings (the simulator's disk).
    pub backend: Option<Arc<dyn Backend>>,
    /// The order of commit steps. Mutation tests change it; otherwise [`CommitOrder::SAFE`].
    pub commit_order: CommitOrder,
    /// Receives restore progress.
    pub on_restore: Option<RestoreListener>,
    /// `false` only in a mutation test.
    pub align_barriers: bool,
    /// How instances without transactional fencing exclude each other. Mutation tests change it;
    /// otherwise [`Lease::STANDARD`].
    pub lease: Lease,
    /// Faults injected into operators. Mutation tests set it; otherwise [`FaultInjection::None`].
    pub fault: FaultInjection,
}

impl Components {
    /// The product's components for a broker.
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
            fault: FaultInjection::None,
        }
    }
}
