use super::super::samples::{LaneSample, PartitionSample};
use super::*;
use crate::admin::function_calls::FunctionCost;
use crate::lane::hot_keys::HotKeys;
use std::time::Duration;
use stoatflow_core::Datum;

fn sample(at: u64) -> Sample {
    Sample {
        at: Duration::from_secs(at),
        records_in: 0,
        records_sent: 0,
        records_committed: 0,
        commits: 0,
        watermark: -1,
        throttled: Duration::ZERO,
        clients: Vec::new(),
        lanes: vec![LaneSample::default(); 3],
        nodes: Vec::new(),
        functions: Vec::new(),
        partitions: Vec::new(),
        drops: Vec::new(),
    }
}

fn function(name: &str, calls: u64, seconds: f64, wait_seconds: f64) -> FunctionCost {
    FunctionCost {
        node: "parse".to_owned(),
        op: "map",
        function: name.to_owned(),
        calls,
        seconds,
        wait_seconds,
        awaited: None,
        oldest_call: None,
    }
}

#[test]
fn the_busiest_lane_comes_first() {
    let (before, mut now) = (sample(100), sample(110));
    now.records_in = 500;
    now.lanes[1].busy = Duration::from_secs(9);
    now.lanes[2].busy = Duration::from_secs(1);
    now.lanes[2].records = 30;
    let ranking = Ranking::between(Some(&before), &now, 2);
    assert_eq!((ranking.seconds, ranking.records_per_second), (10.0, 50.0));
    let rows: Vec<_> = ranking.lanes.iter().map(|l| (l.lane, l.busy)).collect();
    assert_eq!(rows, [(1, 0.9), (2, 0.1)]);
    assert_eq!(ranking.lanes[1].records_per_second, 3.0);
}

#[test]
fn functions_are_ranked_by_the_time_they_took_since() {
    let (mut before, mut now) = (sample(0), sample(10));
    before.functions = vec![function("early", 900, 500.0, 0.0)];
    now.functions = vec![
        function("early", 910, 501.0, 0.0),
        function("late", 20, 4.0, 2.0),
        function("never", 0, 0.0, 0.0),
    ];
    let functions = Ranking::between(Some(&before), &now, 10).functions;
    let names: Vec<_> = functions.iter().map(|f| f.function.as_str()).collect();
    assert_eq!(names, ["late", "early"]);
    let late = &functions[0];
    assert_eq!((late.busy, late.waiting), (0.4, 0.2));
    assert_eq!((late.calls_per_second, late.mean_ms), (2.0, 200.0));
}

#[test]
fn partitions_say_whether_they_catch_up() {
    let of = |partition, lag| PartitionSample {
        topic: "orders".to_owned(),
        partition,
        lag,
    };
    let (mut before, mut now) = (sample(0), sample(10));
    before.partitions = vec![of(0, 100), of(1, 500), of(2, 9)];
    now.partitions = vec![of(0, 300), of(1, 400), of(2, 0)];
    let partitions = Ranking::between(Some(&before), &now, 10).partitions;
    let rows: Vec<_> = (partitions.iter())
        .map(|p| (p.partition, p.lag, p.lag_per_second))
        .collect();
    assert_eq!(rows, [(1, 400, -10.0), (0, 300, 20.0)]);
}

#[test]
fn drops_that_go_on_come_before_old_ones() {
    let (mut before, mut now) = (sample(0), sample(10));
    before.drops = vec![("window".to_owned(), "late", 1_000)];
    now.drops = vec![
        ("window".to_owned(), "late", 1_000),
        ("parse".to_owned(), "null_key", 20),
    ];
    let drops = Ranking::between(Some(&before), &now, 10).drops;
    let rows: Vec<_> = drops
        .iter()
        .map(|d| (d.reason, d.per_second, d.total))
        .collect();
    assert_eq!(rows, [("null_key", 2.0, 20), ("late", 0.0, 1_000)]);
}

#[test]
fn the_first_look_has_no_rates() {
    let mut now = sample(10);
    now.lanes[0].busy = Duration::from_secs(5);
    let ranking = Ranking::between(None, &now, 10);
    assert_eq!((ranking.seconds, ranking.lanes[0].busy), (0.0, 0.0));
}

#[test]
fn a_key_has_the_share_of_all_lanes() {
    let plan = crate::admin::tests::fixture::plan();
    let seen = |key: &str, times: usize, rest: usize| {
        let mut keys = HotKeys::default();
        let all = std::iter::repeat_n(key, times).chain(std::iter::repeat_n("rest", rest));
        for key in all {
            keys.count(NodeId(0), &Datum::text(key), Duration::ZERO);
        }
        keys.recent(Duration::ZERO)
    };
    let shares = keys(&plan, vec![seen("DE", 60, 0), seen("FR", 10, 30)], 2);
    let rows: Vec<_> = shares
        .iter()
        .map(|k| (k.key.as_str(), k.share, k.lane))
        .collect();
    assert_eq!(rows, [("DE", 0.6, 0), ("rest", 0.3, 1)]);
    assert_eq!(
        (shares[0].node.as_str(), shares[0].sampled),
        (plan.nodes[0].name.as_str(), 100)
    );
}

#[test]
fn the_largest_store_comes_first() {
    let size = |disk_bytes| StoreSize {
        disk_bytes,
        ..StoreSize::default()
    };
    let all = vec![("a".to_owned(), size(1)), ("b".to_owned(), size(2))];
    let rows = stores(all, 1);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["store"], "b");
}
