//! The rows of a store, page by page, as records.
//!
//! Takes a snapshot, returns decoded keys and values in the order of the store's bytes; keys of windows
//! and sessions are windowed. Hides what reads hide. Keeps only the start of the next page and, for
//! versioned stores, the last version seen: the next page may have a later one of the same key.

use super::{MOST_BYTES, OpenSnapshot, StoreQuery};
use std::sync::Arc;
use stoatflow_core::murmur2::partition_of;
use stoatflow_core::{Bytes, Datum, Error, Record, Result, Serde, StoreId, Task, Timestamp};
use stoatflow_plan::StoreKind;
use stoatflow_state::{Page, split_session, split_versioned, split_window};

/// Timestamp field of a version that is a deletion.
const DELETED: i64 = i64::MIN;

/// The latest version of a key so far.
#[derive(Debug)]
struct Version {
    key: Bytes,
    /// `None`: it was deleted.
    value: Option<Bytes>,
    since: i64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Rows {
    snapshot: Arc<OpenSnapshot>,
    id: StoreId,
    name: String,
    kind: StoreKind,
    key: Serde,
    value: Serde,
    observed: Vec<i64>,
    page: Page,
    /// Start of the next page; `None`: the first key.
    from: Option<Bytes>,
    over: bool,
    latest: Option<Version>,
}

impl Rows {
    pub fn new(query: &StoreQuery, snapshot: Arc<OpenSnapshot>, observed: Vec<i64>) -> Self {
        Self {
            snapshot,
            id: query.store.id,
            name: query.store.name.clone(),
            kind: query.store.kind,
            key: query.key.clone(),
            value: query.value.clone(),
            observed,
            page: Page {
                rows: query.max_rows,
                bytes: MOST_BYTES,
            },
            from: None,
            over: false,
            latest: None,
        }
    }

    /// Starts over.
    pub fn rewind(&mut self) {
        self.from = None;
        self.over = false;
        self.latest = None;
    }

    /// The rows of the next page that has any; `None`: there are no more.
    pub fn next_page(&mut self) -> Result<Option<Vec<Record>>> {
        while !self.over {
            let (id, from, page) = (self.id, self.from.as_ref(), self.page);
            let entries = self
                .snapshot
                .read(|snapshot| snapshot.page(id, from, page))?;
            match entries.last() {
                // The smallest key after this one.
                Some((key, _)) => self.from = Some([key.as_ref(), &[0]].concat().into()),
                None => self.over = true,
            }
            let mut rows = Vec::with_capacity(entries.len());
            for (key, stored) in &entries {
                rows.extend(self.row(key, stored)?);
            }
            if self.over {
                rows.extend(self.turn(None)?);
            }
            if !rows.is_empty() {
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }

    /// The highest timestamp that the store has seen in the task of a key; -1: none.
    fn observed(&self, key: &[u8]) -> i64 {
        let tasks = i32::try_from(self.observed.len()).unwrap_or(i32::MAX);
        let task = Task::of(partition_of(key, tasks));
        self.observed.get(task.index()).copied().unwrap_or(-1)
    }

    fn row(&mut self, key: &Bytes, stored: &Bytes) -> Result<Option<Record>> {
        // Each value in the back end is prefixed by a timestamp.
        let Some((time, value)) = stored.split_first_chunk::<8>() else {
            return Err(self.damaged());
        };
        let (time, value) = (i64::from_be_bytes(*time), stored.slice_ref(value));
        let since = |of: &[u8], retention_ms| self.observed(of).saturating_sub(retention_ms);
        let (of, window) = match self.kind {
            StoreKind::Window {
                retention_ms,
                size_ms,
                ..
            } => {
                let parts = split_window(key).ok_or_else(|| self.damaged())?;
                if parts.start <= since(parts.key, retention_ms) {
                    return Ok(None);
                }
                let end = parts.start.saturating_add(size_ms);
                (parts.key, Some((parts.start, end)))
            }
            StoreKind::Session { retention_ms } => {
                let parts = split_session(key).ok_or_else(|| self.damaged())?;
                if parts.end <= since(parts.key, retention_ms) {
                    return Ok(None);
                }
                (parts.key, Some((parts.start, parts.end)))
            }
            StoreKind::Versioned { .. } => {
                let (of, since) = split_versioned(key).ok_or_else(|| self.damaged())?;
                return self.turn(Some(Version {
                    key: key.slice_ref(of),
                    value: (time != DELETED).then_some(value),
                    since,
                }));
            }
            _ => (key.as_ref(), None),
        };
        self.record(key.slice_ref(of), window, value, time)
            .map(Some)
    }

    /// Moves to the next version. The one before was its key's latest if this one has another key.
    fn turn(&mut self, next: Option<Version>) -> Result<Option<Record>> {
        let same = self.latest.as_ref().map(|version| &version.key)
            == next.as_ref().map(|version| &version.key);
        let before = std::mem::replace(&mut self.latest, next);
        match before {
            Some(Version {
                key,
                value: Some(value),
                since,
            }) if !same => self.record(key, None, value, since).map(Some),
            _ => Ok(None),
        }
    }

    fn record(
        &self,
        key: Bytes,
        window: Option<(i64, i64)>,
        value: Bytes,
        timestamp: i64,
    ) -> Result<Record> {
        let key = self.key.decode(Some(key))?;
        Ok(Record {
            key: match window {
                Some((start, end)) => Datum::windowed(key, start, end),
                None => key,
            },
            value: self.value.decode(Some(value))?,
            timestamp: Timestamp(timestamp),
            ..Record::default()
        })
    }

    fn damaged(&self) -> Error {
        Error::state_corrupt(format!(
            "the store '{}' has a row that is too short to be one",
            self.name
        ))
        .hint("stop the application, delete its local state and start again: it is rebuilt from the changelog")
    }
}
