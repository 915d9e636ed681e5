//! An exchange holds counts back while its lane has more to do, and no longer.

use super::*;
use std::sync::atomic::Ordering::Relaxed;

fn bench() -> TestBench {
    TestBench::new(
        &["in", "out"],
        1,
        compile(json!([
            {"op": "stream", "topics": ["in"], "key": "string", "value": "string"},
            {"op": "group_by", "from": 0, "function": {"expr": {"op": "value"}}, "key": "string", "value": "string"},
            {"op": "count", "from": 1, "materialized": {"store": "counts"}},
            {"op": "to_stream", "from": 2},
            {"op": "to", "from": 3, "topic": "out", "key": "string", "value": "int64"},
        ])),
    )
}

fn counts(bench: &TestBench) -> Vec<(String, i64)> {
    let count = |r: &ConsumerRecord| {
        let key = String::from_utf8(r.key.clone().unwrap().to_vec()).unwrap();
        let value = r.value.clone().unwrap();
        (
            key,
            i64::from_be_bytes(value.first_chunk().copied().unwrap()),
        )
    };
    bench.fetch("out").iter().map(count).collect()
}

#[test]
fn a_lane_that_has_nothing_else_to_do_counts_at_once() {
    let bench = bench();
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    bench.send("in", &[("a", "x", 1), ("b", "y", 2), ("c", "x", 3)]);
    engine.take(Turn::Intake).unwrap();
    while engine.take(Turn::Lane(0)).unwrap() {}
    let lane = Arc::clone(&engine.parts().shared.status);
    let lane = &lane.lanes[0];
    assert_eq!(lane.records.load(Relaxed), 3, "three records came");
    let waiting = lane.queued_items.load(Relaxed);
    assert_eq!(
        waiting, 1,
        "what is counted is on its way, until its tick ends"
    );
    assert_eq!(counts(&bench), [], "and nothing is committed");
    engine.parts().intake.dispatch().barrier();
    engine.run_until_idle().unwrap();
    assert_eq!(
        lane.records.load(Relaxed),
        3 + 2,
        "two went on: x for both of them"
    );
    engine.run_and_commit().unwrap();
    let mut all = counts(&bench);
    all.sort();
    assert_eq!(all, [("x".into(), 2), ("y".into(), 1)]);
}
