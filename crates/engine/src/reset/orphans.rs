//! Removes what is left of stores that the topology no longer has: their changelog topics and their rows
//! on this disk.
//!
//! A changelog belongs to the application if its offsets topic or its local state knows the store. A
//! topic whose name only looks like one may belong to an application whose id begins with this one's, so
//! it is deleted only if the caller names it. Committed offsets stay as they are.
//!
//! May be interrupted at any point: the rest is found again. The positions on disk are removed with the
//! rows, and the rows of the offsets topic with the changelogs, so a store that returns begins empty.

use super::ResetFacts;
use crate::commit::offsets_topic::{OffsetRows, OffsetsTopic};
use crate::startup::{EngineSpec, left_over};
use std::collections::BTreeMap;
use std::path::PathBuf;
use stoatflow_core::settings::StoreBackend;
use stoatflow_core::{Error, Result};
use stoatflow_log::ClusterExpiry;
use stoatflow_state::rocksdb::RocksBackend;

/// What is removed, or would be.
#[derive(Clone, Debug)]
pub struct Orphans {
    /// The application.
    pub application: String,
    /// The broker's address.
    pub address: String,
    /// Changelog topics with the number of their offsets (an upper bound for their records).
    pub changelogs: Vec<(String, u64)>,
    /// Topics named like changelogs of this application that may belong to another one: they stay.
    pub unconfirmed: Vec<String>,
    /// Stores in the local state.
    pub stores: Vec<String>,
    /// The local state directory, if it has such stores.
    pub state: Option<PathBuf>,
}

/// Returns what would be removed; changes nothing. `named`: topics to delete, too.
///
/// # Errors
/// Whatever keeps an application from starting; `Config` for a name that isn't one of those topics.
pub fn preview(spec: &EngineSpec, named: &[String]) -> Result<Orphans> {
    let facts = ResetFacts::of(spec)?;
    let rows = facts.committed_offsets()?.rows;
    Found::of(&facts, &rows, named).map(|found| found.orphans)
}

/// Removes orphans; `agree` sees what will be removed and may refuse. A running instance is fenced
/// first: it may be an older release that still writes these topics.
///
/// # Errors
/// As [`preview`]; `Fenced` if an instance was started meanwhile, `StateLocked` if one doesn't release
/// the disk.
pub fn remove(
    spec: &EngineSpec,
    named: &[String],
    agree: impl FnOnce(&Orphans) -> Result<()>,
) -> Result<Orphans> {
    let facts = ResetFacts::of(spec)?;
    // A mistyped topic is reported before a running instance is stopped.
    Found::of(&facts, &facts.committed_offsets()?.rows, named)?;
    let (mut producer, committed) = facts.fence()?;
    let settings = &facts.spec.settings;
    let (broker, wait) = (facts.spec.components.broker.as_ref(), settings.broker_wait);
    let Found { orphans, known } = Found::of(&facts, &committed.rows, named)?;
    agree(&orphans)?;
    facts.drop_stores(&orphans.stores)?;
    let names: Vec<&str> = orphans.changelogs.iter().map(|(n, _)| n.as_str()).collect();
    broker.delete_topics(&names, wait)?;
    if broker.expiry() == ClusterExpiry::AfterRetention && !known.is_empty() {
        let topic = OffsetsTopic::new(&settings.application_id, committed.rows, BTreeMap::new());
        let rows = topic.forget(&known, facts.spec.components.clock.now());
        facts.commit(producer.as_mut(), &[], rows)?;
    }
    Ok(orphans)
}

struct Found {
    orphans: Orphans,
    /// Changelog topics that have rows in the offsets topic, or that are deleted.
    known: Vec<String>,
}

impl Found {
    fn of(facts: &ResetFacts, rows: &OffsetRows, named: &[String]) -> Result<Self> {
        let spec = &facts.spec;
        let (application, broker) = (&spec.settings.application_id, &spec.components.broker);
        let own: Vec<&str> = facts.specs.iter().map(|s| s.name.as_str()).collect();
        // Topics with only a noted id don't count: a source topic may be another application's
        // changelog.
        let written = rows.formats.keys().chain(rows.changelogs.keys());
        let written = written.map(AsRef::as_ref);
        let mut known: Vec<String> = left_over(application, written, &own)
            .into_iter()
            .map(str::to_owned)
            .collect();
        known.dedup();
        let stores = facts.stores_on_disk(&own)?;
        let of_disk = |topic: &str| stores.iter().any(|s| spec.changelog_named(s) == topic);
        let names = broker.topic_names(spec.settings.broker_wait)?;
        let not_read = names.iter().map(AsRef::as_ref);
        let not_read = not_read.filter(|name: &&str| !facts.topics.contains_key(*name));
        let matching_names = left_over(application, not_read, &own);
        if let Some(unknown) = named.iter().find(|n| !matching_names.contains(&n.as_str())) {
            return Err(Error::config(format!(
                "the topic '{unknown}' is no changelog of '{application}' that the topology has no store for"
            ))
            .hint("see which there are: stoatflow reset --orphans --dry-run"));
        }
        let (ours, unconfirmed): (Vec<&str>, Vec<&str>) =
            matching_names.into_iter().partition(|topic| {
                let is = |name: &String| name == topic;
                known.iter().any(is) || named.iter().any(is) || of_disk(topic)
            });
        for topic in &ours {
            if !known.iter().any(|known| known == topic) {
                known.push((*topic).to_owned());
            }
        }
        let orphans = Orphans {
            application: application.clone(),
            address: broker.address(),
            changelogs: facts.sizes_of(&ours)?,
            unconfirmed: unconfirmed.into_iter().map(str::to_owned).collect(),
            state: (!stores.is_empty()).then(|| spec.state_directory()),
            stores,
        };
        Ok(Self { orphans, known })
    }
}

impl ResetFacts {
    fn has_disk(&self) -> bool {
        let spec = &self.spec;
        spec.components.backend.is_none()
            && spec.settings.store_backend != StoreBackend::Memory
            && spec.state_directory().exists()
    }

    /// Stores in the local state that are not among these.
    fn stores_on_disk(&self, own: &[&str]) -> Result<Vec<String>> {
        if !self.has_disk() {
            return Ok(Vec::new());
        }
        let mut stores = RocksBackend::stores_in(&self.spec.state_directory())?;
        stores.retain(|name| !own.contains(&name.as_str()));
        Ok(stores)
    }

    /// Drops stores of the local state. Waits for an older instance that doesn't know yet that it is
    /// fenced.
    fn drop_stores(&self, stores: &[String]) -> Result<()> {
        if stores.is_empty() {
            return Ok(());
        }
        let dir = self.spec.state_directory();
        let budget = self.spec.settings.state_memory_max_bytes / 4;
        self.spec.when_unlocked(&self.shared, || {
            RocksBackend::drop_stores(&dir, stores, budget)
        })
    }
}
