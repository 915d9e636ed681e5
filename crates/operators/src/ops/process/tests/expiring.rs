//! A processor's store whose rows live for 160 ms, so that times are rounded to 10 ms.

use super::tasks::with_tasks;
use super::{Makes, processor, sink};
use crate::testing::{Rig, plan, record, serde};
use crate::{ForeignCode, ProcessorHost};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use stoatflow_core::{
    Bytes, ClockId, Datum, Epoch, Order, Record, Result, Serde, StoreId, Task, Timestamp,
};
use stoatflow_plan::{Delivery, Expiry, ExpiryClock, Op, StoreKind, Ttl};
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::{Dirty, KeyValueStore, Stored, WriteGuard};

/// The clock of the tasks.
const TIME: ClockId = ClockId(1);

fn text(text: &str) -> Datum {
    Datum::Str(text.into())
}

/// Writes the record's value; `?` forwards what is there, `!` deletes, `+` writes unless there is a row.
fn body(record: &Record, host: &mut dyn ProcessorHost) -> Result<()> {
    host.at(record.origin.order);
    let row = Stored {
        value: record.value.clone(),
        timestamp: record.timestamp,
    };
    let found = if record.value == text("?") {
        host.get(0, &record.key)?
    } else if record.value == text("!") {
        host.delete(0, &record.key, record.timestamp.0)?
    } else if record.value == text("+") {
        host.put_if_absent(0, &record.key, row)?
    } else {
        return host.put(0, &record.key, row);
    };
    let value = found.map_or_else(|| text("-"), |found| found.value);
    host.forward(record.with_value(value), None)
}

fn rig(tasks: u16) -> Rig {
    let mut process = processor(0, &[0]);
    if let Op::Process { time, .. } = &mut process {
        *time = Some(TIME);
    }
    let expire = Op::Expire {
        table: StoreId(0),
        timers: StoreId(1),
        expiry: Expiry {
            ttl: Ttl::Fixed(160),
            clock: ExpiryClock::Event,
            forward: false,
        },
        old: false,
        of_processors: true,
        clock: ClockId(0),
        time: Some(TIME),
    };
    let mut shape = plan(vec![
        (process, vec![1], Delivery::Batch),
        sink(0),
        (expire, vec![], Delivery::Batch),
    ]);
    shape.stores[1].kind = StoreKind::Timers;
    shape.stores[1].value = serde("bytes");
    let supplier = Makes {
        body,
        ticks: false,
        made: AtomicUsize::new(0),
    };
    let foreign = ForeignCode {
        processors: vec![Arc::new(supplier)],
        ..ForeignCode::default()
    };
    let mut rig = Rig::of_foreign(&shape, &foreign, false).expect("a rig");
    with_tasks(&mut rig, tasks);
    rig.open();
    rig
}

/// Processes a record in a task at its stream time; returns the output.
fn at(rig: &mut Rig, (task, now): (u16, i64), value: &str, time: i64) -> Vec<String> {
    rig.clocks.see(TIME, Task(task), now);
    let mut one = record("k", value, time);
    one.origin.order = Order::new(1, Task(task));
    rig.push(vec![one]).unwrap();
    rig.outputs()
}

fn end(rig: &mut Rig) {
    rig.punctuate();
    rig.advance();
    rig.barrier();
}

/// The row in the store, whether it is due or not.
fn row(rig: &Rig) -> String {
    rig.stored(0, "k")
}

#[test]
fn a_row_is_gone_when_it_is_due_and_deleted_at_the_barrier() {
    let mut rig = rig(1);
    at(&mut rig, (0, 3), "x", 3);
    end(&mut rig);
    assert_eq!(at(&mut rig, (0, 162), "?", 162), ["0:k=x@162"]);
    end(&mut rig);
    assert_eq!(at(&mut rig, (0, 163), "?", 163), ["0:k=-@163"]);
    assert_eq!(row(&rig), "x@3");
    assert_eq!(at(&mut rig, (0, 163), "!", 163), ["0:k=-@163"]);
    end(&mut rig);
    assert_eq!(row(&rig), "-");
}

#[test]
fn a_due_row_counts_as_absent_and_what_replaces_it_stays() {
    let mut rig = rig(1);
    at(&mut rig, (0, 0), "x", 0);
    end(&mut rig);
    assert_eq!(at(&mut rig, (0, 160), "+", 160), ["0:k=-@160"]);
    assert_eq!(at(&mut rig, (0, 161), "+", 161), ["0:k=+@161"]);
    end(&mut rig);
    assert_eq!(row(&rig), "+@160");
    at(&mut rig, (0, 320), "?", 320);
    end(&mut rig);
    assert_eq!(row(&rig), "-");
}

#[test]
fn a_key_written_in_two_tasks_always_has_a_timer() {
    let mut rig = rig(2);
    // The second task is far ahead.
    at(&mut rig, (1, 5_000), "?", 5_000);
    at(&mut rig, (0, 100), "x", 100);
    end(&mut rig);
    assert_eq!(row(&rig), "x@100");
    // Its write is of the same rounded time, and due at once.
    at(&mut rig, (1, 5_000), "y", 105);
    end(&mut rig);
    assert_eq!(row(&rig), "-");
    at(&mut rig, (0, 101), "z", 101);
    end(&mut rig);
    assert_eq!(row(&rig), "z@101");
    at(&mut rig, (0, 261), "?", 261);
    end(&mut rig);
    assert_eq!(row(&rig), "-");
}

/// Writes the key once, in the middle of a write of it, as another lane might.
#[derive(Debug, Default)]
struct OtherLane {
    done: AtomicBool,
}

impl WriteGuard for OtherLane {
    fn admit(
        &self,
        store: &KeyValueStore,
        epoch: Epoch,
        key: &[u8],
        _value: Option<&Stored>,
    ) -> Result<()> {
        if self.done.swap(true, Relaxed) {
            return Ok(());
        }
        let fresh = Stored {
            value: text("y"),
            timestamp: Timestamp(100),
        };
        let key = Bytes::copy_from_slice(key);
        store.put(epoch, &mut Dirty::default(), &key, Some(fresh))
    }
    fn committed(&self, _epoch: Epoch) {}
}

#[test]
fn a_row_that_another_lane_writes_while_it_is_deleted_stays() {
    let mut rig = rig(1);
    let guard = Arc::new(OtherLane::default());
    guard.done.store(true, Relaxed);
    let kept = KeyValueStore::new(
        StoreId(0),
        "store-0".into(),
        Serde::String,
        Arc::new(MemoryBackend::new(true)),
        1 << 20,
    );
    rig.stores[0].store = Arc::new(kept.with_guard(guard.clone()));
    at(&mut rig, (0, 0), "x", 0);
    end(&mut rig);
    at(&mut rig, (0, 160), "?", 160);
    guard.done.store(false, Relaxed);
    rig.punctuate();
    rig.advance();
    assert!(guard.done.load(Relaxed), "the row was about to be deleted");
    assert_eq!(row(&rig), "y@100");
}
