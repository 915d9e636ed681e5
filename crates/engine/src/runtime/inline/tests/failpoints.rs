//! Every failpoint is reached by a run, and a run that ends there loses and duplicates nothing.

use super::*;
use crate::runtime::failpoint::{FAILPOINT_NAMES, Failpoint, Failpoints};
use stoatflow_core::ErrorKind;

fn counting() -> TestBench {
    let plan = compile(json!([
        {"op": "stream", "topics": ["in"], "key": "string", "value": "string"},
        {"op": "group_by_key", "from": 0, "key": "string", "value": "string"},
        {"op": "count", "from": 1, "materialized": {"store": "counts"}},
        {"op": "to_stream", "from": 2},
        {"op": "to", "from": 3, "topic": "out", "key": "string", "value": "int64"},
    ]));
    let mut bench = TestBench::new(&["in", "out"], 2, plan);
    let mut settings = (*bench.spec.settings).clone();
    settings.cache_max_bytes = 0; // every update is forwarded
    bench.spec.settings = Arc::new(settings);
    bench
}

/// The counts of a key that a consumer of committed records sees, in order.
fn counts(bench: &TestBench, key: &str) -> Vec<i64> {
    let partitions: Vec<_> = (0..2)
        .map(|p| (TopicPartition::new("out", p), Offset(0)))
        .collect();
    let mut consumer = bench.broker.consumer("reader", 1).unwrap();
    consumer.assign(&partitions).unwrap();
    let mut fetched: Vec<ConsumerRecord> = Vec::new();
    consumer.poll(1_000, Duration::ZERO, &mut fetched).unwrap();
    let of_key = fetched
        .iter()
        .filter(|r| r.key.as_deref() == Some(key.as_bytes()));
    let number =
        |r: &ConsumerRecord| i64::from_be_bytes(r.value.as_deref().unwrap().try_into().unwrap());
    of_key.map(number).collect()
}

/// One run: it reads all records, is asked to stop, and ends.
fn live(bench: &TestBench, failpoints: Failpoints) -> Result<()> {
    let mut engine = Inline::start_with(&bench.spec, failpoints)?;
    engine.run_until_idle()?;
    engine.parts().shared.stop();
    engine.run_until_idle()
}

#[test]
fn every_place_is_met_and_nothing_is_lost_or_doubled_there() {
    // Nothing requests end offsets here: `tests/python/test_failpoints.py` reaches that place.
    let met = FAILPOINT_NAMES
        .iter()
        .filter(|(place, _)| *place != Failpoint::ObserveEnds);
    for (place, name) in met {
        let mut bench = counting();
        bench.send("in", &[("a", "1", 1), ("b", "1", 2), ("a", "2", 3)]);
        live(&bench, Failpoints::default()).unwrap();
        // An empty disk, so that there is something to restore.
        let mut settings = (*bench.spec.settings).clone();
        settings.state_dir = settings.state_dir.join("other");
        bench.spec.settings = Arc::new(settings);
        bench.send("in", &[("a", "3", 4), ("b", "2", 5)]);
        let armed = Failpoints::parse(&format!("{name}=error")).unwrap();
        let error = live(&bench, armed).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{place:?}: {error}");
        assert!(error.to_string().contains(name), "{error}");
        live(&bench, Failpoints::default()).unwrap();
        assert_eq!(counts(&bench, "a"), [1, 2, 3], "{name}");
        assert_eq!(counts(&bench, "b"), [1, 2], "{name}");
    }
}

#[test]
fn a_place_that_is_met_later_lets_the_run_go_on() {
    let bench = counting();
    bench.send("in", &[("a", "1", 1)]);
    live(
        &bench,
        Failpoints::parse("commit.before-commit=error@2").unwrap(),
    )
    .unwrap();
    assert_eq!(counts(&bench, "a"), [1]);
}
