//! The committed epoch, and the input positions that it reflects, for reads from outside.
//!
//! A commit applies an epoch under the lock of this module, and snapshots are taken under it too. So a
//! snapshot shows one whole epoch in all stores, in memory and on disk, with the positions of that
//! epoch.

use parking_lot::{Condvar, Mutex, RwLock};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Epoch, Error, Offset, Result, StoreId, TopicPartition};
use stoatflow_operators::OpenSnapshot;

/// How often a waiting reader checks whether the run has ended.
const RUN_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A committed epoch of a run, and the next offset to read of each partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommittedCut {
    /// The epoch; 0: what earlier runs have committed.
    pub epoch: Epoch,
    /// Next offsets, by partition.
    pub positions: Vec<(TopicPartition, Offset)>,
}

impl CommittedCut {
    /// Whether it reflects all input before these positions.
    ///
    /// # Errors
    /// `Config` for a partition that isn't read.
    pub fn has(&self, wanted: &[(TopicPartition, Offset)]) -> Result<bool> {
        let mut all = true;
        for (partition, offset) in wanted {
            let found = self.positions.iter().find(|(of, _)| of == partition);
            let Some((_, reached)) = found else {
                return Err(Error::config(format!(
                    "at_least names the partition {partition}, which this application does not read"
                ))
                .hint("name partitions of its source topics, as snapshot().positions does"));
            };
            all &= reached >= offset;
        }
        Ok(all)
    }
}

/// A snapshot, and the epoch that it shows.
type Snapshot = (Arc<OpenSnapshot>, Arc<CommittedCut>);

/// See the module.
#[derive(Debug, Default)]
pub struct SnapshotLock {
    at: RwLock<Arc<CommittedCut>>,
    /// Snapshots of the committed epoch that readers share, by their stores.
    shared: Mutex<Vec<(Vec<StoreId>, Snapshot)>>,
    turn: Mutex<()>,
    turned: Condvar,
}

impl SnapshotLock {
    /// A run begins: it continues reading at these positions.
    pub fn begin(&self, positions: Vec<(TopicPartition, Offset)>) {
        *self.at.write() = Arc::new(CommittedCut {
            epoch: Epoch(0),
            positions,
        });
        self.shared.lock().clear();
    }

    /// Applies an epoch, and returns it with its positions.
    ///
    /// # Errors
    /// Errors of `apply`.
    pub fn apply(
        &self,
        epoch: Epoch,
        positions: Vec<(TopicPartition, Offset)>,
        apply: impl FnOnce() -> Result<()>,
    ) -> Result<Arc<CommittedCut>> {
        let next = Arc::new(CommittedCut { epoch, positions });
        let mut at = self.at.write();
        apply()?;
        let before = std::mem::replace(&mut *at, Arc::clone(&next));
        let shared = std::mem::take(&mut *self.shared.lock());
        drop(at);
        drop((before, shared));
        self.turned.notify_all();
        Ok(next)
    }

    /// The committed epoch; `None` while an epoch is applied.
    #[must_use]
    pub fn try_now(&self) -> Option<Arc<CommittedCut>> {
        self.at.try_read().map(|at| Arc::clone(&at))
    }

    /// Runs `take` while no epoch is applied.
    ///
    /// # Errors
    /// Errors of `take`.
    pub fn take<T>(&self, take: impl FnOnce() -> Result<T>) -> Result<(T, Arc<CommittedCut>)> {
        let at = self.at.read();
        Ok((take()?, Arc::clone(&at)))
    }

    /// The snapshot of these stores that another reader shares. Doesn't wait: while an epoch is applied,
    /// it returns the snapshot of the epoch before.
    #[must_use]
    pub fn shared(&self, stores: &[StoreId]) -> Option<Snapshot> {
        let shared = self.shared.lock();
        let found = shared.iter().find(|(of, _)| of == stores);
        found.map(|(_, (open, cut))| (Arc::clone(open), Arc::clone(cut)))
    }

    /// Returns the shared snapshot of these stores, or takes one while no epoch is applied and shares it
    /// until the next epoch is applied.
    ///
    /// # Errors
    /// Errors of `take`.
    pub fn share(
        &self,
        stores: &[StoreId],
        take: impl FnOnce() -> Result<Arc<OpenSnapshot>>,
    ) -> Result<Snapshot> {
        let at = self.at.read();
        if let Some(found) = self.shared(stores) {
            return Ok(found);
        }
        let taken = (take()?, Arc::clone(&at));
        let kept = (Arc::clone(&taken.0), Arc::clone(&taken.1));
        self.shared.lock().push((stores.to_vec(), kept));
        Ok(taken)
    }

    /// Waits until the input before these positions is committed; false if it wasn't in time, or if
    /// `is_over` returned true.
    ///
    /// # Errors
    /// `Config` for a partition that isn't read.
    pub fn wait(
        &self,
        wanted: &[(TopicPartition, Offset)],
        timeout: Duration,
        clock: &dyn Clock,
        is_over: impl Fn() -> bool,
    ) -> Result<bool> {
        let until = clock.monotonic().saturating_add(timeout);
        loop {
            let at = Arc::clone(&self.at.read());
            if at.has(wanted)? {
                return Ok(true);
            }
            let left = until.saturating_sub(clock.monotonic());
            if left.is_zero() || is_over() {
                return Ok(false);
            }
            let mut turn = self.turn.lock();
            self.turned
                .wait_for(&mut turn, left.min(RUN_CHECK_INTERVAL));
        }
    }
}
