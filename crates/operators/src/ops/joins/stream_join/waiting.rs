//! Records of both sides of a left or outer join that wait for a partner.
//!
//! Takes records without a partner, returns those whose window is over, to be emitted unmatched. Owns
//! the entries of one lane's keys: in a store (time, side, key, number; the value as bytes) and in
//! memory, in order. Shared by the two sides, which run in turn, in one lane. Never calls a function.
//!
//! An unmatched row is emitted when its window is over, with the origin and headers of the record that
//! ended it. If an interval is set and a lane has all keys of its tasks, passes over the waiting entries
//! take place exactly when they do in Kafka Streams, which uses `min_time` to avoid them. That isn't the
//! earliest waiting time: a pass sets it to the last entry that it looked at, so results may be emitted
//! later than their windows end.

mod next_pass;
#[cfg(test)]
mod tests;

use super::Rows;
use crate::support::time_index::TimeIndex;
use crate::support::waiting::{self, Tasks};
use crate::{Context, LaneStore};
use bytes::{BufMut, Bytes, BytesMut};
use next_pass::NextPass;
use std::sync::Arc;
use stoatflow_core::{
    ClockId, Datum, Error, Headers, Origin, Record, Result, Serde, StoreId, Task, Timestamp,
};
use stoatflow_state::{KeyRange, Stored, split_time_key, time_key};

/// Bytes of the task in the key of a `min_time` row, which has a time that no record has; task 0 has none.
const TASK: usize = 2;
/// Bytes before and after the key of a waiting entry.
const SIDE: usize = 1;
const NUMBER: usize = 4;
/// Entries read at a time when a lane starts.
const CHUNK: usize = 4096;

/// One side of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    // Order in which they are emitted at equal timestamps.
    Right = 0,
    Left = 1,
}

impl Side {
    pub const fn of(left: bool) -> Self {
        if left { Self::Left } else { Self::Right }
    }

    pub const fn opposite(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// Settings of the waiting entries of a stream-stream join.
#[derive(Debug)]
pub(crate) struct Shape {
    pub store: StoreId,
    /// True if both sides wait (an outer join).
    pub both: bool,
    pub key: Serde,
    pub left_value: Serde,
    pub right_value: Serde,
    /// How long after its timestamp an entry may still find a partner, including grace: right, left.
    pub reach: [i64; 2],
}

/// An entry whose window is over.
#[derive(Debug)]
pub(crate) struct Expired {
    pub side: Side,
    pub key: Datum,
    pub value: Datum,
    pub time: i64,
    /// The record that ended its window, if it isn't the current one.
    trigger: Option<(Origin, Headers)>,
}

/// Passes over the waiting entries of a task.
#[derive(Debug)]
struct Passes {
    next: NextPass,
    /// The value that is stored.
    kept: NextPass,
    /// The stream time that this lane's records have reached.
    seen: i64,
}

impl Default for Passes {
    fn default() -> Self {
        Self {
            next: NextPass::AT_ONCE,
            kept: NextPass::AT_ONCE,
            seen: -1,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Waiting {
    shape: Shape,
    /// By time, then side, key, number.
    lines: waiting::Waiting,
    /// By task.
    passes: Vec<Passes>,
    opened: bool,
}

impl Waiting {
    pub fn new(shape: Shape, clock: ClockId) -> Self {
        Self {
            lines: waiting::Waiting::new(
                clock,
                shape.key.clone(),
                key_in,
                waiting::Rows::OfKeysInOtherTasks,
            ),
            shape,
            passes: Vec::new(),
            opened: false,
        }
    }

    fn passes(&mut self, task: Task) -> &mut Passes {
        if self.passes.len() <= task.index() {
            self.passes.resize_with(task.index() + 1, Passes::default);
        }
        &mut self.passes[task.index()]
    }

    /// Loads the waiting entries, once for both sides.
    pub fn open(&mut self, clock: ClockId, context: &mut Context<'_>) -> Result<()> {
        if std::mem::replace(&mut self.opened, true) {
            return Ok(());
        }
        let (epoch, assignment) = (context.epoch, context.assignment);
        let tasks = Tasks::read(clock, context)?;
        for task in context.clocks.tasks(clock) {
            self.passes(task).seen = context.clocks.stream(clock, task);
        }
        let store = Arc::clone(&context.store(self.shape.store).store);
        let mut range = KeyRange::default();
        loop {
            let found = store.scan(epoch, &range, CHUNK)?;
            let Some((last, _)) = found.last() else {
                return Ok(());
            };
            range.from = Some([last.as_ref(), &[0]].concat().into());
            for (whole, stored) in found {
                let (time, rest) = split_time_key(&whole).ok_or_else(broken)?;
                if rest.is_empty() || rest.len() == TASK {
                    let task = rest.first_chunk().map_or(0, |at| u16::from_be_bytes(*at));
                    if assignment.owns_task(Task(task)) {
                        let passes = self.passes(Task(task));
                        passes.next = NextPass::restored(&stored);
                        passes.kept = passes.next;
                    }
                    continue;
                }
                if rest.len() < SIDE + NUMBER {
                    return Err(broken());
                }
                let affinity = self.lines.affinity(rest);
                if assignment.owns(affinity) {
                    let task = tasks.of(context, (time, rest), affinity)?;
                    let rest = whole.slice(whole.len() - rest.len()..);
                    self.lines.restore(task, (time, rest));
                }
            }
        }
    }

    /// Adds a record that has no partner yet.
    pub fn add(
        &mut self,
        side: Side,
        key: &[u8],
        value: &Datum,
        (task, time): (Task, i64),
        context: &mut Context<'_>,
    ) -> Result<()> {
        let serde = self.shape.serde(side);
        let value = serde.encode(value)?.map_or(Datum::Null, Datum::Bytes);
        // Several records with the same key and timestamp all wait, in their order.
        let task = context.clocks.task(task);
        let last = numbered(self.lines.line(task), side, key, time).last();
        let rest = rest(side, key, last.map_or(0, number_of).saturating_add(1));
        let passes = self.passes(task);
        let min_time = &mut passes.next.min_time;
        *min_time = Some(min_time.map_or(time, |min| min.min(time)));
        let epoch = context.epoch;
        let LaneStore { store, dirty } = context.store(self.shape.store);
        let timestamp = Timestamp(time);
        store.put(
            epoch,
            dirty,
            &time_key(time, &rest),
            Some(Stored { value, timestamp }),
        )?;
        self.lines.insert(task, (time, rest), context)
    }

    /// A partner was found: removes the entries with this side, key and time. They may wait in another
    /// task if the two topics are not partitioned alike.
    pub fn forget(
        &mut self,
        side: Side,
        key: &[u8],
        time: i64,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let filled = self.lines.lines().filter(|(_, line)| !line.is_empty());
        let found: Vec<(Task, Bytes)> = filled
            .flat_map(|(task, line)| {
                let all = numbered(line, side, key, time);
                all.map(move |rest| (task, rest.clone()))
            })
            .collect();
        found
            .iter()
            .try_for_each(|(task, rest)| self.remove((*task, time), rest, context))
    }

    /// Entries of a task whose window is over, at a record of `side` that has moved the clock, if a pass
    /// is due.
    pub fn expire(
        &mut self,
        clock: ClockId,
        side: Side,
        task: Task,
        context: &mut Context<'_>,
    ) -> Result<Vec<Expired>> {
        let stream_time = context.clocks.stream(clock, task);
        let reach = self.shape.reach[side as usize];
        let early = |min: i64| min.saturating_add(reach) >= stream_time;
        if goes_by_min_time(context) && self.passes(task).next.min_time.is_some_and(early) {
            return Ok(Vec::new());
        }
        self.pass(clock, task, context)
    }

    /// Entries of a task whose window is over, unless the last pass was just now.
    pub fn pass(
        &mut self,
        clock: ClockId,
        task: Task,
        context: &mut Context<'_>,
    ) -> Result<Vec<Expired>> {
        let task = context.clocks.task(task);
        let stream_time = context.clocks.stream(clock, task);
        let by_min_time = goes_by_min_time(context);
        let interval = context.clocks.join_emit_interval_ms;
        let (least, now) = (
            self.shape.reach[0].min(self.shape.reach[1]),
            context.clocks.wall.0,
        );
        let oldest = self.lines.line(task).oldest().map(|(time, _)| time);
        if !by_min_time && oldest.is_none_or(|time| time.saturating_add(least) >= stream_time) {
            return Ok(Vec::new());
        }
        // Without an interval there is nothing to remember.
        if let Some(interval) = interval.filter(|interval| by_min_time && *interval > 0) {
            let next = &mut self.passes(task).next;
            if next.is_early(now, interval) {
                return Ok(Vec::new());
            }
            next.not_before = now.saturating_add(interval);
        }
        let due = self.find_expired(task, stream_time);
        due.into_iter()
            .map(|(time, rest)| self.take((clock, task), time, &rest, context))
            .collect()
    }

    /// Finds expired entries; stops when there can't be any more.
    fn find_expired(&mut self, task: Task, stream_time: i64) -> Vec<(i64, Bytes)> {
        let mut due = Vec::new();
        let Self { shape, lines, .. } = self;
        let line = lines.line(task);
        // If only one side waits, everything after the first open entry is open too.
        let mut open = [!shape.both, false];
        let mut min_time = None;
        for (time, rest) in line.iter() {
            min_time = Some(time);
            if open == [true, true] {
                if !shape.both {
                    min_time = line.newest().map(|(time, _)| time);
                }
                break;
            }
            let side = usize::from(rest[0]);
            if time.saturating_add(shape.reach[side]) >= stream_time {
                open[side] = true;
            } else {
                due.push((time, rest.clone()));
            }
        }
        self.passes(task).next.min_time = min_time;
        due
    }

    fn take(
        &mut self,
        (clock, task): (ClockId, Task),
        time: i64,
        rest: &Bytes,
        context: &mut Context<'_>,
    ) -> Result<Expired> {
        let epoch = context.epoch;
        let store = &context.store(self.shape.store).store;
        let stored = store
            .get(epoch, &time_key(time, rest))?
            .ok_or_else(broken)?;
        let Datum::Bytes(value) = stored.value else {
            return Err(broken());
        };
        self.remove((task, time), rest, context)?;
        let key = key_in(rest);
        let side = Side::of(rest[0] == Side::Left as u8);
        let over = time
            .saturating_add(self.shape.reach[side as usize])
            .saturating_add(1);
        let name = context.clocks.name_at(clock, task, over);
        Ok(Expired {
            side,
            trigger: name.filter(|_| !goes_by_min_time(context)).cloned(),
            key: self.shape.key.decode(Some(rest.slice_ref(key)))?,
            value: self.shape.serde(side).decode(Some(value))?,
            time,
        })
    }

    fn remove(
        &mut self,
        (task, time): (Task, i64),
        rest: &Bytes,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.lines.remove(task, (time, rest), context)?;
        let epoch = context.epoch;
        let LaneStore { store, dirty } = context.store(self.shape.store);
        store.put(epoch, dirty, &time_key(time, rest), None)
    }

    /// Notes that a record of a task was processed and moved its stream time to this.
    pub fn see(&mut self, task: Task, stream_time: i64, context: &Context<'_>) {
        if goes_by_min_time(context) {
            self.passes(task).seen = stream_time;
        }
    }

    /// Whether to make a pass without a record of this lane. If passes follow Kafka Streams, only after
    /// records of other lanes have moved stream time: those of keys that their producer wrote to another
    /// partition than expected.
    pub fn is_due_alone(&mut self, clock: ClockId, task: Task, context: &Context<'_>) -> bool {
        let stream_time = context.clocks.stream(clock, task);
        !goes_by_min_time(context) || stream_time > self.passes(task).seen
    }

    /// At the end of a batch: stores when passes take place beside the entries, so that a restart
    /// changes nothing.
    pub fn store_passes(&mut self, context: &mut Context<'_>) -> Result<()> {
        if !goes_by_min_time(context) {
            return Ok(());
        }
        let assignment = context.assignment;
        for (at, passes) in (0u16..).zip(&mut self.passes) {
            // Each row has one writer.
            if passes.next == passes.kept || !assignment.owns_task(Task(at)) {
                continue;
            }
            passes.kept = passes.next;
            let value = passes.next.stored();
            let task = at.to_be_bytes();
            let row = time_key(i64::MAX, if at == 0 { &[] } else { &task });
            let epoch = context.epoch;
            let LaneStore { store, dirty } = context.store(self.shape.store);
            store.put(epoch, dirty, &row, value)?;
        }
        Ok(())
    }
}

/// The entries of one side, key and time, in order.
fn numbered<'l>(
    line: &'l TimeIndex,
    side: Side,
    key: &[u8],
    time: i64,
) -> impl Iterator<Item = &'l Bytes> + use<'l> {
    let first = rest(side, key, 0);
    let shared = first.slice(..first.len() - 4);
    let length = first.len();
    line.at(time, first)
        .take_while(move |rest| rest.starts_with(&shared))
        .filter(move |rest| rest.len() == length)
}

impl Shape {
    const fn serde(&self, side: Side) -> &Serde {
        match side {
            Side::Left => &self.left_value,
            Side::Right => &self.right_value,
        }
    }
}

impl Expired {
    /// Adds its row, with the headers and the origin of the record that caused it to be emitted.
    pub fn emit(self, trigger: &Record, rows: &mut Rows) {
        let mut row = trigger.with_pair(self.key, Datum::Null);
        if let Some((origin, headers)) = self.trigger {
            (row.origin, row.headers) = (origin, headers);
        }
        row.timestamp = Timestamp(self.time);
        match self.side {
            Side::Left => rows.add(row, self.value, Datum::Null),
            Side::Right => rows.add(row, Datum::Null, self.value),
        }
    }
}

/// Whether passes take place exactly when Kafka Streams makes them.
pub(super) const fn goes_by_min_time(context: &Context<'_>) -> bool {
    let clocks = &*context.clocks;
    clocks.join_emit_interval_ms.is_some()
        && context.assignment.has_whole_tasks()
        && clocks.moves_with_records()
}

/// An entry's key after the time: side, key, number.
fn rest(side: Side, key: &[u8], number: u32) -> Bytes {
    let mut rest = BytesMut::with_capacity(key.len() + 5);
    rest.put_u8(side as u8);
    rest.put_slice(key);
    rest.put_u32(number);
    rest.freeze()
}

/// The record key in an entry's key.
fn key_in(rest: &[u8]) -> &[u8] {
    let end = rest.len().saturating_sub(NUMBER);
    rest.get(SIDE..end).unwrap_or_default()
}

fn number_of(rest: &Bytes) -> u32 {
    rest.last_chunk()
        .map_or(0, |number| u32::from_be_bytes(*number))
}

fn broken() -> Error {
    Error::state_corrupt(
        "the store of rows that wait for a partner holds an entry that no join wrote",
    )
    .hint("reset the application, or restore the store from its changelog")
}
