//! The same results with any number of lanes, in whatever order they run, and wherever ticks and epochs
//! end.
//!
//! Partitions have different times and are out of order; windows, suppression, a join and an aggregation
//! that reveals the order follow an exchange. The expected results are those of one lane that runs in
//! order.

use super::*;
use std::collections::BTreeMap;
use stoatflow_core::Partition;
use stoatflow_operators::FaultInjection;

/// Random numbers from a seed (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }
}

const OUTPUTS: [&str; 4] = ["windows", "closed", "texts", "pairs"];

fn plan() -> PhysicalPlan {
    let value = || json!({"expr": {"op": "value"}});
    let to = |from: u32, topic: &str, kind: &str| json!({"op": "to", "from": from, "topic": topic, "value": kind});
    let collect = json!({"aggregation": {"one": {"kind": "collect", "of": {"op": "key"}}}});
    compile(json!([
        {"op": "stream", "topics": ["in"], "key": "string", "value": "string"},
        {"op": "group_by", "from": 0, "function": value(), "key": "string", "value": "string"},
        {"op": "windowed_by", "from": 1, "window": {"type": "tumbling", "size_ms": 10, "grace_ms": 5}},
        {"op": "count", "from": 2, "materialized": {"store": "counts"}},
        {"op": "to_stream", "from": 3},
        to(4, "windows", "int64"),
        {"op": "suppress", "from": 3, "until": {"type": "window_closes", "grace_ms": -1}, "name": "closing"},
        {"op": "to_stream", "from": 6},
        to(7, "closed", "int64"),
        {"op": "group_by", "from": 0, "function": value(), "key": "string", "value": "string"},
        {"op": "aggregate", "from": 9, "initializer": {"expr": {"op": "lit", "value": null}}, "function": collect, "materialized": {"store": "texts", "value": "json"}},
        {"op": "to_stream", "from": 10},
        to(11, "texts", "json"),
        {"op": "stream", "topics": ["other"], "key": "string", "value": "string"},
        {"op": "left_join", "from": 0, "other": 13, "function": {"expr": {"op": "left"}}, "key": "string",
         "window": {"before_ms": 4, "after_ms": 4, "grace_ms": 2}, "name": "pairs"},
        to(14, "pairs", "string"),
    ]))
}

/// The results of a key in a topic, in order: value and timestamp.
type Found = BTreeMap<(usize, Vec<u8>), Vec<(Vec<u8>, i64)>>;

fn inputs(rng: &mut Numbers) -> Vec<ProducerRecord> {
    let ahead = [rng.below(200), rng.below(200)];
    (0..60)
        .map(|at| {
            let partition = rng.below(2);
            let time = at + ahead[usize::from(partition == 1)] + rng.below(12);
            // A key stays in its partition.
            let key = format!("k{}", 2 * rng.below(4) + partition);
            ProducerRecord {
                topic: if rng.below(3) == 0 { "other" } else { "in" }.into(),
                partition: Some(Partition(i32::try_from(partition).unwrap())),
                key: Some(key.into()),
                value: Some(format!("v{}", rng.below(3)).into()),
                timestamp: Timestamp(i64::try_from(time).unwrap()),
                headers: None,
            }
        })
        .collect()
}

fn run(seed: u64, lanes: u32, fault: FaultInjection) -> Found {
    let topics: Vec<&str> = ["in", "other"].into_iter().chain(OUTPUTS).collect();
    let mut bench = TestBench::new(&topics, lanes, plan());
    let mut settings = (*bench.spec.settings).clone();
    settings.cache_max_bytes = 0;
    bench.spec.settings = Arc::new(settings);
    bench.spec.components.fault = fault;
    bench.write(inputs(&mut Numbers(seed)));
    let mut engine = bench.start();
    let mut rng = Numbers(seed ^ u64::from(lanes));
    for _ in 0..400 {
        let turns = engine.turns();
        let at = rng.below(turns.len() as u64);
        engine.take(turns[usize::try_from(at).unwrap()]).unwrap();
        if rng.below(20) == 0 {
            // Long enough for a tick to end.
            bench.clock.advance(Duration::from_millis(3));
        }
    }
    engine.run_and_commit().unwrap();
    let mut found = Found::new();
    for (at, topic) in OUTPUTS.iter().enumerate() {
        for record in bench.fetch(topic) {
            let key = record.key.map(|key| key.to_vec()).unwrap_or_default();
            let value = record.value.map(|value| value.to_vec()).unwrap_or_default();
            let of_key = found.entry((at, key)).or_default();
            of_key.push((value, record.timestamp.0));
        }
    }
    found
}

fn differs(seed: u64, fault: FaultInjection) -> bool {
    let one = run(seed, 1, FaultInjection::None);
    assert!(one.len() > 10, "all topics get something");
    [2, 4, 16]
        .into_iter()
        .any(|lanes| run(seed, lanes, fault) != one)
}

#[test]
fn lanes_turns_ticks_and_epochs_change_nothing() {
    for seed in 0..20 {
        let one = run(seed, 1, FaultInjection::None);
        for lanes in [2, 4, 16] {
            assert_eq!(
                run(seed, lanes, FaultInjection::None),
                one,
                "seed {seed}, {lanes} lanes"
            );
        }
    }
}

#[test]
fn records_that_are_taken_as_they_were_sent_are_caught() {
    assert!((0..10).any(|seed| differs(seed, FaultInjection::ExchangeInArrivalOrder)));
}

#[test]
fn a_time_that_later_records_have_moved_is_caught() {
    assert!((0..10).any(|seed| differs(seed, FaultInjection::StreamTimeOfTick)));
}
