//! Builds indexes before anything else runs: after a restore, and those that are unique or small.
//!
//! Nothing changes the rows meanwhile, so they are read once, and each index computes, sorts and
//! bulk-loads its entries on a thread of its own.

use super::build::{Unbuilt, begin, entries_of, finish, scan, write_state};
use super::state::IndexState;
use super::{Index, StoreIndexes};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use stoatflow_core::{Error, Result};
use stoatflow_state::{Backend, RestoreRun};

/// Rows per scan.
const SCAN_ROWS: usize = 2_000;
/// Rows whose entries are sorted and loaded at once.
const CHUNK_ROWS: usize = 50_000;
/// Scans that an index may be behind the reader: bounds memory.
const MAX_SCANS_AHEAD: usize = 4;

type Rows = Arc<Vec<(Bytes, Bytes)>>;

/// Builds the indexes before anything else writes. `false` if a stop was requested.
///
/// # Errors
/// Errors of the back end.
pub fn build_now(
    backend: &dyn Backend,
    unbuilt: &mut Unbuilt,
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
    let first = Arc::new(scan(backend, unbuilt, SCAN_ROWS)?);
    let mut is_whole = first.len() < SCAN_ROWS;
    for builder in &mut builders {
        builder.add(&first)?;
    }
    if is_whole {
        builders.iter_mut().try_for_each(Builder::load)?;
    } else {
        is_whole = build_on_threads(unbuilt, builders, &is_stopping)?;
    }
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
    unbuilt: &mut Unbuilt,
    builders: Vec<Builder<'_>>,
    is_stopping: &impl Fn() -> bool,
) -> Result<bool> {
    let backend = builders[0].backend;
    thread::scope(|scope| {
        let (mut senders, mut threads) = (Vec::new(), Vec::new());
        for mut builder in builders {
            let (sender, scans) = sync_channel(MAX_SCANS_AHEAD);
            let made = thread::Builder::new()
                .name("stoatflow-index".into())
                .spawn_scoped(scope, move || builder.add_all(&scans));
            threads.push(made.map_err(|error| {
                Error::internal(format!("no thread can be started for an index: {error}"))
            })?);
            senders.push(sender);
        }
        let read = read_all(backend, unbuilt, senders, is_stopping);
        for thread in threads {
            let ended = thread.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        read
    })
}

/// Ends early if a builder has failed.
fn read_all(
    backend: &dyn Backend,
    unbuilt: &mut Unbuilt,
    builders: Vec<SyncSender<Rows>>,
    is_stopping: &impl Fn() -> bool,
) -> Result<bool> {
    while !is_stopping() {
        let rows = Arc::new(scan(backend, unbuilt, SCAN_ROWS)?);
        let is_last = rows.len() < SCAN_ROWS;
        for builder in &builders {
            if builder.send(Arc::clone(&rows)).is_err() {
                return Ok(false);
            }
        }
        if is_last {
            return Ok(true);
        }
    }
    Ok(false)
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
    fn add_all(&mut self, scans: &Receiver<Rows>) -> Result<()> {
        for rows in scans {
            self.add(&rows)?;
        }
        self.load()
    }

    fn add(&mut self, rows: &[(Bytes, Bytes)]) -> Result<()> {
        for (key, stored) in rows {
            entries_of(self.of, key, stored, [self.index], |_, entry, value| {
                let time = value.timestamp.0.to_be_bytes();
                self.run.push(entry, Some(&[&time, value.kept]));
            });
        }
        self.index.status.done.fetch_add(rows.len() as u64, Relaxed);
        self.rows += rows.len();
        if let Some((last, _)) = rows.last() {
            self.cursor = Some(last.clone());
        }
        if self.rows < CHUNK_ROWS {
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
