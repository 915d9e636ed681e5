//! Occupancy of each offload's parking lot over all lanes, and the earliest due time.
//!
//! Takes each lane's figures at the end of its batch, how many records dispatch has sent, and whether
//! there are unread answers; returns the time by which a barrier is needed, how many more records
//! dispatch may send, and figures for metrics. Never sees a record.

#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use stoatflow_core::NodeId;

/// A lane that has not opened its store yet.
const UNKNOWN: u64 = u64::MAX;

/// One offload's parking lot, over all lanes.
#[derive(Debug)]
pub(crate) struct ParkingLot {
    most: u64,
    /// Records on their way to it.
    coming: AtomicU64,
    lanes: Vec<Figures>,
}

/// The figures of a lane.
#[derive(Debug)]
struct Figures {
    parked: AtomicU64,
    due: AtomicI64,
    oldest: AtomicI64,
}

impl ParkingLot {
    fn new(lanes: u32, most: u64) -> Self {
        let figures = |_| Figures {
            parked: AtomicU64::new(UNKNOWN),
            due: AtomicI64::new(i64::MAX),
            oldest: AtomicI64::new(i64::MAX),
        };
        Self {
            most,
            coming: AtomicU64::new(0),
            lanes: (0..lanes).map(figures).collect(),
        }
    }

    /// Updates the figures of a lane.
    pub fn report(&self, lane: u32, parked: usize, due: Option<i64>, oldest: Option<i64>) {
        if let Some(figures) = self.lanes.get(lane as usize) {
            figures.parked.store(parked as u64, Relaxed);
            figures.due.store(due.unwrap_or(i64::MAX), Relaxed);
            figures.oldest.store(oldest.unwrap_or(i64::MAX), Relaxed);
        }
    }

    /// `None` while a lane has not opened its store.
    fn parked(&self) -> Option<u64> {
        let mut lanes = self.lanes.iter().map(|lane| lane.parked.load(Relaxed));
        lanes.try_fold(0, |sum, parked| (parked != UNKNOWN).then(|| sum + parked))
    }

    fn room(&self) -> u64 {
        // In this order: a record that is no longer coming is already counted as parked.
        let coming = self.coming.load(Acquire);
        let parked = self.parked().unwrap_or(self.most);
        self.most.saturating_sub(parked).saturating_sub(coming)
    }

    fn due(&self) -> i64 {
        let all = self.lanes.iter().map(|lane| lane.due.load(Relaxed));
        all.min().unwrap_or(i64::MAX)
    }

    fn oldest(&self) -> Option<i64> {
        let all = self.lanes.iter().map(|lane| lane.oldest.load(Relaxed));
        all.min().filter(|oldest| *oldest != i64::MAX)
    }
}

/// Occupancy of a parking lot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// The node of the offload.
    pub node: NodeId,
    /// Records in it.
    pub parked: u64,
    /// Its maximum.
    pub most: u64,
    /// Wall time at which the oldest record was parked.
    pub oldest: Option<i64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ParkingLots {
    all: Mutex<BTreeMap<NodeId, Arc<ParkingLot>>>,
    any: AtomicBool,
    /// True if there are answers that were sent before this run and are not read yet.
    answers_wait: AtomicBool,
}

impl ParkingLots {
    /// The parking lot of a node; created by the first caller.
    pub fn of(&self, node: NodeId, lanes: u32, most: u64) -> Arc<ParkingLot> {
        self.any.store(true, Relaxed);
        let mut all = self.all.lock();
        let made = || Arc::new(ParkingLot::new(lanes, most));
        Arc::clone(all.entry(node).or_insert_with(made))
    }

    /// The wall time at which something is due; `i64::MAX`: nothing is.
    pub fn next_due(&self) -> i64 {
        if !self.any.load(Relaxed) || self.answers_wait() {
            return i64::MAX;
        }
        let all = self.all.lock();
        all.values().map(|lot| lot.due()).min().unwrap_or(i64::MAX)
    }

    /// True if there are unread answers. Meanwhile nothing times out, and no request is repeated: what
    /// looks due may already be answered.
    pub fn answers_wait(&self) -> bool {
        self.answers_wait.load(Relaxed)
    }

    /// Sets whether there are unread answers.
    pub fn set_answers_wait(&self, wait: bool) {
        self.answers_wait.store(wait, Relaxed);
    }

    /// How many more records may be sent on their way to a node.
    pub fn room(&self, node: NodeId) -> u64 {
        self.all.lock().get(&node).map_or(0, |lot| lot.room())
    }

    /// Counts records that are on their way to a node.
    pub fn sent(&self, node: NodeId, records: u64) {
        if let Some(lot) = self.all.lock().get(&node) {
            lot.coming.fetch_add(records, Relaxed);
        }
    }

    /// Counts records that have arrived. Those that are parked must have been reported before.
    pub fn arrived(&self, node: NodeId, records: u64) {
        if let Some(lot) = self.all.lock().get(&node) {
            lot.coming.fetch_sub(records, Release);
        }
    }

    /// Occupancy of all parking lots.
    pub fn occupancy(&self) -> Vec<Occupancy> {
        let all = self.all.lock();
        let each = all.iter().map(|(node, lot)| Occupancy {
            node: *node,
            parked: lot.parked().unwrap_or(0),
            most: lot.most,
            oldest: lot.oldest(),
        });
        each.collect()
    }
}
