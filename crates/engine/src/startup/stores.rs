//! Opens the state: changelog topics, the back end, the stores.
//!
//! Takes the plan's stores and the engine's own. [`crate::restore`] reads the changelogs.

use super::store_options::rocksdb_part;
use super::store_spec::{layout, store_layout};
use super::{EngineSpec, LOCK_TIMEOUT};
use crate::commit::offsets_topic;
use crate::commit::{LoggedStore, SourceTopic};
use crate::index::{StoreIndexes, UniqueGuard, index_stores};
use crate::lane::stream_time;
use crate::runtime::shared::Shared;
use crate::startup::split_backend::SplitBackend;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::settings::StoreBackend;
use stoatflow_core::{Error, ErrorKind, Result, Serde, StoreId};
use stoatflow_log::{Broker, ClusterExpiry, NewTopic, TopicInfo};
use stoatflow_plan::{Op, Store, StoreKind, TimestampExtractor};
use stoatflow_protocol::on_damage;
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::rocksdb::{Opened, RocksBackend};
use stoatflow_state::{Backend, KeyValueStore, StoreLayout};

#[cfg(test)]
mod tests;

/// How much longer than the store's history versions stay in its changelog (as in Kafka Streams).
const VERSIONED_LAG_MS: i64 = 86_400_000;

/// Settings of a changelog topic: those of the application (`topic.*`), overridden by those that the
/// kind of store requires, overridden by the store's own.
fn topic_config(
    store: &Store,
    additional_ms: i64,
    application: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let given = application.iter();
    let mut config: BTreeMap<&str, String> = given
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    config.insert("cleanup.policy", "compact".to_owned());
    match store.kind {
        StoreKind::Window { retention_ms, .. } | StoreKind::Session { retention_ms } => {
            config.insert("cleanup.policy", "compact,delete".to_owned());
            let kept = retention_ms.saturating_add(additional_ms);
            config.insert("retention.ms", kept.to_string());
            config.insert("message.timestamp.type", "CreateTime".to_owned());
        }
        StoreKind::Versioned { history_ms } => {
            let lag = history_ms.saturating_add(VERSIONED_LAG_MS);
            config.insert("min.compaction.lag.ms", lag.to_string());
            config.insert("message.timestamp.type", "CreateTime".to_owned());
        }
        StoreKind::KeyValue
        | StoreKind::TimestampedKeyValue
        | StoreKind::TimeOrdered
        | StoreKind::Timers => {}
    }
    for (name, value) in &store.topic {
        config.insert(name, value.clone());
    }
    config
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn is_native(serde: &Serde) -> bool {
    match serde {
        Serde::Custom(custom) => custom.is_native(),
        Serde::WithHeaders(inner) => is_native(inner),
        _ => true,
    }
}

/// Logs that the state is locked; called once per wait, however often the lock is tried.
pub(super) fn warn_locked(error: &Error) {
    tracing::warn!(
        %error,
        wait_ms = LOCK_TIMEOUT.as_millis(),
        "waiting for the older instance to release the state directory"
    );
}

impl EngineSpec {
    /// Creates missing changelog topics and the offsets topic; returns the changelog names by store.
    pub(super) fn changelogs(
        &self,
        broker: &dyn Broker,
        sources: &BTreeMap<String, TopicInfo>,
        specs: &[Store],
    ) -> Result<Vec<Option<Arc<str>>>> {
        let timeout = self.settings.broker_wait;
        let name = |s: &Store| {
            let own = s.logged && self.source_topic_of(s).is_none();
            own.then(|| Arc::from(self.changelog_of(s)))
        };
        let names: Vec<Option<Arc<str>>> = specs.iter().map(name).collect();
        let logged = specs.iter().zip(&names);
        let logged: Vec<(&Store, &str)> = logged
            .filter_map(|(spec, name)| Some((spec, &**name.as_ref()?)))
            .collect();
        let wanted: Vec<&str> = logged.iter().map(|(_, name)| *name).collect();
        let known = match &wanted[..] {
            [] => Vec::new(),
            wanted => broker.topics(wanted, timeout)?,
        };
        let missing = || {
            let all = logged.iter().zip(&known);
            all.filter_map(|(logged, info)| info.is_none().then_some(*logged))
        };
        if broker.expiry() == ClusterExpiry::AfterRetention {
            let (application, settings) = (&self.settings.application_id, &self.settings);
            let topic = offsets_topic::topic_name(application);
            let found = broker.topics(&[&topic], timeout)?;
            if found.iter().all(Option::is_none) {
                let missing = missing().map(|(spec, _)| spec);
                self.refuse_missing_changelogs(broker, sources, missing)?;
                offsets_topic::create(application, settings.replication_factor, |topic| {
                    broker.create_topics(std::slice::from_ref(topic), timeout)
                })?;
            }
        }
        let widest = sources.values().map(|t| t.partitions).max().unwrap_or(1);
        let partitions = if self.settings.changelog_partitions > 0 {
            self.settings.changelog_partitions
        } else {
            widest
        };
        let additional = self.settings.window_changelog_retention.as_millis();
        let additional = i64::try_from(additional).unwrap_or(i64::MAX);
        let missing: Vec<NewTopic> = missing()
            .map(|(spec, name)| NewTopic {
                name: name.to_owned(),
                partitions: if spec.name == stream_time::STORE {
                    1
                } else {
                    partitions
                },
                replication: self.settings.replication_factor,
                config: topic_config(spec, additional, &self.settings.changelog_config),
            })
            .collect();
        if !missing.is_empty() {
            broker.create_topics(&missing, timeout)?;
        }
        Ok(names)
    }

    /// The topic that a table reads, if it is also restored from there (`topology.optimization`).
    ///
    /// Its rows must be exactly the records of the topic: with the records' own timestamps, none of them
    /// rejected because of its time, and with serdes that reproduce the same bytes.
    pub(crate) fn source_topic_of<'s>(&self, store: &'s Store) -> Option<&'s str> {
        let topic = store.source_changelog.as_deref()?;
        let settings = &self.settings;
        if !settings.reuse_source_topics || !store.logged || settings.max_timestamp_ahead.is_some()
        {
            return None;
        }
        let mut sources = self.plan.sources.iter();
        let source = sources.find(|s| s.topics.iter().any(|t| t == topic))?;
        let own_time = matches!(
            source.timestamp,
            TimestampExtractor::FailOnInvalid | TimestampExtractor::LogAndSkip
        );
        let native = |serde| self.foreign.serde(serde).is_ok_and(|s| is_native(&s));
        let whole = own_time && source.late.is_grace();
        (whole && native(&store.key) && native(&store.value)).then_some(topic)
    }

    fn source_topic(&self, store: &Store) -> Result<Option<SourceTopic>> {
        let Some(topic) = self.source_topic_of(store) else {
            return Ok(None);
        };
        Ok(Some(SourceTopic {
            topic: topic.into(),
            key: self.foreign.serde(&store.key)?,
            value: self.foreign.serde(&store.value)?,
        }))
    }

    pub(crate) fn changelog_of(&self, store: &Store) -> String {
        self.changelog_named(&store.name)
    }

    pub(crate) fn changelog_named(&self, store: &str) -> String {
        format!("{}-{store}-changelog", self.settings.application_id)
    }

    pub(super) fn open_backend(
        &self,
        shared: &Shared,
        specs: &[Store],
    ) -> Result<Option<Arc<dyn Backend>>> {
        if let Some(backend) = &self.components.backend {
            return Ok(Some(Arc::clone(backend)));
        }
        let layouts: Vec<StoreLayout> = specs
            .iter()
            .map(|s| {
                let name = |spec: &stoatflow_plan::SerdeSpec| {
                    self.foreign.serde(spec).map(|s| s.name().to_owned())
                };
                let (key, value) = (name(&s.key)?, name(&s.value)?);
                Ok(store_layout(s, &key, &value, self.rocksdb_of(s)))
            })
            .collect::<Result<_>>()?;
        let in_memory = |s: &Store| s.in_memory;
        if self.settings.store_backend == StoreBackend::Memory || specs.iter().all(in_memory) {
            self.name_orphans(&[], specs);
            return Ok(Some(Arc::new(MemoryBackend::new(false))));
        }
        let (memory, layouts): (Vec<StoreLayout>, Vec<StoreLayout>) = layouts
            .into_iter()
            .partition(|l| in_memory(&specs[usize::from(l.id.0)]));
        let kept = layouts.iter().map(|l| (l.name.clone(), l.rocksdb));
        shared.status.set_rocksdb(kept.collect());
        let dir = self.state_directory();
        let clock = &self.components.clock;
        let (began, mut reported) = (clock.monotonic(), false);
        let mut rebuild = self.settings.rebuild_damaged_state;
        let budget = rocksdb_part(self.settings.state_memory_max_bytes);
        loop {
            let opened = RocksBackend::open_or_damage(&dir, &layouts, budget).and_then(|opened| {
                let found = match opened {
                    Opened::Whole(backend) => return Ok(Some(backend)),
                    Opened::Damaged(found) => found,
                };
                let unlogged = layouts.iter().map(|l| &specs[usize::from(l.id.0)]);
                let unlogged: Vec<&str> = unlogged
                    .filter(|s| !s.logged)
                    .map(|s| s.name.as_str())
                    .collect();
                tracing::error!(error = %found, rebuild, "the local state can't be used");
                on_damage(rebuild, &unlogged, found)?;
                RocksBackend::discard(&dir)?;
                // A state that is damaged twice in a row is no accident: don't rebuild it again.
                rebuild = false;
                Ok(None)
            });
            match opened {
                Ok(None) => {}
                Ok(Some(backend)) if memory.is_empty() => {
                    self.name_orphans(backend.orphans(), specs);
                    return Ok(Some(Arc::new(*backend)));
                }
                Ok(Some(backend)) => {
                    self.name_orphans(backend.orphans(), specs);
                    let memory = memory.iter().map(|l| l.id);
                    return Ok(Some(Arc::new(SplitBackend::new(
                        Arc::new(*backend),
                        memory,
                    ))));
                }
                Err(error)
                    if error.kind() == ErrorKind::StateLocked
                        && clock.monotonic().saturating_sub(began) < LOCK_TIMEOUT =>
                {
                    if shared.is_stopping() {
                        return Ok(None);
                    }
                    if !std::mem::replace(&mut reported, true) {
                        warn_locked(&error);
                    }
                    shared.pause(Duration::from_millis(200));
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn stores(
        &self,
        backend: &Arc<dyn Backend>,
        changelogs: &[Option<Arc<str>>],
        specs: &[Store],
    ) -> Result<Vec<LoggedStore>> {
        // The caches in front of RocksDB share a quarter of the state's memory budget.
        let cached = specs.len() - index_stores(&self.plan).len();
        let cache = self.settings.state_memory_max_bytes / 4 / cached.max(1);
        let parked: Vec<StoreId> = self.parked().collect();
        let indexes = StoreIndexes::all(&self.plan, &self.foreign)?;
        specs
            .iter()
            .zip(changelogs)
            .enumerate()
            .map(|(at, (spec, changelog))| {
                let store = KeyValueStore::with_layout(
                    spec.id,
                    Arc::from(spec.name.as_str()),
                    self.foreign.store_value(spec)?,
                    Arc::clone(backend),
                    // Entries of indexes are never read through the store, so they need no cache.
                    if at < cached { cache } else { 0 },
                    layout(spec.kind),
                );
                let store = if spec.ordered {
                    store.with_ordered(true)
                } else {
                    store
                };
                let own = indexes.iter().find(|own| own.store == spec.id);
                let store = match own.and_then(|own| UniqueGuard::new(own, backend)) {
                    Some(guard) => store.with_guard(Arc::new(guard)),
                    None => store,
                };
                Ok(LoggedStore {
                    indexes: own.cloned(),
                    store: Arc::new(store),
                    changelog: changelog.clone(),
                    source: self.source_topic(spec)?,
                    waiting: matches!(spec.kind, StoreKind::TimeOrdered | StoreKind::Timers)
                        || parked.contains(&spec.id),
                })
            })
            .collect()
    }

    /// The stores of async calls that outlive their epoch, and of records that wait for answers.
    fn parked(&self) -> impl Iterator<Item = StoreId> {
        self.plan.nodes.iter().filter_map(|node| match &node.op {
            Op::Calls { store, .. } | Op::Offload { store, .. } => Some(*store),
            _ => None,
        })
    }
}
