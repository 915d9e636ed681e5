//! Records that are older than the watermark, with every kind of policy.

use super::*;
use stoatflow_core::{CallableHandler, Datum, Error, Header, Late, Record};
use stoatflow_operators::{Failed, dropped};
use stoatflow_plan::TimestampExtractor;

/// Records before this are late, in both partitions.
const WATERMARK: i64 = 100;

fn reading(late: &Late) -> PhysicalPlan {
    let mut plan = compile(copy("in"));
    plan.sources[0].late = late.clone();
    plan
}

/// An engine that has reached the watermark before there is any record.
fn started(bench: &TestBench) -> Inline {
    let mut engine = bench.start();
    engine.parts().shared.request_watermark(WATERMARK);
    engine.run_and_commit().unwrap();
    engine
}

fn late(engine: &mut Inline) -> Vec<(String, &'static str, u64)> {
    engine.parts().shared.status.lates()
}

fn dropped_at_source(engine: &mut Inline) -> Vec<(&'static str, u64)> {
    let name = engine.parts().shared.status.plan.sources[0].name.clone();
    let drops = engine.parts().shared.status.drops();
    drops
        .into_iter()
        .map(|(node, reason, count)| {
            assert_eq!(node, name);
            (reason, count)
        })
        .collect()
}

fn of(topic: &str, policy: &'static str, count: u64) -> (String, &'static str, u64) {
    (topic.to_owned(), policy, count)
}

/// Late records and others, of several keys, mixed.
const MIXED: &[(&str, &str, i64)] = &[
    ("a", "1", 99),
    ("b", "2", 100),
    ("c", "3", 5),
    ("a", "4", 200),
    ("b", "5", 98),
    ("d", "6", 150),
];

fn values(bench: &TestBench) -> Vec<String> {
    let read = bench.read("out");
    read.into_iter().map(|(value, _)| value).collect()
}

/// A topic's records with their headers.
fn letters(bench: &TestBench, topic: &str) -> Vec<ConsumerRecord> {
    let partitions: Vec<_> = (0..2)
        .map(|p| (TopicPartition::new(topic, p), Offset(0)))
        .collect();
    let mut consumer = bench.broker.consumer("reader", 1).unwrap();
    consumer.assign(&partitions).unwrap();
    let mut fetched = Vec::new();
    consumer.poll(1_000, Duration::ZERO, &mut fetched).unwrap();
    fetched.sort_by_key(|r| r.timestamp);
    fetched
}

fn error_header(letter: &ConsumerRecord, name: &str) -> Option<String> {
    let name = format!("__stoatflow.errors.{name}");
    let header = letter.headers.iter().flat_map(|all| all.iter());
    let mut header = header.filter(|h| *h.name == *name);
    let value = header.next()?.value.clone()?;
    Some(String::from_utf8(value.to_vec()).unwrap())
}

#[test]
fn grace_lets_all_in_and_counts_them() {
    for lanes in [1, 3] {
        let bench = TestBench::new(&["in", "out"], lanes, reading(&Late::Grace));
        let mut engine = started(&bench);
        bench.send("in", MIXED);
        engine.run_and_commit().unwrap();
        assert_eq!(values(&bench), ["3", "5", "1", "2", "6", "4"]);
        assert_eq!(late(&mut engine), [of("in", "grace", 3)]);
        assert_eq!(dropped_at_source(&mut engine), []);
    }
}

#[test]
fn drop_leaves_out_what_is_older_and_commits_it_as_read() {
    for lanes in [1, 3] {
        let bench = TestBench::new(&["in", "out"], lanes, reading(&Late::Drop));
        let mut engine = started(&bench);
        bench.send("in", MIXED);
        engine.run_and_commit().unwrap();
        assert_eq!(values(&bench), ["2", "6", "4"]);
        assert_eq!(late(&mut engine), [of("in", "drop", 3)]);
        assert_eq!(dropped_at_source(&mut engine), [(dropped::LATE, 3)]);
        // The watermark survives a restart, and nothing is sent a second time.
        drop(engine);
        let mut engine = bench.start();
        bench.send("in", &[("a", "7", 1), ("a", "8", 100)]);
        engine.run_and_commit().unwrap();
        assert_eq!(values(&bench), ["2", "8", "6", "4"]);
        assert_eq!(late(&mut engine), [of("in", "drop", 1)]);
    }
}

#[test]
fn nothing_is_late_before_the_watermark_is_known() {
    let bench = TestBench::new(&["in", "out"], 2, reading(&Late::Drop));
    let mut engine = bench.start();
    for time in [500, 0] {
        bench.send("in", &[("a", "v", time)]);
        engine.run_and_commit().unwrap();
    }
    assert_eq!(values(&bench).len(), 2);
    assert_eq!(late(&mut engine), []);
}

#[test]
fn a_dead_letter_is_the_record_and_belongs_to_the_transaction() {
    let plan = reading(&Late::Dlq("letters".into()));
    let bench = TestBench::new(&["in", "out", "letters"], 2, plan);
    let mut engine = started(&bench);
    bench.send("in", MIXED);
    engine.run_until_idle().unwrap();
    drop(engine);
    assert_eq!(letters(&bench, "letters").len(), 0, "nothing was committed");
    // The watermark is that of the last commit.
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    assert_eq!(values(&bench), ["2", "6", "4"]);
    assert_eq!(late(&mut engine), [of("in", "dlq", 3)]);
    assert_eq!(
        dropped_at_source(&mut engine),
        [(dropped::LATE_DEAD_LETTER, 3)]
    );
    let all = letters(&bench, "letters");
    let found: Vec<_> = all
        .iter()
        .map(|r| {
            let text = |b: &Option<Bytes>| String::from_utf8(b.clone().unwrap().to_vec()).unwrap();
            (text(&r.key), text(&r.value), r.timestamp.0)
        })
        .collect();
    let expected = [("c", "3", 5), ("b", "5", 98), ("a", "1", 99)];
    let expected = expected.map(|(k, v, t)| (k.to_owned(), v.to_owned(), t));
    assert_eq!(found, expected);
    for (name, value) in [
        ("application", "stand"),
        ("kind", "late"),
        ("topic", "in"),
        ("timestamp", "5"),
        ("watermark", "100"),
        (
            "message",
            "the record is 95 ms older than the watermark 100",
        ),
    ] {
        assert_eq!(
            error_header(&all[0], name).as_deref(),
            Some(value),
            "{name}"
        );
    }
    let node = bench.spec.plan.sources[0].name.clone();
    assert_eq!(error_header(&all[0], "node"), Some(node));
}

#[test]
fn a_letter_keeps_the_headers_of_its_record() {
    let plan = reading(&Late::Dlq("letters".into()));
    let bench = TestBench::new(&["in", "out", "letters"], 1, plan);
    let mut engine = started(&bench);
    let mode = ProducerMode::Plain {
        id: "feeder".into(),
        timeout: SOON,
    };
    let mut producer = bench.broker.producer(&mode, SOON).unwrap();
    producer.begin().unwrap();
    let own = Header {
        name: "trace".into(),
        value: Some(Bytes::from("abc")),
    };
    let record = ProducerRecord {
        topic: "in".into(),
        partition: None,
        key: None,
        value: Some(Bytes::from("v")),
        timestamp: Timestamp(3),
        headers: Some([own.clone()].into()),
    };
    producer.send(&mut vec![record]).unwrap();
    producer.flush(SOON).unwrap();
    producer.commit(SOON).unwrap();
    engine.run_and_commit().unwrap();
    let all = letters(&bench, "letters");
    assert_eq!(all.len(), 1);
    assert_eq!(
        (
            all[0].key.is_none(),
            all[0].headers.as_ref().unwrap()[0].clone()
        ),
        (true, own)
    );
    assert_eq!(error_header(&all[0], "offset").as_deref(), Some("0"));
}

/// Decides by the value of each record, and keeps the batches that it was called with.
#[derive(Debug, Default)]
struct ByValue(parking_lot::Mutex<Vec<Vec<String>>>);

impl Udf for ByValue {
    fn name(&self) -> &str {
        "test.rs:1 by_value"
    }

    fn late(
        &self,
        batch: &[Record],
        topic: &str,
        watermark: i64,
        out: &mut Vec<Late>,
    ) -> Result<(), Failed> {
        assert_eq!((topic, watermark), ("in", WATERMARK));
        let value = |r: &Record| match &r.value {
            Datum::Str(text) => text.as_str().to_owned(),
            other => panic!("{other:?}"),
        };
        self.0.lock().push(batch.iter().map(value).collect());
        for (at, record) in batch.iter().enumerate() {
            out.push(match value(record).as_str() {
                "grace" => Late::Grace,
                "drop" => Late::Drop,
                "raise" => {
                    let error = Error::user("it raised");
                    return Err(Failed { at, error });
                }
                topic => Late::Dlq(topic.to_owned()),
            });
        }
        Ok(())
    }

    fn scope(&self, body: &mut dyn FnMut()) {
        body();
    }
}

fn asking(lanes: u32) -> (TestBench, Arc<ByValue>) {
    let call = Late::Call(CallableHandler {
        udf: 0,
        topics: vec!["letters".into()],
    });
    let udf = Arc::new(ByValue::default());
    let udfs: Vec<Arc<dyn Udf>> = vec![Arc::clone(&udf) as Arc<dyn Udf>];
    let topics = ["in", "out", "letters"];
    let bench = TestBench::with_functions(&topics, lanes, reading(&call), udfs);
    (bench, udf)
}

#[test]
fn a_callable_is_asked_about_late_records_only_and_in_batches() {
    let (bench, udf) = asking(1);
    let mut engine = started(&bench);
    bench.send(
        "in",
        &[
            ("a", "grace", 10),
            ("a", "on time", 100),
            ("a", "drop", 11),
            ("a", "letters", 12),
            ("a", "too", 300),
            ("a", "grace", 13),
        ],
    );
    engine.run_and_commit().unwrap();
    assert_eq!(*udf.0.lock(), [["grace", "drop", "letters", "grace"]]);
    assert_eq!(values(&bench), ["grace", "grace", "on time", "too"]);
    let mut counted = late(&mut engine);
    counted.sort_unstable();
    assert_eq!(
        counted,
        [
            of("in", "dlq", 1),
            of("in", "drop", 1),
            of("in", "grace", 2)
        ]
    );
    assert_eq!(letters(&bench, "letters").len(), 1);
}

#[test]
fn errors_of_a_callable_name_the_record() {
    for (value, what) in [("raise", "it raised"), ("nowhere", "no such topic")] {
        let (bench, _) = asking(2);
        let mut engine = started(&bench);
        bench.send("in", &[("a", "grace", 10), ("a", value, 11)]);
        let error = engine.run_and_commit().unwrap_err();
        let at = error.coordinates();
        assert!(error.to_string().contains(what), "{error}");
        assert_eq!(at.topic.as_deref(), Some("in"));
        assert_eq!(at.offset, Some(Offset(1)));
        assert!(at.lane.is_some());
    }
}

#[test]
fn undecodable_records_are_late_all_the_same() {
    let numbers = |late: &Late| {
        let mut plan = compile(json!([
            {"op": "stream", "topics": ["in"], "key": "string", "value": "int64"},
            {"op": "to", "from": 0, "topic": "out", "key": "string", "value": "int64"},
        ]));
        plan.sources[0].late = late.clone();
        plan
    };
    let bench = TestBench::new(&["in", "out"], 1, numbers(&Late::Drop));
    let mut engine = started(&bench);
    bench.send("in", &[("a", "no int", 10)]);
    engine.run_and_commit().unwrap();
    assert_eq!(late(&mut engine), [of("in", "drop", 1)]);

    // A callable would have to see it, so it is left to the handler of records that can't be decoded.
    let udf: Arc<dyn Udf> = Arc::new(ByValue::default());
    let call = Late::Call(CallableHandler {
        udf: 0,
        topics: Vec::new(),
    });
    let mut plan = numbers(&call);
    plan.handlers.deserialization = Some(stoatflow_core::Handler::Continue);
    let bench = TestBench::with_functions(&["in", "out"], 1, plan, vec![udf]);
    let mut engine = started(&bench);
    bench.send("in", &[("a", "no int", 10)]);
    engine.run_and_commit().unwrap();
    assert_eq!(late(&mut engine), []);
    assert_eq!(
        dropped_at_source(&mut engine),
        [("deserialization_error", 1)]
    );
}

#[test]
fn extracted_timestamps_decide_lateness() {
    let mut plan = reading(&Late::Drop);
    plan.sources[0].timestamp = TimestampExtractor::Wallclock;
    let bench = TestBench::new(&["in", "out"], 1, plan);
    let mut engine = started(&bench);
    bench.send("in", &[("a", "1", 5)]);
    engine.run_and_commit().unwrap();
    assert_eq!(values(&bench), ["1"]);
}

#[test]
fn no_record_of_a_global_table_is_late() {
    let mut plan = compile(json!([
        {"op": "table", "topic": "rates", "key": "string", "value": "string", "materialized": {"store": "rates"}},
    ]));
    plan.sources[0].global = true;
    plan.sources[0].late = Late::Drop;
    let bench = TestBench::new(&["rates"], 2, plan);
    let mut engine = started(&bench);
    bench.send("rates", &[("eur", "1.1", 1)]);
    engine.run_and_commit().unwrap();
    let kept = engine.parts().backend.get(StoreId(0), b"eur").unwrap();
    assert!(kept.is_some());
    assert_eq!(late(&mut engine), []);
}
