//! How full each offload's parking lot is over all lanes, since when, and when something is due.
//!
//! Takes each lane's figures at the end of its batch, how many records dispatch has sent, and whether it
//! knows of answers that it has not read; gives the time by which a barrier must come, how many more
//! dispatch may send, and what metrics show. Never knows a record.

#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use stoatflow_core::NodeId;

/// A lane that has not looked into its store yet.
const UNKNOWN: u64 = u64::MAX;

/// One offload's parking lot, of all lanes.
#[derive(Debug)]
pub(crate) struct ParkingLot {
    most: u64,
    /// Records on their way to it.
    coming: AtomicU64,
    lanes: Vec<Figures>,
}

/// Those of a lane.
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

    /// How a lane stands now.
    pub fn tell(&self, lane: u32, parked: usize, due: Option<i64>, oldest: Option<i64>) {
        if let Some(figures) = self.lanes.get(lane as usize) {
            figures.parked.store(parked as u64, Relaxed);
            figures.due.store(due.unwrap_or(i64::MAX), Relaxed);
            figures.oldest.store(oldest.unwrap_or(i64::MAX), Relaxed);
        }
    }

    /// `None` while a lane has not looked.
    fn parked(&self) -> Option<u64> {
        let mut lanes = self.lanes.iter().map(|lane| lane.parked.load(Relaxed));
        lanes.try_fold(0, |sum, parked| (parked != UNKNOWN).then(|| sum + parked))
    }

    fn room(&self) -> u64 {
        // In this order: who is not coming any more is parked.
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

/// How full a parking lot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Whose.
    pub node: NodeId,
    /// Records in it.
    pub parked: u64,
    /// How many it is meant for.
    pub most: u64,
    /// Since when the oldest is there, by the wall clock.
    pub oldest: Option<i64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ParkingLots {
    all: Mutex<BTreeMap<NodeId, Arc<ParkingLot>>>,
    any: AtomicBool,
    /// Are there answers that came before this run, and are not read yet?
    answers_wait: AtomicBool,
}

impl ParkingLots {
    /// A node's; who asks first has it made.
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

    /// While there are, nothing is given up, nor asked again: what looks due may be answered.
    pub fn answers_wait(&self) -> bool {
        self.answers_wait.load(Relaxed)
    }

    /// Are there?
    pub fn set_answers_wait(&self, wait: bool) {
        self.answers_wait.store(wait, Relaxed);
    }

    /// How many more records may be sent on their way to a node.
    pub fn room(&self, node: NodeId) -> u64 {
        self.all.lock().get(&node).map_or(0, |lot| lot.room())
    }

    /// Records are on their way ...
    pub fn sent(&self, node: NodeId, records: u64) {
        if let Some(lot) = self.all.lock().get(&node) {
            lot.coming.fetch_add(records, Relaxed);
        }
    }

    /// ... and have come: if they are parked, they are told already.
    pub fn arrived(&self, node: NodeId, records: u64) {
        if let Some(lot) = self.all.lock().get(&node) {
            lot.coming.fetch_sub(records, Release);
        }
    }

    /// How full they are.
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
