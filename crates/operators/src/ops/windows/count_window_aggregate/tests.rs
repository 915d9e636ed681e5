//! A fixed number of records of a key, then the next window.

use crate::Udf;
use crate::testing::*;
use std::sync::Arc;
use stoatflow_core::{ClockId, Datum, Record, StoreId};
use stoatflow_plan::{Emit, Fold, Function, Op, SerdeSpec, StoreKind, Window};
use stoatflow_state::WindowView;

fn rig(records: i64, fold: Fold, emit: Emit, udfs: Vec<Arc<dyn Udf>>) -> Rig {
    let counts = matches!(fold, Fold::Count);
    let op = Op::WindowAggregate {
        store: StoreId(3),
        positions: Some(StoreId(1)),
        key: serde("string"),
        window: Window::Count { records },
        fold,
        emit,
        clock: ClockId(0),
        old: false,
    };
    Rig::changed(to_streams(into_sink(op, u16::from(counts))), udfs, |plan| {
        for sink in &mut plan.sinks {
            sink.key = SerdeSpec::TimeWindowed {
                time_windowed: Box::new(serde("string")),
                size_ms: records,
            };
        }
        let mut store = plan.stores[0].clone();
        (store.id, store.clock) = (StoreId(3), Some(ClockId(1)));
        store.value = serde(if counts { "int64" } else { "string" });
        store.kind = StoreKind::Window {
            retention_ms: i64::MAX,
            size_ms: records,
            duplicates: false,
            timestamped: true,
        };
        plan.stores.push(store);
    })
    .unwrap()
}

/// Output of a sink as `key[start]=value@time`.
fn given(rig: &mut Rig) -> Vec<String> {
    let outputs = std::mem::take(&mut rig.effects.outputs);
    let shown = outputs.into_iter().map(|o| {
        let key = o.key.unwrap();
        let (name, start) = key.split_at(key.len() - 8);
        let value = o.value.unwrap();
        let value = match <[u8; 8]>::try_from(&value[..]) {
            Ok(count) if usize::from(o.sink.0) == 1 => i64::from_be_bytes(count).to_string(),
            _ => String::from_utf8_lossy(&value).into_owned(),
        };
        format!(
            "{}[{}]={value}@{}",
            String::from_utf8_lossy(name),
            i64::from_be_bytes(start.try_into().unwrap()),
            o.timestamp
        )
    });
    shown.collect()
}

/// Windows in the store as `key[start]=value`.
fn kept(rig: &Rig) -> Vec<String> {
    let view = WindowView::new(&rig.stores[3].store, rig.epoch, -1).unwrap();
    let mut all: Vec<String> = view
        .all(false)
        .unwrap()
        .into_iter()
        .filter(|(.., held)| !held.value.is_null())
        .map(|(key, start, held)| {
            format!(
                "{}[{start}]={}",
                String::from_utf8_lossy(&key),
                word(&held.value)
            )
        })
        .collect();
    all.sort();
    all
}

fn inputs() -> Vec<Record> {
    let given = [
        ("a", "1", 50),
        ("b", "1", 10),
        ("a", "~", 7),
        ("~", "x", 99),
        ("a", "3", 60),
        ("a", "4", 2),
        ("b", "2", 11),
        ("a", "5", 3),
        ("a", "6", 1),
        ("a", "7", 70),
    ];
    given.map(|(k, v, at)| record(k, v, at)).to_vec()
}

fn joined() -> (Fold, Vec<Arc<dyn Udf>>) {
    // The initializer is a function without arguments; the aggregator gets key, value, aggregate.
    let start: Arc<dyn Udf> = closure(|_| Ok(text("")));
    let add: Arc<dyn Udf> = closure(|a| Ok(text(&format!("{}{}", word(a[2]), word(a[1])))));
    let fold = Fold::Aggregate {
        initializer: Function::Udf(0),
        function: Function::Udf(1),
        merger: None,
    };
    (fold, vec![start, add])
}

#[test]
fn each_window_holds_so_many_records_of_its_key() {
    for size in [1, 2, 3, 100] {
        let mut rig = rig(3, Fold::Count, Emit::OnWindowUpdate, vec![]);
        for batch in inputs().chunks(size) {
            rig.push(batch.to_vec()).unwrap();
        }
        assert_eq!(
            given(&mut rig),
            [
                "a[0]=1@50",
                "b[0]=1@10",
                "a[0]=2@50",
                "a[0]=3@60",
                "a[3]=1@2",
                "b[0]=2@11",
                "a[3]=2@3",
                "a[3]=3@3",
                "a[6]=1@70",
            ],
            "batches of {size}"
        );
        assert_eq!(rig.dropped(), [(0, "null_key")]);
        // The first window of a was deleted when the second was full.
        assert_eq!(kept(&rig), ["a[3]=3", "a[6]=1", "b[0]=2"]);
        assert_eq!(rig.stored(1, "a"), "7@70");
    }
}

#[test]
fn functions_get_every_value() {
    for size in [1, 4, 100] {
        let (fold, udfs) = joined();
        let mut rig = rig(2, fold, Emit::OnWindowUpdate, udfs);
        for batch in inputs().chunks(size) {
            rig.push(batch.to_vec()).unwrap();
        }
        assert_eq!(
            given(&mut rig),
            [
                "a[0]=1@50",
                "b[0]=1@10",
                "a[0]=1~@50",
                "a[2]=3@60",
                "a[2]=34@60",
                "b[0]=12@11",
                "a[4]=5@3",
                "a[4]=56@3",
                "a[6]=7@70",
            ],
            "batches of {size}"
        );
    }
}

#[test]
fn on_window_close_the_last_record_gives_the_result() {
    for size in [1, 4, 100] {
        let (fold, udfs) = joined();
        let mut rig = rig(3, fold, Emit::OnWindowClose, udfs);
        for batch in inputs().chunks(size) {
            rig.push(batch.to_vec()).unwrap();
            rig.barrier();
        }
        assert_eq!(
            given(&mut rig),
            ["a[0]=1~3@60", "a[3]=456@3"],
            "batches of {size}"
        );
    }
}

#[test]
fn a_restart_goes_on_counting() {
    let mut rig = rig(3, Fold::Count, Emit::OnWindowClose, vec![]);
    rig.push(inputs()[..3].to_vec()).unwrap();
    rig.barrier();
    let fresh = self::rig(3, Fold::Count, Emit::OnWindowClose, vec![]);
    rig.reopen(fresh);
    rig.push(inputs()[4..5].to_vec()).unwrap();
    assert_eq!(given(&mut rig), ["a[0]=3@60"]);
}

#[test]
fn an_aggregate_that_was_deleted_starts_afresh() {
    let start: Arc<dyn Udf> = closure(|_| Ok(text("s")));
    let add: Arc<dyn Udf> = closure(|a| {
        Ok(match word(a[1]).as_str() {
            "~" => Datum::Null,
            value => text(&format!("{}{value}", word(a[2]))),
        })
    });
    let fold = Fold::Aggregate {
        initializer: Function::Udf(0),
        function: Function::Udf(1),
        merger: None,
    };
    let mut rig = rig(3, fold, Emit::OnWindowClose, vec![start, add]);
    rig.push(inputs()).unwrap();
    assert_eq!(given(&mut rig), ["a[0]=s3@60", "a[3]=s456@3"]);
}
