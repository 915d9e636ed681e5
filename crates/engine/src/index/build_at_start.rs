//! Builds indexes before anything else runs: after a restore, and those that are unique or small.
//!
//! Nothing changes the rows meanwhile, so they are read once, and each index computes, sorts and
//! bulk-loads its entries on a thread of its own. The reader passes on only what indexes read of a row.

use super::build::{Unbuilt, begin, finish, write_state};
use super::state::IndexState;
use super::{Index, StoreIndexes};
use bytes::{Buf, Bytes};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use stoatflow_core::{Error, Result, Timestamp};
use stoatflow_state::{Backend, KeyRange, RestoreRun, after};

/// Rows that are handed to the threads at once. With fewer rows there are no threads.
const PART_ROWS: usize = 2_000;
/// A part with fewer rows ends if it has this many bytes.
const PART_BYTES: usize = 4 << 20;
/// Memory of the entries of an index that are sorted and loaded at once. Each load makes a file.
const CHUNK_BYTES: usize = 16 << 20;
/// Parts that an index may be behind the reader: bounds memory.
const MAX_PARTS_AHEAD: usize = 4;

/// Some rows, with what indexes read of their values.
type Rows = Arc<RestoreRun>;

/// Builds the indexes before anything else writes. `false` if a stop was requested.
///
/// # Errors
/// Errors of the back end.
pub fn build_now(
    backend: &dyn Backend,
    unbuilt: &Unbuilt,
    is_stopping: impl Fn() -> bool,
) -> Result<bool> {
    begin(backend, unbuilt);
    let of = Arc::clone(&unbuilt.store_indexes);
    let numbers = unbuilt.indexes_to_build.clone();
    let builders = numbers.iter().map(|at| Builder {
        backend,
        of: &of,
        index: &of.indexes[*at],
        run: RestoreRun::default(),
        rows: 0,
        cursor: None,
    });
    let mut builders: Vec<_> = builders.collect();
    let is_whole = if backend.approximate_len(of.store) < PART_ROWS as u64 {
        let read = read_all(backend, unbuilt, &is_stopping, |rows| {
            for builder in &mut builders {
                builder.add(&rows)?;
            }
            Ok(true)
        })?;
        builders.iter_mut().try_for_each(Builder::load)?;
        read
    } else {
        build_on_threads(unbuilt, builders, &is_stopping)?
    };
    if is_whole {
        for at in &numbers {
            backend.loaded(of.indexes[*at].id)?;
        }
        finish(backend, unbuilt)?;
    }
    Ok(is_whole)
}

/// True if all rows were read; false if a stop was requested.
fn build_on_threads(
    unbuilt: &Unbuilt,
    builders: Vec<Builder<'_>>,
    is_stopping: &impl Fn() -> bool,
) -> Result<bool> {
    let backend = builders[0].backend;
    thread::scope(|scope| {
        let (mut senders, mut threads) = (Vec::new(), Vec::new());
        for mut builder in builders {
            let (sender, parts) = sync_channel(MAX_PARTS_AHEAD);
            let made = thread::Builder::new()
                .name("stoatflow-index".into())
                .spawn_scoped(scope, move || builder.add_all(&parts));
            threads.push(made.map_err(|error| {
                Error::internal(format!("no thread can be started for an index: {error}"))
            })?);
            senders.push(sender);
        }
        let send = |rows: Rows| {
            let all = |sender: &SyncSender<Rows>| sender.send(Arc::clone(&rows)).is_ok();
            Ok(senders.iter().all(all))
        };
        let read = read_all(backend, unbuilt, is_stopping, send);
        drop(senders);
        for thread in threads {
            let ended = thread.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        read
    })
}

/// Passes the rows that indexes lack to `take`, until it returns false. True if these were all.
fn read_all(
    backend: &dyn Backend,
    unbuilt: &Unbuilt,
    is_stopping: &impl Fn() -> bool,
    mut take: impl FnMut(Rows) -> Result<bool>,
) -> Result<bool> {
    let of = &unbuilt.store_indexes;
    let range = KeyRange {
        from: unbuilt.cursor.as_ref().map(|key| after(key)),
        ..KeyRange::default()
    };
    let (mut rows, mut part) = (RestoreRun::default(), Vec::new());
    let mut taken = Ok(!is_stopping());
    backend.visit(of.store, &range, &mut |key, stored| {
        if rows.len() == PART_ROWS || rows.weight() >= PART_BYTES {
            taken = take(Arc::new(std::mem::take(&mut rows))).map(|on| on && !is_stopping());
        }
        if !matches!(taken, Ok(true)) {
            return false;
        }
        let (time, value) = stored.split_at(stored.len().min(size_of::<i64>()));
        part.clear();
        of.rows.append_part(value, &mut part);
        rows.push(&[key], Some(&[time, &part]));
        true
    })?;
    Ok(taken? && take(Arc::new(rows))?)
}

/// Builds one index.
struct Builder<'a> {
    backend: &'a dyn Backend,
    of: &'a StoreIndexes,
    index: &'a Index,
    run: RestoreRun,
    /// Rows whose entries are in the run.
    rows: usize,
    /// The last of them.
    cursor: Option<Bytes>,
}

impl Builder<'_> {
    fn add_all(&mut self, parts: &Receiver<Rows>) -> Result<()> {
        for rows in parts {
            self.add(&rows)?;
        }
        self.load()
    }

    fn add(&mut self, rows: &RestoreRun) -> Result<()> {
        let mut entry = Vec::new();
        for (key, stored) in rows.copied() {
            let mut value = stored.unwrap_or_default();
            let timestamp = Timestamp(value.try_get_i64().unwrap_or(-1));
            let time = timestamp.0.to_be_bytes();
            let row = self.of.rows.record(&key, value, timestamp);
            let run = &mut self.run;
            let whole = (self.index.fields).each_entry(&row, &mut entry, |entry, kept| {
                run.push(&[entry, &key], Some(&[&time, kept]));
            });
            if !whole {
                self.index.status.unreadable.fetch_add(1, Relaxed);
            }
            self.cursor = Some(key);
        }
        self.index.status.done.fetch_add(rows.len() as u64, Relaxed);
        self.rows += rows.len();
        if self.run.weight() < CHUNK_BYTES {
            return Ok(());
        }
        self.load()
    }

    /// Writes the entries, and that the index is complete up to the last of their rows.
    fn load(&mut self) -> Result<()> {
        if std::mem::take(&mut self.rows) > 0 {
            let run = std::mem::take(&mut self.run);
            self.backend.bulk_load(self.index.id, run, &[])?;
            let state = IndexState::Building(self.cursor.clone());
            write_state(self.backend, self.index, &state)?;
        }
        Ok(())
    }
}
