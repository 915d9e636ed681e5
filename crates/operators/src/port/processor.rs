//! The port to processors that the engine doesn't own (Python's).
//!
//! Takes a host, through which a processor forwards records and reaches its stores; gives what the
//! Processor API promises. One instance per lane. Forwarded records are passed to the children when the
//! batch is done, in order; where a store is shared with nodes below, a batch is one record.

use crate::port::lock_table::{LockHolder, LockKey, LockTable};
use crate::{Cost, Failed};
use std::fmt::Debug;
use std::sync::Arc;
use stoatflow_core::{
    Datum, Error, Offset, Order, Origin, Partition, Record, Result, SourceId, Task,
};
use stoatflow_plan::StoreKind;
use stoatflow_state::{Stored, TimerDomain};

/// The origin of a record that no input record caused, such as one from a punctuation.
pub const NO_ORIGIN: Origin = Origin {
    source: SourceId(0),
    topic: 0,
    partition: Partition(-1),
    offset: Offset(-1),
    order: Order::new(0, Task(0)),
};

/// What a processor is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `process`, and the processors of a topology built by hand: results may have other keys.
    Process,
    /// `process_values`: results keep their keys.
    ProcessValues,
    /// `transform_values`: returns a value for each update of a table, forwards nothing.
    TransformValues,
}

/// Makes processors.
pub trait ProcessorSupplier: Send + Sync + Debug {
    /// `app.py:12 Enrich`, for errors.
    fn name(&self) -> &str;
    /// The cost of its processors' calls so far; `None`: not measured.
    fn cost(&self) -> Option<Cost> {
        None
    }
    /// Creates a processor for one lane.
    ///
    /// # Errors
    /// `User` if the supplier raises, or returns the same object twice.
    fn create(&self, role: Role) -> Result<Box<dyn Processor>>;
    /// Runs `body` with the interpreter attached, so that the calls inside need not attach it each.
    fn scope(&self, body: &mut dyn FnMut());
}

/// When punctuations of a schedule are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Punctuation {
    /// By the highest timestamp of each task, or by the watermark (`time.semantics`).
    StreamTime,
    /// By the machine's clock.
    WallClock,
}

/// A schedule of a processor, the same number in every lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScheduleId(pub u32);

/// The callback of a schedule. It belongs to the processor that registered it, in any lane; it is called
/// while all lanes stand still.
pub trait Punctuator: Send + Sync + Debug {
    /// Called when the schedule is due, with that time.
    ///
    /// # Errors
    /// `User` if it raises.
    fn punctuate(&self, time: i64, host: &mut dyn ProcessorHost) -> Result<()>;
}

/// A timer that fires.
#[derive(Clone, Debug)]
pub struct Timer<'t> {
    /// The name of its store.
    pub store: &'t str,
    /// Its key.
    pub key: Datum,
    /// The time it was registered for.
    pub at: i64,
    /// The clock by which it is due.
    pub domain: TimerDomain,
}

/// A user's processor.
pub trait Processor: Send {
    /// Called before the first record.
    ///
    /// # Errors
    /// `User` if it raises.
    fn init(&mut self, host: &mut dyn ProcessorHost) -> Result<()>;
    /// Processes records in order. The interpreter is attached once for all of them.
    ///
    /// # Errors
    /// [`Failed`] if it raises.
    fn process(&mut self, batch: &[Record], host: &mut dyn ProcessorHost) -> Result<(), Failed>;
    /// A transformer's result for one update of a table: the record's key, and its value (new, if the
    /// table's updates carry the old one too).
    ///
    /// # Errors
    /// `User` if it raises.
    fn transform(&mut self, record: &Record, host: &mut dyn ProcessorHost) -> Result<Datum>;
    /// Called when a timer fires, in the lane of its key, once.
    ///
    /// # Errors
    /// `User` if it raises.
    fn on_timer(&mut self, timer: &Timer<'_>, host: &mut dyn ProcessorHost) -> Result<()> {
        let _unused = host;
        Err(Error::internal(format!(
            "a timer of '{}' fired for a processor that has none",
            timer.store
        )))
    }
    /// Called at the end.
    fn close(&mut self);
}

/// The keys that a read of windows or sessions covers.
#[derive(Clone, Copy, Debug)]
pub enum Keys<'k> {
    /// One key.
    One(&'k Datum),
    /// From one to another, both inclusive, in the order of their bytes; `None`: no bound.
    Between(Option<&'k Datum>, Option<&'k Datum>),
}

/// A version of a key: value, valid from, valid to.
pub type Version = (Datum, i64, Option<i64>);

/// Computes the new value of a key from its current one; a null value deletes.
pub type UpdateFn<'f> = dyn FnMut(&mut dyn ProcessorHost, Option<Stored>) -> Result<Stored> + 'f;

/// What a processor may do while it is called. Stores are identified by their index in the processor's
/// list. Keys are datums; the host encodes them with the store's serdes. Every read returns its own
/// copy: changes to a foreign value that was read reach the store only if the value is put.
pub trait ProcessorHost {
    /// Passes a record on, to all children or to the one of this name.
    ///
    /// # Errors
    /// `User` if there is no such child.
    fn forward(&mut self, record: Record, child: Option<&str>) -> Result<()>;
    /// The index of a store in the processor's list.
    fn store(&self, name: &str) -> Option<usize>;
    /// What kind of store it is.
    fn store_kind(&self, store: usize) -> StoreKind;
    /// Whether its values have headers.
    fn has_headers(&self, store: usize) -> bool;
    /// Whether it can only be read (the store of a table, or a global store).
    fn store_is_read_only(&self, store: usize) -> bool;
    /// The names of the stores.
    fn store_names(&self) -> Vec<String>;

    /// Reads a key.
    ///
    /// # Errors
    /// Those of the store and its serdes; the same for all reads below.
    fn get(&mut self, store: usize, key: &Datum) -> Result<Option<Stored>>;
    /// Writes a key; a null value deletes.
    ///
    /// # Errors
    /// As `get`; `User` if the store can only be read; the same for all writes below.
    fn put(&mut self, store: usize, key: &Datum, value: Stored) -> Result<()>;
    /// Reads and writes a key, atomically for all lanes: if another lane writes it meanwhile, `f` runs
    /// again with the new value. `f` may use the host, but not write this key.
    ///
    /// # Errors
    /// As `put`, and those of `f`, after which nothing is written.
    fn update(&mut self, store: usize, key: &Datum, f: &mut UpdateFn<'_>) -> Result<()>;
    /// Writes a key that has no value; otherwise returns its value. Atomic for all lanes.
    ///
    /// # Errors
    /// As `put`.
    fn put_if_absent(&mut self, store: usize, key: &Datum, value: Stored)
    -> Result<Option<Stored>>;
    /// Deletes a key, at a time; returns the value it had. Atomic for all lanes.
    ///
    /// # Errors
    /// As `put`.
    fn delete(&mut self, store: usize, key: &Datum, time: i64) -> Result<Option<Stored>>;
    /// The key in the lock table for a key of a store.
    ///
    /// # Errors
    /// As `put`.
    fn lock_key(&self, store: usize, key: &Datum) -> Result<LockKey>;
    /// Returns an error if keys of this store can't be read and written atomically for all lanes.
    ///
    /// # Errors
    /// `User` if nodes of several stages write it.
    fn check_one_step(&self, store: usize) -> Result<()>;
    /// The locks of the run.
    fn locks(&self) -> Arc<LockTable>;
    /// The holder of locks that are taken while this record is processed.
    fn lock_holder(&self, origin: &Origin) -> LockHolder;

    /// Entries from `from` to `to`, both inclusive, in the order of their bytes.
    ///
    /// # Errors
    /// As `get`.
    fn range(
        &mut self,
        store: usize,
        from: Option<&Datum>,
        to: Option<&Datum>,
        reverse: bool,
    ) -> Result<Vec<(Datum, Stored)>>;
    /// Entries whose key's bytes begin with those of `prefix` (a prefix of bytes is not encoded).
    ///
    /// # Errors
    /// As `get`.
    fn prefix(&mut self, store: usize, prefix: &Datum) -> Result<Vec<(Datum, Stored)>>;
    /// About how many keys it has.
    fn approximate_len(&mut self, store: usize) -> u64;

    /// Writes a window; a null value deletes.
    ///
    /// # Errors
    /// As `put`.
    fn window_put(&mut self, store: usize, key: &Datum, start: i64, value: Stored) -> Result<()>;
    /// The value of one window.
    ///
    /// # Errors
    /// As `get`.
    fn window_get(&mut self, store: usize, key: &Datum, start: i64) -> Result<Option<Stored>>;
    /// Windows that start between `from` and `to` (both inclusive): key, start, value.
    ///
    /// # Errors
    /// As `get`.
    fn window_fetch(
        &mut self,
        store: usize,
        keys: Keys<'_>,
        from: i64,
        to: i64,
        reverse: bool,
    ) -> Result<Vec<(Datum, i64, Stored)>>;
    /// Writes a session; a null value removes it.
    ///
    /// # Errors
    /// As `put`.
    fn session_put(
        &mut self,
        store: usize,
        key: &Datum,
        start: i64,
        end: i64,
        value: Stored,
    ) -> Result<()>;
    /// The value of one session.
    ///
    /// # Errors
    /// As `get`.
    fn session_get(
        &mut self,
        store: usize,
        key: &Datum,
        start: i64,
        end: i64,
    ) -> Result<Option<Datum>>;
    /// Sessions that end at or after `earliest_end` and start at or before `latest_start`: key, start,
    /// end, value.
    ///
    /// # Errors
    /// As `get`.
    fn session_find(
        &mut self,
        store: usize,
        keys: Keys<'_>,
        earliest_end: i64,
        latest_start: i64,
        reverse: bool,
    ) -> Result<Vec<(Datum, i64, i64, Datum)>>;
    /// Writes a version (null: a deletion); returns until when it is valid (-1: it is the latest;
    /// `i64::MIN`: too old, not written).
    ///
    /// # Errors
    /// As `put`.
    fn versioned_put(
        &mut self,
        store: usize,
        key: &Datum,
        value: Datum,
        timestamp: i64,
    ) -> Result<i64>;
    /// Ends the version that is valid at a time; returns that version.
    ///
    /// # Errors
    /// As `put`.
    fn versioned_delete(
        &mut self,
        store: usize,
        key: &Datum,
        timestamp: i64,
    ) -> Result<Option<Version>>;
    /// The version that is valid at a time (`None`: the latest).
    ///
    /// # Errors
    /// As `get`.
    fn versioned_get(
        &mut self,
        store: usize,
        key: &Datum,
        as_of: Option<i64>,
    ) -> Result<Option<Version>>;

    /// Registers a timer of a key; registering it again changes nothing.
    ///
    /// # Errors
    /// As `put`.
    fn timer_register(
        &mut self,
        store: usize,
        key: &Datum,
        at: i64,
        domain: TimerDomain,
    ) -> Result<()>;
    /// Cancels a timer, if it exists.
    ///
    /// # Errors
    /// As `put`.
    fn timer_cancel(
        &mut self,
        store: usize,
        key: &Datum,
        at: i64,
        domain: TimerDomain,
    ) -> Result<()>;
    /// The pending timers of a key. Reads all timers.
    ///
    /// # Errors
    /// As `get`.
    fn timers_of(&mut self, store: usize, key: &Datum) -> Result<Vec<(TimerDomain, i64)>>;

    /// Registers a schedule. The n-th call in `init` is the same schedule in every lane.
    ///
    /// # Errors
    /// `User` if the interval is not positive.
    fn schedule(
        &mut self,
        interval_ms: i64,
        kind: Punctuation,
        start_ms: Option<i64>,
        punctuator: Arc<dyn Punctuator>,
    ) -> Result<ScheduleId>;
    /// Ends a schedule, for all lanes.
    fn cancel(&mut self, schedule: ScheduleId);
    /// Requests an early commit.
    fn commit(&mut self);
    /// Sets the record that the processor is called for from here on; a place with number 0: none.
    fn at(&mut self, place: Order);
    /// The stream time of the task at the record that the processor is called for, as in Kafka Streams: the
    /// highest timestamp that the sources of its sub-topology had in that partition, up to this record.
    /// For a schedule or a timer: the highest of all tasks. With `time.semantics = watermark`: the
    /// watermark. -1: none.
    fn stream_time(&mut self) -> i64;
    /// The application's watermark as of the last barrier; -1: none.
    fn watermark(&self) -> i64;
    /// Requests a watermark of at least this, from the next barrier on.
    fn advance_watermark(&mut self, to: i64);
    /// Wall time, milliseconds.
    fn wall_time(&self) -> i64;
    /// The topic of an input record; `None` for a record made by a punctuation.
    fn topic(&self, origin: &Origin) -> Option<String>;
    /// `application.id`.
    fn application_id(&self) -> String;
    /// The lane, for logs.
    fn lane(&self) -> u32;
}
