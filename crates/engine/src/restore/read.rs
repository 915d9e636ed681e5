//! Reads all changelog partitions of which stores lack something, with one consumer.
//!
//! Collects records into runs, one per store over all its partitions, so that a large store becomes a
//! few sorted files. Open runs share the restore's memory budget.

use super::load::{Job, Loaders, Part};
use super::{Restore, Task};
use crate::commit::SourceTopic;
use std::time::Duration;
use stoatflow_core::{Bytes, Error, ErrorKind, Offset, Result, Serde};
use stoatflow_log::RecordRef;
use stoatflow_state::RestoreRun;

/// Records per poll: few enough to stay in the CPU cache.
const BATCH: usize = 2_048;
/// The smallest memory limit of a run.
const MIN_RUN_BYTES: usize = 64 << 10;
/// The first and last runs are smaller than the others by this factor: nothing is loaded before the
/// first was read, and nothing is read while the last is loaded.
const EDGE_RUN_DIVISOR: usize = 8;
/// Timeout of one poll.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// How far a partition was read.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// Records in the open run.
    records: u64,
    /// The offset that the last handed-over run reached.
    given: Offset,
    finished: bool,
}

struct Reader<'a> {
    restore: &'a Restore<'a>,
    tasks: &'a [Task],
    marks: Vec<Mark>,
    /// The open run of each store.
    runs: Vec<RestoreRun>,
    /// Memory limit of one run.
    limit: usize,
    /// The size at which the next run is handed over: small at first, so that loading starts soon.
    ramp: usize,
    /// Bytes handed over so far, and the number of offsets to read in total.
    given: usize,
    total: u64,
}

/// Reads until every partition has reached its end; `false` if a stop was requested or a loader has
/// failed.
pub(super) fn read(restore: &Restore<'_>, tasks: &[Task], loaders: &Loaders) -> Result<bool> {
    let shared = restore.shared;
    let mut consumer = restore.broker.bulk_consumer(restore.group)?;
    let start: Vec<_> = tasks
        .iter()
        .map(|t| (t.partition.clone(), t.from))
        .collect();
    consumer.assign(&start)?;
    let mut reader = Reader {
        restore,
        tasks,
        marks: tasks
            .iter()
            .map(|t| Mark {
                given: t.from,
                ..Mark::default()
            })
            .collect(),
        runs: restore
            .stores
            .iter()
            .map(|_| RestoreRun::default())
            .collect(),
        limit: (restore.memory / loaders.runs()).max(MIN_RUN_BYTES),
        ramp: (restore.memory / loaders.runs() / EDGE_RUN_DIVISOR).max(MIN_RUN_BYTES),
        given: 0,
        total: tasks.iter().map(|t| distance(t.from, t.end)).sum(),
    };
    let mut seen: Vec<Offset> = Vec::new();
    let mut silent = Duration::ZERO;
    while reader.marks.iter().any(|m| !m.finished) {
        if shared.is_stopping() || loaders.has_failed() {
            return Ok(false);
        }
        let mut taken = Ok(());
        consumer.poll_borrowed(BATCH, POLL_TIMEOUT, &mut |record| {
            if taken.is_ok() {
                taken = reader.take(record);
            }
        })?;
        taken?;
        // A moved position also counts as progress: a long aborted transaction has no records to return.
        let positions = consumer.positions();
        silent = if positions == seen {
            silent + POLL_TIMEOUT
        } else {
            Duration::ZERO
        };
        if silent > restore.timeout {
            return Err(Error::unavailable(format!(
                "no changelog record came from {} for {} s during restore",
                restore.broker.address(),
                restore.timeout.as_secs()
            )));
        }
        if !reader.hand_over(&positions, loaders)? {
            return Ok(false);
        }
        seen = positions;
    }
    Ok(true)
}

impl Reader<'_> {
    fn take(&mut self, record: RecordRef<'_>) -> Result<()> {
        let slot = record.slot as usize;
        let task = &self.tasks[slot];
        let Some(key) = record.key.filter(|_| record.offset < task.end) else {
            return Ok(());
        };
        let store = &self.restore.stores[task.store];
        let row = match &store.source {
            None => None,
            Some(source) => match row_of(source, &record)? {
                Some(row) => Some(row),
                None => return Ok(()),
            },
        };
        let (key, value) = match &row {
            Some((key, value)) => (&key[..], value.as_deref()),
            None => (key, record.value),
        };
        let (run, row) = (&mut self.runs[task.store], (key, value));
        store
            .store
            .restore_into(run, row, record.timestamp, record.headers)
            .map_err(|e| {
                e.at(|at| {
                    at.topic = Some(task.partition.topic.to_string());
                    at.partition = Some(task.partition.partition);
                    at.offset = Some(record.offset);
                })
            })?;
        self.marks[slot].records += 1;
        Ok(())
    }

    /// Hands over the runs of stores that have caught up, and the largest runs while they use too much
    /// memory.
    fn hand_over(&mut self, positions: &[Offset], loaders: &Loaders) -> Result<bool> {
        let mut caught_up = Vec::new();
        for (slot, task) in self.tasks.iter().enumerate() {
            let arrived = positions[slot] >= task.end && !self.marks[slot].finished;
            if arrived {
                self.marks[slot].finished = true;
                caught_up.push(task.store);
            }
        }
        caught_up.dedup();
        for store in caught_up {
            let mut of_store = self
                .tasks
                .iter()
                .zip(&self.marks)
                .filter(|(t, _)| t.store == store);
            if of_store.all(|(_, m)| m.finished) && !self.submit(store, positions, true, loaders)? {
                return Ok(false);
            }
        }
        loop {
            let open = self.runs.iter().map(RestoreRun::weight).sum::<usize>();
            if open < self.enough(open, positions) {
                return Ok(true);
            }
            let largest = (0..self.runs.len()).max_by_key(|s| self.runs[*s].weight());
            let largest = largest.expect("a sum of nothing is no weight");
            self.ramp = (self.ramp * 2).min(self.limit);
            if !self.submit(largest, positions, false, loaders)? {
                return Ok(false);
            }
        }
    }

    /// The size at which runs are handed over: half of what is still to be read, limited by the ramp.
    fn enough(&self, open: usize, positions: &[Offset]) -> usize {
        let left = self.tasks.iter().zip(positions);
        let left: u64 = left.map(|(t, at)| distance(*at, t.end)).sum();
        let read = self.total.saturating_sub(left).max(1);
        let bytes = (self.given + open) as u64;
        let to_come = bytes.saturating_mul(left) / read;
        let half = usize::try_from(to_come / 2).unwrap_or(usize::MAX);
        half.max(self.limit / EDGE_RUN_DIVISOR).min(self.ramp)
    }

    fn submit(
        &mut self,
        store: usize,
        positions: &[Offset],
        last: bool,
        loaders: &Loaders,
    ) -> Result<bool> {
        let mut parts = Vec::new();
        for (slot, task) in self.tasks.iter().enumerate() {
            let mark = &mut self.marks[slot];
            let reached = positions[slot].min(task.end);
            if task.store == store && (mark.records > 0 || reached > mark.given) {
                parts.push(Part {
                    task: slot,
                    reached,
                    records: std::mem::take(&mut mark.records),
                });
                mark.given = reached;
            }
        }
        let run = std::mem::take(&mut self.runs[store]);
        self.given += run.weight();
        loaders.submit(Job {
            store,
            run,
            parts,
            last,
        })
    }
}

/// The row of a table for a record of its source topic: key and value. `None` for a record that the
/// application skipped when it read it: one that can't be decoded, or with a negative timestamp. (If
/// such a record failed the application, it is not before a committed offset.)
fn row_of(source: &SourceTopic, record: &RecordRef<'_>) -> Result<Option<(Bytes, Option<Bytes>)>> {
    if record.timestamp.0 < 0 {
        return Ok(None);
    }
    let kept = |serde: &Serde, bytes: Option<&[u8]>| {
        serde.encode(&serde.read(bytes.map(Bytes::copy_from_slice))?)
    };
    let row =
        kept(&source.key, record.key).and_then(|key| Ok((key, kept(&source.value, record.value)?)));
    match row {
        Ok((key, value)) => Ok(key.map(|key| (key, value))),
        Err(error) if error.kind() == ErrorKind::Serde => Ok(None),
        Err(error) => Err(error),
    }
}

fn distance(from: Offset, to: Offset) -> u64 {
    u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0)
}
