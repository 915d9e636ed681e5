//! Changelog records and rows of the offsets topic: what a commit writes beside the results.
//!
//! The order of records is chosen so that a crash in between loses nothing.

use super::{CommitRoom, LoggedStore, waits_now};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Guarantee, Result, StoreId};
use stoatflow_log::{CutEntry, ProducerRecord};
use stoatflow_state::Sealed;

impl CommitRoom {
    /// Under at-least-once no transaction holds records together, and after a crash input is read
    /// again. So results come first (a row that was deleted because its result was emitted must be
    /// gone after a crash), and times after the offsets: see [`Self::send_times`]. Deletions of
    /// rows that waited come behind the rows made from them, since no input would bring those
    /// again.
    pub(super) fn send_changelog(&mut self, sealed: &[(StoreId, Vec<Sealed>)]) -> Result<()> {
        self.begin()?;
        if !self.is_ordered() {
            return self.send_writes(sealed.iter(), |_, _| true);
        }
        self.flush()?;
        let times = self.parts.times;
        let stores = || sealed.iter().filter(|(id, _)| Some(*id) != times);
        // Written first: in which tasks something waits.
        let own = sealed.iter().filter(|(id, _)| Some(*id) == times);
        self.send_writes(own, |_, write| waits_now(write))?;
        self.send_writes(stores(), |store, write| !store.is_over(write))?;
        let store = |id: StoreId| &self.parts.stores[usize::from(id.0)];
        if stores().any(|(id, writes)| writes.iter().any(|write| store(*id).is_over(write))) {
            self.flush()?;
            self.send_writes(stores(), LoggedStore::is_over)?;
        }
        Ok(())
    }

    /// After a crash, stream times must not be ahead of the offsets: they would make records late
    /// that are read again, or claim results that were never sent. Being behind only repeats
    /// results.
    pub(super) fn send_times(&mut self, sealed: &[(StoreId, Vec<Sealed>)]) -> Result<()> {
        let times = self.parts.times;
        if times.is_none() || !self.is_ordered() {
            return Ok(());
        }
        let own = sealed.iter().filter(|(id, _)| Some(*id) == times);
        self.send_writes(own, |_, write| !waits_now(write))?;
        self.flush()
    }

    /// Under at-least-once these follow the commit, and are acknowledged with the next one: they
    /// must not be ahead of it.
    pub(super) fn send_positions(&mut self, cut: &[CutEntry]) -> Result<()> {
        let now = self.parts.shared.clock.now();
        let Some(offsets) = &mut self.parts.offsets else {
            return Ok(());
        };
        let mut rows = offsets.write(cut, now);
        if rows.is_empty() {
            return Ok(());
        }
        self.prove_sole_instance()?;
        self.parts.producer.send(&mut rows)
    }

    /// Are there stores whose writes must arrive in order?
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
            let layout = logged.store.layout();
            let chosen = writes.iter().filter(|w| which(logged, w));
            let written = chosen.filter_map(|w| layout.to_changelog(w));
            let records = written.map(|w| ProducerRecord {
                topic: Arc::clone(topic),
                partition: None,
                key: Some(w.key),
                value: w.value,
                timestamp: w.timestamp,
                headers: None,
            });
            // Per lane and store: collecting all at once would need half as much memory again as
            // the writes.
            let mut records: Vec<_> = records.collect();
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
