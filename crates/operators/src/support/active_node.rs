//! The node that a lane is running, for the admin port.
//!
//! Set with one store per batch of a node; any thread may read it at any time.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use stoatflow_core::NodeId;

/// See the module. Has cache lines of its own, so that lanes don't slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ActiveNode(AtomicU32);

impl ActiveNode {
    /// The lane enters a node.
    pub fn enter(&self, node: NodeId) {
        self.0.store(node.0.wrapping_add(1), Relaxed);
    }

    /// The lane has left the operators.
    pub fn leave(&self) {
        self.0.store(0, Relaxed);
    }

    /// The node, if the lane is in one.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        self.0.load(Relaxed).checked_sub(1).map(NodeId)
    }
}
