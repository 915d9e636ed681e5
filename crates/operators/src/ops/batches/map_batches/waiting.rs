//! State that the lanes of a run share for their batches: the layout of columns, and which lane waits
//! until when.
//!
//! Each lane sets the time by which its collected records must be emitted; the engine asks for the
//! earliest, and makes a barrier then, which emits everything. Updated once when a lane begins to
//! collect and once when it has emitted, never per record.

use super::Shared;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use stoatflow_core::NodeId;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    due: Mutex<BTreeMap<(NodeId, u32), i64>>,
    shared: Mutex<BTreeMap<NodeId, Arc<Shared>>>,
    /// True once a lane has waited.
    any: AtomicBool,
}

impl Waiting {
    /// A node's lane has records that must be emitted by this time, or none.
    pub fn expect(&self, place: (NodeId, u32), due: Option<i64>) {
        let mut all = self.due.lock();
        match due {
            Some(due) => {
                all.insert(place, due);
                self.any.store(true, Relaxed);
            }
            None => {
                all.remove(&place);
            }
        }
    }

    /// The earliest of these times; `i64::MAX`: no lane waits.
    pub fn next(&self) -> i64 {
        if !self.any.load(Relaxed) {
            return i64::MAX;
        }
        let all = self.due.lock();
        all.values().copied().min().unwrap_or(i64::MAX)
    }

    /// The state shared by a node's lanes; created by the first one that asks.
    pub fn shared(&self, node: NodeId, make: impl FnOnce() -> Shared) -> Arc<Shared> {
        let mut all = self.shared.lock();
        Arc::clone(all.entry(node).or_insert_with(|| Arc::new(make())))
    }
}
