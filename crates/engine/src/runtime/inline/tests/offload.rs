//! Records that are parked until they are answered, in whole engines.

use super::calls::slow_down;
use super::*;
use stoatflow_core::{ErrorKind, Guarantee};

fn offloading(guarantee: Guarantee, max_parked: u32, timeout_ms: Option<i64>) -> TestBench {
    let plan = compile(json!([
        {"op": "stream", "topics": ["in"], "key": "string", "value": "string"},
        {
            "op": "offload", "from": 0, "name": "score", "requests": "asked", "responses": "answered",
            "function": {"expr": {"op": "right"}}, "response_value": "string", "max_parked": max_parked,
            "patience": {
                "timeout_ms": timeout_ms, "attempts": 1, "first_ms": 0, "most_ms": 0, "jitter": 0.0,
                "retry_timeouts": true, "retry_errors": true,
            },
        },
        {"op": "to", "from": 1, "topic": "out", "key": "string", "value": "string"},
    ]));
    let mut bench = TestBench::new(&["in", "asked", "answered", "out"], 2, plan);
    let mut settings = (*bench.spec.settings).clone();
    settings.guarantee = guarantee;
    bench.spec.settings = Arc::new(settings);
    bench
}

/// Answers requests from number `from` on with their values; returns how many there are now.
fn answer(bench: &TestBench, from: usize) -> usize {
    let mut requests = bench.fetch("asked");
    requests.sort_by_key(|request| request.timestamp);
    let count = requests.len();
    let answers = requests
        .into_iter()
        .skip(from)
        .map(|request| ProducerRecord {
            topic: "answered".into(),
            partition: None,
            key: request.key,
            value: request.value,
            timestamp: Timestamp(1),
            headers: request.headers,
        });
    bench.write(answers.collect());
    count
}

#[test]
fn a_record_is_parked_until_its_result_has_arrived() {
    let bench = offloading(Guarantee::AtLeastOnce, 10, None);
    let failpoints =
        crate::runtime::failpoint::Failpoints::parse("commit.before-flush=error@2").unwrap();
    let mut engine = Inline::start_with(&bench.spec, failpoints).unwrap();
    bench.send("in", &[("a", "1", 1), ("b", "2", 2)]);
    engine.run_and_commit().unwrap();
    assert_eq!(answer(&bench, 0), 2);
    slow_down(&mut engine, &bench, "out");
    let killed = engine.run_and_commit().unwrap_err();
    assert_eq!(killed.kind(), ErrorKind::Unavailable, "{killed}");
    drop(engine);

    // The answers are read again. Their records are parked, or their results have arrived.
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    let mut given = bench.read("out");
    given.dedup();
    assert_eq!(given, [("1".to_owned(), 1), ("2".to_owned(), 2)]);
}

#[test]
fn no_more_are_read_than_there_is_room_for() {
    let bench = offloading(Guarantee::ExactlyOnceV2, 3, None);
    let keys = [
        (1, "a"),
        (2, "b"),
        (3, "c"),
        (4, "d"),
        (5, "e"),
        (6, "f"),
        (7, "g"),
        (8, "h"),
    ];
    bench.send("in", &keys.map(|(time, key)| (key, key, time)));
    let mut engine = bench.start();
    let mut answered = 0;
    for parked in [3, 3, 2] {
        engine.run_and_commit().unwrap();
        let now = answer(&bench, answered);
        assert_eq!(now - answered, parked);
        answered = now;
    }
    engine.run_and_commit().unwrap();
    assert_eq!(bench.read("out").len(), 8);
}

#[test]
fn answers_that_came_while_nothing_ran_prevent_timeouts() {
    let bench = offloading(Guarantee::ExactlyOnceV2, 10, Some(1_000));
    bench.send("in", &[("a", "1", 1)]);
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    drop(engine);
    // More answers than one fetch returns; only the last one counts.
    let strange = ("a", "of nobody", 1);
    bench.send("answered", &vec![strange; 5_000]);
    assert_eq!(answer(&bench, 0), 1);
    bench.clock.advance(Duration::from_secs(10));
    let mut engine = bench.start();
    // A barrier is inserted before the second fetch.
    assert!(engine.take(Turn::Intake).unwrap());
    engine.parts().intake.dispatch().barrier();
    engine.run_and_commit().unwrap();
    assert_eq!(bench.read("out"), [("1".to_owned(), 1)]);

    // From then on calls time out.
    bench.send("in", &[("a", "2", 2)]);
    engine.run_and_commit().unwrap();
    bench.clock.advance(Duration::from_secs(10));
    let late = engine.run_and_commit().unwrap_err();
    assert!(
        late.message().contains("no answer within 1000 ms"),
        "{late}"
    );
}
