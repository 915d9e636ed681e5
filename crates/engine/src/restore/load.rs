//! Writes restored runs into the back end while the next ones are read.
//!
//! Owns the loader threads and the first failure. The runs of one store are written in the order in
//! which they were read. Each thread has at most one run in progress and one queued; a third blocks the
//! reader.

use super::progress::Progress;
use super::{Parallelism, Restore, Task};
use crate::commit::LoggedStore;
use crate::index::StoreIndexes;
use crate::runtime::failpoint::Failpoint;
use crate::runtime::shared::Shared;
use crate::runtime::threads::spawn::panicked;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use stoatflow_core::{Error, Offset, Partition, Result, StoreId};
use stoatflow_state::{Backend, RestoreRun};

/// The part of a run that comes from one partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Index of the task.
    pub task: usize,
    /// The offset after it.
    pub reached: Offset,
    /// Its records in the run.
    pub records: u64,
}

/// A run for one store.
#[derive(Debug)]
pub(super) struct Job {
    /// Index of the store.
    pub store: usize,
    /// The records, of all partitions of the store.
    pub run: RestoreRun,
    /// How far it brings each partition; empty if no offset has moved.
    pub parts: Vec<Part>,
    /// True if the store has caught up after this run.
    pub last: bool,
}

/// Loads runs one after the other.
#[derive(Clone)]
struct Loader {
    shared: Arc<Shared>,
    backend: Arc<dyn Backend>,
    ids: Arc<[StoreId]>,
    /// By store: the indexes that must be updated with each record.
    indexes: Arc<[Option<Arc<StoreIndexes>>]>,
    /// By store: whether its indexes are built next. Only then is its postponed work done, so that both
    /// don't compete for CPU.
    is_read_next: Arc<[bool]>,
    tasks: Arc<[Task]>,
    progress: Progress,
}

impl Loader {
    fn load(&self, job: Job) -> Result<()> {
        let id = self.ids[job.store];
        let positions: Vec<(Partition, Offset)> = job
            .parts
            .iter()
            .map(|p| (self.tasks[p.task].partition.partition, p.reached))
            .collect();
        self.shared.failpoints.reach(Failpoint::RestoreBatch)?;
        match &self.indexes[job.store] {
            None => self.backend.bulk_load(id, job.run, &positions)?,
            Some(indexes) => indexes.load(self.backend.as_ref(), &job.run, &positions)?,
        }
        if job.last && !self.is_read_next[job.store] {
            self.backend.loaded(id)?;
        }
        self.progress.loaded(job.store, &job.parts, job.last);
        Ok(())
    }

    fn work(&self, jobs: &Receiver<Job>, failure: &Mutex<Option<Error>>) {
        while let Ok(job) = jobs.recv() {
            // After a stop, the rest is not loaded: the stored offsets tell what is missing.
            if self.shared.is_stopping() {
                return;
            }
            if let Err(error) = self.load(job) {
                failure.lock().get_or_insert(error);
                return;
            }
        }
    }
}

/// The loaders of one restore.
pub(super) struct Loaders {
    here: Loader,
    senders: Vec<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
    failure: Arc<Mutex<Option<Error>>>,
}

impl Loaders {
    pub fn new(restore: &Restore<'_>, tasks: &Arc<[Task]>, progress: &Progress) -> Result<Self> {
        let ids = restore.stores.iter().map(|s| s.store.id());
        let indexes = restore.stores.iter().enumerate().map(|(at, store)| {
            let indexed = tasks.iter().any(|task| task.store == at && task.indexed);
            store.indexes.clone().filter(|_| indexed)
        });
        let emptied =
            |store: &LoggedStore| store.indexes.as_ref().is_some_and(|of| of.is_emptied());
        let mut loaders = Self {
            here: Loader {
                shared: Arc::clone(restore.shared),
                backend: Arc::clone(restore.backend),
                ids: ids.collect(),
                indexes: indexes.collect(),
                is_read_next: restore.stores.iter().map(emptied).collect(),
                tasks: Arc::clone(tasks),
                progress: progress.clone(),
            },
            senders: Vec::new(),
            threads: Vec::new(),
            failure: Arc::default(),
        };
        if let Parallelism::Threads(spawn, count) = restore.parallelism {
            let mut stores: Vec<usize> = tasks.iter().map(|t| t.store).collect();
            stores.dedup();
            for number in 0..count.clamp(1, stores.len().max(1)) {
                let (sender, jobs) = sync_channel(1);
                let (loader, failure) = (loaders.here.clone(), Arc::clone(&loaders.failure));
                let body = Box::new(move || loader.work(&jobs, &failure));
                loaders.senders.push(sender);
                loaders
                    .threads
                    .push(spawn(&format!("stoatflow-load-{number}"), body)?);
            }
        }
        Ok(loaders)
    }

    /// Maximum number of runs at a time, including the one being read.
    pub fn runs(&self) -> usize {
        (1 + 2 * self.senders.len()).max(2)
    }

    /// Hands a run to the loader of its store; blocks while that one is busy. `false` if the loader has
    /// ended: [`Self::finish`] returns the reason.
    pub fn submit(&self, job: Job) -> Result<bool> {
        if self.senders.is_empty() {
            self.here.load(job)?;
            return Ok(true);
        }
        // One thread per store keeps its runs in order.
        let sender = &self.senders[job.store % self.senders.len()];
        Ok(sender.send(job).is_ok())
    }

    /// Whether a loader has failed.
    pub fn has_failed(&self) -> bool {
        !self.senders.is_empty() && self.failure.lock().is_some()
    }

    /// Waits until everything handed over is loaded.
    ///
    /// # Errors
    /// The first failure.
    pub fn finish(self) -> Result<()> {
        drop(self.senders);
        for thread in self.threads {
            let name = thread.thread().name().unwrap_or("?").to_owned();
            if thread.join().is_err() {
                return Err(panicked(&name));
            }
        }
        self.failure.lock().take().map_or(Ok(()), Err)
    }
}
