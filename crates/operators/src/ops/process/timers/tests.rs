//! Timers that cuts hand out, and their reads; a processor's timers in one lane.

use super::*;
use crate::testing::{Rig, plan, raised, record};
use crate::{Failed, ForeignCode, Processor, ProcessorHost, ProcessorSupplier, Role, Timer};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use stoatflow_core::{
    ClockId, Datum, Offset, Partition, ProcessorId, Record, Serde, SinkId, StoreId, Task, Timestamp,
};
use stoatflow_plan::{Delivery, Op};
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::{Backend, Dirty, EpochBatch, KeyRange, KeyValueStore, Layout, Write};

/// Wall time at which timers are registered.
const WALL: Timestamp = Timestamp(1_700_000_000_000);

/// A back end that counts how often it is read.
#[derive(Debug)]
struct Counted {
    inner: MemoryBackend,
    scans: AtomicUsize,
}

impl Backend for Counted {
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<stoatflow_core::Bytes>> {
        self.inner.get(store, key)
    }
    fn scan(
        &self,
        store: StoreId,
        range: &KeyRange,
        limit: usize,
    ) -> Result<Vec<(stoatflow_core::Bytes, stoatflow_core::Bytes)>> {
        self.scans.fetch_add(1, Relaxed);
        self.inner.scan(store, range, limit)
    }
    fn snapshot(&self, stores: &[StoreId]) -> Result<Box<dyn stoatflow_state::Snapshot>> {
        self.inner.snapshot(stores)
    }
    fn apply(&self, batch: EpochBatch) -> Result<()> {
        self.inner.apply(batch)
    }
    fn restore(
        &self,
        store: StoreId,
        writes: Vec<Write>,
        positions: &[(Partition, Offset)],
    ) -> Result<()> {
        self.inner.restore(store, writes, positions)
    }
    fn positions(&self, store: StoreId) -> Result<Vec<(Partition, Offset)>> {
        self.inner.positions(store)
    }
    fn current_at(&self, store: StoreId) -> Result<Option<Timestamp>> {
        self.inner.current_at(store)
    }
    fn note_current(&self, stores: &[StoreId], at: Timestamp) -> Result<()> {
        self.inner.note_current(stores, at)
    }
    fn source_topic(&self, store: StoreId) -> Result<Option<String>> {
        self.inner.source_topic(store)
    }
    fn note_source_topic(&self, store: StoreId, topic: Option<&str>) -> Result<()> {
        self.inner.note_source_topic(store, topic)
    }
    fn wipe(&self, store: StoreId) -> Result<()> {
        self.inner.wipe(store)
    }
    fn approximate_len(&self, store: StoreId) -> u64 {
        self.inner.approximate_len(store)
    }
    fn memory_bytes(&self) -> u64 {
        self.inner.memory_bytes()
    }
    fn is_durable(&self) -> bool {
        false
    }
}

/// A store with a timer queue of two lanes: the keys `a` to `m` belong to the first.
struct Desk {
    store: KeyValueStore,
    backend: Arc<Counted>,
    timer_queue: TimerQueue,
    dirty: Dirty,
    epoch: Epoch,
}

/// Before the first record, with this number of tasks.
fn begin(tasks: usize) -> TimerClocks {
    TimerClocks {
        event: vec![i64::MIN; tasks],
        wall: [0],
    }
}

/// The task of a key: `a0` is in the first.
fn task_of(_store: usize, row: &Bytes) -> Task {
    let digit = timer_key(row).last().copied().unwrap_or(b'0');
    Task(u16::from(digit.saturating_sub(b'0') & 7))
}

fn lane_of(due: &Due) -> usize {
    usize::from(timer_key(&due.row)[0] > b'm')
}

impl Desk {
    fn new() -> Self {
        Self::of_tasks(1)
    }

    fn of_tasks(tasks: usize) -> Self {
        let backend = Arc::new(Counted {
            inner: MemoryBackend::new(false),
            scans: AtomicUsize::new(0),
        });
        let store = KeyValueStore::with_layout(
            StoreId(0),
            "t".into(),
            Serde::Bytes,
            Arc::clone(&backend) as Arc<dyn Backend>,
            1 << 20,
            Layout::Timers,
        );
        let view = TimerView::new(&store, Epoch(1)).unwrap();
        let timer_queue = TimerQueue::open(&[view], 2, &begin(tasks))
            .unwrap()
            .beginning_with(3);
        Self {
            store,
            backend,
            timer_queue,
            dirty: Dirty::default(),
            epoch: Epoch(1),
        }
    }

    fn view(&self) -> TimerView<'_> {
        TimerView::new(&self.store, self.epoch).unwrap()
    }

    /// Like a registration while a record is processed.
    fn register(&mut self, domain: TimerDomain, at: i64, key: &str) {
        let row = timer_row(domain, at, key.as_bytes());
        let view = TimerView::new(&self.store, self.epoch).unwrap();
        let task = task_of(0, &row);
        // Every other row has no task, as if written when there was only one.
        let said = Some(task).filter(|_| at % 2 == 0);
        view.put(&mut self.dirty, &row, said, WALL).unwrap();
        if self.timer_queue.is_past(0, domain, (task, at)) {
            let due = Due {
                row,
                place: 0,
                task,
            };
            self.timer_queue.postpone(due, false);
        } else {
            self.timer_queue.expect(0, domain, (task, at));
        }
    }

    fn cancel(&mut self, domain: TimerDomain, at: i64, key: &str) {
        let row = timer_row(domain, at, key.as_bytes());
        let view = TimerView::new(&self.store, self.epoch).unwrap();
        view.remove(&mut self.dirty, &row, WALL).unwrap();
    }

    /// A cut and a commit; returns what each lane was handed, as `e10a`, and deletes it, as firing does.
    fn cut(&mut self, event: i64, wall: i64) -> [Vec<String>; 2] {
        self.cut_at(&[event], wall)
    }

    /// The same with the times of several tasks.
    fn cut_at(&mut self, event: &[i64], wall: i64) -> [Vec<String>; 2] {
        let now = TimerClocks {
            event: event.to_vec(),
            wall: [wall],
        };
        self.timer_queue
            .cut(self.epoch, &now, &[self.view()], task_of, lane_of)
            .unwrap();
        assert!(self.timer_queue.is_cut(self.epoch));
        let handed = [0, 1].map(|lane| {
            let taken = self.timer_queue.take(lane);
            for due in &taken {
                let view = TimerView::new(&self.store, self.epoch).unwrap();
                view.remove(&mut self.dirty, &due.row, WALL).unwrap();
            }
            taken.iter().map(name).collect()
        });
        self.commit();
        handed
    }

    fn commit(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        let sealed = self.store.seal(self.epoch, dirty).unwrap();
        let writes = sealed.iter().map(KeyValueStore::stored_bytes).collect();
        let batch = EpochBatch {
            epoch: self.epoch,
            writes: vec![(StoreId(0), writes)],
            ..EpochBatch::default()
        };
        self.backend.apply(batch).unwrap();
        self.store.committed(self.epoch);
        self.epoch = self.epoch.next();
    }

    fn scans(&self) -> usize {
        self.backend.scans.swap(0, Relaxed)
    }
}

fn name(due: &Due) -> String {
    let timer = split_timer(&due.row).unwrap();
    let key = String::from_utf8_lossy(timer.key);
    format!("{}{}{key}", &timer.domain.name()[..1], timer.at)
}

fn none() -> [Vec<String>; 2] {
    [vec![], vec![]]
}

fn of(first: &[&str], second: &[&str]) -> [Vec<String>; 2] {
    [first, second].map(|names| names.iter().map(ToString::to_string).collect())
}

use TimerDomain::{Event, Processing};

#[test]
fn each_lane_gets_its_own_in_order_and_once() {
    let mut desk = Desk::new();
    for (at, key) in [(20, "z"), (10, "b"), (10, "a")] {
        desk.register(Event, at, key);
    }
    desk.register(Processing, 5, "n");
    assert_eq!(desk.cut(9, 4), none());
    assert_eq!(desk.cut(20, 4), of(&["e10a", "e10b"], &["e20z"]));
    assert_eq!(desk.cut(20, 5), of(&[], &["p5n"]));
    assert_eq!(desk.cut(1_000, 1_000), none());
}

#[test]
fn nothing_is_read_while_nothing_can_be_due() {
    let mut desk = Desk::new();
    // At the start, each domain is read once.
    assert_eq!(desk.scans(), 2);
    for at in 0..100 {
        desk.register(Event, 1_000 + at, "a");
        desk.register(Processing, 1_000 + at, "a");
        desk.commit();
        assert_eq!(desk.cut(at, 999), none());
    }
    assert_eq!(desk.scans(), 0);
    // Due timers, and the first one after them.
    assert_eq!(desk.cut(1_001, 999), of(&["e1000a", "e1001a"], &[]));
    assert_eq!(desk.scans(), 2);
    assert_eq!(desk.cut(1_001, 999), none());
    assert_eq!(desk.scans(), 0);
}

#[test]
fn timers_beyond_the_limit_of_a_cut_fire_in_the_next_one() {
    let mut desk = Desk::new();
    for key in ["a", "b", "c", "d", "e", "f", "g"] {
        desk.register(Event, 10, key);
    }
    desk.register(Event, 11, "a");
    assert_eq!(desk.cut(50, 0), of(&["e10a", "e10b", "e10c"], &[]));
    assert!(desk.timer_queue.waits());
    assert_eq!(desk.timer_queue.next_wall(), i64::MIN);
    // Before and after the row where it stopped: both are due already, and are handed out once.
    desk.register(Event, 10, "a");
    desk.register(Event, 10, "e");
    // It was quick: the next one takes twice as many.
    assert_eq!(
        desk.cut(50, 400),
        of(&["e10a", "e10d", "e10e", "e10f", "e10g", "e11a"], &[])
    );
    assert!(!desk.timer_queue.waits());
    assert_eq!(desk.cut(50, 400), none());
}

#[test]
fn the_number_of_a_cut_follows_how_long_it_took() {
    let mut desk = Desk::new();
    desk.timer_queue = TimerQueue::open(&[desk.view()], 2, &begin(1))
        .unwrap()
        .beginning_with(1_000);
    for at in 0..3_000 {
        desk.register(Event, at, "a");
    }
    let mut fired = Vec::new();
    for wall in [0, 5_000, 5_600, 6_000] {
        fired.push(desk.cut(9_999, wall)[0].len());
    }
    assert_eq!(fired, [1_000, 500, 500, 1_000]);
}

#[test]
fn timers_registered_too_late_fire_in_the_next_cut_without_reading_the_past_again() {
    let mut desk = Desk::new();
    assert_eq!(desk.cut(100, 0), none());
    desk.scans();
    desk.register(Event, 50, "a");
    desk.register(Event, 60, "b");
    desk.register(Event, 60, "b");
    desk.cancel(Event, 50, "a");
    assert_eq!(desk.cut(100, 0), of(&["e60b"], &[]));
    assert_eq!(desk.scans(), 0);
}

#[test]
fn timers_of_an_earlier_run_need_no_record() {
    let mut desk = Desk::new();
    desk.register(Event, 10, "a");
    desk.commit();
    let open = |event| {
        let now = TimerClocks {
            event: vec![event],
            wall: [0],
        };
        TimerQueue::open(&[desk.view()], 2, &now).unwrap().waits()
    };
    assert_eq!([i64::MIN, 9, 10].map(open), [false, false, true]);
}

/// The processor's functions for a record and for a timer.
#[derive(Clone, Copy)]
struct Bodies {
    record: fn(&Record, &mut dyn ProcessorHost) -> Result<()>,
    timer: fn(&Timer<'_>, &mut dyn ProcessorHost) -> Result<()>,
}

impl std::fmt::Debug for Bodies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bodies")
    }
}

impl ProcessorSupplier for Bodies {
    fn name(&self) -> &str {
        "app.py:9 Bodies"
    }
    fn create(&self, _role: Role) -> Result<Box<dyn Processor>> {
        Ok(Box::new(*self))
    }
    fn scope(&self, body: &mut dyn FnMut()) {
        body();
    }
}

impl Processor for Bodies {
    fn init(&mut self, _host: &mut dyn ProcessorHost) -> Result<()> {
        Ok(())
    }
    fn process(&mut self, batch: &[Record], host: &mut dyn ProcessorHost) -> Result<(), Failed> {
        for (at, record) in batch.iter().enumerate() {
            (self.record)(record, host).map_err(|error| Failed { at, error })?;
        }
        Ok(())
    }
    fn transform(&mut self, record: &Record, _host: &mut dyn ProcessorHost) -> Result<Datum> {
        Ok(record.value.clone())
    }
    fn on_timer(&mut self, timer: &Timer<'_>, host: &mut dyn ProcessorHost) -> Result<()> {
        (self.timer)(timer, host)
    }
    fn close(&mut self) {}
}

/// A processor with timers, and a sink; eager: its lane is alone and moves time with each record.
fn rig(bodies: Bodies, eager: bool) -> Rig {
    let process = Op::Process {
        processor: ProcessorId(0),
        stores: vec![StoreId(0)],
        fixed_key: false,
        clock: ClockId(0),
        time: None,
    };
    let sink = Op::Sink { sink: SinkId(0) };
    let mut shape = plan(vec![
        (process, vec![1], Delivery::Batch),
        (sink, vec![], Delivery::Batch),
    ]);
    shape.stores[0].kind = StoreKind::Timers;
    shape.stores[0].value = crate::testing::serde("bytes");
    let foreign = ForeignCode {
        processors: vec![Arc::new(bodies)],
        ..ForeignCode::default()
    };
    let mut rig = Rig::of_foreign(&shape, &foreign, false).expect("a rig");
    if !eager {
        rig.clocks = crate::LaneClocks::new(4, false);
    }
    rig.open();
    rig
}

/// Registers a timer for the record's timestamp plus 10.
fn in_ten(record: &Record, host: &mut dyn ProcessorHost) -> Result<()> {
    host.timer_register(0, &record.key, record.timestamp.0 + 10, Event)
}

fn tell(timer: &Timer<'_>, host: &mut dyn ProcessorHost) -> Result<()> {
    let mut out = record("~", timer.domain.name(), timer.at);
    out.key = timer.key.clone();
    host.forward(out, None)
}

fn at(rig: &mut Rig, time: i64) -> Vec<String> {
    rig.clocks.see(ClockId(0), Task(0), time);
    rig.punctuate();
    rig.advance();
    let outputs = rig.outputs();
    rig.barrier();
    outputs
}

#[test]
fn timers_fire_behind_the_cut_in_time_order() {
    for eager in [true, false] {
        let mut rig = rig(
            Bodies {
                record: in_ten,
                timer: tell,
            },
            eager,
        );
        rig.push(vec![
            record("b", "x", 3),
            record("a", "x", 3),
            record("c", "x", 1),
        ])
        .unwrap();
        assert_eq!(at(&mut rig, 10), [""; 0]);
        assert_eq!(
            at(&mut rig, 13),
            ["0:c=event@11", "0:a=event@13", "0:b=event@13"]
        );
        assert_eq!(at(&mut rig, 100), [""; 0]);
    }
}

#[test]
fn a_lane_that_is_not_alone_fires_when_it_is_released() {
    let mut rig = rig(
        Bodies {
            record: in_ten,
            timer: tell,
        },
        false,
    );
    rig.push(vec![record("a", "x", 1)]).unwrap();
    rig.clocks.see(ClockId(0), Task(0), 50);
    rig.punctuate();
    assert_eq!(rig.outputs(), [""; 0]);
    // Records that arrive meanwhile are in the same pass, if their timers are due.
    rig.push(vec![record("a", "x", 40), record("a", "x", 39)])
        .unwrap();
    rig.advance();
    assert_eq!(
        rig.outputs(),
        ["0:a=event@11", "0:a=event@49", "0:a=event@50"]
    );
    // After it: with a cut of its own, which needs no record.
    rig.push(vec![record("a", "x", 5)]).unwrap();
    rig.advance();
    assert_eq!(rig.outputs(), [""; 0]);
    assert_eq!(rig.run.next_timer(), i64::MIN);
    rig.barrier();
    assert_eq!(at(&mut rig, 50), ["0:a=event@15"]);
    assert_eq!(rig.run.next_timer(), i64::MAX);
}

#[test]
fn callbacks_register_and_cancel_timers() {
    fn acts(timer: &Timer<'_>, host: &mut dyn ProcessorHost) -> Result<()> {
        tell(timer, host)?;
        let other = Datum::text("b");
        match timer.at {
            // Cancelled before its turn; the later one fires in its order.
            11 => {
                host.timer_cancel(0, &timer.key, 12, Event)?;
                host.timer_register(0, &timer.key, 14, Event)?;
                host.timer_register(0, &timer.key, 99, Event)?;
                host.timer_register(0, &timer.key, 99, Processing)
            }
            // Itself, an earlier one, and another key's: not in this pass.
            13 => {
                host.timer_register(0, &timer.key, 13, Event)?;
                host.timer_register(0, &timer.key, 12, Event)?;
                host.timer_register(0, &other, 14, Event)
            }
            _ => Ok(()),
        }
    }
    for eager in [true, false] {
        let mut rig = rig(
            Bodies {
                record: in_ten,
                timer: acts,
            },
            eager,
        );
        let records = [1, 2, 3].map(|time| record("a", "x", time));
        rig.push(records.into()).unwrap();
        rig.clocks.wall = Timestamp(50);
        assert_eq!(
            at(&mut rig, 20),
            ["0:a=event@11", "0:a=event@13", "0:a=event@14"]
        );
        assert_eq!(
            at(&mut rig, 20),
            ["0:a=event@12", "0:a=event@13", "0:b=event@14"]
        );
        assert_eq!(rig.run.next_timer(), i64::MIN);
        rig.clocks.wall = Timestamp(99);
        // The other key's timer had not fired when it was registered again: that is one timer.
        assert_eq!(
            at(&mut rig, 99),
            [
                "0:a=event@12",
                "0:a=event@13",
                "0:a=event@99",
                "0:a=processing@99"
            ]
        );
    }
}

#[test]
fn one_that_only_registers_itself_needs_a_record_for_the_next_time() {
    fn again(timer: &Timer<'_>, host: &mut dyn ProcessorHost) -> Result<()> {
        host.timer_register(0, &timer.key, timer.at, timer.domain)?;
        tell(timer, host)
    }
    let mut rig = rig(
        Bodies {
            record: in_ten,
            timer: again,
        },
        true,
    );
    rig.push(vec![record("a", "x", 1)]).unwrap();
    for _ in 0..3 {
        assert_eq!(at(&mut rig, 20), ["0:a=event@11"]);
        assert_eq!(rig.run.next_timer(), i64::MAX);
    }
}

#[test]
fn an_error_stops_at_its_timer() {
    fn fails(timer: &Timer<'_>, host: &mut dyn ProcessorHost) -> Result<()> {
        tell(timer, host)?;
        if timer.at == 12 {
            return Err(raised());
        }
        Ok(())
    }
    let mut rig = rig(
        Bodies {
            record: in_ten,
            timer: fails,
        },
        true,
    );
    let records = [1, 2, 3].map(|time| record("a", "x", time));
    rig.push(records.into()).unwrap();
    rig.clocks.see(ClockId(0), Task(0), 20);
    let mut context = Context {
        epoch: rig.epoch,
        stores: &mut rig.stores,
        effects: &mut rig.effects,
        clocks: &mut rig.clocks,
        assignment: rig.assignment,
        run: &rig.run,
    };
    let error = rig.chain.punctuate(&mut context).unwrap_err();
    assert_eq!(error.coordinates().node.as_deref(), Some("process-0"));
    assert_eq!(
        error.coordinates().function.as_deref(),
        Some("app.py:9 Bodies")
    );
}

#[test]
fn without_timers_nothing_is_known_of_any() {
    let run = crate::RunCoordinator::new("app");
    assert_eq!(run.next_timer(), i64::MAX);
    assert!(!run.timers_wait());
}

mod clock_goes_back;
mod tasks;
