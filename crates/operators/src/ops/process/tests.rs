//! A processor in a chain: forwards with and without a child, the order in which a child sees writes and
//! records, errors, punctuations, read-only stores.

use crate::testing::{Rig, plan, raised, record};
use crate::{
    Chain, ChainOptions, Failed, ForeignCode, Processor, ProcessorHost, ProcessorSupplier,
    Punctuation, Punctuator, Role,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use stoatflow_core::{
    ClockId, Datum, ProcessorId, Record, Result, SinkId, StageId, StoreId, Task, Timestamp,
};
use stoatflow_plan::{Delivery, Op};
use stoatflow_state::Stored;

/// The processor's function for a record.
type Body = fn(&Record, &mut dyn ProcessorHost) -> Result<()>;

#[derive(Debug)]
struct Makes {
    body: Body,
    ticks: bool,
    made: AtomicUsize,
}

impl ProcessorSupplier for Makes {
    fn name(&self) -> &str {
        "app.py:9 Makes"
    }
    fn create(&self, _role: Role) -> Result<Box<dyn Processor>> {
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Runs {
            body: self.body,
            ticks: self.ticks,
        }))
    }
    fn scope(&self, body: &mut dyn FnMut()) {
        body();
    }
}

struct Runs {
    body: Body,
    ticks: bool,
}

/// Forwards all rows of the first store.
#[derive(Debug)]
struct Dump;

impl Punctuator for Dump {
    fn punctuate(&self, time: i64, host: &mut dyn ProcessorHost) -> Result<()> {
        for (key, stored) in host.range(0, None, None, false)? {
            let mut out = record("~", "~", time);
            (out.key, out.value) = (key, stored.value);
            host.forward(out, None)?;
        }
        Ok(())
    }
}

impl Processor for Runs {
    fn init(&mut self, host: &mut dyn ProcessorHost) -> Result<()> {
        if self.ticks {
            host.schedule(10, Punctuation::StreamTime, None, Arc::new(Dump))?;
        }
        Ok(())
    }
    fn process(&mut self, batch: &[Record], host: &mut dyn ProcessorHost) -> Result<(), Failed> {
        for (at, record) in batch.iter().enumerate() {
            (self.body)(record, host).map_err(|error| Failed { at, error })?;
        }
        Ok(())
    }
    fn transform(&mut self, record: &Record, _host: &mut dyn ProcessorHost) -> Result<Datum> {
        Ok(record.value.clone())
    }
    fn close(&mut self) {}
}

fn processor(id: u32, stores: &[u16]) -> Op {
    Op::Process {
        processor: ProcessorId(id),
        stores: stores.iter().copied().map(StoreId).collect(),
        fixed_key: false,
        clock: ClockId(0),
        time: None,
    }
}

fn sink(id: u16) -> (Op, Vec<u32>, Delivery) {
    (Op::Sink { sink: SinkId(id) }, vec![], Delivery::Batch)
}

fn rig(nodes: Vec<(Op, Vec<u32>, Delivery)>, bodies: &[(Body, bool)]) -> Rig {
    let shape = plan(nodes.clone());
    // The other nodes need no processors: the rig's own chain is made only of them, and then replaced.
    let plain = vec![sink(0)];
    let mut rig = Rig::build(plain, vec![], false).expect("a rig");
    let processors = bodies.iter().map(|(body, ticks)| {
        Arc::new(Makes {
            body: *body,
            ticks: *ticks,
            made: AtomicUsize::new(0),
        }) as Arc<dyn ProcessorSupplier>
    });
    let foreign = ForeignCode {
        processors: processors.collect(),
        ..ForeignCode::default()
    };
    rig.chain =
        Chain::build(&shape, StageId(0), &foreign, ChainOptions::default()).expect("a chain");
    rig
}

fn pass(record: &Record, host: &mut dyn ProcessorHost) -> Result<()> {
    host.forward(record.clone(), None)
}

fn keep(record: &Record, host: &mut dyn ProcessorHost) -> Result<()> {
    let value = Stored {
        value: record.value.clone(),
        timestamp: record.timestamp,
    };
    host.put(0, &record.key, value)?;
    host.forward(record.clone(), None)
}

/// Forwards the current value in the store.
fn look(record: &Record, host: &mut dyn ProcessorHost) -> Result<()> {
    let held = host.get(0, &record.key)?.map_or(Datum::Null, |s| s.value);
    host.forward(record.with_value(held), None)
}

#[test]
fn a_processor_forwards_to_all_children_or_to_one() {
    fn route(record: &Record, host: &mut dyn ProcessorHost) -> Result<()> {
        match record.value.type_name().as_str() {
            "null" => host.forward(record.clone(), None),
            _ => host.forward(record.clone(), Some("sink-2")),
        }
    }
    let nodes = vec![
        (processor(0, &[]), vec![1, 2], Delivery::Batch),
        sink(0),
        sink(0),
    ];
    let mut rig = rig(nodes, &[(route, false)]);
    rig.push(vec![
        record("a", "x", 1),
        record("b", "~", 2),
        record("c", "y", 3),
    ])
    .unwrap();
    assert_eq!(rig.outputs(), ["0:a=x@1", "0:b=~@2", "0:b=~@2", "0:c=y@3"]);
}

#[test]
fn a_node_below_sees_what_a_shared_store_held_at_its_record() {
    let nodes = vec![
        (processor(0, &[0]), vec![1], Delivery::Batch),
        (processor(1, &[0]), vec![2], Delivery::Batch),
        sink(0),
    ];
    let mut rig = rig(nodes, &[(keep, false), (look, false)]);
    rig.push(vec![record("k", "first", 1), record("k", "second", 2)])
        .unwrap();
    assert_eq!(rig.outputs(), ["0:k=first@1", "0:k=second@2"]);
}

#[test]
fn an_error_has_the_record_the_node_and_the_processor() {
    fn fail(record: &Record, host: &mut dyn ProcessorHost) -> Result<()> {
        if record.timestamp == Timestamp(2) {
            return Err(raised());
        }
        pass(record, host)
    }
    let mut rig = rig(
        vec![(processor(0, &[]), vec![1], Delivery::Batch), sink(0)],
        &[(fail, false)],
    );
    let error = rig
        .push(vec![record("a", "x", 1), record("a", "y", 2)])
        .unwrap_err();
    let at = error.coordinates();
    assert_eq!(at.offset.map(|o| o.0), Some(2));
    assert_eq!(at.node.as_deref(), Some("process-0"));
    assert_eq!(at.function.as_deref(), Some("app.py:9 Makes"));
}

#[test]
fn a_child_that_is_not_there_is_an_error_that_names_those_that_are() {
    fn wrong(record: &Record, host: &mut dyn ProcessorHost) -> Result<()> {
        host.forward(record.clone(), Some("nowhere"))
    }
    let mut rig = rig(
        vec![(processor(0, &[]), vec![1], Delivery::Batch), sink(0)],
        &[(wrong, false)],
    );
    let error = rig.push(vec![record("a", "x", 1)]).unwrap_err().to_string();
    assert!(
        error.contains("nowhere") && error.contains("sink-1"),
        "{error}"
    );
}

#[test]
fn the_store_of_a_table_may_only_be_read() {
    let nodes = vec![
        (
            Op::TableSource {
                store: StoreId(0),
                key: crate::testing::serde("string"),
                old: false,
            },
            vec![],
            Delivery::Batch,
        ),
        (processor(0, &[0]), vec![2], Delivery::Batch),
        sink(0),
    ];
    let mut rig = rig(nodes, &[(keep, false)]);
    let error = rig.push_at(1, vec![record("a", "x", 1)]).unwrap_err();
    assert!(error.to_string().contains("may only read"), "{error}");
}

#[test]
fn a_punctuation_sees_the_store_and_fires_once_for_its_time() {
    let mut rig = rig(
        vec![(processor(0, &[0]), vec![1], Delivery::Batch), sink(0)],
        &[(keep, true)],
    );
    rig.open();
    rig.push(vec![record("b", "x", 7), record("a", "y", 8)])
        .unwrap();
    assert_eq!(rig.outputs(), ["0:b=x@7", "0:a=y@8"]);
    rig.clocks.see(ClockId(0), Task(0), 8);
    for expected in [&["0:a=y@8", "0:b=x@8"][..], &[]] {
        rig.punctuate();
        assert_eq!(rig.outputs(), expected);
    }
    assert_eq!(rig.clocks.mark(ClockId(0), Task(0)), 8);
    assert_eq!(rig.stored(0, "a"), "y@8");
}

mod expiring;
mod tasks;
