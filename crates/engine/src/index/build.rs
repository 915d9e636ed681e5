//! Builds indexes from the rows of their stores, while an application runs.
//!
//! Chunks of rows are read, and their entries written, while no epoch is applied, so that no row changes
//! in between. Between two chunks, epochs update the entries of the rows that they write. So after each
//! chunk the index is complete up to its cursor, and its entries beyond are correct.
//! Before anything runs: see [`super::build_at_start`].

use super::state::{IndexState, STATE_KEY};
use super::{Index, StoreIndexes};
use crate::query::SnapshotLock;
use bytes::{Buf, Bytes};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Epoch, Result, Timestamp, ordered};
use stoatflow_operators::indexing::{is_kept_apart, split_entry};
use stoatflow_state::{Backend, EpochBatch, KeyRange, Write, after};

/// Rows per chunk while the application runs: a commit may have to wait for one chunk.
const CHUNK: usize = 500;
/// Stores with fewer rows are not worth a thread.
const MIN_ROWS_FOR_THREAD: u64 = 10_000;
/// Rows per scan.
const SCAN_ROWS: usize = 2_000;

/// The indexes of a store that must be built.
#[derive(Clone, Debug)]
pub struct Unbuilt {
    /// All indexes of the store.
    pub store_indexes: Arc<StoreIndexes>,
    /// The numbers of the indexes that lack rows.
    pub indexes_to_build: Vec<usize>,
    /// Their entries are complete up to this key.
    pub cursor: Option<Bytes>,
}

impl Unbuilt {
    /// Whether one of them is unique: then they are built before anything is written.
    fn is_unique(&self) -> bool {
        self.indexes_to_build
            .iter()
            .any(|at| self.store_indexes.indexes[*at].spec.unique)
    }

    /// Whether they must be built before the application runs: unique ones, those of a store that was
    /// just restored, and those that are built in no time.
    #[must_use]
    pub fn is_urgent(&self, backend: &dyn Backend) -> bool {
        self.is_unique()
            || self.store_indexes.is_emptied()
            || backend.approximate_len(self.store_indexes.store) < MIN_ROWS_FOR_THREAD
    }

    fn indexes(&self) -> impl Iterator<Item = &Index> {
        self.indexes_to_build
            .iter()
            .map(|at| &self.store_indexes.indexes[*at])
    }

    fn wipe(&mut self, backend: &dyn Backend) -> Result<()> {
        self.cursor = None;
        for index in self.indexes() {
            backend.wipe(index.id)?;
            write_state(backend, index, &IndexState::Building(None))?;
        }
        Ok(())
    }
}

/// Checks how far the indexes of a store are built; returns those that must be built.
///
/// # Errors
/// Errors of the back end.
pub fn find_unbuilt(backend: &dyn Backend, of: &Arc<StoreIndexes>) -> Result<Option<Unbuilt>> {
    let mut found = Vec::new();
    for (at, index) in of.indexes.iter().enumerate() {
        let mut state = IndexState::of(backend, index.id, index.fingerprint)?;
        if matches!(state, Some(IndexState::UniquePending(_))) {
            // The rows that shared a value may be gone by now.
            let now = complete(backend, index)?;
            write_state(backend, index, &now)?;
            state = Some(now);
        }
        match state {
            Some(state) if state.is_readable() => index.status.enter(&state),
            Some(IndexState::Building(cursor)) => found.push((at, Some(cursor))),
            _ => found.push((at, None)),
        }
    }
    let Some((_, first)) = found.first().cloned() else {
        return Ok(None);
    };
    let alike = found.iter().all(|(_, cursor)| *cursor == first);
    let mut unbuilt = Unbuilt {
        store_indexes: Arc::clone(of),
        indexes_to_build: found.into_iter().map(|(at, _)| at).collect(),
        cursor: first.clone().flatten(),
    };
    if first.is_none() || !alike {
        unbuilt.wipe(backend)?;
    }
    Ok(Some(unbuilt))
}

/// Builds the indexes while epochs are applied. Ends early once `is_over`.
///
/// # Errors
/// Errors of the back end.
pub fn build_concurrently(
    backend: &dyn Backend,
    lock: &SnapshotLock,
    unbuilt: &mut Unbuilt,
    is_over: impl Fn() -> bool,
) -> Result<()> {
    begin(backend, unbuilt);
    while !is_over() {
        let (over, _) = lock.take(|| chunk(backend, unbuilt, CHUNK))?;
        if over {
            return Ok(());
        }
        // Lets a waiting commit go first.
        std::thread::yield_now();
    }
    Ok(())
}

pub(super) fn chunk(backend: &dyn Backend, unbuilt: &mut Unbuilt, most: usize) -> Result<bool> {
    let mut writes: Vec<Vec<Write>> = unbuilt
        .indexes_to_build
        .iter()
        .map(|_| Vec::new())
        .collect();
    let rows = scan(backend, unbuilt, most)?;
    for (key, stored) in &rows {
        let of = &unbuilt.store_indexes;
        entries_of(of, key, stored, unbuilt.indexes(), |at, entry, value| {
            let stored = [&value.timestamp.0.to_be_bytes(), value.kept].concat();
            writes[at].push(Write {
                key: entry.concat().into(),
                value: Some(stored.into()),
            });
        });
    }
    for index in unbuilt.indexes() {
        index.status.done.fetch_add(rows.len() as u64, Relaxed);
    }
    for (index, writes) in unbuilt.indexes().zip(&mut writes) {
        let state = IndexState::Building(unbuilt.cursor.clone());
        writes.push(state.write(index.fingerprint));
    }
    backend.apply(EpochBatch {
        epoch: Epoch(0),
        writes: unbuilt
            .indexes()
            .map(|index| index.id)
            .zip(writes)
            .collect(),
        ..EpochBatch::default()
    })?;
    let is_last = rows.len() < most;
    if is_last {
        finish(backend, unbuilt)?;
    }
    Ok(is_last)
}

pub(super) fn begin(backend: &dyn Backend, unbuilt: &Unbuilt) {
    let total = backend.approximate_len(unbuilt.store_indexes.store);
    for index in unbuilt.indexes() {
        index.status.enter(&IndexState::Building(None));
        index.status.done.store(0, Relaxed);
        index.status.total.store(total, Relaxed);
    }
}

/// The value of an entry.
struct EntryValue<'a> {
    /// The row's timestamp.
    pub timestamp: Timestamp,
    /// What a covering index keeps.
    pub kept: &'a [u8],
}

/// Reads the next rows, and moves the cursor behind them.
fn scan(backend: &dyn Backend, unbuilt: &mut Unbuilt, most: usize) -> Result<Vec<(Bytes, Bytes)>> {
    let range = KeyRange {
        from: unbuilt.cursor.as_ref().map(|key| after(key)),
        ..KeyRange::default()
    };
    let rows = backend.scan(unbuilt.store_indexes.store, &range, most)?;
    if let Some((last, _)) = rows.last() {
        unbuilt.cursor = Some(last.clone());
    }
    Ok(rows)
}

/// Passes the entries of a row to `take`: the position of the index in `indexes`, the parts of the
/// entry's key, and its value.
fn entries_of<'a>(
    of: &StoreIndexes,
    key: &Bytes,
    stored: &Bytes,
    indexes: impl IntoIterator<Item = &'a Index>,
    mut take: impl FnMut(usize, &[&[u8]], EntryValue<'_>),
) {
    let mut value = stored.clone();
    let timestamp = Timestamp(value.try_get_i64().unwrap_or(-1));
    let row = of.rows.record(key, value, timestamp);
    for (at, index) in indexes.into_iter().enumerate() {
        for (entry, kept) in &index.entries(Some(&row), true) {
            let kept = kept.as_ref();
            take(at, &[entry, key], EntryValue { timestamp, kept });
        }
    }
}

/// All rows are indexed: writes the final state.
pub(super) fn finish(backend: &dyn Backend, unbuilt: &Unbuilt) -> Result<()> {
    for index in unbuilt.indexes() {
        let state = complete(backend, index)?;
        if let IndexState::UniquePending(rows) = state {
            tracing::warn!(
                store = index.status.store,
                index = index.status.name,
                rows,
                "rows of a unique index have a value that another row has too; further ones are refused. Next: \
                 change or delete them; the next start counts again"
            );
        }
        write_state(backend, index, &state)?;
    }
    Ok(())
}

/// The state of a complete index: readable, or with rows that violate its uniqueness.
fn complete(backend: &dyn Backend, index: &Index) -> Result<IndexState> {
    if !index.spec.unique {
        return Ok(IndexState::Readable);
    }
    let mut range = KeyRange {
        from: Some(Bytes::from_static(&[ordered::NULL])),
        ..KeyRange::default()
    };
    let (mut rows, mut last) = (0, Vec::new());
    loop {
        let page = backend.scan(index.id, &range, SCAN_ROWS)?;
        for (entry, _) in &page {
            let Some((value, _)) = split_entry(entry, index.fields.width()) else {
                continue;
            };
            if value == last.as_slice() && is_kept_apart(value) {
                rows += 1;
            }
            last.clear();
            last.extend_from_slice(value);
        }
        match page.last() {
            Some((entry, _)) if page.len() == SCAN_ROWS => range.from = Some(after(entry)),
            _ if rows == 0 => return Ok(IndexState::Readable),
            _ => return Ok(IndexState::UniquePending(rows)),
        }
    }
}

pub(super) fn write_state(backend: &dyn Backend, index: &Index, state: &IndexState) -> Result<()> {
    debug_assert!(STATE_KEY < &[ordered::NULL][..]);
    index.status.enter(state);
    backend.apply(EpochBatch {
        epoch: Epoch(0),
        writes: vec![(index.id, vec![state.write(index.fingerprint)])],
        ..EpochBatch::default()
    })
}
