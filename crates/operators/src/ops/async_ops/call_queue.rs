//! The queue of one lane's calls to one async function: when each begins, and its answer.
//!
//! Takes calls from the lane, and answers from the threads on which calls end; returns calls that may
//! begin now, and answers in order of arrival. A call of a key begins on the answering thread when the
//! previous one has been answered. That needs no turn of the lane, so a key's calls follow one another
//! while the lane does something else. After a failure the key waits until the lane has decided;
//! meanwhile its calls take up no room, because other lanes must not wait for this one's turn. Never
//! runs a call, never sees records. The answering thread may hold the interpreter: nothing here calls it
//! or drops a value under a lock.

use super::in_flight::CallsInFlight;
use super::oldest_call::{OldestCall, RunningCalls};
use crate::RunCoordinator;
use crate::port::async_udf::{Answer, Answered, Call};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use stoatflow_core::{Clock, Result, SystemClock};
use stoatflow_plan::Form;

/// See the module.
#[derive(Debug)]
pub struct CallQueue {
    /// How answers are turned into results.
    pub form: Form,
    in_flight: Arc<CallsInFlight>,
    run: OnceLock<Arc<RunCoordinator>>,
    state: Mutex<State>,
    answered: Condvar,
    /// For metrics only.
    clock: SystemClock,
}

/// A call that was not answered.
#[derive(Debug)]
struct Open {
    key: Option<Bytes>,
    /// When it began; `None` while it is queued behind another call of its key.
    began: Option<Duration>,
}

#[derive(Debug, Default)]
struct State {
    /// Keys with a running call (or a failed one that its handler hasn't decided yet), and the calls queued
    /// behind it.
    keys: HashMap<Bytes, VecDeque<Call>>,
    /// Calls that were not answered.
    open: HashMap<u64, Open>,
    /// Failed calls by ticket: the key, and how many calls behind it have given up their room.
    failed: HashMap<u64, (Bytes, usize)>,
    done: VecDeque<Answered>,
    /// Calls from this ticket on are fresh: they began since the last barrier.
    mark: u64,
    /// Number of fresh calls that are not answered.
    fresh: usize,
    waiting: bool,
    closed: bool,
}

impl CallQueue {
    /// A queue for one lane of a function.
    #[must_use]
    pub fn new(form: Form, in_flight: Arc<CallsInFlight>) -> Arc<Self> {
        let queue = Arc::new(Self {
            form,
            in_flight,
            run: OnceLock::new(),
            state: Mutex::default(),
            answered: Condvar::new(),
            clock: SystemClock::new(),
        });
        let calls: Arc<dyn RunningCalls> = queue.clone();
        queue.in_flight.join(&calls);
        queue
    }

    /// Sets the run to notify of answers; returns true the first time.
    pub(super) fn set_listener(&self, run: &Arc<RunCoordinator>) -> bool {
        self.run.get().is_none() && self.run.set(Arc::clone(run)).is_ok()
    }

    /// Adds calls, for which room is already taken; returns those that may begin now.
    pub(super) fn submit(&self, calls: impl Iterator<Item = (Option<Bytes>, Call)>) -> Vec<Call> {
        let now = self.clock.monotonic();
        let mut state = self.state.lock();
        let mut ready = Vec::with_capacity(calls.size_hint().0);
        for (key, call) in calls {
            state.fresh += usize::from(call.ticket >= state.mark);
            let mut open = Open {
                key: key.clone(),
                began: Some(now),
            };
            let ticket = call.ticket;
            match key {
                None => ready.push(call),
                Some(key) => match state.keys.get_mut(&key) {
                    Some(behind) => {
                        open.began = None;
                        behind.push_back(call);
                    }
                    None => {
                        state.keys.insert(key, VecDeque::new());
                        ready.push(call);
                    }
                },
            }
            state.open.insert(ticket, open);
        }
        ready
    }

    /// A call has ended. Returns the next call of its key, if that may begin now: the caller starts it.
    pub fn answer(&self, ticket: u64, result: Result<Answer>, took: Duration) -> Option<Call> {
        let now = self.clock.monotonic();
        let mut state = self.state.lock();
        // Answered twice, or the queue is closed.
        let Open { key, .. } = state.open.remove(&ticket)?;
        state.fresh -= usize::from(ticket >= state.mark);
        if result.is_err() {
            self.in_flight.tally.failed();
        }
        let mut room = 1;
        let next = match key {
            None => None,
            Some(key) if result.is_err() => {
                let behind = state.keys.get(&key).map_or(0, VecDeque::len);
                room += behind;
                state.failed.insert(ticket, (key, behind));
                None
            }
            Some(key) => state.next_of(key, now),
        };
        state.done.push_back(Answered {
            ticket,
            result,
            took,
        });
        let waiting = state.waiting;
        drop(state);
        self.in_flight.give(room);
        if waiting {
            self.answered.notify_all();
        }
        if let Some(run) = self.run.get() {
            run.answered();
        }
        next
    }

    /// Moves the available answers to `into`.
    pub(super) fn take(&self, into: &mut VecDeque<Answered>) {
        let mut state = self.state.lock();
        if into.is_empty() {
            std::mem::swap(&mut state.done, into);
        } else {
            into.append(&mut state.done);
        }
    }

    /// A failed call is given up: returns the next one of its key.
    pub(super) fn go_on(&self, ticket: u64) -> Option<Call> {
        let now = self.clock.monotonic();
        let mut state = self.state.lock();
        let (key, behind) = state.failed.remove(&ticket)?;
        let next = state.next_of(key, now);
        drop(state);
        self.in_flight.force(behind);
        next
    }

    /// A failed call begins again, before the others of its key.
    pub(super) fn retry(&self, ticket: u64) {
        let mut state = self.state.lock();
        let (key, behind) = state.failed.remove(&ticket).unzip();
        state.fresh += usize::from(ticket >= state.mark);
        let began = Some(self.clock.monotonic());
        state.open.insert(ticket, Open { key, began });
        drop(state);
        self.in_flight.force(1 + behind.unwrap_or(0));
    }

    /// Ends the epoch: open calls are not fresh any more.
    pub fn mark(&self, next: u64) {
        let mut state = self.state.lock();
        state.mark = next;
        state.fresh = 0;
    }

    /// Number of calls that are not answered.
    #[must_use]
    pub fn open(&self) -> usize {
        self.state.lock().open.len()
    }

    /// Whether there are answers that the lane has not taken.
    #[must_use]
    pub fn has_answers(&self) -> bool {
        !self.state.lock().done.is_empty()
    }

    /// Number of fresh calls that are not answered.
    #[must_use]
    pub fn fresh(&self) -> usize {
        self.state.lock().fresh
    }

    /// Waits until no fresh call is open, at most this long.
    pub fn wait_fresh(&self, most: Duration) {
        self.wait_while(most, |state| state.fresh > 0);
    }

    /// Waits until there is an answer, at most this long.
    pub fn wait_answer(&self, most: Duration) {
        self.wait_while(most, |state| state.done.is_empty());
    }

    fn wait_while(&self, most: Duration, mut condition: impl FnMut(&mut State) -> bool) {
        let mut state = self.state.lock();
        state.waiting = true;
        self.answered
            .wait_while_for(&mut state, |state| condition(state), most);
        state.waiting = false;
    }

    /// The lane has ended: later answers are dropped.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        // Values in it may be Python objects: they are dropped without the lock, because an answering
        // thread waits for it while it holds the interpreter.
        let gone = std::mem::take(&mut *state);
        state.closed = true;
        drop(state);
        let without_room: usize = gone.failed.values().map(|(_, behind)| behind).sum();
        self.in_flight.give(gone.open.len() - without_room);
    }

    /// Whether the lane has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }
}

impl RunningCalls for CallQueue {
    fn oldest(&self) -> Option<OldestCall> {
        let now = self.clock.monotonic();
        let state = self.state.lock();
        let running = state.open.values().filter_map(|o| Some((o.began?, &o.key)));
        let (began, key) = running.min_by_key(|(began, _)| *began)?;
        let behind = key.as_ref().and_then(|key| state.keys.get(key));
        Some(OldestCall {
            key: key.clone(),
            age: now.saturating_sub(began),
            behind: behind.map_or(0, VecDeque::len),
        })
    }
}

impl State {
    fn next_of(&mut self, key: Bytes, now: Duration) -> Option<Call> {
        let next = self.keys.get_mut(&key).and_then(VecDeque::pop_front);
        match &next {
            None => {
                self.keys.remove(&key);
            }
            Some(call) => {
                if let Some(open) = self.open.get_mut(&call.ticket) {
                    open.began = Some(now);
                }
            }
        }
        next
    }
}
