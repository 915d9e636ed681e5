//! The port to async functions that the engine doesn't own.
//!
//! Takes calls in batches, gives each one's answer back through the [`CallQueue`] it came with, later, from
//! any thread. Can be implemented without an interpreter: tests drive one by hand, the simulator by a seed.

use crate::port::current_call;
use crate::{CallQueue, CallsInFlight, Cost};
use smallvec::SmallVec;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Datum, Result};

/// What a function gets, in its order.
pub type Arguments = SmallVec<[Datum; 3]>;

/// One call that is to begin.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its number in its queue.
    pub ticket: u64,
    /// What it is called with.
    pub arguments: Arguments,
}

/// What a function gave.
#[derive(Clone, Debug)]
pub enum Answer {
    /// It had its effect (`peek`, `foreach`).
    Done,
    /// Of a predicate.
    Verdict(bool),
    /// `map_values`, `select_key`, `group_by`, joiners.
    One(Datum),
    /// `map`.
    Pair(Datum, Datum),
    /// `flat_map_values`.
    Many(Vec<Datum>),
    /// `flat_map`.
    Pairs(Vec<(Datum, Datum)>),
}

/// What a lane waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Fewer calls than this, of all lanes.
    Room(usize),
    /// No call that began in this queue since [`CallQueue::mark`].
    Fresh,
    /// Any answer in this queue.
    Answer,
}

/// An async function of the user, for all lanes.
pub trait AsyncUdf: Send + Sync + Debug {
    /// `app.py:12 fetch`, for errors.
    fn name(&self) -> &str;

    /// How much all lanes have asked of it.
    fn in_flight(&self) -> &Arc<CallsInFlight>;

    /// What its calls have cost so far, if that is known: their time, and the time that they waited.
    fn cost(&self) -> Option<Cost> {
        None
    }

    /// Begins calls: each is answered once, with [`CallQueue::answer`], which may name another one that is
    /// to begin then. Never waits.
    fn begin(&self, calls: Vec<Call>, queue: &Arc<CallQueue>);

    /// The same after a pause: calls that have failed. Without a clock of its own, at once.
    fn begin_later(&self, pause: Duration, calls: Vec<Call>, queue: &Arc<CallQueue>) {
        let _unused = pause;
        self.begin(calls, queue);
    }

    /// Waits, at most this long. May come back early, or late.
    fn wait(&self, what: Wait, queue: &CallQueue, most: Duration) {
        current_call::within(current_call::address(self), true, || match what {
            Wait::Room(bound) => self.in_flight().wait_below(bound, most),
            Wait::Fresh => queue.wait_fresh(most),
            Wait::Answer => queue.wait_answer(most),
        });
    }

    /// The answers of this queue are no longer wanted: its calls may be given up.
    fn cancel(&self, queue: &CallQueue);
}

/// What came of a call, and how long it took from [`AsyncUdf::begin`] on.
#[derive(Debug)]
pub struct Answered {
    /// The number of the call.
    pub ticket: u64,
    /// What it gave, or why it gave nothing.
    pub result: Result<Answer>,
    /// How long it took.
    pub took: Duration,
}
