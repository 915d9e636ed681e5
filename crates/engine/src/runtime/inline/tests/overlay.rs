//! How large an epoch becomes while the one before is being committed.

use super::*;
use std::sync::atomic::Ordering::Relaxed;

const BUDGET: usize = 1 << 20;

fn counting() -> TestBench {
    let mut bench = TestBench::new(
        &["in"],
        1,
        compile(json!([
            {"op": "stream", "topics": ["in"], "key": "string", "value": "string"},
            {"op": "group_by_key", "from": 0, "key": "string", "value": "string"},
            {"op": "count", "from": 1, "materialized": {"store": "counts"}},
        ])),
    );
    let mut settings = (*bench.spec.settings).clone();
    settings.in_flight_max_bytes = BUDGET;
    bench.spec.settings = Arc::new(settings);
    bench
}

/// Records with `keys` different keys.
fn fill(bench: &TestBench, records: usize, keys: usize) {
    let record = |number: usize| ProducerRecord {
        topic: "in".into(),
        partition: None,
        key: Some(Bytes::from(format!("{:06}", number % keys))),
        value: Some(Bytes::from_static(b"v")),
        timestamp: Timestamp(number as i64),
        headers: None,
    };
    bench.write((0..records).map(record).collect());
}

/// How many records are admitted during a commit that never ends, and the bytes that stores hold then.
fn admitted_beside_a_commit(records: usize, keys: usize) -> (i64, u64) {
    let bench = counting();
    fill(&bench, records, keys);
    let mut engine = bench.start();
    engine.take(Turn::Intake).unwrap();
    let at = |engine: &mut Inline| -> i64 {
        let dispatch = engine.parts().intake.dispatch();
        dispatch.positions().map(|(at, _)| at.0).sum()
    };
    engine.parts().intake.dispatch().barrier();
    let before = at(&mut engine);
    for _ in 0..5_000 {
        engine.take(Turn::Intake).unwrap();
        while engine.take(Turn::Lane(0)).unwrap() {}
    }
    let staged = &engine.parts().shared.status.staged_bytes;
    let staged = staged.load(Relaxed);
    (at(&mut engine) - before, staged)
}

#[test]
fn uncommitted_rows_of_stores_bound_an_epoch() {
    let (many, staged) = admitted_beside_a_commit(30_000, 30_000);
    let (few, little) = admitted_beside_a_commit(30_000, 10);
    // A record weighs 135 bytes, and the limit is twice the budget.
    assert!((15_000..16_000).contains(&few), "{few}");
    // A key that is written weighs more than the record that wrote it.
    assert!((4_000..8_000).contains(&many), "{many}");
    assert!(staged > 1 << 20, "{staged}");
    assert!(little < 10_000, "{little}");
}
