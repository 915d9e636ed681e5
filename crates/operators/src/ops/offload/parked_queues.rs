//! The parked records of one lane: a queue per key, and an index by due time.
//!
//! Takes the events of records; returns the first record of a key, and what is due. Everything here is
//! in the rows as well: `open` loads it from them, so that they need not be scanned later. Never reads a
//! store.

use super::row::row_key;
use crate::support::time_index::TimeIndex;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};

/// Bits of a number below the milliseconds: 1024 numbers per millisecond for each of 4096 lanes.
const MS: u32 = 22;
const LANES: u64 = 4096;

/// State of a record, as far as its queue needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParkedState {
    Asked,
    Pausing,
    /// It waits for its turn.
    Finished,
}

/// A record in its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParkedEntry {
    pub number: u64,
    pub since: i64,
    pub attempt: u32,
    /// Requests that a handler asked for.
    pub again: u32,
    pub state: ParkedState,
    pub due: Option<i64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ParkedQueues {
    queues: HashMap<Bytes, VecDeque<ParkedEntry>>,
    due: TimeIndex,
    since: TimeIndex,
    /// Lower bound of the next number.
    next: u64,
}

impl ParkedQueues {
    /// A number that no record of the offload has had. Its high bits are the wall clock, so that a
    /// restart doesn't assign a number twice, whatever was deleted since; it encodes the lane, so that
    /// no other lane assigns it.
    pub fn number(&mut self, wall: i64, lane: u32) -> u64 {
        let by_clock = u64::try_from(wall).unwrap_or(0) << MS;
        let least = self.next.max(by_clock);
        let own = u64::from(lane) % LANES;
        let number = least + (own + LANES - least % LANES) % LANES;
        self.next = number + 1;
        number
    }

    /// Appends a record to the queue of its key.
    pub fn join(&mut self, key: &Bytes, entry: ParkedEntry) {
        self.next = self.next.max(entry.number + 1);
        let row = row_key(key, entry.number);
        if let Some(due) = entry.due {
            self.due.insert(due, row.clone());
        }
        self.since.insert(entry.since, row);
        match self.queues.get_mut(key) {
            Some(queue) => queue.push_back(entry),
            None => {
                self.queues.insert(key.clone(), VecDeque::from([entry]));
            }
        }
    }

    /// Makes the first record of each key due at once if it no longer waits for an answer: it leaves at
    /// the next check of the clock.
    pub fn make_finished_due(&mut self) {
        for (key, queue) in &mut self.queues {
            if let Some(first) = queue
                .front_mut()
                .filter(|p| p.state == ParkedState::Finished)
            {
                first.due = Some(0);
                self.due.insert(0, row_key(key, first.number));
            }
        }
    }

    /// The record with this number.
    pub fn find(&self, key: &Bytes, number: u64) -> Option<ParkedEntry> {
        let queue = self.queues.get(key)?;
        let at = queue.binary_search_by_key(&number, |entry| entry.number);
        at.ok().map(|at| queue[at])
    }

    /// The first record of a key.
    pub fn first(&self, key: &Bytes) -> Option<ParkedEntry> {
        self.queues.get(key)?.front().copied()
    }

    /// Updates the state of a record.
    pub fn change(&mut self, key: &Bytes, changed: ParkedEntry) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let Ok(at) = queue.binary_search_by_key(&changed.number, |entry| entry.number) else {
            return;
        };
        let before = std::mem::replace(&mut queue[at], changed);
        if before.due != changed.due {
            let row = row_key(key, changed.number);
            if let Some(due) = before.due {
                self.due.remove(due, &row);
            }
            if let Some(due) = changed.due {
                self.due.insert(due, row);
            }
        }
    }

    /// Removes the first record of a key.
    pub fn leave(&mut self, key: &Bytes) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        if let Some(entry) = queue.pop_front() {
            let row = row_key(key, entry.number);
            if let Some(due) = entry.due {
                self.due.remove(due, &row);
            }
            self.since.remove(entry.since, &row);
        }
        if queue.is_empty() {
            self.queues.remove(key);
        }
    }

    /// The row of the earliest due record, if it is due.
    pub fn due(&self, now: i64) -> Option<Bytes> {
        let (due, row) = self.due.oldest()?;
        (due <= now).then(|| row.clone())
    }

    /// The earliest due time.
    pub fn next_due(&self) -> Option<i64> {
        self.due.oldest().map(|(due, _)| due)
    }

    /// Time at which the oldest record was parked.
    pub fn oldest(&self) -> Option<i64> {
        self.since.oldest().map(|(since, _)| since)
    }

    /// Number of parked records.
    pub fn len(&self) -> usize {
        self.since.len()
    }
}
