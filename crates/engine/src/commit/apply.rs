//! The last steps of a commit: updates the local stores and publishes the committed epoch.
//!
//! Takes an epoch that the broker has committed, writes its rows and positions in one batch, and
//! notifies the stores and everything that waits for the commit. Never runs for an epoch whose
//! transaction is not known to be committed.

use super::{Committer, Cut, SourceTopic, Writes};
use crate::admin::status::CommitStatus;
use crate::runtime::failpoint::Failpoint;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Epoch, Result, StoreId, Timestamp};
use stoatflow_state::{EpochBatch, KeyValueStore};

/// How often the local stores are marked as current.
const NOTE_CURRENT_EVERY_MS: i64 = 60_000;

impl Committer {
    pub(super) fn apply(&mut self, sealed: &Writes, cut: &Cut) -> Result<()> {
        let mut batch = EpochBatch {
            epoch: self.open,
            drops: sealed.drops.clone(),
            ..EpochBatch::default()
        };
        for (id, writes) in &sealed.stores {
            batch.writes.push((
                *id,
                writes.iter().map(KeyValueStore::stored_bytes).collect(),
            ));
        }
        for logged in &self.parts.stores {
            if let Some(topic) = &logged.changelog {
                let positions = self.parts.producer.acknowledged(topic);
                batch.positions.extend(
                    positions
                        .into_iter()
                        .map(|(p, o)| (logged.store.id(), p, o)),
                );
            }
            if let Some(SourceTopic { topic, .. }) = &logged.source {
                let read = (cut.entries.iter()).filter(|e| e.partition.topic == *topic);
                let store = logged.store.id();
                (batch.positions).extend(read.map(|e| (store, e.partition.partition, e.offset)));
            }
        }
        (self.parts.shared.failpoints).reach(Failpoint::CommitDuringApply)?;
        let reached = cut.entries.iter();
        let reached = reached.map(|entry| (entry.partition.clone(), entry.offset));
        let (shared, backend) = (&self.parts.shared, self.parts.backend.as_ref());
        (shared.followers).apply(&shared.snapshot_lock, batch, reached.collect(), backend)?;
        self.note_current()
    }

    /// Marks the local stores as current, at most once a minute: see [`stoatflow_protocol::Age`].
    fn note_current(&mut self) -> Result<()> {
        let Some(now) = self.parts.producer.append_time() else {
            return Ok(());
        };
        let due = |then: Timestamp| now.0.saturating_sub(then.0) >= NOTE_CURRENT_EVERY_MS;
        if self.current_at.is_some_and(|then| !due(then)) {
            return Ok(());
        }
        let logged = (self.parts.stores.iter()).filter(|s| s.restored_from().is_some());
        let stores: Vec<StoreId> = logged.map(|s| s.store.id()).collect();
        self.current_at = Some(now);
        self.parts.backend.note_current(&stores, now)
    }

    pub(super) fn done(&mut self, epoch: Epoch, mut status: CommitStatus, cut: &Cut) {
        for logged in &self.parts.stores {
            logged.store.committed(epoch);
        }
        let shared = &self.parts.shared;
        status.outputs = self.outputs;
        status.at_ms = shared.clock.now().0;
        shared.last_align_us.store(status.align_us, Relaxed);
        shared
            .last_commit_us
            .store(status.commit_us + status.apply_us, Relaxed);
        let now = u64::try_from(shared.clock.monotonic().as_millis()).unwrap_or(u64::MAX);
        shared.status.progress_ms.store(now, Relaxed);
        let rollovers = self.parts.producer.rollovers();
        let new = rollovers - std::mem::replace(&mut self.rollovers, rollovers);
        shared.status.rollovers.fetch_add(new, Relaxed);
        if let Some(oldest) = cut.oldest {
            let done_at = Timestamp(status.at_ms);
            shared.status.committed_record_of(oldest, done_at);
        }
        shared.status.committed(status);
        shared.status.with_partitions(|known| {
            for (partition, entry) in known.iter_mut().zip(&cut.entries) {
                partition.committed = entry.offset.0;
            }
        });
        shared
            .status
            .state_memory_bytes
            .store(self.parts.backend.memory_bytes(), Relaxed);
        shared.status.with_barrier(|b| {
            b.in_flight = None;
            b.step = None;
            b.committed = Some(epoch.0);
        });
        self.open = epoch.next();
        self.deadline = None;
        self.seals = 0;
        self.outputs = 0;
        shared.set_committed(epoch);
    }
}
