//! Stream records that wait for a versioned table to catch up.
//!
//! Takes records, returns those whose timestamp plus grace is over: by timestamp, then key, then
//! arrival. Owns the waiting records of one lane's keys: in a store (time, key, number; then headers,
//! origin and value), with an ordered index in memory. Its stream time is that of the records it has
//! taken. Never joins.

use crate::support::node_context::NodeContext;
use crate::support::waiting::{self, Tasks};
use crate::{Context, LaneStore};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::sync::Arc;
use stoatflow_core::{
    ClockId, Datum, Error, Header, Headers, Offset, Order, Origin, Partition, Record, Result,
    Serde, SourceId, StoreId, Task, Timestamp,
};
use stoatflow_state::{KeyRange, Stored, split_time_key, time_key};

/// Entries read at a time when a lane starts.
const CHUNK: usize = 4096;

/// Settings for waiting records.
#[derive(Debug)]
pub(crate) struct WaitingSettings {
    pub node_context: NodeContext,
    pub store: StoreId,
    pub clock: ClockId,
    pub grace_ms: i64,
    pub key: Serde,
    pub value: Serde,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Waiting {
    room: WaitingSettings,
    /// By time, then key and number.
    lines: waiting::Waiting,
    /// The number of the next record.
    next: u64,
}

impl Waiting {
    pub fn new(room: WaitingSettings) -> Self {
        Self {
            lines: waiting::Waiting::new(
                room.clock,
                room.key.clone(),
                key_in,
                waiting::Rows::OfKeysInOtherTasks,
            ),
            room,
            next: 0,
        }
    }

    /// Loads the waiting records.
    pub fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        let (epoch, assignment) = (context.epoch, context.assignment);
        let tasks = Tasks::read(self.room.clock, context)?;
        let store = Arc::clone(&context.store(self.room.store).store);
        let mut range = KeyRange::default();
        loop {
            let found = store.scan(epoch, &range, CHUNK)?;
            let Some((last, _)) = found.last() else {
                return Ok(());
            };
            range.from = Some([last.as_ref(), &[0]].concat().into());
            for (whole, _) in found {
                let (time, rest) = split_time_key(&whole).ok_or_else(|| self.broken())?;
                let (_, number) = rest.split_last_chunk::<8>().ok_or_else(|| self.broken())?;
                let affinity = self.lines.affinity(rest);
                if assignment.owns(affinity) {
                    self.next = self.next.max(u64::from_be_bytes(*number) + 1);
                    let task = tasks.of(context, (time, rest), affinity)?;
                    let rest = whole.slice(whole.len() - rest.len()..);
                    self.lines.restore(task, (time, rest));
                }
            }
        }
    }

    /// The time up to which a task's records are due: stream time minus grace.
    fn due(&self, task: Task, context: &Context<'_>) -> i64 {
        let stream = context.clocks.stream(self.room.clock, task);
        stream.saturating_sub(self.room.grace_ms)
    }

    /// Moves stream time to that of the records of other lanes before this one.
    pub fn see(&self, record: &Record, context: &mut Context<'_>) {
        context.clocks.before(self.room.clock, record);
    }

    /// Adds a record that has to wait; returns it if it is too old for that.
    pub fn take(&mut self, record: Record, context: &mut Context<'_>) -> Result<Option<Record>> {
        let task = context.clocks.task(record.task());
        if record.timestamp.0 < self.due(task, context) {
            return Ok(Some(record));
        }
        let located = |e| self.room.node_context.locate(e, &record.origin);
        let Some(key) = self.room.key.encode(&record.key).map_err(located)? else {
            return Ok(Some(record));
        };
        let value = self.room.value.encode(&record.value).map_err(located)?;
        let time = record.timestamp.0;
        context.clocks.observe(self.room.clock, &record);
        let mut rest = BytesMut::with_capacity(key.len() + 8);
        rest.put_slice(&key);
        rest.put_u64(self.next);
        self.next += 1;
        let rest = rest.freeze();
        let bytes = Datum::Bytes(written(&record, &value.unwrap_or_default()));
        self.write(time, &rest, bytes, context).map_err(located)?;
        self.lines.insert(task, (time, rest), context)?;
        Ok(None)
    }

    /// Adds the due records of all tasks to `ready`.
    pub fn release_everywhere(
        &mut self,
        ready: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut tasks = context.clocks.tasks(self.room.clock);
        tasks.try_for_each(|task| self.release(task, None, ready, context))
    }

    /// Adds the due records of a task to `ready`. Their order number is that of the record that made
    /// them due, if known, else `place`.
    pub fn release(
        &mut self,
        task: Task,
        place: Option<Order>,
        ready: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let task = context.clocks.task(task);
        let until = self.due(task, context);
        while let Some((time, rest)) = self.lines.pop_due(task, until, context)? {
            let epoch = context.epoch;
            let store = &context.store(self.room.store).store;
            let held = store.get(epoch, &time_key(time, &rest))?;
            let Some(Datum::Bytes(bytes)) = held.map(|held| held.value) else {
                return Err(self.broken());
            };
            let key = rest.slice(..rest.len() - 8);
            let (headers, mut origin, value) = read(bytes).ok_or_else(|| self.broken())?;
            let made_due = time.saturating_add(self.room.grace_ms);
            let step = context.clocks.first_at(self.room.clock, task, made_due);
            if let Some(order) = step.map(|step| step.order).or(place) {
                origin.order = order;
            }
            let located = |e| self.room.node_context.locate(e, &origin);
            ready.push(Record {
                key: self.room.key.decode(Some(key)).map_err(located)?,
                value: self.room.value.decode(Some(value)).map_err(located)?,
                timestamp: Timestamp(time),
                headers,
                origin,
            });
            self.write(time, &rest, Datum::Null, context)?;
        }
        Ok(())
    }

    fn write(&self, time: i64, rest: &[u8], value: Datum, context: &mut Context<'_>) -> Result<()> {
        let epoch = context.epoch;
        let LaneStore { store, dirty } = context.store(self.room.store);
        let timestamp = Timestamp(time);
        let stored = Some(Stored { value, timestamp });
        store.put(epoch, dirty, &time_key(time, rest), stored)
    }

    fn broken(&self) -> Error {
        self.room.node_context.name_node(
            Error::state_corrupt("a record that waits for a table can't be read")
                .hint("check that nothing else writes to the changelog of its store"),
        )
    }
}

/// The record key in an entry's key: a number follows it.
fn key_in(rest: &[u8]) -> &[u8] {
    &rest[..rest.len().saturating_sub(8)]
}

/// Serializes headers, origin and value.
fn written(record: &Record, value: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(32 + value.len());
    let headers = record.headers.as_deref().unwrap_or_default();
    out.put_u32(u32::try_from(headers.len()).unwrap_or(u32::MAX));
    for header in headers {
        put(&mut out, header.name.as_bytes());
        out.put_u8(u8::from(header.value.is_some()));
        put(&mut out, header.value.as_deref().unwrap_or_default());
    }
    let Origin {
        source,
        topic,
        partition,
        offset,
        ..
    } = record.origin;
    out.put_u16(source.0);
    out.put_u16(topic);
    out.put_i32(partition.0);
    out.put_i64(offset.0);
    out.put_slice(value);
    out.freeze()
}

fn put(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    out.put_slice(bytes);
}

fn read(mut bytes: Bytes) -> Option<(Headers, Origin, Bytes)> {
    let count = bytes.try_get_u32().ok()?;
    let mut headers = Vec::new();
    for _ in 0..count {
        let name = take(&mut bytes)?;
        let is_there = bytes.try_get_u8().ok()? == 1;
        let value = take(&mut bytes)?;
        headers.push(Header {
            name: std::str::from_utf8(&name).ok()?.into(),
            value: is_there.then_some(value),
        });
    }
    let origin = Origin {
        source: SourceId(bytes.try_get_u16().ok()?),
        topic: bytes.try_get_u16().ok()?,
        partition: Partition(bytes.try_get_i32().ok()?),
        offset: Offset(bytes.try_get_i64().ok()?),
        ..Origin::default()
    };
    let headers = (!headers.is_empty()).then(|| headers.into());
    Some((headers, origin, bytes))
}

fn take(bytes: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(bytes.try_get_u32().ok()?).ok()?;
    (length <= bytes.len()).then(|| bytes.split_to(length))
}
