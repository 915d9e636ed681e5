//! `reduce` and `aggregate` as measured on Kafka Streams, and with values that change in place.

use crate::testing::*;
use std::any::Any;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use stoatflow_core::{Bytes, Datum, ErrorKind, Opaque, SinkId, StageId, StoreId, Timestamp};
use stoatflow_plan::{Delivery, Function, Op};

fn joined(args: &[&Datum]) -> stoatflow_core::Result<Datum> {
    Ok(text(&args.iter().map(|a| word(a)).collect::<String>()))
}

fn reduce() -> Op {
    Op::Reduce {
        old: false,
        store: StoreId(0),
        key: serde("string"),
        function: Function::Udf(0),
    }
}

fn aggregate(initializer: Function, store: u16) -> Op {
    Op::Aggregate {
        old: false,
        store: StoreId(store),
        key: serde("string"),
        initializer,
        function: Function::Udf(0),
    }
}

#[test]
fn reduce_takes_the_first_value_as_it_is_and_null_deletes() {
    let null_on_x = |args: &[&Datum]| {
        if args[1] == &text("x") {
            Ok(Datum::Null)
        } else {
            joined(args)
        }
    };
    for batches in [1, 6] {
        let udf = closure(null_on_x);
        let mut rig = Rig::new(into_sink(reduce(), 0), vec![Arc::clone(&udf) as _], false);
        let records = [
            ("a", "p", 10),
            ("a", "x", 11),
            ("a", "q", 5),
            ("b", "x", 1),
            ("b", "x", 2),
            ("b", "r", 3),
        ];
        for part in records.chunks(records.len() / batches) {
            rig.push(part.iter().map(|(k, v, t)| record(k, v, *t)).collect())
                .unwrap();
        }
        assert_eq!(
            rig.outputs(),
            [
                "0:a=p@10", "0:a=~@11", "0:a=q@5", "0:b=x@1", "0:b=~@2", "0:b=r@3"
            ]
        );
        assert_eq!(
            (rig.stored(0, "a"), rig.stored(0, "b")),
            ("q@5".into(), "r@3".into())
        );
        assert_eq!(
            udf.scopes.load(Ordering::Relaxed),
            batches,
            "one attach per batch"
        );
        assert_eq!(
            udf.calls.load(Ordering::Relaxed),
            2,
            "first values need no call"
        );
    }
}

#[test]
fn aggregate_starts_from_the_initializer_and_keeps_the_highest_time() {
    let append_or_reset = |args: &[&Datum]| {
        if args[1] == &text("x") {
            Ok(Datum::Null)
        } else {
            joined(&[args[2], args[1]])
        }
    };
    let empty = [expression(r#"{"op":"lit","value":""}"#), Function::Udf(1)];
    for initializer in empty {
        let mut rig = Rig::new(
            into_sink(aggregate(initializer, 0), 0),
            vec![
                closure(append_or_reset),
                closure(|args| {
                    assert!(args.is_empty());
                    Ok(text(""))
                }),
            ],
            false,
        );
        let records = [
            ("a", "p", 10),
            ("a", "q", 12),
            ("a", "x", 11),
            ("a", "r", 5),
            ("b", "x", 1),
            ("b", "s", 0),
        ];
        rig.push(records.iter().map(|(k, v, t)| record(k, v, *t)).collect())
            .unwrap();
        assert_eq!(
            rig.outputs(),
            [
                "0:a=p@10",
                "0:a=pq@12",
                "0:a=~@12",
                "0:a=r@5",
                "0:b=~@1",
                "0:b=s@0"
            ]
        );
        assert_eq!(
            (rig.stored(0, "a"), rig.stored(0, "b")),
            ("r@5".into(), "s@0".into())
        );
    }
}

#[test]
fn nulls_are_dropped_before_the_function_sees_them() {
    let udf = closure(joined);
    let mut rig = Rig::new(into_sink(reduce(), 0), vec![Arc::clone(&udf) as _], false);
    rig.push(vec![record("~", "v", 1), record("k", "~", 2)])
        .unwrap();
    assert_eq!(rig.dropped(), [(0, "null_key"), (0, "null_value")]);
    assert_eq!(
        udf.scopes.load(Ordering::Relaxed),
        0,
        "nothing to do, nothing attached"
    );
}

#[test]
fn cached_updates_come_at_the_barrier() {
    let mut rig = Rig::new(into_sink(reduce(), 0), vec![closure(joined)], true);
    rig.push(vec![
        record("b", "1", 1),
        record("a", "2", 9),
        record("b", "3", 0),
    ])
    .unwrap();
    rig.push(vec![record("a", "4", 4)]).unwrap();
    assert!(rig.outputs().is_empty());
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:b=13@1", "0:a=24@9"]);
}

#[test]
fn a_failure_writes_nothing_and_says_where() {
    let mut rig = Rig::new(
        into_sink(reduce(), 0),
        vec![closure(|args| {
            if args[1] == &text("bad") {
                Err(raised())
            } else {
                joined(args)
            }
        })],
        false,
    );
    let error = rig
        .push(vec![record("k", "1", 1), record("k", "bad", 2)])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::User);
    assert_eq!(
        (
            error.coordinates().node.as_deref(),
            error.coordinates().offset.map(|o| o.0)
        ),
        (Some("reduce-0"), Some(2))
    );
    assert_eq!(rig.stored(0, "k"), "-");
}

#[test]
fn an_initializer_reads_no_record() {
    let reads = aggregate(expression(r#"{"op":"value"}"#), 0);
    let error = Rig::build(into_sink(reads, 0), vec![closure(joined)], false)
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::Topology);
    assert!(error.message().contains("sf.value"), "{error}");
}

/// A list that functions append to in place, like a Python list.
#[derive(Debug)]
struct Growing(Mutex<Vec<i64>>);

impl Opaque for Growing {
    fn to_json(&self) -> stoatflow_core::Result<Bytes> {
        Ok(format!("{:?}", self.0.lock().unwrap())
            .replace(' ', "")
            .into())
    }
    fn type_name(&self) -> String {
        "list".into()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `agg.append(timestamp of the value); return agg`
fn append(args: &[&Datum]) -> stoatflow_core::Result<Datum> {
    let number: i64 = word(args[1]).parse().unwrap();
    match args[2] {
        Datum::Opaque(object) => {
            object
                .as_any()
                .downcast_ref::<Growing>()
                .unwrap()
                .0
                .lock()
                .unwrap()
                .push(number);
            Ok(args[2].clone())
        }
        // A copy made with the store's serde.
        Datum::Json(bytes) => {
            let mut list: Vec<i64> = serde_json::from_slice(bytes).unwrap();
            list.push(number);
            Ok(Datum::Opaque(Arc::new(Growing(Mutex::new(list)))))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn updates_that_wait_below_do_not_change_when_the_function_changes_its_value_in_place() {
    let op = aggregate(expression(r#"{"op":"object","names":[],"args":[]}"#), 2);
    let start = closure(|_| Ok(Datum::Opaque(Arc::new(Growing(Mutex::new(vec![]))))));
    let Op::Aggregate {
        store,
        key,
        function,
        ..
    } = op
    else {
        unreachable!()
    };
    let op = Op::Aggregate {
        old: false,
        store,
        key,
        function,
        initializer: Function::Udf(1),
    };
    let mut rig = Rig::new(
        into_sink(op.clone(), 2),
        vec![closure(append), Arc::clone(&start) as _],
        false,
    );
    rig.push(vec![
        record("k", "1", 1),
        record("k", "2", 2),
        record("l", "7", 7),
        record("k", "3", 3),
    ])
    .unwrap();
    rig.push(vec![record("k", "4", 4)]).unwrap();
    assert_eq!(
        rig.outputs(),
        [
            "2:k=[1]@1",
            "2:k=[1,2]@2",
            "2:l=[7]@7",
            "2:k=[1,2,3]@3",
            "2:k=[1,2,3,4]@4"
        ]
    );

    // An update that is sent to another lane waits even longer than its batch.
    let to_lane = Op::Exchange {
        keep_null: false,
        ahead: false,
        to: vec![],
        stage: StageId(1),
        key: serde("string"),
    };
    let nodes = vec![
        (op, vec![1], Delivery::Batch),
        (to_lane, vec![], Delivery::Batch),
    ];
    let mut rig = Rig::new(nodes, vec![closure(append), start], false);
    rig.push(vec![record("k", "1", 1)]).unwrap();
    rig.push(vec![record("k", "2", 2)]).unwrap();
    let values: Vec<_> = rig
        .effects
        .routed
        .iter()
        .map(|r| word(&r.record.value))
        .collect();
    assert_eq!(values, ["[1]", "[1,2]"]);
}

#[test]
fn a_delete_is_written_with_the_time_of_its_record() {
    let mut rig = Rig::new(
        into_sink(reduce(), 0),
        vec![closure(|_| Ok(Datum::Null))],
        false,
    );
    rig.push(vec![record("k", "1", 10)]).unwrap();
    // Rows created and deleted in one epoch are not written; here the delete is in the next epoch.
    rig.epoch = rig.epoch.next();
    let epoch = rig.epoch;
    rig.stores[0].dirty = stoatflow_state::Dirty::default();
    rig.push(vec![record("k", "2", 4)]).unwrap();
    let kept = &mut rig.stores[0];
    let sealed = kept
        .store
        .seal(epoch, std::mem::take(&mut kept.dirty))
        .unwrap();
    assert_eq!(
        (sealed.len(), sealed[0].value.clone(), sealed[0].timestamp),
        (1, None, Timestamp(4))
    );
    assert_eq!(rig.effects.outputs[1].sink, SinkId(0));
}
