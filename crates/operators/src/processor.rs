//! The port to processors that the engine doesn't own (Python's).
//!
//! Takes a host, through which a processor forwards records and reaches its stores; gives what the
//! Processor API promises. One instance per lane. Forwarded records are handed to the children when
//! the batch is done, in order; with children that share a store with the processor, after each record.

use crate::Failed;
use std::fmt::Debug;
use stoatflow_core::{Datum, Origin, Record, Result};
use stoatflow_state::Stored;

/// Makes processors.
pub trait ProcessorSupplier: Send + Sync + Debug {
    /// `app.py:12 Enrich`, for errors.
    fn name(&self) -> &str;
    /// A new one, for one lane.
    ///
    /// # Errors
    /// `User` if the supplier raises, or gives the same object twice.
    fn create(&self) -> Result<Box<dyn Processor>>;
}

/// When punctuations of a schedule are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Punctuation {
    /// By the highest timestamp that the application has read.
    StreamTime,
    /// By the machine's clock.
    WallClock,
}

/// A schedule of a processor, the same number in every lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScheduleId(pub u32);

/// A user's processor.
pub trait Processor: Send {
    /// Before the first record.
    ///
    /// # Errors
    /// `User` if it raises.
    fn init(&mut self, host: &mut dyn ProcessorHost) -> Result<()>;
    /// Takes records in order. The interpreter is attached once for all of them.
    ///
    /// # Errors
    /// [`Failed`] if it raises.
    fn process(&mut self, batch: &[Record], host: &mut dyn ProcessorHost) -> Result<(), Failed>;
    /// A transformer's result for one update of a table.
    ///
    /// # Errors
    /// `User` if it raises.
    fn transform(
        &mut self,
        key: &Datum,
        value: &Datum,
        host: &mut dyn ProcessorHost,
    ) -> Result<Datum>;
    /// A schedule is due at this time.
    ///
    /// # Errors
    /// `User` if it raises.
    fn punctuate(
        &mut self,
        schedule: ScheduleId,
        time: i64,
        host: &mut dyn ProcessorHost,
    ) -> Result<()>;
    /// The end.
    fn close(&mut self);
}

/// What a processor may do while it is called. Stores are named by their place in the processor's list.
/// Keys are datums; the host encodes them with the store's serdes.
pub trait ProcessorHost {
    /// Passes a record on, to all children or to the one of this name.
    ///
    /// # Errors
    /// `User` if there is no such child.
    fn forward(&mut self, record: Record, child: Option<&str>) -> Result<()>;
    /// The place of a store in the processor's list.
    fn store(&self, name: &str) -> Option<usize>;
    /// What kind of store it is.
    fn store_kind(&self, store: usize) -> stoatflow_plan::StoreKind;
    /// The names of the stores.
    fn store_names(&self) -> Vec<String>;

    /// Reads a key.
    ///
    /// # Errors
    /// Those of the store and its serdes; so for all below.
    #[allow(missing_docs)]
    fn get(&mut self, store: usize, key: &Datum) -> Result<Option<Stored>>;
    /// Writes a key; `None` deletes. Gives what was there before.
    ///
    /// # Errors
    /// As `get`.
    fn put(&mut self, store: usize, key: &Datum, value: Option<Stored>) -> Result<Option<Stored>>;
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
    /// Entries whose key's bytes begin with these.
    ///
    /// # Errors
    /// As `get`.
    fn prefix(&mut self, store: usize, prefix: &[u8]) -> Result<Vec<(Datum, Stored)>>;
    /// About how many keys it has.
    fn approximate_len(&mut self, store: usize) -> u64;

    /// Writes a window.
    ///
    /// # Errors
    /// As `get`.
    fn window_put(
        &mut self,
        store: usize,
        key: &Datum,
        start: i64,
        value: Option<Stored>,
    ) -> Result<()>;
    /// Windows that start within both (inclusive), of a key range (`None`: of all keys): key, start, value.
    ///
    /// # Errors
    /// As `get`.
    fn window_fetch(
        &mut self,
        store: usize,
        keys: Option<(&Datum, &Datum)>,
        from: i64,
        to: i64,
        reverse: bool,
    ) -> Result<Vec<(Datum, i64, Stored)>>;
    /// Writes a session; `None` removes it.
    ///
    /// # Errors
    /// As `get`.
    fn session_put(
        &mut self,
        store: usize,
        key: &Datum,
        start: i64,
        end: i64,
        value: Option<Datum>,
    ) -> Result<()>;
    /// Sessions that end at or after `earliest_end` and start at or before `latest_start`: key, start,
    /// end, value.
    ///
    /// # Errors
    /// As `get`.
    fn session_find(
        &mut self,
        store: usize,
        keys: Option<(&Datum, &Datum)>,
        earliest_end: i64,
        latest_start: i64,
        reverse: bool,
    ) -> Result<Vec<(Datum, i64, i64, Datum)>>;
    /// Writes a version; gives until when it holds (-1: still; `i64::MIN`: too old, not written).
    ///
    /// # Errors
    /// As `get`.
    fn versioned_put(
        &mut self,
        store: usize,
        key: &Datum,
        value: Option<Datum>,
        timestamp: i64,
    ) -> Result<i64>;
    /// The version at a time (`None`: the latest): value, since when, until when.
    ///
    /// # Errors
    /// As `get`.
    fn versioned_get(
        &mut self,
        store: usize,
        key: &Datum,
        as_of: Option<i64>,
    ) -> Result<Option<(Datum, i64, Option<i64>)>>;

    /// Registers a schedule; a call in `init` of another lane's instance gives the same one.
    ///
    /// # Errors
    /// `User` if the interval is not positive.
    fn schedule(
        &mut self,
        interval_ms: i64,
        kind: Punctuation,
        start_ms: Option<i64>,
    ) -> Result<ScheduleId>;
    /// Ends a schedule, for all lanes.
    fn cancel(&mut self, schedule: ScheduleId);
    /// Asks for a commit soon.
    fn commit(&mut self);
    /// The highest timestamp that the application has read, as far as this lane knows; -1: none.
    fn stream_time(&self) -> i64;
    /// Wall time, milliseconds.
    fn wall_time(&self) -> i64;
    /// The topic of an input record.
    fn topic(&self, origin: &Origin) -> Option<String>;
    /// `application.id`.
    fn application_id(&self) -> String;
    /// The lane, for logs.
    fn lane(&self) -> u32;
}
