//! The service that async functions call, as one process sees it: slow, failing, or silent.
//!
//! Answers a call when the clock has reached its time: in a step of the process, or while a lane
//! waits, which moves the clock. A limited number of calls run at a time and others queue, as on
//! the product's event loop; its timeout is a time limit here. Checks the rules of async calls: one
//! call per key at a time, never more than the limit, and no lane waits for what only another lane
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

/// A call without an answer until then never gets one.
const LIMIT: Duration = Duration::from_millis(700);
/// So many times in a row a lane may wait for room while no call runs at all: twice, if it has to
/// decide itself.
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
    /// How slow the service is, for this process.
    pace: u64,
    waiting: VecDeque<Asked>,
    /// By the time at which they end; the second number decides between equals.
    running: BTreeMap<(Duration, u64), Asked>,
    /// Calls that wait or run.
    keys: BTreeSet<String>,
    /// Calls that have failed and were not given up yet, as far as anybody knows here.
    failed: BTreeSet<(usize, u64)>,
    /// Failed calls that are being retried.
    again: usize,
    /// May lanes let calls in without room: at a start what was parked, later what a barrier has
    /// waited for too long? And in how many turns they might.
    roomless: bool,
    turns_without: u32,
    lines: BTreeMap<usize, LetIn>,
    /// How many times in a row a lane waited for room while nothing ran.
    standstill: u32,
}

/// What a lane has let in without room.
#[derive(Debug, Default)]
struct LetIn {
    /// The most calls that it had then.
    most: usize,
    /// After so many turns in which it might.
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
    /// What decides: the value, or the left side. The key comes first.
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
    /// Of a process, for a function.
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

    /// The process has started: what is under way now was parked.
    pub fn started(&self) {
        let replayed = self.load.count() as u64;
        self.world
            .add("calls that began again after a start", replayed);
    }

    /// Before a turn: does a barrier wait for too long for lanes that wait for room?
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

    /// What a call comes to, and in a word.
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

    /// A call is to run as soon as there is room.
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

    /// Has the lane let in more than it may?
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

    /// Lets calls run while there is room.
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
    /// How long a call takes.
    fn takes(&mut self) -> Duration {
        let ms = match self.rng.below(20) {
            0 => 0,
            1..=11 => self.rng.between(1, 30),
            12..=17 => self.rng.between(20, 150),
            _ => self.rng.between(150, 600),
        };
        Duration::from_millis(ms / self.pace)
    }

    /// It neither waits nor runs any more.
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
        // Another line may come to stand where this one stood.
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
