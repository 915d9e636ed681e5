//! The service that async functions call, as one process sees it: slow, failing, or silent.
//!
//! Answers a call when the clock reaches its completion time: in a step of the process, or while a lane
//! waits, which advances the clock. A limited number of calls run at a time and others queue, as on the
//! product's event loop; a time limit stands for its timeout. Checks the rules of async calls: one call
//! per key at a time, never more than the limit, and no lane waits for something that only another lane
//! can do.

use crate::rng::SimRng;
use crate::workload::asks::{Asking, Fate, answer};
use crate::workload::functions::pair;
use crate::world::World;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Datum, Error, Result};
use stoatflow_operators::{Answer, AsyncUdf, Call, CallQueue, CallsInFlight, Wait};

/// Timeout of a call that the service doesn't answer.
const LIMIT: Duration = Duration::from_millis(700);
/// A lane that waits for room this often in a row while no call runs is deadlocked. Two times are
/// normal, if the lane itself must first handle a failed call.
const STANDSTILL: u32 = 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct Caller {
    world: Arc<World>,
    process: u32,
    function: &'static str,
    asking: Asking,
    load: Arc<CallsInFlight>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rng: SimRng,
    /// Divides the service's response times in this process.
    pace: u64,
    waiting: VecDeque<Asked>,
    /// By completion time; the random second number breaks ties.
    running: BTreeMap<(Duration, u64), Asked>,
    /// Keys of the calls that wait or run.
    keys: BTreeSet<String>,
    /// Failed calls, by queue and ticket. Includes calls that the engine has given up, since nothing
    /// reports that.
    failed: BTreeSet<(usize, u64)>,
    /// Number of failed calls that are being retried.
    again: usize,
    /// Whether lanes may start calls beyond the limit: parked calls at a start, later whenever a barrier
    /// is overdue. `turns_without` counts the turns in which they might.
    roomless: bool,
    turns_without: u32,
    lines: BTreeMap<usize, LetIn>,
    /// How often in a row a lane waited for room while no call ran.
    standstill: u32,
}

/// Calls that a lane started beyond the limit.
#[derive(Debug, Default)]
struct LetIn {
    /// Maximum number of the lane's open calls when it might exceed the limit.
    most: usize,
    /// `turns_without` at that time.
    turns: u32,
}

#[derive(Debug)]
struct Asked {
    call: Call,
    line: Arc<CallQueue>,
    key: Option<String>,
    began: Duration,
    again: bool,
}

fn text(datum: Option<&Datum>) -> Option<String> {
    match datum {
        Some(Datum::Str(text)) => Some(text.as_str().to_owned()),
        _ => None,
    }
}

fn number(line: &CallQueue) -> usize {
    std::ptr::from_ref(line) as usize
}

impl Asked {
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

impl Caller {
    /// The service of one process, for one function.
    pub fn new(
        world: &Arc<World>,
        process: u32,
        (function, asking): (&'static str, Asking),
        mut rng: SimRng,
    ) -> Arc<Self> {
        let state = State {
            pace: [1, 1, 10][rng.index(3)],
            rng,
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
            keys: BTreeSet::new(),
            failed: BTreeSet::new(),
            again: 0,
            roomless: true,
            turns_without: 0,
            lines: BTreeMap::new(),
            standstill: 0,
        };
        Arc::new(Self {
            world: Arc::clone(world),
            process,
            function,
            asking,
            load: Arc::default(),
            state: Mutex::new(state),
        })
    }

    /// Called when the process has started: calls that are open now were parked before.
    pub fn started(&self) {
        let replayed = self.load.count() as u64;
        self.world
            .add("calls that began again after a start", replayed);
    }

    /// Called before a turn; `hurried` is whether a barrier is overdue, so that lanes must not wait for
    /// room.
    pub fn hurry(&self, hurried: bool) {
        let mut state = self.state.lock();
        state.roomless = hurried;
        state.turns_without += u32::from(hurried);
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
            let ((at, _), asked) = due.remove_entry();
            state.ended(&asked);
            let (result, said) = self.result(&mut state, &asked);
            drop(state);
            self.world
                .event(format!("#{} '{}' {said}", self.process, asked.value()));
            self.world.count(&format!("calls that were {said}"));
            let (line, took) = (asked.line, at.saturating_sub(asked.began));
            let next = line.answer(asked.call.ticket, result, took);
            let mut state = self.state.lock();
            if let Some(next) = next {
                self.take(&mut state, next, &line, at);
            }
            self.fill(&mut state, at);
        }
    }

    /// The result of a call, and a word for the trace.
    fn result(&self, state: &mut State, asked: &Asked) -> (Result<Answer>, &'static str) {
        let value = asked.value();
        let once = (number(&asked.line), asked.call.ticket);
        let error = match self.asking.fate(&value) {
            Fate::Answered => None,
            Fate::Flaky if state.failed.contains(&once) => None,
            Fate::Flaky => Some((format!("'{value}' came at a bad time"), "refused once")),
            Fate::Refused => Some((format!("'{value}' is refused"), "refused")),
            Fate::Silent => Some((
                format!("nothing said within {} ms", LIMIT.as_millis()),
                "silent until the limit",
            )),
        };
        match error {
            None => {
                state.failed.remove(&once);
                (Ok(Answer::One(Datum::text(asked.answer()))), "answered")
            }
            Some((why, said)) => {
                state.failed.insert(once);
                (Err(Error::user(why)), said)
            }
        }
    }

    /// Queues a call, which runs as soon as there is room.
    fn take(&self, state: &mut State, call: Call, line: &Arc<CallQueue>, now: Duration) {
        let key = text(call.arguments.first());
        let again = state.failed.contains(&(number(line), call.ticket));
        if let Some(key) = &key
            && !state.keys.insert(key.clone())
        {
            self.world.violation(format!(
                "process {}: two calls of the key '{key}' are under way",
                self.process
            ));
        }
        state.again += usize::from(again);
        state.standstill = 0;
        state.waiting.push_back(Asked {
            call,
            line: Arc::clone(line),
            key,
            began: now,
            again,
        });
    }

    /// Checks that the lane has not started more calls than it may.
    fn count(&self, state: &mut State, line: &CallQueue) {
        let (open, again) = (line.open(), state.again);
        let (roomless, turns) = (state.roomless, state.turns_without);
        let let_in = state.lines.entry(number(line)).or_default();
        if roomless || let_in.turns != turns {
            (let_in.most, let_in.turns) = (let_in.most.max(open), turns);
            return;
        }
        // A retry needs no room.
        let most = let_in.most.max(2 * self.asking.concurrency as usize) + again;
        if open > most {
            self.world.violation(format!(
                "process {}: {open} calls of a lane are under way, {most} may be",
                self.process
            ));
        }
    }

    /// Starts queued calls while there is room.
    fn fill(&self, state: &mut State, now: Duration) {
        while state.running.len() < self.asking.concurrency as usize {
            let Some(asked) = state.waiting.pop_front() else {
                return;
            };
            let takes = match self.asking.fate(&asked.value()) {
                Fate::Silent => LIMIT,
                _ => state.takes(),
            };
            let chance = state.rng.below(1 << 40);
            state.running.insert((now + takes, chance), asked);
        }
    }

    fn is_over(&self, what: Wait, line: &CallQueue) -> bool {
        match what {
            Wait::Room(bound) => self.load.count() < bound,
            Wait::Fresh => line.fresh() == 0,
            Wait::Answer => line.has_answers(),
        }
    }
}

impl State {
    /// Duration of a call.
    fn takes(&mut self) -> Duration {
        let ms = match self.rng.below(20) {
            0 => 0,
            1..=11 => self.rng.between(1, 30),
            12..=17 => self.rng.between(20, 150),
            _ => self.rng.between(150, 600),
        };
        Duration::from_millis(ms / self.pace)
    }

    /// Called when a call neither waits nor runs any more.
    fn ended(&mut self, asked: &Asked) {
        self.standstill = 0;
        self.again -= usize::from(asked.again);
        if let Some(key) = &asked.key {
            self.keys.remove(key);
        }
    }
}

impl AsyncUdf for Caller {
    fn name(&self) -> &str {
        self.function
    }

    fn in_flight(&self) -> &Arc<CallsInFlight> {
        &self.load
    }

    fn begin(&self, calls: Vec<Call>, line: &Arc<CallQueue>) {
        let now = self.world.clock.monotonic();
        let mut state = self.state.lock();
        for call in calls {
            self.take(&mut state, call, line, now);
        }
        self.count(&mut state, line);
        self.fill(&mut state, now);
    }

    fn wait(&self, what: Wait, line: &CallQueue, most: Duration) {
        let until = self.world.clock.monotonic() + most;
        let move_to = |at: Duration| {
            let now = self.world.clock.monotonic();
            self.world.clock.advance(at.saturating_sub(now));
        };
        while !self.is_over(what, line) {
            let next = {
                let mut state = self.state.lock();
                let next = state.running.keys().next().map(|(at, _)| *at);
                if next.is_none() && matches!(what, Wait::Room(_)) {
                    state.standstill += 1;
                    assert!(
                        state.standstill < STANDSTILL,
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

    fn cancel(&self, line: &CallQueue) {
        let mut state = self.state.lock();
        // Another queue may later have the same address.
        state.failed.retain(|(of, _)| *of != number(line));
        state.lines.remove(&number(line));
        let of = |asked: &Asked| number(&asked.line) == number(line);
        let running = std::mem::take(&mut state.running);
        let (gone, left): (BTreeMap<_, _>, _) =
            running.into_iter().partition(|(_, asked)| of(asked));
        state.running = left;
        let waiting = std::mem::take(&mut state.waiting);
        let (stopped, left): (Vec<_>, _) = waiting.into_iter().partition(of);
        state.waiting = left.into();
        for asked in gone.into_values().chain(stopped) {
            state.ended(&asked);
        }
    }
}
