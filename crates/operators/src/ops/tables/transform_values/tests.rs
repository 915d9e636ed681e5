//! A transformer that records how often it is called for a key.

use crate::testing::recorded::{registered, str_of};
use crate::testing::*;
use crate::{Failed, ForeignCode, Processor, ProcessorHost, ProcessorSupplier, Role};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use stoatflow_core::{Datum, ProcessorId, Record, Result, SinkId, StoreId};
use stoatflow_plan::{Delivery, Function, JoinKind, Op, View};
use stoatflow_state::Stored;

#[derive(Debug, Default)]
struct Supplier {
    scopes: AtomicUsize,
}

impl ProcessorSupplier for Supplier {
    fn name(&self) -> &'static str {
        "app.py:9 Numbering"
    }
    fn create(&self, role: Role) -> Result<Box<dyn Processor>> {
        assert_eq!(role, Role::TransformValues);
        Ok(Box::new(Numbering))
    }
    fn scope(&self, body: &mut dyn FnMut()) {
        self.scopes.fetch_add(1, Ordering::Relaxed);
        body();
    }
}

/// Returns `value#n`, where n counts the calls for the key, kept in store 1 of the plan. `x` becomes
/// null.
struct Numbering;

impl Processor for Numbering {
    fn init(&mut self, _host: &mut dyn ProcessorHost) -> Result<()> {
        Ok(())
    }
    fn process(&mut self, _: &[Record], _: &mut dyn ProcessorHost) -> Result<(), Failed> {
        unreachable!("a transformer processes nothing")
    }
    fn transform(&mut self, record: &Record, host: &mut dyn ProcessorHost) -> Result<Datum> {
        if word(&record.value) == "bad" {
            return Err(raised());
        }
        let before = host.get(0, &record.key)?;
        let n = match before.map(|stored| stored.value) {
            Some(Datum::Int(n)) => n + 1,
            _ => 1,
        };
        let stored = Stored {
            value: Datum::Int(n),
            timestamp: record.timestamp,
        };
        host.put(0, &record.key, stored)?;
        if word(&record.value) == "x" {
            return Ok(Datum::Null);
        }
        Ok(text(&format!("{}#{n}", str_of(&record.value))))
    }
    fn close(&mut self) {}
}

fn source(old: bool) -> Op {
    Op::TableSource {
        store: StoreId(0),
        key: serde("string"),
        old,
    }
}

fn transform(store: Option<u16>, old: bool) -> Op {
    Op::TransformValues {
        processor: ProcessorId(0),
        stores: vec![StoreId(1)],
        store: store.map(StoreId),
        key: serde("string"),
        old,
        time: None,
    }
}

fn rig(nodes: Vec<(Op, Vec<u32>, Delivery)>, supplier: &Arc<Supplier>) -> Rig {
    let foreign = ForeignCode {
        udfs: vec![registered("pair_text")],
        serdes: vec![],
        processors: vec![Arc::clone(supplier) as _],
        ..ForeignCode::default()
    };
    Rig::of_foreign(&plan(to_streams(nodes)), &foreign, false).unwrap()
}

fn into(op: Op, old: bool) -> Vec<(Op, Vec<u32>, Delivery)> {
    vec![
        (source(old), vec![1], Delivery::Batch),
        (op, vec![2], Delivery::Batch),
        (Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch),
    ]
}

#[test]
fn null_is_transformed_too_with_one_attach_for_a_batch() {
    let supplier = Arc::default();
    let mut rig = rig(into(transform(None, false), false), &supplier);
    rig.push(vec![
        record("a", "1", 1),
        record("a", "x", 2),
        record("a", "~", 3),
    ])
    .unwrap();
    assert_eq!(rig.outputs(), ["0:a=1#1@1", "0:a=~@2", "0:a=null#3@3"]);
    assert_eq!(rig.stored(1, "a"), "3@3");
    assert_eq!(supplier.scopes.load(Ordering::Relaxed), 1);
}

#[test]
fn the_old_value_is_transformed_unless_a_store_has_it() {
    for (store, calls) in [(None, "4@2"), (Some(2), "2@2")] {
        let supplier = Arc::default();
        let mut rig = rig(into(transform(store, true), true), &supplier);
        rig.push(vec![record("a", "1", 1), record("a", "2", 2)])
            .unwrap();
        assert_eq!(rig.outputs().len(), 2);
        assert_eq!(rig.stored(1, "a"), calls, "store: {store:?}");
    }
}

#[test]
fn a_join_reads_through_it() {
    let look = Op::StreamTableJoin {
        kind: JoinKind::Left,
        table: View::TransformValues {
            of: Box::new(View::Store {
                store: StoreId(0),
                key: serde("string"),
            }),
            processor: ProcessorId(0),
            stores: vec![StoreId(1)],
        },
        function: Function::Udf(0),
        with_key: false,
        grace_ms: None,
        buffer: None,
        clock: None,
        key: serde("string"),
        value: serde("string"),
    };
    let nodes = vec![
        (source(false), vec![], Delivery::Batch),
        (look, vec![2], Delivery::Batch),
        (Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch),
    ];
    let mut rig = rig(nodes, &Arc::default());
    rig.push(vec![record("a", "1", 1), record("b", "x", 1)])
        .unwrap();
    let asked = [
        record("a", "s", 5),
        record("b", "s", 6),
        record("~", "s", 7),
    ];
    rig.push_at(1, asked.to_vec()).unwrap();
    rig.push_at(1, vec![record("c", "s", 8)]).unwrap();
    assert_eq!(
        rig.outputs(),
        [
            "0:a=s/1#1@5",
            "0:b=s/null@6",
            "0:~=s/null@7",
            "0:c=s/null#1@8"
        ]
    );
}

#[test]
fn an_error_names_the_record_and_the_transformer() {
    let mut rig = rig(into(transform(None, false), false), &Arc::default());
    let failed = rig.push(vec![record("a", "1", 1), record("a", "bad", 7)]);
    let error = failed.unwrap_err().to_string();
    assert!(
        error.contains("offset 7") && error.contains("Numbering"),
        "{error}"
    );
}
