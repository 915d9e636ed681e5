//! What the lanes of one run share of their batches: what columns look like, and who waits until when.
//!
//! Takes from each lane the time by which what it has collected must be given, gives the earliest: then a
//! barrier comes, which gives everything. Told once when a lane begins to collect and once when it has given,
//! never per record.

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
    /// Has anybody ever waited?
    any: AtomicBool,
}

impl Waiting {
    /// A node's lane has something that must be given by this time, or nothing.
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

    /// When the first must be given; `i64::MAX`: none waits.
    pub fn next(&self) -> i64 {
        if !self.any.load(Relaxed) {
            return i64::MAX;
        }
        let all = self.due.lock();
        all.values().copied().min().unwrap_or(i64::MAX)
    }

    /// What a node's lanes know together; the first to ask has it made.
    pub fn shared(&self, node: NodeId, make: impl FnOnce() -> Shared) -> Arc<Shared> {
        let mut all = self.shared.lock();
        Arc::clone(all.entry(node).or_insert_with(|| Arc::new(make())))
    }
}
