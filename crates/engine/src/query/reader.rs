//! Reads one store of a snapshot, by keys and times.
//!
//! Takes and gives datums, converted by the store's serdes. Windows, sessions and versions are read
//! through the views that processors use. Rows that retention would hide from a record of the key's task
//! are hidden here too. Never writes.

mod timed;

pub use timed::{TimedEntry, TimedPage, TimedSpan};

use super::snapshot_backend::SnapshotBackend;
use crate::index::index_stores;
use crate::startup::store_spec::layout;
use std::sync::Arc;
use stoatflow_core::murmur2::partition_of;
use stoatflow_core::{Bytes, Datum, Epoch, Error, Result, Serde, StoreId, Task, Timestamp};
use stoatflow_operators::indexing::fingerprint;
use stoatflow_operators::{ForeignCode, OpenSnapshot};
use stoatflow_plan::{IndexSpec, PhysicalPlan, Store, StoreKind};
use stoatflow_state::{
    Backend, KeyRange, KeyValueStore, SessionView, Stored, VersionedRecord, VersionedView,
    WindowView, after, after_prefix,
};

/// Later than anything in a snapshot.
const NOW: Epoch = Epoch(1);
/// As stream time for views, so that they hide nothing; expired rows are filtered by the key's task
/// afterwards.
const NO_STREAM_TIME: i64 = -1;

/// A range of keys.
#[derive(Clone, Debug)]
pub enum KeySpan {
    /// From one key to another, both inclusive; `None`: no bound.
    Between(Option<Datum>, Option<Datum>),
    /// Keys whose bytes begin with the bytes of this key (a `Bytes` datum is used as it is).
    Prefix(Datum),
}

impl KeySpan {
    /// The key range in the store, with this serde.
    ///
    /// # Errors
    /// `Serde` for a key that it can't encode, `Config` for null as a prefix.
    pub fn range(&self, serde: &Serde) -> Result<KeyRange> {
        let (from, to) = match self {
            Self::Between(lo, hi) => {
                let (from, to) = ends(serde, (lo.as_ref(), hi.as_ref()))?;
                (from, to.as_ref().map(|key| after(key)))
            }
            Self::Prefix(prefix) => {
                let from = match prefix {
                    Datum::Bytes(bytes) => bytes.clone(),
                    key => bytes(serde, key)?,
                };
                let to = after_prefix(&from);
                (Some(from), to)
            }
        };
        let reverse = false;
        Ok(KeyRange { from, to, reverse })
    }
}

fn ends(
    serde: &Serde,
    (lo, hi): (Option<&Datum>, Option<&Datum>),
) -> Result<(Option<Bytes>, Option<Bytes>)> {
    let bytes = |key: Option<&Datum>| {
        let key = key.filter(|key| !key.is_null());
        key.map(|key| bytes(serde, key)).transpose()
    };
    Ok((bytes(lo)?, bytes(hi)?))
}

fn bytes(serde: &Serde, key: &Datum) -> Result<Bytes> {
    let bytes = serde.encode(key)?;
    bytes.ok_or_else(|| Error::config("a store has no null keys").hint("ask for a key"))
}

/// A page of entries, and where the next one begins.
#[derive(Clone, Debug, Default)]
pub struct EntryPage {
    /// Keys and values.
    pub entries: Vec<(Datum, Stored)>,
    /// The last key, if there may be more.
    pub last: Option<Bytes>,
}

/// Checks that a store can be read by keys.
///
/// # Errors
/// `Config` if only its operator can read its rows.
pub fn readable(spec: &Store) -> Result<StoreKind> {
    if !matches!(spec.kind, StoreKind::TimeOrdered | StoreKind::Timers) {
        return Ok(spec.kind);
    }
    Err(Error::config(format!(
        "the store '{}' keeps what waits for a time, in a form of its own",
        spec.name
    ))
    .hint("ask for a store of a table, an aggregation or a processor"))
}

/// See the module.
#[derive(Debug)]
pub struct StoreReader {
    pub(super) spec: Store,
    pub(super) key: Serde,
    pub(super) value: Serde,
    kept: KeyValueStore,
    /// The stream times that the store has seen, by task.
    observed: Vec<i64>,
    /// The back end of `kept`.
    pub(super) rows: Arc<SnapshotBackend>,
    /// The stores of its indexes, their declarations and fingerprints.
    pub(super) indexes: Vec<(StoreId, IndexSpec, u64)>,
}

impl StoreReader {
    /// A reader of a store of the plan. It returns values without their headers.
    ///
    /// # Errors
    /// `Config` if only its operator can read its rows.
    pub fn new(
        (plan, spec): (&PhysicalPlan, &Store),
        foreign: &ForeignCode,
        open: Arc<OpenSnapshot>,
        observed: Vec<i64>,
    ) -> Result<Self> {
        readable(spec)?;
        let backend = Arc::new(SnapshotBackend(open));
        let indexes = index_stores(plan).into_iter();
        let indexes = indexes.filter(|(_, of, _)| of.id == spec.id);
        let mut value = foreign.store_value(spec)?;
        if let Serde::WithHeaders(inner) = &value {
            value = Serde::WithoutHeaders(Arc::clone(inner));
        }
        Ok(Self {
            key: foreign.serde(&spec.key)?,
            kept: KeyValueStore::reader(
                spec.id,
                spec.name.as_str().into(),
                value.clone(),
                Arc::clone(&backend) as Arc<dyn Backend>,
                layout(spec.kind),
            ),
            value,
            observed,
            rows: backend,
            indexes: indexes
                .map(|(id, of, index)| (id, index.clone(), fingerprint(index, of)))
                .collect(),
            spec: spec.clone(),
        })
    }

    /// Returns each value as a list of its headers and itself, if the store keeps headers.
    #[must_use]
    pub fn with_headers(mut self) -> Self {
        if let Serde::WithoutHeaders(inner) = &self.value {
            self.value = Serde::WithHeaders(Arc::clone(inner));
            self.kept = self.kept.with_value(self.value.clone());
        }
        self
    }

    /// Whether values come with their headers.
    #[must_use]
    pub const fn has_headers(&self) -> bool {
        matches!(self.value, Serde::WithHeaders(_))
    }

    /// The kind of the store.
    #[must_use]
    pub const fn kind(&self) -> StoreKind {
        self.spec.kind
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The value of a key.
    ///
    /// # Errors
    /// Errors of the state and the serdes, as in all methods below.
    pub fn get(&self, key: &Datum) -> Result<Option<Stored>> {
        let found = self.kept.get(NOW, &self.bytes(key)?)?;
        found.map(|stored| self.owned_copy(stored)).transpose()
    }

    /// A page of entries in the order of the keys' bytes, after the key `last`.
    ///
    /// # Errors
    /// As `get`.
    pub fn page(
        &self,
        span: &KeySpan,
        reverse: bool,
        last: Option<&Bytes>,
        rows: usize,
    ) -> Result<EntryPage> {
        let mut range = self.range(span, reverse)?;
        match (last, reverse) {
            (Some(last), false) => range.from = Some(after(last)),
            (Some(last), true) => range.to = Some(last.clone()),
            (None, _) => {}
        }
        let found = self.kept.scan(NOW, &range, rows)?;
        let last = found.last().filter(|_| found.len() == rows);
        let last = last.map(|(key, _)| key.clone());
        let entries = found.into_iter();
        let entries = entries.map(|(key, stored)| Ok((self.datum(key)?, self.owned_copy(stored)?)));
        Ok(EntryPage {
            entries: entries.collect::<Result<_>>()?,
            last,
        })
    }

    /// The number of keys. Reads all of them.
    ///
    /// # Errors
    /// As `get`.
    pub fn count(&self, span: &KeySpan) -> Result<u64> {
        const ROWS: usize = 4096;
        let mut range = self.range(span, false)?;
        let mut count = 0;
        loop {
            let found = self.kept.scan(NOW, &range, ROWS)?;
            count += found.len() as u64;
            match found.last() {
                Some((last, _)) if found.len() == ROWS => range.from = Some(after(last)),
                _ => return Ok(count),
            }
        }
    }

    /// The value of a key in the window that starts at a time.
    ///
    /// # Errors
    /// As `get`.
    pub fn window(&self, key: &Datum, start: i64) -> Result<Option<Stored>> {
        let key = self.bytes(key)?;
        if start <= self.expired_until(&key) {
            return Ok(None);
        }
        let found = self.windows()?.fetch(&key, start)?;
        found.map(|stored| self.owned_copy(stored)).transpose()
    }

    /// Windows that start between both times, inclusive: key, start, value. `span`: the range of keys.
    ///
    /// # Errors
    /// As `get`.
    pub fn windows_of(
        &self,
        span: (Option<&Datum>, Option<&Datum>),
        (from, to): (i64, i64),
        reverse: bool,
    ) -> Result<Vec<(Datum, i64, Stored)>> {
        let (lo, hi) = self.ends(span)?;
        let view = self.windows()?;
        let found = match (&lo, &hi) {
            (Some(key), Some(other)) if key == other => {
                let found = view.fetch_range(key, from, to, reverse, usize::MAX)?;
                let entry = |(start, stored)| (key.clone(), start, stored);
                found.into_iter().map(entry).collect()
            }
            _ => view.fetch_keys(lo.as_deref(), hi.as_deref(), from, to, reverse)?,
        };
        let shown = found
            .into_iter()
            .filter(|(key, start, _)| *start > self.expired_until(key));
        let shown = shown
            .map(|(key, start, stored)| Ok((self.datum(key)?, start, self.owned_copy(stored)?)));
        shown.collect()
    }

    /// Sessions that end at or after one time and start at or before another: key, start, end, value.
    ///
    /// # Errors
    /// As `get`.
    pub fn sessions_of(
        &self,
        span: (Option<&Datum>, Option<&Datum>),
        (earliest_end, latest_start): (i64, i64),
        reverse: bool,
    ) -> Result<Vec<(Datum, i64, i64, Stored)>> {
        let (lo, hi) = self.ends(span)?;
        let view = SessionView::new(&self.kept, NOW, NO_STREAM_TIME)?;
        let found = match (&lo, &hi) {
            (Some(key), Some(other)) if key == other => {
                view.find_sessions(key, earliest_end, latest_start, reverse)?
            }
            _ => view.find_keys(
                lo.as_deref(),
                hi.as_deref(),
                earliest_end,
                latest_start,
                reverse,
            )?,
        };
        let shown = found
            .into_iter()
            .filter(|e| e.end > self.expired_until(&e.key));
        let shown = shown.map(|e| {
            Ok((
                self.datum(e.key)?,
                e.start,
                e.end,
                self.owned_copy(e.value)?,
            ))
        });
        shown.collect()
    }

    /// The version of a key that is valid now, or was at a time.
    ///
    /// # Errors
    /// As `get`.
    pub fn version(&self, key: &Datum, as_of: Option<i64>) -> Result<Option<VersionedRecord>> {
        let key = self.bytes(key)?;
        let view = self.versions(&key)?;
        let found = match as_of {
            Some(time) => view.get_as_of(&key, time)?,
            None => view.get(&key)?,
        };
        found.map(|record| self.own(record)).transpose()
    }

    /// The versions of a key that were valid at some time between both, ascending.
    ///
    /// # Errors
    /// As `get`.
    pub fn history(&self, key: &Datum, from: i64, to: i64) -> Result<Vec<VersionedRecord>> {
        let key = self.bytes(key)?;
        let found = self.versions(&key)?.history(&key, from, to)?;
        found.into_iter().map(|record| self.own(record)).collect()
    }

    fn windows(&self) -> Result<WindowView<'_>> {
        WindowView::new(&self.kept, NOW, NO_STREAM_TIME)
    }

    fn versions(&self, key: &[u8]) -> Result<VersionedView<'_>> {
        VersionedView::new(&self.kept, NOW, self.observed(key))
    }

    /// The stream time that the store has seen in the task of a key; -1: none.
    fn observed(&self, key: &[u8]) -> i64 {
        let tasks = i32::try_from(self.observed.len()).unwrap_or(i32::MAX);
        let task = Task::of(partition_of(key, tasks));
        self.observed.get(task.index()).copied().unwrap_or(-1)
    }

    /// Rows at this time or before are expired.
    pub(super) fn expired_until(&self, key: &[u8]) -> i64 {
        match self.spec.kind {
            StoreKind::Window { retention_ms, .. } | StoreKind::Session { retention_ms } => {
                self.observed(key).saturating_sub(retention_ms)
            }
            _ => i64::MIN,
        }
    }

    fn range(&self, span: &KeySpan, reverse: bool) -> Result<KeyRange> {
        let range = span.range(&self.key).map_err(|e| self.named(e))?;
        Ok(KeyRange { reverse, ..range })
    }

    fn ends(
        &self,
        (lo, hi): (Option<&Datum>, Option<&Datum>),
    ) -> Result<(Option<Bytes>, Option<Bytes>)> {
        ends(&self.key, (lo, hi)).map_err(|e| self.named(e))
    }

    fn bytes(&self, key: &Datum) -> Result<Bytes> {
        bytes(&self.key, key).map_err(|e| self.named(e))
    }

    /// A copy of the value for the reader: changing it never affects a later read.
    fn owned_copy(&self, stored: Stored) -> Result<Stored> {
        let is_shared = match &stored.value {
            Datum::Opaque(_) => true,
            Datum::List(parts) => self.has_headers() && matches!(parts[..], [_, Datum::Opaque(_)]),
            _ => false,
        };
        if !is_shared {
            return Ok(stored);
        }
        Ok(Stored {
            value: self.value.copy(&stored.value).map_err(|e| self.named(e))?,
            timestamp: stored.timestamp,
        })
    }

    fn own(&self, record: VersionedRecord) -> Result<VersionedRecord> {
        let given = self.owned_copy(Stored {
            value: record.value,
            timestamp: Timestamp(record.timestamp),
        })?;
        Ok(VersionedRecord {
            value: given.value,
            ..record
        })
    }

    pub(super) fn datum(&self, key: Bytes) -> Result<Datum> {
        self.key.decode(Some(key)).map_err(|e| self.named(e))
    }

    pub(super) fn named(&self, error: Error) -> Error {
        error.at(|at| at.store = Some(self.spec.name.clone()))
    }
}
