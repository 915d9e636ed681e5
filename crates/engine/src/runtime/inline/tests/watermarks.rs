//! Watermarks in whole engines: at barriers, beside committed offsets, and in alignment groups.

use super::*;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_protocol::Strategy;

/// Copies `a` and `b` to `out`, each with its own watermark strategy.
fn two(a: &Value, b: &Value) -> PhysicalPlan {
    compile(json!([
        {"op": "stream", "topics": ["a"], "key": "string", "value": "string", "watermark": a},
        {"op": "to", "from": 0, "topic": "out", "key": "string", "value": "string"},
        {"op": "stream", "topics": ["b"], "key": "string", "value": "string", "watermark": b},
        {"op": "to", "from": 2, "topic": "out", "key": "string", "value": "string"},
    ]))
}

fn bench(plan: PhysicalPlan) -> TestBench {
    // Both keys of a topic have records, so both of its partitions do.
    TestBench::new(&["a", "b", "out"], 2, plan)
}

/// Keys of partition 0 and of partition 1.
const KEYS: [&str; 2] = ["a", "d"];

fn both(time: i64) -> [(&'static str, &'static str, i64); 2] {
    KEYS.map(|key| (key, "v", time))
}

fn application(engine: &mut Inline) -> i64 {
    engine.parts().shared.status.watermark.load(Relaxed)
}

/// The committed metadata of all partitions.
fn committed(bench: &TestBench) -> Vec<String> {
    let partitions: Vec<_> = ["a", "b"]
        .iter()
        .flat_map(|topic| (0..2).map(move |p| TopicPartition::new(*topic, p)))
        .collect();
    let found = bench.broker.committed("stand", &partitions, SOON).unwrap();
    let text = |c: stoatflow_log::Committed| c.metadata;
    found.into_iter().flatten().map(text).collect()
}

#[test]
fn keys_of_both_partitions() {
    let bench = bench(two(
        &json!({"strategy": "monotonic"}),
        &json!({"strategy": "none"}),
    ));
    bench.send("a", &both(5));
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    assert_eq!(
        application(&mut engine),
        5,
        "else a partition had no record"
    );
}

#[test]
fn the_least_of_all_partitions_is_committed_and_restored() {
    let bounded = json!({"strategy": {"bounded": 10}});
    let mut bench = bench(two(&json!({"strategy": "monotonic"}), &bounded));
    let mut engine = bench.start();
    bench.send("a", &both(500));
    engine.run_and_commit().unwrap();
    assert_eq!(application(&mut engine), -1, "b has said nothing");
    bench.send("b", &both(300));
    engine.run_and_commit().unwrap();
    assert_eq!(application(&mut engine), 290);
    let expected = [
        "st=500;wm=500;aw=290",
        "st=500;wm=500;aw=290",
        "st=300;wm=290;aw=290",
        "st=300;wm=290;aw=290",
    ];
    assert_eq!(committed(&bench), expected);
    drop(engine);
    // With another strategy after the restart, the watermark doesn't go back.
    let later = json!({"strategy": {"bounded": 250}});
    bench.spec.plan = Arc::new(two(&json!({"strategy": "monotonic"}), &later));
    let mut engine = bench.start();
    assert_eq!(application(&mut engine), 290);
    bench.send("b", &[("x", "v", 100)]);
    engine.run_and_commit().unwrap();
    assert_eq!(application(&mut engine), 290);
    bench.send("b", &both(900));
    engine.run_and_commit().unwrap();
    assert_eq!(application(&mut engine), 500);
}

#[test]
fn metadata_of_an_older_version_is_read() {
    let bench = bench(two(
        &json!({"strategy": {"bounded": 10}}),
        &json!({"strategy": "none"}),
    ));
    bench.send("a", &both(500));
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    drop(engine);
    let places = [("a", 1, "st=500"), ("b", 0, "st=-1")];
    let cut: Vec<_> = places
        .iter()
        .flat_map(|place| (0..2).map(move |p| (p, place)))
        .map(|(p, (topic, offset, metadata))| stoatflow_log::CutEntry {
            partition: TopicPartition::new(*topic, p),
            offset: Offset(*offset),
            metadata: (*metadata).to_owned(),
        })
        .collect();
    let mode = ProducerMode::Plain {
        id: "older".into(),
        timeout: SOON,
    };
    let mut producer = bench.broker.producer(&mode, SOON).unwrap();
    producer.begin().unwrap();
    producer.offsets("stand", &cut, SOON).unwrap();
    producer.commit(SOON).unwrap();
    let mut engine = bench.start();
    assert_eq!(application(&mut engine), -1);
    bench.send("a", &[("x", "v", 600)]);
    engine.run_and_commit().unwrap();
    assert_eq!(
        application(&mut engine),
        490,
        "the other one had come to 500"
    );
}

#[test]
fn a_silent_partition_is_idle_after_its_time_and_a_barrier_says_so() {
    let idle = json!({"strategy": "monotonic", "idle_ms": 60_000});
    let mut bench = bench(two(&json!({"strategy": "monotonic"}), &idle));
    let mut settings = (*bench.spec.settings).clone();
    settings.time_by_watermark = true;
    bench.spec.settings = Arc::new(settings);
    let mut engine = bench.start();
    bench.send("a", &both(500));
    engine.run_and_commit().unwrap();
    // While the broker is unreachable, no partition becomes idle: it may have records.
    let status = Arc::clone(&engine.parts.shared.status);
    status.broker_is_silent(Duration::ZERO);
    engine.run_and_commit().unwrap();
    bench.clock.advance(Duration::from_millis(120_000));
    engine.run_and_commit().unwrap();
    assert_eq!(application(&mut engine), -1);
    status.broker_answers();
    engine.run_and_commit().unwrap();
    bench.clock.advance(Duration::from_millis(59_999));
    engine.run_and_commit().unwrap();
    assert_eq!(application(&mut engine), -1);
    // Nothing is read: time alone causes the barrier.
    bench.clock.advance(Duration::from_millis(1));
    engine.run_and_commit().unwrap();
    assert_eq!(application(&mut engine), 500);
    assert!(committed(&bench)[0].ends_with(";aw=500"));
    // The partition is active again, and behind.
    bench.send("b", &[("x", "v", 20)]);
    bench.send("a", &both(800));
    engine.run_and_commit().unwrap();
    assert_eq!(application(&mut engine), 500);
    bench.send("b", &[("x", "v", 700)]);
    engine.run_and_commit().unwrap();
    assert_eq!(
        application(&mut engine),
        700,
        "the other partition of b is idle still"
    );
}

#[test]
fn a_watermark_can_be_raised_on_request() {
    let bench = bench(two(
        &json!({"strategy": "monotonic"}),
        &json!({"strategy": "none"}),
    ));
    let mut engine = bench.start();
    bench.send("a", &both(500));
    engine.run_and_commit().unwrap();
    engine.parts().shared.request_watermark(700);
    engine.run_and_commit().unwrap();
    assert_eq!(application(&mut engine), 700);
    bench.send("a", &both(600));
    engine.run_and_commit().unwrap();
    assert_eq!(application(&mut engine), 700);
    drop(engine);
    assert_eq!(application(&mut bench.start()), 700);
}

/// How many values in `out` begin with this prefix.
fn of(bench: &TestBench, prefix: &str) -> usize {
    let partitions: Vec<_> = (0..2)
        .map(|p| (TopicPartition::new("out", p), Offset(0)))
        .collect();
    let mut consumer = bench.broker.consumer("reader", 1).unwrap();
    consumer.assign(&partitions).unwrap();
    let mut fetched: Vec<ConsumerRecord> = Vec::new();
    let mut before = usize::MAX;
    while std::mem::replace(&mut before, fetched.len()) != fetched.len() {
        consumer.poll(1_000, Duration::ZERO, &mut fetched).unwrap();
    }
    let value = |r: &ConsumerRecord| r.value.clone().unwrap();
    let found = fetched
        .iter()
        .filter(|r| value(r).starts_with(prefix.as_bytes()));
    found.count()
}

#[test]
fn a_partition_that_runs_ahead_waits_and_is_not_fetched_for_ever() {
    let aligned = json!({"strategy": "monotonic", "group": "g", "max_drift_ms": 100});
    let mut bench = bench(two(&aligned, &aligned));
    let mut settings = (*bench.spec.settings).clone();
    settings.in_flight_max_bytes = 1 << 16;
    bench.spec.settings = Arc::new(settings);
    let mut engine = bench.start();
    bench.send("a", &both(0));
    bench.send("b", &both(0));
    engine.run_and_commit().unwrap();
    // More than all buffers hold, all of it ahead of the other topic.
    let run: Vec<_> = (0..3_000)
        .map(|n| {
            (
                KEYS[n % 2],
                "a-record-that-runs-ahead",
                200 + i64::try_from(n).unwrap(),
            )
        })
        .collect();
    for part in run.chunks(500) {
        bench.send("a", part);
        engine.run_and_commit().unwrap();
    }
    let ahead = of(&bench, "a-record");
    assert_eq!(ahead, 2, "one of each partition, and then it was ahead");
    // The other topic is processed all the same, and the group advances with it.
    for time in (100..=4_000).step_by(100) {
        bench.send("b", &both(time));
        engine.run_and_commit().unwrap();
    }
    assert_eq!(of(&bench, "a-record"), run.len());
    assert_eq!(application(&mut engine), 3_198);
}

#[test]
fn two_sources_of_one_topic_must_agree() {
    let mut plan = compile(copy("in"));
    let mut second = plan.sources[0].clone();
    second.id = stoatflow_core::SourceId(1);
    second.watermark = Some(stoatflow_plan::Watermark {
        strategy: stoatflow_plan::WatermarkStrategy::Monotonic,
        idle_ms: None,
        group: None,
        max_drift_ms: 0,
    });
    plan.sources.push(second);
    let bench = TestBench::new(&["in", "out"], 1, plan);
    let refused = Inline::start(&bench.spec).err().unwrap().to_string();
    assert!(refused.contains("different watermarks"), "{refused}");
}

#[test]
fn global_tables_take_no_part() {
    let mut plan = compile(json!([
        {"op": "table", "topic": "rates", "key": "string", "value": "string", "materialized": {"store": "rates"}},
        {"op": "stream", "topics": ["in"], "key": "string", "value": "string"},
        {"op": "to", "from": 1, "topic": "out", "key": "string", "value": "string"},
    ]));
    plan.sources[0].global = true;
    let bench = TestBench::new(&["in", "out", "rates"], 1, plan);
    let mut engine = bench.start();
    let slots = &engine.parts().slots;
    let strategies: Vec<_> = slots.iter().map(|s| s.watermark.rule.strategy).collect();
    let by_default = Strategy::Bounded(10_000);
    let expected = [by_default, by_default, Strategy::None, Strategy::None];
    assert_eq!(strategies, expected);
}
