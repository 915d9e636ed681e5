//! When records are fetched: at the end of an epoch if none of it is visible before, with the barrier
//! right after them.

use super::schedule::{commits, many};
use super::*;
use parking_lot::Mutex;
use stoatflow_core::{Guarantee, Result, TopicPartition};
use stoatflow_log::Consumer;
use stoatflow_protocol::Fetch;

fn record(offset: i64) -> ConsumerRecord {
    ConsumerRecord {
        slot: 0,
        offset: Offset(offset),
        timestamp: Timestamp(1),
        key: None,
        value: Some(Bytes::from_static(b"v")),
        headers: None,
        number: 0,
    }
}

/// The fetch delay in a new epoch, if lanes have worked this long in the one before.
fn fetch_delay(bench: &TestBench, worked: Duration) -> Option<Duration> {
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    bench.send("in", &[("a", "1", 1)]);
    bench.clock.advance(Duration::from_millis(20));
    let nanos = u64::try_from(worked.as_nanos()).unwrap();
    let lanes = &engine.parts().shared.status.lanes;
    lanes[0]
        .busy_ns
        .fetch_add(nanos, std::sync::atomic::Ordering::Relaxed);
    engine.run_until_idle().unwrap();
    engine.parts().intake.dispatch().fetch_delay()
}

#[test]
fn records_are_asked_for_at_the_end_of_an_epoch_where_nothing_shows_before() {
    const NO_WORK: Duration = Duration::ZERO;
    let mut bench = TestBench::new(&["in", "out"], 2, compile(copy("in")));
    let all_but_the_end = fetch_delay(&bench, NO_WORK).unwrap();
    let interval = bench.spec.settings.commit_min_interval;
    assert!(interval * 3 / 4 < all_but_the_end && all_but_the_end < interval);
    assert_eq!(
        fetch_delay(&bench, Duration::from_millis(1)),
        None,
        "it takes long"
    );

    let settings = Arc::make_mut(&mut bench.spec.settings);
    settings.guarantee = Guarantee::AtLeastOnce;
    assert_eq!(
        fetch_delay(&bench, NO_WORK),
        None,
        "outputs are seen at once"
    );

    let plan = json!({"version": 1, "functions": ["app.py:1 ask"], "nodes": [
        {"op": "stream", "topics": ["in"], "key": "string", "value": "string"},
        {"op": "peek", "from": 0, "function": {"udf": 0}},
    ]});
    let plan = stoatflow_plan::compile(plan.to_string().as_bytes()).unwrap();
    let udfs: Vec<Arc<dyn Udf>> = vec![Arc::new(super::calls::Never)];
    let mut engine = TestBench::with_functions(&["in", "out"], 2, plan, udfs).start();
    engine.run_and_commit().unwrap();
    let fetch_delay = engine.parts().intake.dispatch().fetch_delay();
    assert_eq!(fetch_delay, None, "what it looks at is seen at once");
}

#[test]
fn a_lagging_reader_fetches_at_once() {
    let bench = TestBench::new(&["in", "out"], 2, compile(copy("in")));
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    bench.write(many(9000));
    engine.take(Turn::Intake).unwrap();
    assert_eq!(engine.parts().intake.dispatch().fetch_delay(), None);
    engine.run_until_idle().unwrap();
    assert!(engine.parts().intake.dispatch().fetch_delay().is_some());
    // A commit takes longer than the next epoch should, so the end of that one is unknown.
    bench.send("in", &[("a", "1", 1)]);
    bench.clock.advance(Duration::from_millis(20));
    engine.take(Turn::Intake).unwrap();
    assert!(engine.parts().intake.dispatch().is_committing());
    assert!(engine.parts().intake.dispatch().fetch_delay().is_some());
    bench.clock.advance(Duration::from_millis(20));
    assert_eq!(engine.parts().intake.dispatch().fetch_delay(), None);
}

/// Each reason by itself: the consumer knows that there is more; a record waits for credit or for
/// another partition; a fetch is pending.
#[test]
fn an_intake_with_work_does_not_wait_for_the_end_of_an_epoch() {
    let mut bench = TestBench::new(&["in", "out"], 1, compile(copy("in")));
    let mut settled = |idle: Option<Duration>| {
        Arc::make_mut(&mut bench.spec.settings).max_task_idle = idle;
        let mut engine = bench.start();
        engine.run_and_commit().unwrap();
        bench.clock.advance(Duration::from_secs(1));
        engine
    };
    let defers = |engine: &mut Inline| engine.parts().intake.dispatch().fetch_delay().is_some();
    let came = |engine: &mut Inline, caught_up: bool| {
        let dispatch = engine.parts().intake.dispatch();
        dispatch.accept(&mut vec![record(0)], &mut Vec::new());
        dispatch.check_lagging(|_| caught_up);
    };

    let mut engine = settled(None);
    assert!(defers(&mut engine));
    engine.parts().shared.request_commit();
    assert!(!defers(&mut engine), "somebody has asked for a commit");

    let mut engine = settled(None);
    came(&mut engine, true);
    assert!(!defers(&mut engine), "a record stands before the lanes");
    engine.parts().intake.dispatch().admit();
    assert!(defers(&mut engine));

    let mut engine = settled(None);
    came(&mut engine, false);
    engine.parts().intake.dispatch().admit();
    assert!(!defers(&mut engine), "there is more on the broker");

    let mut engine = settled(Some(Duration::from_secs(2)));
    assert!(
        !defers(&mut engine),
        "a record of another partition may be older"
    );
    bench.clock.advance(Duration::from_secs(1));
    assert!(defers(&mut engine));

    let mut plan = compile(json!([
        {"op": "table", "topic": "in", "key": "string", "value": "string", "materialized": {"store": "rates"}},
    ]));
    plan.sources[0].global = true;
    let bench = TestBench::new(&["in"], 1, plan);
    bench.send("in", &[("eur", "1.1", 1)]);
    let mut engine = bench.start();
    assert!(!defers(&mut engine), "a global table is to be read first");
    engine.run_and_commit().unwrap();
    assert!(defers(&mut engine));
}

/// The state of a consumer that has to fetch, and the delays that it was given.
#[derive(Default)]
struct Known {
    deferred: Vec<Option<Duration>>,
    asked: bool,
    usual: Duration,
}

struct Asking {
    inner: Box<dyn Consumer>,
    known: Arc<Mutex<Known>>,
}

impl Consumer for Asking {
    fn assign(&mut self, partitions: &[(TopicPartition, Offset)]) -> Result<()> {
        self.inner.assign(partitions)
    }
    fn poll(
        &mut self,
        max: usize,
        timeout: Duration,
        into: &mut Vec<ConsumerRecord>,
    ) -> Result<()> {
        self.inner.poll(max, timeout, into)
    }
    fn positions(&self) -> Vec<Offset> {
        self.inner.positions()
    }
    fn caught_up(&self, slot: u32) -> bool {
        self.inner.caught_up(slot)
    }
    fn defer_fetch(&mut self, time: Option<Duration>) {
        self.known.lock().deferred.push(time);
    }
    fn has_asked(&self) -> bool {
        self.known.lock().asked
    }
    fn usual_answer(&self) -> Duration {
        self.known.lock().usual
    }
    fn pause(&mut self, slots: &[u32], paused: bool) -> Result<()> {
        self.inner.pause(slots, paused)
    }
}

#[test]
fn a_barrier_follows_the_records_that_it_was_to_have() {
    const USUAL: Duration = Duration::from_millis(2);
    let bench = TestBench::new(&["in", "out"], 2, compile(copy("in")));
    let mut engine = bench.start();
    let known = Arc::new(Mutex::new(Known::default()));
    let consumer = engine.parts().intake.consumer();
    let inner = std::mem::replace(consumer, bench.broker.consumer("nobody", 1).unwrap());
    *consumer = Box::new(Asking {
        inner,
        known: Arc::clone(&known),
    });
    engine.run_and_commit().unwrap();
    let interval = bench.spec.settings.commit_min_interval;
    bench.clock.advance(interval);
    // Sends a record when `at` of the interval has passed; returns whether a barrier was inserted by
    // then, and the delay of the fetch.
    let mut comes = |at: Duration, asked: bool| {
        bench.send("in", &[("a", "1", 1)]);
        engine.run_and_commit().unwrap();
        let before = commits(&mut engine).len();
        *known.lock() = Known {
            asked,
            usual: USUAL,
            ..Known::default()
        };
        // The first step learns how long a fetch usually takes.
        engine.take(Turn::Intake).unwrap();
        bench.clock.advance(at);
        bench.send("in", &[("a", "2", 2)]);
        engine.run_until_idle().unwrap();
        let after = commits(&mut engine).len();
        bench.clock.advance(Duration::from_millis(50));
        (after > before, known.lock().deferred[1])
    };
    let (over, moment) = (interval - USUAL, Duration::from_millis(1));
    assert_eq!(
        comes(over - moment, false),
        (false, Some(moment)),
        "it is not to ask yet"
    );
    assert_eq!(
        comes(over, false),
        (true, Some(Duration::ZERO)),
        "it has come"
    );
    assert!(!comes(interval, true).0, "more is under way");
    assert!(comes(interval + USUAL / 2, true).0, "but not for long");
}

/// The fetch state of one epoch doesn't apply to the next.
#[test]
fn a_barrier_begins_anew_with_what_was_asked_for() {
    const USUAL: Duration = Duration::from_millis(2);
    let bench = TestBench::new(&["in", "out"], 1, compile(copy("in")));
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    let interval = bench.spec.settings.commit_min_interval;
    let comes = |engine: &mut Inline, offset: i64, after: Duration| {
        let dispatch = engine.parts().intake.dispatch();
        dispatch.accept(&mut vec![record(offset)], &mut Vec::new());
        dispatch.admit();
        bench.clock.advance(after);
        dispatch.barrier_if_due(false, |_, _| None).unwrap()
    };
    engine.parts().intake.dispatch().barrier();
    engine.run_until_idle().unwrap();
    let dispatch = engine.parts().intake.dispatch();
    dispatch.on_fetch_state(Fetch::Arrived, USUAL);
    assert!(comes(&mut engine, 0, interval - USUAL));
    while engine.take(Turn::Lane(0)).unwrap() || engine.take(Turn::Commit).unwrap() {}
    assert!(!comes(&mut engine, 1, interval - USUAL));
    assert!(comes(&mut engine, 2, USUAL));
}
