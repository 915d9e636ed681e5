//! Events for a restore listener that may be slow.
//!
//! Bounded by the number of changelog partitions: batches of one partition that the listener hasn't
//! received yet are merged, with the sum of their records. Nothing else is merged or left out, and the
//! events of a partition stay in order.

use super::events::RestoreStep;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;

#[derive(Debug, Default)]
struct Waiting {
    /// Tasks (partitions), each with a step.
    steps: VecDeque<(usize, RestoreStep)>,
    /// By task, the position of its waiting batch, counted from the first event ever.
    batches: Vec<Option<u64>>,
    /// Number of events taken so far.
    taken: u64,
    closed: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Mailbox {
    waiting: Mutex<Waiting>,
    filled: Condvar,
}

impl Mailbox {
    pub fn new(tasks: usize) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                batches: vec![None; tasks],
                ..Waiting::default()
            }),
            filled: Condvar::new(),
        }
    }

    /// Adds an event. Never waits for the listener.
    pub fn put(&self, task: usize, step: RestoreStep) {
        let mut waiting = self.waiting.lock();
        let next = waiting.taken + waiting.steps.len() as u64;
        if let RestoreStep::Batch { reached, records } = step {
            if let Some(at) = waiting.batches[task] {
                let at = usize::try_from(at - waiting.taken).unwrap_or(usize::MAX);
                if let Some((
                    _,
                    RestoreStep::Batch {
                        reached: to,
                        records: sum,
                    },
                )) = waiting.steps.get_mut(at)
                {
                    *to = reached;
                    *sum += records;
                    return;
                }
            }
            waiting.batches[task] = Some(next);
        }
        waiting.steps.push_back((task, step));
        drop(waiting);
        self.filled.notify_one();
    }

    /// Waits for the next event. `None` once it is closed and all events are taken.
    pub fn take(&self) -> Option<(usize, RestoreStep)> {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some((task, step)) = waiting.steps.pop_front() {
                if waiting.batches[task] == Some(waiting.taken) {
                    waiting.batches[task] = None;
                }
                waiting.taken += 1;
                return Some((task, step));
            }
            if waiting.closed {
                return None;
            }
            self.filled.wait(&mut waiting);
        }
    }

    /// No more events follow.
    pub fn close(&self) {
        self.waiting.lock().closed = true;
        self.filled.notify_all();
    }
}

#[cfg(test)]
mod tests;
