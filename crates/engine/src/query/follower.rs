//! Reads a store as of one commit, then the changes of later commits, one commit at a time.
//!
//! Takes a snapshot and a place in the backlog as of the same commit; gives batches of rows. `next`
//! never waits. With a condition, a row that no longer meets it is reported as deleted, once. For that,
//! the follower (not the commit) keeps the keys of the rows that meet the condition.

use super::CommittedSnapshot;
use super::committed::CommittedCut;
use super::followers::{ChangesEnd, EpochChanges, FollowerHandle};
use super::reader::{KeySpan, StoreReader, readable};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use stoatflow_core::{Bytes, Datum, Epoch, Error, Record, Result, Timestamp};
use stoatflow_operators::ForeignCode;
use stoatflow_operators::expr::Compiled;
use stoatflow_plan::{Expression, Store, StoreKind};
use stoatflow_state::{KeyRange, Page, Stored, after, split_session, split_window};

/// What to follow.
#[derive(Clone, Debug)]
pub struct FollowSpec {
    /// Whether it begins with the existing rows.
    pub snapshot: bool,
    /// The keys to follow; windows and sessions are followed with all keys.
    pub keys: KeySpan,
    /// Only rows that meet this condition.
    pub condition: Option<Expression>,
    /// Maximum bytes of unread changes, besides one commit.
    pub buffer_bytes: usize,
}

impl FollowSpec {
    /// The key range in the store.
    pub(super) fn keys_of(&self, store: &Store, foreign: &ForeignCode) -> Result<KeyRange> {
        let named = |error: Error| error.at(|at| at.store = Some(store.name.clone()));
        match readable(store)? {
            StoreKind::KeyValue | StoreKind::TimestampedKeyValue => {
                let serde = foreign.serde(&store.key)?;
                self.keys.range(&serde).map_err(named)
            }
            StoreKind::Window { .. } | StoreKind::Session { .. }
                if self.condition.is_none()
                    && matches!(self.keys, KeySpan::Between(None, None)) =>
            {
                Ok(KeyRange::default())
            }
            StoreKind::Window { .. } | StoreKind::Session { .. } => Err(named(
                Error::config("windows and sessions are followed as a whole")
                    .hint("leave the keys and the condition out, and skip what is not wanted"),
            )),
            _ => Err(named(
                Error::config("a versioned store can't be followed")
                    .hint("follow a store of a table without history=, or read it by key"),
            )),
        }
    }
}

/// A row of the snapshot, or a row that a commit has changed.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedRow {
    /// The key.
    pub key: Datum,
    /// Start and end, of windows and sessions.
    pub times: Option<(i64, i64)>,
    /// The value; `None` if the row was deleted.
    pub value: Option<Stored>,
}

/// Rows of one commit.
#[derive(Clone, Debug)]
pub struct ChangeBatch {
    /// The commit.
    pub cut: Arc<CommittedCut>,
    /// True if these are rows of the snapshot.
    pub is_snapshot: bool,
    /// True for the last batch of its commit, or of the snapshot.
    pub is_complete: bool,
    /// The rows; a key occurs once in all batches of a commit.
    pub rows: Vec<ChangedRow>,
}

/// How far the follower has read.
#[derive(Debug)]
struct Reading {
    /// The rest of the snapshot; `None` if nothing is left to read.
    snapshot: Option<KeyRange>,
    /// The commit being read, and how many of its rows were read.
    epoch: Option<(EpochChanges, usize)>,
    /// True if a batch of it was returned.
    is_begun: bool,
    /// The last commit that was read completely.
    reached: Epoch,
    /// The keys of rows that meet the condition.
    matching: HashSet<Bytes>,
}

/// See the module.
#[derive(Debug)]
pub struct Follower {
    reader: StoreReader,
    snapshot: CommittedSnapshot,
    handle: FollowerHandle,
    /// Whether rows of the snapshot are returned. They are read for the condition in any case.
    gives_snapshot: bool,
    condition: Option<Compiled>,
    reading: Mutex<Reading>,
}

impl Follower {
    pub(super) fn new(
        reader: StoreReader,
        snapshot: CommittedSnapshot,
        handle: FollowerHandle,
        (spec, keys): (&FollowSpec, KeyRange),
    ) -> Result<Self> {
        let condition = spec.condition.as_ref().map(Compiled::new).transpose()?;
        let reads_snapshot = spec.snapshot || condition.is_some();
        if !reads_snapshot {
            snapshot.close();
        }
        let reading = Reading {
            snapshot: reads_snapshot.then_some(keys),
            epoch: None,
            is_begun: false,
            reached: snapshot.cut().epoch,
            matching: HashSet::new(),
        };
        Ok(Self {
            reader,
            snapshot,
            handle,
            gives_snapshot: spec.snapshot,
            condition,
            reading: Mutex::new(reading),
        })
    }

    /// The commit of its snapshot.
    #[must_use]
    pub fn cut(&self) -> &CommittedCut {
        self.snapshot.cut()
    }

    /// The next rows, about a page of them; `None` if there are none now, or if none will follow
    /// ([`Self::is_over`]).
    ///
    /// # Errors
    /// `ChangesLost` if changes from here on are missing; errors of the state and the serdes. An error
    /// doesn't move the follower.
    pub fn next(&self, size: Page) -> Result<Option<ChangeBatch>> {
        let mut reading = self.reading.lock();
        match self.handle.end() {
            Some(ChangesEnd::Closed) => return Ok(None),
            Some(end @ ChangesEnd::Overflow) => return Err(self.lost(&reading, end)),
            _ => {}
        }
        while let Some(rest) = reading.snapshot.clone() {
            let batch = match self.page(&mut reading, rest, size) {
                Ok(batch) => batch,
                Err(error) if self.snapshot.is_open() => return Err(error),
                Err(_) => return self.without_snapshot(&reading),
            };
            if self.gives_snapshot && (batch.is_complete || !batch.rows.is_empty()) {
                return Ok(Some(batch));
            }
        }
        while reading.epoch.is_some() || self.begin(&mut reading) {
            if let Some(batch) = self.changes(&mut reading, size)? {
                return Ok(Some(batch));
            }
        }
        match self.handle.end() {
            Some(end @ (ChangesEnd::Failed | ChangesEnd::NewPartitions | ChangesEnd::Overflow)) => {
                Err(self.lost(&reading, end))
            }
            _ => Ok(None),
        }
    }

    /// Whether it has ended, without a loss.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match self.handle.end() {
            Some(ChangesEnd::Closed) => true,
            Some(ChangesEnd::Stopped) => self.reading.lock().snapshot.is_none(),
            _ => false,
        }
    }

    /// Waits until `next` may return something, at most this long.
    pub fn wait(&self, at_most: Duration) {
        self.handle.wait(at_most);
    }

    /// Wakes the waker once `next` may return something; false if it may already.
    pub fn wake(&self, waker: &Waker) -> bool {
        self.handle.wake(waker)
    }

    /// Ends following, and wakes a reader that waits for changes.
    pub fn close(&self) {
        self.handle.leave();
        self.snapshot.close();
    }

    /// The run ended before the snapshot was read. The reason is known a moment later.
    fn without_snapshot(&self, reading: &Reading) -> Result<Option<ChangeBatch>> {
        while self.handle.next().is_some() {}
        match self.handle.end() {
            None | Some(ChangesEnd::Closed) => Ok(None),
            Some(end) => Err(self.lost(reading, end)),
        }
    }

    fn begin(&self, reading: &mut Reading) -> bool {
        reading.epoch = self.handle.next().map(|changes| (changes, 0));
        reading.is_begun = false;
        reading.epoch.is_some()
    }

    /// A page of the snapshot.
    fn page(&self, reading: &mut Reading, rest: KeyRange, size: Page) -> Result<ChangeBatch> {
        let store = self.reader.spec.id;
        let open = &self.reader.rows.0;
        let found = open.read(|snapshot| snapshot.scan(store, &rest, size))?;
        let bytes: usize = found.iter().map(|(k, v)| k.len() + v.len()).sum();
        let is_complete = found.len() < size.rows && bytes < size.bytes;
        let last = found.last().map(|(key, _)| after(key));
        let mut rows = Vec::with_capacity(found.len());
        for (key, stored) in found {
            if !self.is_expired(&key)? {
                rows.extend(self.row(&mut reading.matching, &key, Some(stored))?);
            }
        }
        reading.snapshot = (!is_complete).then_some(KeyRange { from: last, ..rest });
        if is_complete {
            self.snapshot.close();
        }
        Ok(ChangeBatch {
            cut: Arc::clone(&self.snapshot.cut),
            is_snapshot: true,
            is_complete,
            rows,
        })
    }

    /// Rows of the commit being read; `None` if it has none for this reader.
    fn changes(&self, reading: &mut Reading, size: Page) -> Result<Option<ChangeBatch>> {
        let Some((changes, read)) = &mut reading.epoch else {
            return Ok(None);
        };
        let (mut rows, mut at, mut bytes) = (Vec::new(), *read, 0);
        while let Some(write) = changes.writes.get(at)
            && rows.len() < size.rows
            && bytes < size.bytes
        {
            let row = self.row(&mut reading.matching, &write.key, write.value.clone())?;
            if row.is_some() {
                bytes += write.key.len() + write.value.as_ref().map_or(0, |value| value.len());
            }
            rows.extend(row);
            at += 1;
        }
        *read = at;
        let is_complete = at == changes.writes.len();
        let cut = Arc::clone(&changes.cut);
        if is_complete {
            reading.reached = cut.epoch;
            reading.epoch = None;
        }
        if rows.is_empty() && !reading.is_begun {
            return Ok(None);
        }
        reading.is_begun = true;
        Ok(Some(ChangeBatch {
            cut,
            is_snapshot: false,
            is_complete,
            rows,
        }))
    }

    /// A row for the reader; `None` if it doesn't meet the condition and didn't before.
    fn row(
        &self,
        matching: &mut HashSet<Bytes>,
        key: &Bytes,
        stored: Option<Bytes>,
    ) -> Result<Option<ChangedRow>> {
        let Some(condition) = &self.condition else {
            return self.decoded(key, stored).map(Some);
        };
        if let Some(stored) = stored
            && let Some(row) = self.meeting(condition, key, stored)
        {
            matching.insert(Bytes::copy_from_slice(key));
            return Ok(Some(row));
        }
        let was_there = matching.remove(key);
        was_there.then(|| self.decoded(key, None)).transpose()
    }

    /// The row if it meets the condition; a row that can't be decoded doesn't.
    fn meeting(&self, condition: &Compiled, key: &Bytes, stored: Bytes) -> Option<ChangedRow> {
        let row = self.decoded(key, Some(stored)).ok()?;
        let value = row.value.as_ref()?;
        let record = Record {
            key: row.key.clone(),
            value: value.value.clone(),
            timestamp: value.timestamp,
            ..Record::default()
        };
        condition.test(&record).ok()?.then_some(row)
    }

    fn decoded(&self, key: &Bytes, stored: Option<Bytes>) -> Result<ChangedRow> {
        let (key, times) = self.place_of(key)?;
        let value = stored.map(|stored| self.stored(stored)).transpose()?;
        Ok(ChangedRow {
            key: self.reader.datum(key)?,
            times,
            value,
        })
    }

    fn stored(&self, mut stored: Bytes) -> Result<Stored> {
        let Some(time) = stored.first_chunk::<8>().copied() else {
            return Err(self.short());
        };
        let value = self.reader.value.decode(Some(stored.split_off(8)));
        Ok(Stored {
            value: value.map_err(|e| self.reader.named(e))?,
            timestamp: Timestamp(i64::from_be_bytes(time)),
        })
    }

    /// The record key of a row, with start and end.
    fn place_of(&self, row: &Bytes) -> Result<(Bytes, Option<(i64, i64)>)> {
        let (key, start, end) = match self.reader.spec.kind {
            StoreKind::Window { size_ms, .. } => {
                let parts = split_window(row).ok_or_else(|| self.short())?;
                let end = parts.start.saturating_add(size_ms);
                (parts.key.len(), parts.start, end)
            }
            StoreKind::Session { .. } => {
                let parts = split_session(row).ok_or_else(|| self.short())?;
                (parts.key.len(), parts.start, parts.end)
            }
            _ => return Ok((row.clone(), None)),
        };
        Ok((row.slice(8..8 + key), Some((start, end))))
    }

    /// Whether retention hides this row of the snapshot.
    fn is_expired(&self, row: &Bytes) -> Result<bool> {
        let (key, times) = self.place_of(row)?;
        let Some((start, end)) = times else {
            return Ok(false);
        };
        let is_session = matches!(self.reader.spec.kind, StoreKind::Session { .. });
        let time = if is_session { end } else { start };
        Ok(time <= self.reader.expired_until(&key))
    }

    fn short(&self) -> Error {
        let error = Error::state_corrupt("a row of the store is too short");
        self.reader.named(error)
    }

    fn lost(&self, reading: &Reading, end: ChangesEnd) -> Error {
        let (why, more) = match end {
            ChangesEnd::Overflow => (
                "the reader fell behind, and left more unread than buffer_bytes",
                "; do less for each batch, or raise buffer_bytes",
            ),
            ChangesEnd::NewPartitions => {
                ("the application began again, to read new partitions", "")
            }
            ChangesEnd::Failed => (
                "the application has failed, or began again from its last commit",
                ", once its state is RUNNING",
            ),
            _ => ("the application ended before its rows were read", ""),
        };
        let error = Error::changes_lost(format!("the changes behind this epoch are lost: {why}"));
        let next = format!("{}{more}", error.kind().action());
        let error = error.hint(next).at(|at| at.epoch = Some(reading.reached));
        self.reader.named(error)
    }
}
