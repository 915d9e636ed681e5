//! Async calls that outlive their epoch, without a transaction that keeps records together.

use super::*;
use parking_lot::Mutex;
use stoatflow_core::{ClockId, Datum, ErrorKind, Guarantee, Partition, Result};
use stoatflow_log::CommitOutcome;
use stoatflow_operators::{Answer, AsyncUdf, Call, CallQueue, CallsInFlight};
use stoatflow_plan::ClockSpec;

/// A function whose calls end when the test answers them.
#[derive(Debug, Default)]
struct ManualCalls {
    load: Arc<CallsInFlight>,
    calls: Mutex<Vec<(Call, Arc<CallQueue>)>>,
}

impl ManualCalls {
    /// Answers all calls; returns how many there were.
    fn answer(&self) -> usize {
        let calls = std::mem::take(&mut *self.calls.lock());
        let count = calls.len();
        for (call, line) in calls {
            let answer = Answer::One(Datum::text("answered"));
            line.answer(call.ticket, Ok(answer), Duration::ZERO);
        }
        count
    }
}

/// Never called directly.
#[derive(Debug)]
pub(super) struct Never;

impl Udf for Never {
    fn name(&self) -> &str {
        "app.py:1 ask"
    }
    fn scope(&self, body: &mut dyn FnMut()) {
        body();
    }
}

impl AsyncUdf for ManualCalls {
    fn name(&self) -> &str {
        "app.py:1 ask"
    }
    fn in_flight(&self) -> &Arc<CallsInFlight> {
        &self.load
    }
    fn begin(&self, calls: Vec<Call>, line: &Arc<CallQueue>) {
        let calls = calls.into_iter().map(|call| (call, Arc::clone(line)));
        self.calls.lock().extend(calls);
    }
    fn cancel(&self, _queue: &CallQueue) {}
}

/// A producer that holds back the records of one topic, as for a partition without a leader. `flush`
/// delivers them; a crash before it loses them.
struct Slow {
    inner: Box<dyn Producer>,
    topic: &'static str,
    waiting: Vec<ProducerRecord>,
}

impl Producer for Slow {
    fn sends_are_fenced(&self) -> bool {
        self.inner.sends_are_fenced()
    }
    fn begin(&mut self) -> Result<()> {
        self.inner.begin()
    }
    fn send(&mut self, records: &mut Vec<ProducerRecord>) -> Result<()> {
        let waits = |record: &ProducerRecord| &*record.topic == self.topic;
        let (slow, mut others): (Vec<_>, Vec<_>) = records.drain(..).partition(waits);
        self.waiting.extend(slow);
        self.inner.send(&mut others)
    }
    fn send_pending(&mut self) -> Result<usize> {
        let size = |record: &ProducerRecord| record.value.as_ref().map_or(0, bytes::Bytes::len);
        Ok(self.waiting.iter().map(size).sum())
    }
    fn flush(&mut self, timeout: Duration) -> Result<()> {
        self.inner.send(&mut self.waiting)?;
        self.inner.flush(timeout)
    }
    fn offsets(&mut self, group: &str, cut: &[stoatflow_log::CutEntry], t: Duration) -> Result<()> {
        self.inner.offsets(group, cut, t)
    }
    fn commit(&mut self, timeout: Duration) -> Result<CommitOutcome> {
        self.inner.commit(timeout)
    }
    fn abort(&mut self, timeout: Duration) -> Result<()> {
        self.inner.abort(timeout)
    }
    fn acknowledged(&self, topic: &str) -> Vec<(Partition, Offset)> {
        self.inner.acknowledged(topic)
    }
    fn remember(&mut self, topics: &[Arc<str>]) {
        self.inner.remember(topics);
    }
}

/// Holds back the records of a topic from now on.
pub(super) fn slow_down(engine: &mut Inline, bench: &TestBench, topic: &'static str) {
    let producer = engine.parts().commit.producer();
    let inner = std::mem::replace(producer, bench.producer("nobody"));
    *producer = Box::new(Slow {
        inner,
        topic,
        waiting: Vec::new(),
    });
}

/// One async function between `in` and `out`, under at-least-once; `timed`: the plan also has a clock.
fn asking(calls: &Arc<ManualCalls>, concurrency: u32, timed: bool) -> TestBench {
    let awaiting = json!({"udf": 0, "concurrency": concurrency, "park_after_ms": 0});
    let plan = json!({
        "version": 1,
        "functions": ["app.py:1 ask"],
        "nodes": [
            {"op": "stream", "topics": ["in"], "key": "string", "value": "string"},
            {"op": "map_values", "from": 0, "function": {"async": awaiting}, "with_key": false, "name": "asked"},
            {"op": "to", "from": 1, "topic": "out", "key": "string", "value": "string"},
        ],
    });
    let mut plan = stoatflow_plan::compile(plan.to_string().as_bytes()).unwrap();
    if timed {
        plan.clocks.push(ClockSpec {
            id: ClockId(0),
            name: "application".into(),
        });
    }
    let mut bench = TestBench::new(&["in", "out"], 2, plan);
    let mut settings = (*bench.spec.settings).clone();
    settings.guarantee = Guarantee::AtLeastOnce;
    bench.spec.settings = Arc::new(settings);
    bench.spec.foreign = Arc::new(ForeignCode {
        udfs: vec![Arc::new(Never)],
        calls: [(0, Arc::clone(calls) as Arc<dyn AsyncUdf>)].into(),
        ..ForeignCode::default()
    });
    bench
}

#[test]
fn a_parked_record_is_kept_until_its_result_has_arrived() {
    for timed in [false, true] {
        let calls = Arc::new(ManualCalls::default());
        let bench = asking(&calls, 10, timed);
        let failpoints =
            crate::runtime::failpoint::Failpoints::parse("commit.before-flush=error@2").unwrap();
        let mut engine = Inline::start_with(&bench.spec, failpoints).unwrap();
        bench.send("in", &[("a", "1", 1), ("b", "2", 2)]);
        engine.run_and_commit().unwrap();
        // Its offset is committed: only its row brings the record back.
        assert!(engine.parts().intake.is_settled());
        slow_down(&mut engine, &bench, "out");
        assert_eq!(calls.answer(), 2);
        engine.parts().intake.dispatch().barrier();
        let killed = engine.run_until_idle().unwrap_err();
        assert_eq!(killed.kind(), ErrorKind::Unavailable, "{killed}");
        drop(engine);

        let calls = Arc::new(ManualCalls::default());
        let mut bench = bench;
        let mut foreign = (*bench.spec.foreign).clone();
        foreign.calls = [(0, Arc::clone(&calls) as Arc<dyn AsyncUdf>)].into();
        bench.spec.foreign = Arc::new(foreign);
        let mut engine = bench.start();
        let again = calls.answer();
        engine.parts().intake.dispatch().barrier();
        engine.run_until_idle().unwrap();
        let given = bench.read("out").len();
        assert!(given >= 2, "with a clock: {timed}, called again: {again}");
    }
}

#[test]
fn calls_that_find_no_room_neither_keep_a_commit_waiting_nor_grow() {
    let calls = Arc::new(ManualCalls::default());
    let bench = asking(&calls, 1, false);
    let mut engine = bench.start();
    let shared = Arc::clone(&engine.parts().shared);
    let read = || {
        shared
            .status
            .records_in
            .load(std::sync::atomic::Ordering::Relaxed)
    };
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    bench.send("in", &keys.map(|key| (key, "x", 1)));
    engine.take(Turn::Intake).unwrap();
    assert_eq!(read(), 8);
    engine.parts().intake.dispatch().barrier();
    bench.clock.advance(Duration::from_millis(999));
    engine.take(Turn::Intake).unwrap();
    assert!(!shared.run.is_barrier_late(), "lanes may wait for a while");
    bench.clock.advance(Duration::from_millis(1));
    engine.take(Turn::Intake).unwrap();
    assert!(shared.run.is_barrier_late());
    engine.run_until_idle().unwrap();
    assert!(!shared.run.is_barrier_late(), "all lanes are through");
    assert_eq!(shared.committed().0, 1);
    assert_eq!(calls.load.count(), 8);
    // Nothing more is read until the calls in flight are within their limit.
    bench.send("in", &keys.map(|key| (key, "y", 2)));
    engine.run_until_idle().unwrap();
    assert_eq!(read(), 8);
    assert_eq!(calls.answer(), 8);
    engine.take(Turn::Intake).unwrap();
    assert_eq!(read(), 16);
}
