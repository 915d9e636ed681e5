//! Keeps the first rows of an order, from rows that arrive in any order.
//!
//! Holds at most as many rows as are requested; without a limit, all of them.

use super::Match;
use std::collections::BinaryHeap;
use stoatflow_core::Bytes;

/// A row and its sort key: rows with equal values are sorted by their keys.
struct Placed {
    place: Vec<u8>,
    row: Match,
}

impl PartialEq for Placed {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for Placed {}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place.cmp(&other.place)
    }
}

/// See the module.
pub(super) struct Sorted {
    limit: usize,
    from: Option<Bytes>,
    /// The last row of the order is on top.
    kept: BinaryHeap<Placed>,
    more: bool,
}

impl Sorted {
    pub const fn new(limit: usize, from: Option<Bytes>) -> Self {
        Self {
            limit,
            from,
            kept: BinaryHeap::new(),
            more: false,
        }
    }

    /// Adds a row, by its place in the order and its key.
    pub fn add(&mut self, mut place: Vec<u8>, key: &Bytes, row: Match) {
        place.extend_from_slice(key);
        if self.from.as_ref().is_some_and(|from| place[..] <= **from) {
            return;
        }
        if self.kept.len() == self.limit {
            self.more = true;
            if self.kept.peek().is_some_and(|last| last.place <= place) {
                return;
            }
            self.kept.pop();
        }
        self.kept.push(Placed { place, row });
    }

    /// The rows in order, and the sort key of the last one if more follow.
    pub fn finish(self) -> (Vec<Match>, Option<Bytes>) {
        let sorted = self.kept.into_sorted_vec();
        let last = sorted.last().filter(|_| self.more);
        let last = last.map(|last| Bytes::copy_from_slice(&last.place));
        (sorted.into_iter().map(|placed| placed.row).collect(), last)
    }
}
