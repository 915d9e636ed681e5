//! The followers of a run's stores, and the changes of each commit that they have not read yet.
//!
//! A follower registers while holding the lock under which snapshots are taken and epochs are applied,
//! together with taking its snapshot. The recipients of an epoch are determined under the same lock. So
//! a follower gets every epoch after its snapshot, and none that the snapshot contains.
//!
//! A commit never waits for a reader. Unread changes are bounded: a reader that leaves too many unread
//! is removed, and its next read fails. Rows are shared between followers, and with stores in memory;
//! only a follower of other keys has a list of its own.

#[cfg(test)]
mod tests;

use super::committed::{CommittedCut, SnapshotLock};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Waker;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Result, StoreId, TopicPartition};
use stoatflow_state::{Backend, EpochBatch, KeyRange, Write};

/// Memory of a row in a list, besides its key and value.
const OVERHEAD: usize = size_of::<Write>();

/// Why no more changes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangesEnd {
    /// The reader has closed it.
    Closed,
    /// The application was stopped; everything it committed can be read.
    Stopped,
    /// The reader left too many changes unread.
    Overflow,
    /// The application has failed, or restarts from its last commit.
    Failed,
    /// The application restarts to read new partitions.
    NewPartitions,
}

impl ChangesEnd {
    /// The reason when an application ends.
    #[must_use]
    pub const fn of(error: Option<&Error>) -> Self {
        match error {
            None => Self::Stopped,
            Some(_) => Self::Failed,
        }
    }
}

/// The changes of an epoch in a store.
#[derive(Debug)]
pub(super) struct EpochChanges {
    /// The epoch, and its input positions.
    pub cut: Arc<CommittedCut>,
    /// The writes; a key occurs once.
    pub writes: Arc<[Write]>,
}

/// Unread changes of a follower.
#[derive(Debug)]
struct Backlog {
    store: StoreId,
    keys: KeyRange,
    /// Maximum bytes, besides the changes of one epoch.
    most: usize,
    waiting: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    epochs: VecDeque<EpochChanges>,
    bytes: usize,
    end: Option<ChangesEnd>,
    waker: Option<Waker>,
}

impl Backlog {
    fn push(&self, changes: EpochChanges) {
        let mut waiting = self.waiting.lock();
        if waiting.end.is_some() {
            return;
        }
        let bytes = weight(&changes.writes);
        let dropped = if !waiting.epochs.is_empty() && waiting.bytes + bytes > self.most {
            waiting.end = Some(ChangesEnd::Overflow);
            waiting.bytes = 0;
            std::mem::take(&mut waiting.epochs)
        } else {
            waiting.bytes += bytes;
            waiting.epochs.push_back(changes);
            VecDeque::new()
        };
        self.wake(waiting);
        drop(dropped);
    }

    /// Ends it; the first reason is kept. Unread changes can still be read, unless the reader has closed
    /// it.
    fn end(&self, end: ChangesEnd) {
        let mut waiting = self.waiting.lock();
        waiting.end.get_or_insert(end);
        let mut unread = VecDeque::new();
        if end == ChangesEnd::Closed {
            waiting.end = Some(end);
            unread = std::mem::take(&mut waiting.epochs);
        }
        self.wake(waiting);
        drop(unread);
    }

    fn wake(&self, mut waiting: parking_lot::MutexGuard<'_, Waiting>) {
        let waker = waiting.waker.take();
        drop(waiting);
        self.more.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn weight(writes: &[Write]) -> usize {
    let bytes = |write: &Write| write.key.len() + write.value.as_ref().map_or(0, |v| v.len());
    writes.iter().map(|write| bytes(write) + OVERHEAD).sum()
}

/// See the module.
#[derive(Debug, Default)]
pub struct Followers {
    /// Number of followers, which each commit checks.
    count: AtomicUsize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    all: Vec<Arc<Backlog>>,
    end: Option<ChangesEnd>,
}

/// The followers and their rows of an epoch.
type PendingDeliveries = Vec<(Arc<Backlog>, Arc<[Write]>)>;

impl Followers {
    /// Registers a follower. Must be called under the lock that snapshots are taken under.
    #[must_use]
    pub fn join(self: &Arc<Self>, store: StoreId, keys: KeyRange, most: usize) -> FollowerHandle {
        let mut known = self.known.lock();
        let waiting = Waiting {
            end: known.end,
            ..Waiting::default()
        };
        let backlog = Arc::new(Backlog {
            store,
            keys,
            most,
            waiting: Mutex::new(waiting),
            more: Condvar::new(),
        });
        known.all.push(Arc::clone(&backlog));
        self.count.store(known.all.len(), Relaxed);
        drop(known);
        FollowerHandle {
            followers: Arc::clone(self),
            backlog,
        }
    }

    /// Applies an epoch, then hands its changes to the followers.
    ///
    /// # Errors
    /// Errors of the back end.
    pub fn apply(
        &self,
        lock: &SnapshotLock,
        batch: EpochBatch,
        reached: Vec<(TopicPartition, Offset)>,
        backend: &dyn Backend,
    ) -> Result<()> {
        let mut pending = PendingDeliveries::new();
        let cut = lock.apply(batch.epoch, reached, || {
            // Relaxed is enough: `join` runs under the same lock, which makes the count visible.
            if self.count.load(Relaxed) > 0 {
                pending = self.collect_changes(&batch.writes);
            }
            backend.apply(batch)
        })?;
        for (backlog, writes) in pending {
            let cut = Arc::clone(&cut);
            backlog.push(EpochChanges { cut, writes });
        }
        Ok(())
    }

    fn collect_changes(&self, written: &[(StoreId, Vec<Write>)]) -> PendingDeliveries {
        let all = self.known.lock().all.clone();
        let mut pending = PendingDeliveries::new();
        for backlog in all {
            let same = |(other, _): &&(Arc<Backlog>, _)| {
                (other.store, &other.keys) == (backlog.store, &backlog.keys)
            };
            let rows = match pending.iter().find(same) {
                Some((_, rows)) => Arc::clone(rows),
                None => rows_of(&backlog, written),
            };
            pending.push((backlog, rows));
        }
        pending.retain(|(_, rows)| !rows.is_empty());
        pending
    }

    /// Ends all followers, present and future: no more changes follow.
    pub fn end(&self, end: ChangesEnd) {
        let mut known = self.known.lock();
        known.end.get_or_insert(end);
        let all = known.all.clone();
        drop(known);
        for backlog in all {
            backlog.end(end);
        }
    }
}

fn rows_of(backlog: &Backlog, written: &[(StoreId, Vec<Write>)]) -> Arc<[Write]> {
    let keys = &backlog.keys;
    let wanted = |write: &&Write| {
        keys.from.as_ref().is_none_or(|from| write.key >= *from)
            && keys.to.as_ref().is_none_or(|to| write.key < *to)
    };
    let lists = written.iter().filter(|(store, _)| *store == backlog.store);
    let rows = lists.flat_map(|(_, writes)| writes.iter().filter(wanted));
    rows.cloned().collect()
}

/// The registration of a follower, which ends when this is dropped.
#[derive(Debug)]
pub struct FollowerHandle {
    followers: Arc<Followers>,
    backlog: Arc<Backlog>,
}

impl FollowerHandle {
    /// The changes of the next epoch, if there are any unread.
    pub(super) fn next(&self) -> Option<EpochChanges> {
        let mut waiting = self.backlog.waiting.lock();
        let changes = waiting.epochs.pop_front()?;
        waiting.bytes -= weight(&changes.writes);
        Some(changes)
    }

    /// Why no more changes follow, once all are read.
    pub(super) fn end(&self) -> Option<ChangesEnd> {
        let waiting = self.backlog.waiting.lock();
        waiting.end.filter(|_| waiting.epochs.is_empty())
    }

    /// Waits until there is something to read, or the end; at most this long.
    pub(super) fn wait(&self, at_most: Duration) {
        let mut waiting = self.backlog.waiting.lock();
        if waiting.epochs.is_empty() && waiting.end.is_none() {
            self.backlog.more.wait_for(&mut waiting, at_most);
        }
    }

    /// Wakes the waker once there is something to read, or the end; false if there is already.
    pub(super) fn wake(&self, waker: &Waker) -> bool {
        let mut waiting = self.backlog.waiting.lock();
        let waits = waiting.epochs.is_empty() && waiting.end.is_none();
        let before = if waits {
            waiting.waker.replace(waker.clone())
        } else {
            None
        };
        drop(waiting);
        drop(before);
        waits
    }

    /// Ends the registration: nothing is kept for it any more.
    pub(super) fn leave(&self) {
        let mut known = self.followers.known.lock();
        known.all.retain(|other| !Arc::ptr_eq(other, &self.backlog));
        self.followers.count.store(known.all.len(), Relaxed);
        drop(known);
        self.backlog.end(ChangesEnd::Closed);
    }
}

impl Drop for FollowerHandle {
    fn drop(&mut self) {
        self.leave();
    }
}
