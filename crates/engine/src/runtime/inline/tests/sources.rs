//! The sources of records, and their timestamps.

use super::*;
use stoatflow_core::{Datum, Error, Handler, Record};
use stoatflow_operators::{Failed, dropped};
use stoatflow_plan::TimestampExtractor;

#[test]
fn global_tables_stand_before_anything_else_is_read() {
    let mut plan = compile(json!([
        {"op": "table", "topic": "rates", "key": "string", "value": "string", "materialized": {"store": "rates"}},
        {"op": "stream", "topics": ["in"], "key": "string", "value": "string"},
        {"op": "to", "from": 1, "topic": "out", "key": "string", "value": "string"},
    ]));
    plan.sources[0].global = true;
    let bench = TestBench::new(&["in", "out", "rates"], 3, plan);
    // The stream's records are older: by time alone they would be processed first.
    bench.send("in", &[("a", "1", 1), ("b", "2", 2)]);
    bench.send("rates", &[("eur", "1.1", 100), ("usd", "1.0", 101)]);
    let mut engine = bench.start();
    let slots: Vec<_> = engine.parts().slots.iter().cloned().collect();
    let read = |engine: &mut Inline, topic: &str| -> i64 {
        let positions = engine.parts().intake.dispatch().positions();
        let positions = slots
            .iter()
            .zip(positions.map(|(at, _)| at.0).collect::<Vec<_>>());
        let of_topic = positions.filter(|(slot, _)| &*slot.partition.topic == topic);
        of_topic.map(|(_, at)| at).sum()
    };
    engine.run_until_idle().unwrap();
    assert_eq!(
        (read(&mut engine, "rates"), read(&mut engine, "in")),
        (2, 0)
    );
    engine.run_and_commit().unwrap();
    assert_eq!(
        (read(&mut engine, "rates"), read(&mut engine, "in")),
        (2, 2)
    );
    assert_eq!(bench.read("out").len(), 2);
    // From then on it is a table like any other.
    bench.send("rates", &[("eur", "1.2", 300)]);
    bench.send("in", &[("a", "3", 3)]);
    engine.run_until_idle().unwrap();
    assert_eq!(
        (read(&mut engine, "rates"), read(&mut engine, "in")),
        (3, 3)
    );
    engine.run_and_commit().unwrap();
    let kept = engine.parts().backend.get(StoreId(0), b"eur").unwrap();
    assert_eq!(&kept.unwrap()[8..], b"1.2");
}

#[test]
fn a_global_table_without_a_changelog_is_read_again_into_an_empty_store() {
    let mut plan = compile(json!([
        {"op": "table", "topic": "rates", "key": "string", "value": "string", "materialized": {"store": "rates"}},
    ]));
    plan.sources[0].global = true;
    plan.stores[0].logged = false;
    let bench = TestBench::new(&["rates"], 2, plan);
    bench.send("rates", &[("eur", "1.1", 100)]);
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    let leftover = vec![stoatflow_state::Write {
        key: Bytes::from("gone"),
        value: Some(Bytes::from("12345678x")),
    }];
    let backend = Arc::clone(&engine.parts().backend);
    backend.restore(StoreId(0), leftover, &[]).unwrap();
    drop((engine, backend));
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    let backend = &engine.parts().backend;
    assert!(backend.get(StoreId(0), b"eur").unwrap().is_some());
    assert_eq!(backend.get(StoreId(0), b"gone").unwrap(), None);
}

#[test]
fn a_pattern_finds_its_topics_at_the_start() {
    let mut plan = compile(copy("x"));
    plan.sources[0].topics.clear();
    plan.sources[0].pattern = Some("in-.*|late".into());
    let topics = ["in-a", "in-b", "begin-a", "in", "out"];
    let bench = TestBench::new(&topics, 2, plan);
    for (topic, value, time) in [
        ("in-a", "1", 1),
        ("in-b", "2", 2),
        ("begin-a", "3", 3),
        ("in", "4", 4),
    ] {
        bench.send(topic, &[("k", value, time)]);
    }
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    let read: Vec<_> = bench.read("out").into_iter().map(|(v, _)| v).collect();
    assert_eq!(read, ["1", "2"]);
}

#[test]
fn a_pattern_that_finds_nothing_says_so() {
    for (pattern, expected) in [("nothing", "matches the pattern"), ("(", "can't be read")] {
        let mut plan = compile(copy("x"));
        plan.sources[0].topics.clear();
        plan.sources[0].pattern = Some(pattern.into());
        let bench = TestBench::new(&["in", "out"], 1, plan);
        let refused = Inline::start(&bench.spec).err().unwrap().to_string();
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn a_pattern_must_leave_out_what_another_source_reads() {
    let mut plan = compile(copy("in"));
    let mut second = plan.sources[0].clone();
    second.id = stoatflow_core::SourceId(1);
    second.topics.clear();
    second.pattern = Some("in.*".into());
    plan.sources.push(second);
    let bench = TestBench::new(&["in", "in-b", "out"], 1, plan);
    let refused = Inline::start(&bench.spec).err().unwrap().to_string();
    assert!(
        refused.contains("'in.*'") && refused.contains("matches the topic 'in', which"),
        "{refused}"
    );
}

/// Reads the time from the value; `p` stands for the partition's time.
#[derive(Debug)]
struct FromValue;

impl Udf for FromValue {
    fn name(&self) -> &str {
        "test.rs:1 from_value"
    }

    fn timestamps(
        &self,
        batch: &[Record],
        topic: &str,
        (mut partition_time, latest): (i64, i64),
        out: &mut Vec<i64>,
    ) -> Result<(), Failed> {
        assert_eq!(topic, "in");
        for (at, record) in batch.iter().enumerate() {
            let Datum::Str(text) = &record.value else {
                panic!("{:?}", record.value);
            };
            let time = match text.as_str() {
                "p" => partition_time,
                "bad" => {
                    return Err(Failed {
                        at,
                        error: Error::user("it raised"),
                    });
                }
                number => number.parse().unwrap(),
            };
            if time <= latest {
                partition_time = partition_time.max(time);
            }
            out.push(time);
        }
        Ok(())
    }

    fn scope(&self, body: &mut dyn FnMut()) {
        body();
    }
}

fn extracting(extractor: TimestampExtractor) -> TestBench {
    let mut plan = compile(copy("in"));
    plan.sources[0].timestamp = extractor;
    TestBench::with_functions(&["in", "out"], 2, plan, vec![Arc::new(FromValue)])
}

fn times(bench: &TestBench) -> Vec<i64> {
    bench
        .read("out")
        .into_iter()
        .map(|(_, time)| time)
        .collect()
}

#[test]
fn a_function_tells_the_time_and_may_drop_a_record() {
    let bench = extracting(TimestampExtractor::Udf(0));
    let mut engine = bench.start();
    let values = [
        ("k", "50", 1),
        ("k", "p", 2),
        ("k", "-7", 3),
        ("k", "20", 4),
        ("k", "p", 5),
    ];
    bench.send("in", &values);
    engine.run_and_commit().unwrap();
    assert_eq!(times(&bench), [20, 50, 50, 50]);
    let drops = engine.parts().shared.status.drops();
    assert_eq!(drops[0].1, dropped::NEGATIVE_TIMESTAMP);
    assert_eq!(drops[0].2, 1);
    // The partition's time survives a restart; a record that is dropped is not read again.
    bench.send("in", &[("k", "-1", 6)]);
    engine.run_and_commit().unwrap();
    drop(engine);
    let mut engine = bench.start();
    bench.send("in", &[("k", "p", 7)]);
    engine.run_and_commit().unwrap();
    assert_eq!(times(&bench), [20, 50, 50, 50, 50]);
    assert!(engine.parts().shared.status.drops().is_empty());
    bench.send("in", &[("k", "bad", 8)]);
    let error = engine.run_and_commit().unwrap_err();
    assert!(error.to_string().contains("it raised"), "{error}");
    assert_eq!(error.coordinates().topic.as_deref(), Some("in"));
}

#[test]
fn failures_of_an_extractor_go_to_the_policy_of_its_source() {
    let mut plan = compile(copy("in"));
    plan.sources[0].timestamp = TimestampExtractor::Udf(0);
    plan.handlers.deserialization = Some(Handler::Continue);
    let bench = TestBench::with_functions(&["in", "out"], 2, plan, vec![Arc::new(FromValue)]);
    let mut engine = bench.start();
    let values = [
        ("k", "50", 1),
        ("k", "bad", i64::MAX),
        ("k", "p", 3),
        ("k", "bad", 4),
        ("k", "20", 5),
    ];
    bench.send("in", &values);
    engine.run_and_commit().unwrap();
    assert_eq!(times(&bench), [20, 50, 50], "the others have theirs");
    let drops = engine.parts().shared.status.drops();
    assert_eq!((drops[0].1, drops[0].2), ("deserialization_error", 2));
    // It hasn't moved the committed time either.
    drop(engine);
    let mut engine = bench.start();
    bench.send("in", &[("k", "p", 7)]);
    engine.run_and_commit().unwrap();
    assert_eq!(times(&bench), [20, 50, 50, 50]);
}

#[test]
fn an_expression_tells_the_time_without_any_function() {
    let plan = compile(json!([
        {"op": "stream", "topics": ["in"], "key": "string", "value": "json",
         "timestamp": {"expr": {"op": "get", "args": [{"op": "value"}], "name": "at"}}},
        {"op": "to", "from": 0, "topic": "out", "key": "string", "value": "json"},
    ]));
    let bench = TestBench::new(&["in", "out"], 2, plan);
    let mut engine = bench.start();
    bench.send("in", &[("k", r#"{"at": 7}"#, 1), ("k", r#"{"at": -7}"#, 2)]);
    engine.run_and_commit().unwrap();
    assert_eq!(times(&bench), [7]);
    assert_eq!(
        engine.parts().shared.status.drops()[0].1,
        dropped::NEGATIVE_TIMESTAMP
    );
    bench.send("in", &[("k", "{}", 3)]);
    let error = engine.run_and_commit().unwrap_err();
    assert!(error.to_string().contains("gave null"), "{error}");
    assert_eq!(error.coordinates().topic.as_deref(), Some("in"));
}

#[test]
fn the_built_in_ways() {
    let run = |extractor, records: &[(&'static str, &'static str, i64)]| {
        let bench = extracting(extractor);
        let mut engine = bench.start();
        bench.send("in", records);
        engine.run_and_commit().map(|()| times(&bench))
    };
    let with_bad = [("k", "a", 30), ("k", "b", -5), ("k", "c", 10)];
    assert_eq!(
        run(TimestampExtractor::LogAndSkip, &with_bad).unwrap(),
        [10, 30]
    );
    assert_eq!(
        run(TimestampExtractor::UsePartitionTime, &with_bad).unwrap(),
        [10, 30, 30]
    );
    assert_eq!(
        run(TimestampExtractor::Wallclock, &with_bad).unwrap(),
        [1_000_000; 3]
    );
    let error = run(TimestampExtractor::FailOnInvalid, &with_bad).unwrap_err();
    assert!(
        error.to_string().contains("negative timestamp -5"),
        "{error}"
    );
    let first_bad = [("k", "a", -30)];
    assert!(run(TimestampExtractor::UsePartitionTime, &first_bad).is_err());
    assert_eq!(
        run(TimestampExtractor::LogAndSkip, &first_bad)
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn one_topic_has_one_kind_of_time() {
    let mut plan = compile(copy("in"));
    let mut second = plan.sources[0].clone();
    second.id = stoatflow_core::SourceId(1);
    plan.sources.push(second);
    plan.sources[1].timestamp = TimestampExtractor::Wallclock;
    let bench = TestBench::new(&["in", "out"], 1, plan);
    let refused = Inline::start(&bench.spec).err().unwrap().to_string();
    assert!(
        refused.contains("different timestamp extractors"),
        "{refused}"
    );
}

/// A topic with three records, and an engine that is started for the first time with this reset policy.
fn started(reset: Value) -> (TestBench, Result<Inline, Error>) {
    let plan = compile(json!([
        {"op": "stream", "topics": ["in"], "key": "string", "value": "string", "reset": reset},
        {"op": "to", "from": 0, "topic": "out", "key": "string", "value": "string"},
    ]));
    let bench = TestBench::new(&["in", "out"], 2, plan);
    bench.send(
        "in",
        &[
            ("a", "1", 990_000),
            ("a", "2", 999_000),
            ("a", "3", 995_000),
        ],
    );
    let engine = Inline::start(&bench.spec);
    (bench, engine)
}

#[test]
fn a_source_starts_where_its_reset_says() {
    // The clock is at 1 000 000.
    for (reset, first) in [
        (json!("earliest"), vec!["1", "3", "2"]),
        (json!("latest"), vec![]),
        (json!({"by_duration": 5_000}), vec!["3", "2"]),
        (json!({"by_duration": 1_000}), vec!["3", "2"]),
        (json!({"by_duration": 999}), vec![]),
        (json!({"by_duration": i64::MAX}), vec!["1", "3", "2"]),
    ] {
        let (bench, engine) = started(reset.clone());
        let mut engine = engine.unwrap();
        engine.run_and_commit().unwrap();
        // With a committed position it continues there, however old the records are.
        bench.send("in", &[("a", "4", 1_000_001)]);
        engine.run_and_commit().unwrap();
        drop(engine);
        bench.send("in", &[("a", "5", 1_000_002)]);
        bench.clock.advance(Duration::from_secs(3_600));
        let mut engine = bench.start();
        engine.run_and_commit().unwrap();
        let read: Vec<String> = bench.read("out").into_iter().map(|(v, _)| v).collect();
        let expected: Vec<&str> = first.into_iter().chain(["4", "5"]).collect();
        assert_eq!(read, expected, "{reset}");
    }
}

#[test]
fn starting_nowhere_needs_a_committed_position() {
    let (mut bench, engine) = started(json!("none"));
    let error = engine.err().unwrap();
    assert_eq!(error.kind(), stoatflow_core::ErrorKind::Config);
    let said = format!("{error} {error:?}");
    for part in ["topic 'in'", "0, 1", "group 'stand'", "reset=\"earliest\""] {
        assert!(said.contains(part), "{said}");
    }
    // Another run of the same application commits a position; after that it starts.
    let none = Arc::clone(&bench.spec.plan);
    let mut plan = (*none).clone();
    plan.sources[0].reset = None;
    bench.spec.plan = Arc::new(plan);
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    drop(engine);
    bench.send("in", &[("a", "4", 1_000_001), ("b", "5", 1_000_002)]);
    bench.spec.plan = none;
    let committed = bench.broker.committed("stand", &parts(), SOON).unwrap();
    assert!(committed.iter().all(Option::is_some), "{committed:?}");
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    assert_eq!(bench.read("out").len(), 5);
}

fn parts() -> Vec<TopicPartition> {
    (0..2).map(|p| TopicPartition::new("in", p)).collect()
}
