//! The service that async functions call, as one process sees it: slow, failing, or silent.
//!
//! Answers a call when the clock reaches its completion time: in a step of the process, or while a lane
//! waits, which advances the clock. A limited number of calls run at a time and others queue, as on the
//! product's event loop; a time limit stands for its timeout. Checks the rules of async calls: one call
//! per key at a time, never more than the limit, and no lane waits for something that only another lane
//! can do.

use crate::rng::SimRng;
use crate::workload::async_calls::{CallSettings, Fate, answer};
use crate::workload::functions::pair;
use crate::world::World;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Datum, Error, Result};
use stoatflow_operators::{Answer, AsyncUdf, Call, CallQueue, CallsInFlight, Wait};

/// Timeout of a call that the service doesn't answer.
const CALL_TIMEOUT: Duration = Duration::from_millis(700);
/// A lane that waits for room this often in a row while no call runs is deadlocked. Two times are
/// normal, if the lane itself must first handle a failed call.
const MAX_BLOCKED_WAITS: u32 = 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct AsyncService {
    world: Arc<World>,
    process: u32,
    function: &'static str,
    settings: CallSettings,
    in_flight: Arc<CallsInFlight>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rng: SimRng,
    /// Divides the service's response times in this process.
    speedup: u64,
    waiting: VecDeque<OpenCall>,
    /// By completion time; the random second number breaks ties.
    running: BTreeMap<(Duration, u64), OpenCall>,
    /// Keys of the calls that wait or run.
    keys: BTreeSet<String>,
    /// Failed calls, by queue and ticket. Includes calls that the engine has given up, since nothing
    /// reports that.
    failed: BTreeSet<(usize, u64)>,
    /// Number of failed calls that are being retried.
    retries: usize,
    /// Whether lanes may start calls beyond the limit: parked calls at a start, later whenever a barrier
    /// is overdue. `turns_lifted` counts the turns in which they might.
    limit_lifted: bool,
    turns_lifted: u32,
    queues: BTreeMap<usize, OverLimit>,
    /// How often in a row a lane waited for room while no call ran.
    blocked_waits: u32,
}

/// Calls that a lane started beyond the limit.
#[derive(Debug, Default)]
struct OverLimit {
    /// Maximum number of the lane's open calls when it might exceed the limit.
    most: usize,
    /// `turns_lifted` at that time.
    turns: u32,
}

#[derive(Debug)]
struct OpenCall {
    call: Call,
    queue: Arc<CallQueue>,
    key: Option<String>,
    began: Duration,
    is_retry: bool,
}

fn text(datum: Option<&Datum>) -> Option<String> {
    match datum {
        Some(Datum::Str(text)) => Some(text.as_str().to_owned()),
        _ => None,
    }
}

fn queue_id(queue: &CallQueue) -> usize {
    std::ptr::from_ref(queue) as usize
}

impl OpenCall {
    /// The argument that decides the fate of a call: the value, or the left side of a join. The key
    /// comes before it.
    fn value(&self) -> String {
        text(self.call.arguments.get(1)).unwrap_or_default()
    }

    fn answer(&self) -> String {
        match self.call.arguments.get(2) {
            None => answer(&self.value()),
            right => pair(&self.value(), text(right).as_deref()),
        }
    }
}

impl AsyncService {
    /// The service of one process, for one function.
    pub fn new(
        world: &Arc<World>,
        process: u32,
        (function, settings): (&'static str, CallSettings),
        mut rng: SimRng,
    ) -> Arc<Self> {
        let state = State {
            speedup: [1, 1, 10][rng.index(3)],
            rng,
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
            keys: BTreeSet::new(),
            failed: BTreeSet::new(),
            retries: 0,
            limit_lifted: true,
            turns_lifted: 0,
            queues: BTreeMap::new(),
            blocked_waits: 0,
        };
        Arc::new(Self {
            world: Arc::clone(world),
            process,
            function,
            settings,
            in_flight: Arc::default(),
            state: Mutex::new(state),
        })
    }

    /// Called when the process has started: calls that are open now were parked before.
    pub fn started(&self) {
        let resumed = self.in_flight.count() as u64;
        self.world
            .add("calls that began again after a start", resumed);
    }

    /// Called before a turn; `late` is whether a barrier is overdue, so that lanes must not wait for
    /// room.
    pub fn set_barrier_late(&self, late: bool) {
        let mut state = self.state.lock();
        state.limit_lifted = late;
        state.turns_lifted += u32::from(late);
    }

    /// Answers the calls that are due.
    pub fn answer_due(&self) {
        let now = self.world.clock.monotonic();
        loop {
            let mut state = self.state.lock();
            let due = state.running.first_entry();
            let Some(due) = due.filter(|due| due.key().0 <= now) else {
                return;
            };
            let ((at, _), open_call) = due.remove_entry();
            state.finish(&open_call);
            let (result, said) = self.result(&mut state, &open_call);
            drop(state);
            self.world
                .event(format!("#{} '{}' {said}", self.process, open_call.value()));
            self.world.count(&format!("calls that were {said}"));
            let (queue, took) = (open_call.queue, at.saturating_sub(open_call.began));
            let next = queue.answer(open_call.call.ticket, result, took);
            let mut state = self.state.lock();
            if let Some(next) = next {
                self.enqueue(&mut state, next, &queue, at);
            }
            self.fill(&mut state, at);
        }
    }

    /// The result of a call, and a word for the trace.
    fn result(&self, state: &mut State, open_call: &OpenCall) -> (Result<Answer>, &'static str) {
        let value = open_call.value();
        let once = (queue_id(&open_call.queue), open_call.call.ticket);
        let error = match self.settings.fate(&value) {
            Fate::Answered => None,
            Fate::Flaky if state.failed.contains(&once) => None,
            Fate::Flaky => Some((format!("'{value}' came at a bad time"), "refused once")),
            Fate::Refused => Some((format!("'{value}' is refused"), "refused")),
            Fate::Silent => Some((
                format!("nothing said within {} ms", CALL_TIMEOUT.as_millis()),
                "silent until the limit",
            )),
        };
        match error {
            None => {
                state.failed.remove(&once);
                (Ok(Answer::One(Datum::text(open_call.answer()))), "answered")
            }
            Some((why, said)) => {
                state.failed.insert(once);
                (Err(Error::user(why)), said)
            }
        }
    }

    /// Queues a call, which runs as soon as there is room.
    fn enqueue(&self, state: &mut State, call: Call, queue: &Arc<CallQueue>, now: Duration) {
        let key = text(call.arguments.first());
        let is_retry = state.failed.contains(&(queue_id(queue), call.ticket));
        if let Some(key) = &key
            && !state.keys.insert(key.clone())
        {
            self.world.violation(format!(
                "process {}: two calls of the key '{key}' are under way",
                self.process
            ));
        }
        state.retries += usize::from(is_retry);
        state.blocked_waits = 0;
        state.waiting.push_back(OpenCall {
            call,
            queue: Arc::clone(queue),
            key,
            began: now,
            is_retry,
        });
    }

    /// Checks that the lane has not started more calls than it may.
    fn check_limit(&self, state: &mut State, queue: &CallQueue) {
        let (open, retries) = (queue.open(), state.retries);
        let (limit_lifted, turns) = (state.limit_lifted, state.turns_lifted);
        let over_limit = state.queues.entry(queue_id(queue)).or_default();
        if limit_lifted || over_limit.turns != turns {
            (over_limit.most, over_limit.turns) = (over_limit.most.max(open), turns);
            return;
        }
        // A retry needs no room.
        let most = over_limit.most.max(2 * self.settings.concurrency as usize) + retries;
        if open > most {
            self.world.violation(format!(
                "process {}: {open} calls of a lane are under way, {most} may be",
                self.process
            ));
        }
    }

    /// Starts queued calls while there is room.
    fn fill(&self, state: &mut State, now: Duration) {
        while state.running.len() < self.settings.concurrency as usize {
            let Some(open_call) = state.waiting.pop_front() else {
                return;
            };
            let call_duration = match self.settings.fate(&open_call.value()) {
                Fate::Silent => CALL_TIMEOUT,
                _ => state.call_duration(),
            };
            let chance = state.rng.below(1 << 40);
            state
                .running
                .insert((now + call_duration, chance), open_call);
        }
    }

    fn is_over(&self, what: Wait, queue: &CallQueue) -> bool {
        match what {
            Wait::Room(bound) => self.in_flight.count() < bound,
            Wait::Fresh => queue.fresh() == 0,
            Wait::Answer => queue.has_answers(),
        }
    }
}

impl State {
    /// Duration of a call.
    fn call_duration(&mut self) -> Duration {
        let ms = match self.rng.below(20) {
            0 => 0,
            1..=11 => self.rng.between(1, 30),
            12..=17 => self.rng.between(20, 150),
            _ => self.rng.between(150, 600),
        };
        Duration::from_millis(ms / self.speedup)
    }

    /// Called when a call neither waits nor runs any more.
    fn finish(&mut self, open_call: &OpenCall) {
        self.blocked_waits = 0;
        self.retries -= usize::from(open_call.is_retry);
        if let Some(key) = &open_call.key {
            self.keys.remove(key);
        }
    }
}

impl AsyncUdf for AsyncService {
    fn name(&self) -> &str {
        self.function
    }

    fn in_flight(&self) -> &Arc<CallsInFlight> {
        &self.in_flight
    }

    fn begin(&self, calls: Vec<Call>, queue: &Arc<CallQueue>) {
        let now = self.world.clock.monotonic();
        let mut state = self.state.lock();
        for call in calls {
            self.enqueue(&mut state, call, queue, now);
        }
        self.check_limit(&mut state, queue);
        self.fill(&mut state, now);
    }

    fn wait(&self, what: Wait, queue: &CallQueue, most: Duration) {
        let until = self.world.clock.monotonic() + most;
        let move_to = |at: Duration| {
            let now = self.world.clock.monotonic();
            self.world.clock.advance(at.saturating_sub(now));
        };
        while !self.is_over(what, queue) {
            let next = {
                let mut state = self.state.lock();
                let next = state.running.keys().next().map(|(at, _)| *at);
                if next.is_none() && matches!(what, Wait::Room(_)) {
                    state.blocked_waits += 1;
                    assert!(
                        state.blocked_waits < MAX_BLOCKED_WAITS,
                        "process {}: a lane waits for room that only another lane can make",
                        self.process
                    );
                }
                next
            };
            match next.filter(|at| *at <= until) {
                Some(at) => {
                    move_to(at);
                    self.answer_due();
                }
                None => return move_to(until),
            }
        }
    }

    fn cancel(&self, queue: &CallQueue) {
        let mut state = self.state.lock();
        // Another queue may later have the same address.
        state.failed.retain(|(of, _)| *of != queue_id(queue));
        state.queues.remove(&queue_id(queue));
        let of = |open_call: &OpenCall| queue_id(&open_call.queue) == queue_id(queue);
        let running = std::mem::take(&mut state.running);
        let (gone, left): (BTreeMap<_, _>, _) = running
            .into_iter()
            .partition(|(_, open_call)| of(open_call));
        state.running = left;
        let waiting = std::mem::take(&mut state.waiting);
        let (stopped, left): (Vec<_>, _) = waiting.into_iter().partition(of);
        state.waiting = left.into();
        for open_call in gone.into_values().chain(stopped) {
            state.finish(&open_call);
        }
    }
}
