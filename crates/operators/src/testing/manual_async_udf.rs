//! An async function whose calls end when the test says so.

use crate::testing::{Rig, into_sink, plan, raised, serde, word};
use crate::{Answer, AsyncUdf, Call, CallQueue, CallsInFlight, ForeignCode, Udf, Wait};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Datum, Handler, Result, StoreId};
use stoatflow_plan::{AsyncSpec, Form, Op, PhysicalPlan, Store};

#[derive(Debug, Default)]
pub struct ManualAsyncUdf {
    in_flight: Arc<CallsInFlight>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: Vec<(Call, Arc<CallQueue>)>,
    most: usize,
    answers: Option<Answers>,
    fails: Vec<String>,
    begun: Vec<String>,
    waits: usize,
    cancelled: usize,
    pauses: Vec<Duration>,
    took: Duration,
}

/// Which call is answered when a lane waits.
#[derive(Clone, Copy, Debug)]
enum Answers {
    Oldest,
    Newest,
}

impl ManualAsyncUdf {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The values of the running calls, in the order in which they began.
    pub fn running(&self) -> Vec<String> {
        let state = self.state.lock();
        state.running.iter().map(|(c, _)| word(value(c))).collect()
    }

    /// Their values as datums.
    pub fn values(&self) -> Vec<Datum> {
        let state = self.state.lock();
        state
            .running
            .iter()
            .map(|(c, _)| value(c).clone())
            .collect()
    }

    /// The values of all calls that ever began, in that order.
    pub fn begun(&self) -> Vec<String> {
        self.state.lock().begun.clone()
    }

    /// Takes slots for up to `wanted` calls of another lane.
    pub fn take_room(&self, wanted: usize, bound: usize) -> usize {
        self.in_flight.take(wanted, bound)
    }

    /// Answers all running calls.
    pub fn all(&self, result: impl Fn(&Call) -> Result<Answer>) {
        let running = std::mem::take(&mut self.state.lock().running);
        for (call, queue) in running {
            queue.answer(call.ticket, result(&call), Duration::ZERO);
        }
    }

    /// Answers the call with this value.
    pub fn gives(&self, value: &str, given: &str) {
        self.finish(value, Ok(Answer::One(Datum::text(given))));
    }

    pub fn finish(&self, value: &str, result: Result<Answer>) {
        let mut state = self.state.lock();
        let is = |(call, _): &(Call, Arc<CallQueue>)| word(self::value(call)) == value;
        let at = state.running.iter().position(is).expect("such a call");
        let (call, queue) = state.running.remove(at);
        let took = state.took;
        if let Some(next) = queue.answer(call.ticket, result, took) {
            state.begun.push(word(self::value(&next)));
            state.running.push((next, queue));
        }
    }

    /// From now on each wait answers the oldest call, with its own value.
    pub fn answers_when_waited_for(&self) {
        self.state.lock().answers = Some(Answers::Oldest);
    }

    /// The same, with the newest call.
    pub fn answers_the_newest_when_waited_for(&self) {
        self.state.lock().answers = Some(Answers::Newest);
    }

    /// Makes a call with this value fail when it is waited for, once for each call of this method.
    pub fn fails(&self, value: &str) {
        self.state.lock().fails.push(value.to_owned());
    }

    /// Sets how long calls take from now on, as their answers report.
    pub fn takes(&self, took: Duration) {
        self.state.lock().took = took;
    }

    /// The highest number of calls in flight so far.
    pub fn most(&self) -> usize {
        self.state.lock().most
    }

    pub fn load(&self) -> usize {
        self.in_flight.count()
    }

    pub fn waits(&self) -> usize {
        self.state.lock().waits
    }

    /// The pauses after which calls began.
    pub fn pauses(&self) -> Vec<Duration> {
        self.state.lock().pauses.clone()
    }

    pub fn cancelled(&self) -> usize {
        self.state.lock().cancelled
    }
}

impl AsyncUdf for ManualAsyncUdf {
    fn name(&self) -> &str {
        "app.py:7 hand"
    }

    fn in_flight(&self) -> &Arc<CallsInFlight> {
        &self.in_flight
    }

    fn begin(&self, calls: Vec<Call>, queue: &Arc<CallQueue>) {
        let mut state = self.state.lock();
        let values = calls.iter().map(|call| word(value(call)));
        state.begun.extend(values);
        let calls = calls.into_iter().map(|call| (call, Arc::clone(queue)));
        state.running.extend(calls);
        state.most = state.most.max(self.in_flight.count());
    }

    fn begin_later(&self, pause: Duration, calls: Vec<Call>, queue: &Arc<CallQueue>) {
        self.state.lock().pauses.push(pause);
        self.begin(calls, queue);
    }

    fn wait(&self, what: Wait, _queue: &CallQueue, _most: Duration) {
        let (chosen, fails) = {
            let mut state = self.state.lock();
            state.waits += 1;
            let chosen = state.answers.and_then(|answers| match answers {
                Answers::Oldest => state.running.first(),
                Answers::Newest => state.running.last(),
            });
            let chosen = chosen.map(|(call, _)| word(value(call)));
            let fails = state.fails.iter().position(|v| Some(v) == chosen.as_ref());
            (chosen, fails.map(|at| state.fails.remove(at)))
        };
        match chosen {
            Some(chosen) if fails.is_some() => self.finish(&chosen, Err(raised())),
            Some(chosen) => self.gives(&chosen, &chosen),
            None => assert_eq!(what, Wait::Fresh, "nobody would ever answer"),
        }
    }

    fn cancel(&self, _queue: &CallQueue) {
        self.state.lock().cancelled += 1;
    }
}

/// What identifies a call: its last argument.
fn value(call: &Call) -> &Datum {
    call.arguments.last().expect("a function gets something")
}

pub fn calls_op(form: Form, concurrency: u32, park_after_ms: u64) -> Op {
    Op::Calls {
        form,
        with_key: true,
        awaiting: AsyncSpec {
            udf: 0,
            concurrency,
            park_after_ms,
        },
        store: StoreId(3),
        key: serde("string"),
        value: serde("json"),
    }
}

pub fn foreign(manual: &Arc<ManualAsyncUdf>) -> ForeignCode {
    let never: Arc<dyn Udf> = crate::testing::closure(|_| panic!("is not called by itself"));
    ForeignCode {
        udfs: vec![never],
        calls: [(0, Arc::clone(manual) as Arc<dyn AsyncUdf>)].into(),
        ..ForeignCode::default()
    }
}

/// `map_values` into a sink; store 3 holds parked calls.
pub fn rig(manual: &Arc<ManualAsyncUdf>, concurrency: u32, park_after_ms: u64) -> Rig {
    rig_of(
        manual,
        calls_op(Form::MapValues, concurrency, park_after_ms),
        None,
    )
    .unwrap()
}

pub fn rig_of(manual: &Arc<ManualAsyncUdf>, op: Op, on_error: Option<Handler>) -> Result<Rig> {
    let mut plan = plan(into_sink(op, 0));
    plan.stores.push(parked(&plan));
    plan.nodes[0].on_error = on_error;
    Rig::of_foreign(&plan, &foreign(manual), false)
}

/// Store 3, for parked calls.
pub fn parked(plan: &PhysicalPlan) -> Store {
    Store {
        id: StoreId(3),
        key: serde("bytes"),
        value: serde("bytes"),
        ..plan.stores[0].clone()
    }
}

/// The number of parked calls.
pub fn rows(rig: &Rig) -> usize {
    let all =
        rig.stores[3]
            .store
            .scan(rig.epoch, &stoatflow_state::KeyRange::default(), usize::MAX);
    all.expect("a readable store").len()
}
