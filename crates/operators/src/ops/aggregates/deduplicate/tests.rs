//! Which record passes, in whatever order they arrive.

use crate::Udf;
use crate::testing::*;
use std::sync::Arc;
use stoatflow_core::{ClockId, Datum, Record, StoreId};
use stoatflow_plan::{Function, Op, StoreKind};

fn rig(within_ms: i64, retention_ms: i64, by_value: bool) -> Rig {
    let udf: Arc<dyn Udf> = closure(|a| {
        Ok(match a[1] {
            Datum::Str(v) if v.as_str() == "none" => Datum::Null,
            value => value.clone(),
        })
    });
    let op = Op::Deduplicate {
        store: StoreId(3),
        key: serde("string"),
        function: by_value.then_some(Function::Udf(0)),
        within_ms,
        clock: ClockId(0),
    };
    Rig::changed(into_sink(op, 0), vec![udf], |plan| {
        let mut store = plan.stores[0].clone();
        (store.id, store.value) = (StoreId(3), serde("bytes"));
        store.kind = StoreKind::Window {
            retention_ms,
            size_ms: within_ms,
            duplicates: false,
            timestamped: false,
        };
        store.clock = Some(ClockId(1));
        plan.stores.push(store);
    })
    .unwrap()
}

fn passed(rig: &mut Rig, times: &[i64]) -> Vec<i64> {
    let batch: Vec<Record> = times.iter().map(|at| record("k", "v", *at)).collect();
    rig.push(batch).unwrap();
    let outputs = std::mem::take(&mut rig.effects.outputs);
    outputs.iter().map(|o| o.timestamp.0).collect()
}

#[test]
fn the_first_of_each_time_goes_on() {
    for size in [1, 2, 100] {
        let mut rig = rig(10, 100, false);
        let times = [0, 0, 5, 9, 10, 12, 19, 20, 31];
        let passed: Vec<i64> = times
            .chunks(size)
            .flat_map(|t| passed(&mut rig, t))
            .collect();
        // 10 passes: only forwarded records count, not dropped ones.
        assert_eq!(passed, [0, 10, 20, 31], "batches of {size}");
        assert_eq!(rig.dropped(), [(0, "duplicate"); 5]);
    }
}

#[test]
fn out_of_order_no_two_nearer_than_the_time_go_on() {
    let mut rig = rig(10, 100, false);
    assert_eq!(
        passed(&mut rig, &[50, 41, 59, 40, 60, 49, 45, 31, 30]),
        [50, 40, 60, 30]
    );
    rig.barrier();
    assert_eq!(passed(&mut rig, &[55, 70]), [70], "the store remembers");
}

#[test]
fn expired_keys_pass_again() {
    let mut rig = rig(10, 20, false);
    assert_eq!(passed(&mut rig, &[0, 100]), [0, 100]);
    assert_eq!(passed(&mut rig, &[81, 85]), [81], "still known");
    assert_eq!(passed(&mut rig, &[5, 5]), [5, 5], "nobody knows any more");
}

#[test]
fn a_function_tells_records_of_one_key_apart() {
    let mut rig = rig(10, 100, true);
    let batch = [
        ("a", "x"),
        ("a", "y"),
        ("b", "x"),
        ("a", "x"),
        ("~", "x"),
        ("~", "x"),
        ("a", "none"),
        ("a", "none"),
    ];
    rig.push(batch.iter().map(|(k, v)| record(k, v, 1)).collect())
        .unwrap();
    assert_eq!(
        rig.outputs(),
        [
            "0:a=x@1",
            "0:a=y@1",
            "0:b=x@1",
            "0:~=x@1",
            "0:a=none@1",
            "0:a=none@1"
        ]
    );
    assert_eq!(rig.dropped(), [(0, "duplicate"), (0, "duplicate")]);
}

#[test]
fn null_keys_have_no_id() {
    let mut rig = rig(10, 100, false);
    rig.push(vec![record("~", "v", 1)]).unwrap();
    assert!(rig.outputs().is_empty());
    assert_eq!(rig.dropped(), [(0, "null_key")]);
}
