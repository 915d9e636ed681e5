//! Changelog records and rows of the offsets topic, which a commit writes beside the results.
//!
//! The order of records is chosen so that a crash in between loses nothing.

use super::{Committer, LoggedStore, marks_waiting_task};
use crate::commit::offsets_topic::changelog_recreated;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Error, ErrorKind, Guarantee, Result, StoreId, TopicPartition};
use stoatflow_log::{CommitOutcome, CutEntry, ProducerRecord};
use stoatflow_state::Sealed;

impl Committer {
    /// Sends the changelog records of an epoch. Under at-least-once no transaction keeps records
    /// together, and input is read again after a crash, so the order matters. Results are flushed first:
    /// if the broker refuses one after it has taken the row, no input produces that result again. Times
    /// follow the offsets: see [`Self::send_times`]. Deletions of rows that waited come after the rows
    /// made from them, because no input would produce those again.
    pub(super) fn send_changelog(&mut self, sealed: &[(StoreId, Vec<Sealed>)]) -> Result<()> {
        self.begin()?;
        if self.parts.guarantee == Guarantee::AtLeastOnce {
            self.flush()?;
        }
        if !self.is_ordered() {
            return self.send_writes(sealed.iter(), |_, _| true);
        }
        let times = self.parts.times;
        let stores = || sealed.iter().filter(|(id, _)| Some(*id) != times);
        // First the rows that say in which tasks something waits.
        let own = sealed.iter().filter(|(id, _)| Some(*id) == times);
        self.send_writes(own, |_, write| marks_waiting_task(write))?;
        self.send_writes(stores(), |store, write| !store.deletes_waiting_row(write))?;
        let store = |id: StoreId| &self.parts.stores[usize::from(id.0)];
        if stores().any(|(id, writes)| {
            writes
                .iter()
                .any(|write| store(*id).deletes_waiting_row(write))
        }) {
            self.flush()?;
            self.send_writes(stores(), LoggedStore::deletes_waiting_row)?;
        }
        Ok(())
    }

    /// Sends stream times, after the offsets. After a crash they must not be ahead of the offsets:
    /// records that are read again would be late, or results that were never sent would count as sent.
    /// Times that are behind only repeat results.
    pub(super) fn send_times(&mut self, sealed: &[(StoreId, Vec<Sealed>)]) -> Result<()> {
        let times = self.parts.times;
        if times.is_none() || !self.is_ordered() {
            return Ok(());
        }
        let own = sealed.iter().filter(|(id, _)| Some(*id) == times);
        self.send_writes(own, |_, write| !marks_waiting_task(write))?;
        self.flush()
    }

    /// Sends committed offsets to the offsets topic. Under at-least-once they follow the commit, and are
    /// acknowledged with the next one: they must not be ahead of it.
    pub(super) fn send_positions(&mut self, cut: &[CutEntry]) -> Result<()> {
        let now = self.parts.shared.clock.now();
        let Some(offsets) = &mut self.parts.offsets else {
            return Ok(());
        };
        let rows = offsets.write(cut, now);
        self.send_rows(rows)
    }

    /// Sends the end offsets of the changelogs. Call when the epoch's records are acknowledged. Adds no
    /// round trip if the caller waits for another response afterwards, and `send_positions` has already
    /// added the topic to the transaction.
    pub(super) fn send_ends(&mut self) -> Result<()> {
        let now = self.parts.shared.clock.now();
        let Some(offsets) = &mut self.parts.offsets else {
            return Ok(());
        };
        for topic in self
            .parts
            .stores
            .iter()
            .filter_map(|s| s.changelog.as_ref())
        {
            offsets.note_ends(topic, self.parts.producer.acknowledged(topic));
        }
        let rows = offsets.write_ends(now);
        self.send_rows(rows)
    }

    /// Returns the changelog partition that has lost records, if the error reports one. If the topic was
    /// deleted and created again, the error is replaced by one that says so: the new topic begins at
    /// offset 0.
    pub(super) fn lost_records(&self, error: Error) -> (Error, Option<TopicPartition>) {
        let at = error.coordinates();
        let mut changelogs = self
            .parts
            .stores
            .iter()
            .filter_map(|s| s.changelog.as_ref());
        let topic = changelogs.find(|changelog| Some(&***changelog) == at.topic.as_deref());
        match (error.kind(), topic, at.partition) {
            (ErrorKind::Incompatible, Some(topic), Some(partition)) => {
                match self.recreated(topic) {
                    Some(recreated) => (recreated, None),
                    None => (
                        error,
                        Some(TopicPartition::new(Arc::clone(topic), partition.0)),
                    ),
                }
            }
            _ => (error, None),
        }
    }

    fn recreated(&self, changelog: &Arc<str>) -> Option<Error> {
        let then = self.parts.offsets.as_ref()?.id_of(changelog)?;
        let asked = self.parts.broker.topics(&[changelog], self.parts.timeout);
        let now = asked.ok()?.pop()??.id?;
        let topic = [changelog, &then, &now];
        (now != then).then(|| changelog_recreated(&self.parts.group, topic))
    }

    /// Notes in the offsets topic that this changelog partition has lost records: newer records take
    /// their offsets, so its end offset no longer shows the loss. Writing the note may show that other
    /// partitions have lost records too; those are noted as well.
    pub(super) fn note_lost_records(&mut self, partition: TopicPartition) {
        let mut next = Some(partition);
        while let Some(partition) = next.take() {
            let Err(error) = self.commit_lost_records(partition) else {
                return;
            };
            let (error, lost) = self.lost_records(error);
            self.abandon();
            if lost.is_none() {
                tracing::error!(
                    %error,
                    "that a changelog has lost records was not noted: the next start may not find out"
                );
            }
            next = lost;
        }
    }

    fn commit_lost_records(&mut self, partition: TopicPartition) -> Result<()> {
        let now = self.parts.shared.clock.now();
        let Some(offsets) = &mut self.parts.offsets else {
            return Ok(());
        };
        let mut rows = offsets.write_lost(partition, now);
        let (producer, timeout) = (&mut self.parts.producer, self.parts.timeout);
        producer.begin()?;
        self.begun = true;
        producer.send(&mut rows)?;
        producer.flush(timeout)?;
        self.begun = false;
        match producer.commit(timeout)? {
            CommitOutcome::Committed => Ok(()),
            CommitOutcome::Aborted => Err(Error::unavailable("the broker aborted the transaction")),
        }
    }

    fn send_rows(&mut self, mut rows: Vec<ProducerRecord>) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        self.prove_sole_instance()?;
        self.parts.producer.send(&mut rows)
    }

    /// True if some store needs its writes to arrive in order.
    fn is_ordered(&self) -> bool {
        self.parts.guarantee == Guarantee::AtLeastOnce
            && (self.parts.times.is_some() || self.parts.stores.iter().any(|store| store.waiting))
    }

    fn send_writes<'a>(
        &mut self,
        sealed: impl Iterator<Item = &'a (StoreId, Vec<Sealed>)>,
        which: impl Fn(&LoggedStore, &Sealed) -> bool,
    ) -> Result<()> {
        for (id, writes) in sealed {
            let logged = &self.parts.stores[usize::from(id.0)];
            let Some(topic) = &logged.changelog else {
                continue;
            };
            // Per lane and store: collecting all at once would need half as much memory again as
            // the writes.
            let mut records = Vec::with_capacity(writes.len());
            for write in writes.iter().filter(|write| which(logged, write)) {
                if let Some(row) = logged.store.to_changelog(write)? {
                    records.push(ProducerRecord {
                        topic: Arc::clone(topic),
                        partition: None,
                        key: Some(row.key),
                        value: row.value,
                        timestamp: row.timestamp,
                        headers: row.headers,
                    });
                }
            }
            if records.is_empty() {
                continue;
            }
            (self.parts.shared.status.changelog_out).fetch_add(records.len() as u64, Relaxed);
            self.prove_sole_instance()?;
            self.outputs += records.len() as u64;
            self.parts.producer.send(&mut records)?;
        }
        Ok(())
    }
}
