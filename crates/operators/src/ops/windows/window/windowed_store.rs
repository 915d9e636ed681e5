//! Where a windowed aggregation stores its results, and how it forwards them.
//!
//! Takes the outcome of a record, emits updates with windowed keys. Owns the store's id and clock, its
//! retention, and the guarantee that a forwarded value doesn't change any more (as in `fold`: foreign
//! values are copied before the next step may change them).

use crate::support::table_writer::{TableWriter, Update};
use crate::support::waiting::{Rows, Waiting};
use crate::{LaneClocks, LaneStore};
use bytes::{BufMut, Bytes, BytesMut};
use stoatflow_core::{ClockId, Datum, Error, Record, Result, Serde, StoreId, Task};

/// The effect of a record on a window.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The windowed key.
    pub key: Datum,
    /// True if the store had a value before.
    pub existed: bool,
    /// The value before.
    pub before: Datum,
    /// The new value.
    pub new: Datum,
    /// The highest timestamp in the window.
    pub timestamp: stoatflow_core::Timestamp,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct WindowedStore {
    pub writer: TableWriter,
    pub key: Serde,
    /// Clock of the newest window in the store.
    pub clock: ClockId,
    pub retention_ms: i64,
    /// True if updates leave the lane before they are encoded.
    pub leaves_lane: bool,
}

impl WindowedStore {
    pub fn store(&self) -> StoreId {
        self.writer.store
    }

    pub fn lane_store<'a>(&self, stores: &'a mut [LaneStore]) -> &'a mut LaneStore {
        &mut stores[usize::from(self.writer.store.0)]
    }

    /// Whether the store still shows this time (start of a window, end of a session).
    pub fn shows(&self, clocks: &LaneClocks, task: Task, time: i64) -> bool {
        time > (clocks.stream(self.clock, task)).saturating_sub(self.retention_ms)
    }

    /// The same at the last commit, for a task that existed then.
    pub fn showed(&self, clocks: &LaneClocks, task: Task, time: i64) -> bool {
        let seen = clocks.before_start(self.clock, task).stream;
        time > seen.saturating_sub(self.retention_ms)
    }

    /// An empty index for windows that wait to be closed.
    pub fn waiting(&self, clock: ClockId, key_in: fn(&[u8]) -> &[u8]) -> Waiting {
        Waiting::new(clock, self.key.clone(), key_in, Rows::OfAll)
    }

    /// The key of a window's results.
    pub fn windowed(&self, key: Bytes, start: i64, end: i64) -> Result<Datum> {
        let key = self.key.decode(Some(key)).map_err(|e| self.name(e))?;
        Ok(Datum::windowed(key, start, end))
    }

    /// A copy of a value, for children, that the next step can't change.
    pub fn own(&self, value: &Datum, record: &Record) -> Result<Datum> {
        match self.writer.copy(value) {
            Ok(copy) => Ok(copy.unwrap_or_else(|| value.clone())),
            Err(e) => Err(self.writer.locate(e, record)),
        }
    }

    /// The old value, if children need it.
    pub fn before(&self, value: &Datum, record: &Record) -> Result<Datum> {
        if self.writer.sends_old() {
            self.own(value, record)
        } else {
            Ok(Datum::Null)
        }
    }

    /// Forwards an update, now or at the barrier. Returns its index in `out` if its value may have to be
    /// frozen before the window's next step.
    pub fn forward(
        &mut self,
        place: &Bytes,
        trigger: &Record,
        outcome: Outcome,
        out: &mut Vec<Record>,
    ) -> Result<Option<usize>> {
        let Outcome {
            key,
            existed,
            before,
            new,
            timestamp,
        } = outcome;
        let foreign = matches!(&new, Datum::Opaque(object) if object.changes());
        let record = Record {
            key,
            value: Datum::Null,
            timestamp: trigger.timestamp,
            headers: trigger.headers.clone(),
            origin: trigger.origin,
        };
        let value = self.writer.update(existed, before, new);
        let update = Update {
            existed,
            value,
            timestamp,
        };
        self.writer.forward(place, record, update, out);
        if !foreign || self.writer.is_cached() {
            return Ok(None);
        }
        let last = out.len() - 1;
        if self.leaves_lane {
            self.writer.freeze(&mut out[last])?;
            return Ok(None);
        }
        Ok(Some(last))
    }

    /// Gives an update that waits in `out` its own copy of the value.
    pub fn freeze(&self, place: Option<usize>, out: &mut [Record]) -> Result<()> {
        match place.and_then(|at| out.get_mut(at)) {
            Some(record) => self.writer.freeze(record),
            None => Ok(()),
        }
    }

    /// Adds the node to an error that no single record caused.
    pub fn name(&self, error: Error) -> Error {
        self.writer.node_context.name_node(error)
    }
}

/// Error: the store of a count holds something else.
pub(crate) fn not_a_count(found: &Datum) -> Error {
    Error::incompatible(format!(
        "the store of a count holds a value of type {}",
        found.type_name()
    ))
    .hint("keep counts with Serdes.int64(), and delete a store that was written with another serde")
}

/// Order of a session among those with the same end: by start, then by key.
pub(crate) fn session_place(key: &[u8], start: i64) -> Bytes {
    let mut place = BytesMut::with_capacity(8 + key.len());
    place.put_i64(start);
    place.put_slice(key);
    place.freeze()
}

/// Splits it into start and key.
pub(crate) fn split_session_place(place: &Bytes) -> Option<(i64, Bytes)> {
    let start = place.first_chunk::<8>()?;
    Some((i64::from_be_bytes(*start), place.slice(8..)))
}

/// The key in a session's place.
pub(crate) fn session_key_in(place: &[u8]) -> &[u8] {
    place.get(8..).unwrap_or_default()
}
