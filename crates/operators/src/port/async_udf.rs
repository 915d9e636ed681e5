//! The port to async functions that the engine doesn't own.
//!
//! Takes calls in batches; each answer is returned later, from any thread, through the [`CallQueue`]
//! that the call came with. An implementation needs no interpreter: tests drive one by hand, the
//! simulator by a seed.

use crate::port::current_call;
use crate::{CallQueue, CallsInFlight, Cost};
use smallvec::SmallVec;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Datum, Result};

/// The arguments of a function, in order.
pub type Arguments = SmallVec<[Datum; 3]>;

/// A call to begin.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its number in its queue.
    pub ticket: u64,
    /// Its arguments.
    pub arguments: Arguments,
}

/// The result of a function.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Only an effect (`peek`, `foreach`).
    Done,
    /// The result of a predicate.
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
    /// Fewer calls in flight than this, in all lanes together.
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

    /// The calls in flight, of all lanes.
    fn in_flight(&self) -> &Arc<CallsInFlight>;

    /// The cost of its calls so far, if known: their time, and the time that they waited.
    fn cost(&self) -> Option<Cost> {
        None
    }

    /// Begins calls: each is answered once, with [`CallQueue::answer`], which may return another call
    /// that is to begin then. Never waits.
    fn begin(&self, calls: Vec<Call>, queue: &Arc<CallQueue>);

    /// As [`Self::begin`] after a pause, for calls that have failed. At once if there is no clock.
    fn begin_later(&self, pause: Duration, calls: Vec<Call>, queue: &Arc<CallQueue>) {
        let _unused = pause;
        self.begin(calls, queue);
    }

    /// Waits, at most this long. May return early, or late.
    fn wait(&self, what: Wait, queue: &CallQueue, most: Duration) {
        current_call::within(current_call::address(self), true, || match what {
            Wait::Room(bound) => self.in_flight().wait_below(bound, most),
            Wait::Fresh => queue.wait_fresh(most),
            Wait::Answer => queue.wait_answer(most),
        });
    }

    /// The answers of this queue are no longer wanted: its calls may be cancelled.
    fn cancel(&self, queue: &CallQueue);
}

/// The outcome of a call, and how long it took from [`AsyncUdf::begin`] on.
#[derive(Debug)]
pub struct Answered {
    /// The number of the call.
    pub ticket: u64,
    /// Its result, or why there is none.
    pub result: Result<Answer>,
    /// How long it took.
    pub took: Duration,
}
