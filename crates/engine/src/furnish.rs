//! Furnish: from a plan, settings and components to rooms that can run.
//!
//! Takes the physical plan; reaches the broker, checks and makes topics, takes over from an older
//! instance, opens the state, restores it, and gives all rooms, positioned at the committed cut.
//! Runs once per start; owns nothing afterwards.

use crate::commit::{CommitParts, CommitRoom, LoggedStore};
use crate::components::Components;
use crate::dispatch::{Dispatch, Limits, decode_stream_time};
use crate::intake::Intake;
use crate::lane::{LaneParts, LaneRoom};
use crate::partition_counts::BrokerPartitions;
use crate::recover;
use crate::shared::Shared;
use crate::slots::{Reader, Slot, Slots};
use crate::status::Status;
use crate::timing::Timing;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::settings::StoreBackend;
use stoatflow_core::{
    Error, ErrorKind, Guarantee, Lane, Offset, Result, Settings, Timestamp, TopicPartition,
};
use stoatflow_log::{Broker, NewTopic, ProducerMode, TopicInfo};
use stoatflow_operators::{Chain, ChainOptions, Foreign, LaneStore};
use stoatflow_plan::{PhysicalPlan, Reset, Store};
use stoatflow_protocol::{Lifecycle, Schedule};
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::rocksdb::RocksBackend;
use stoatflow_state::{Backend, Dirty, KeyValueStore, StoreLayout};

/// How long a newcomer waits for the older instance on this machine to notice that it is fenced and
/// to let go of the state directory.
const LOCK_PATIENCE: Duration = Duration::from_secs(15);
/// An idle engine commits nothing this often, to learn that it is fenced. Below [`LOCK_PATIENCE`].
const IDLE_INTERVAL: Duration = Duration::from_secs(5);

/// All rooms of one run.
pub struct House {
    /// What they share.
    pub shared: Arc<Shared>,
    /// Consumer and dispatch.
    pub intake: Intake,
    /// The lanes.
    pub lanes: Vec<LaneRoom>,
    /// The producer's room.
    pub commit: CommitRoom,
    /// Stores by number.
    pub stores: Vec<LoggedStore>,
    /// The committed state.
    pub backend: Arc<dyn Backend>,
    /// What is read.
    pub slots: Slots,
}

/// What a house is made of.
#[derive(Clone)]
pub struct Blueprint {
    /// What runs.
    pub plan: Arc<PhysicalPlan>,
    /// Functions and serdes from outside.
    pub foreign: Arc<Foreign>,
    /// The settings.
    pub settings: Arc<Settings>,
    /// The objects.
    pub components: Components,
}

impl Blueprint {
    /// What rooms share, before any of them exists (the admin port needs it while restoring).
    #[must_use]
    pub fn shared(&self, status: Arc<Status>) -> Arc<Shared> {
        Arc::new(Shared::new(
            status,
            Arc::clone(&self.components.clock),
            self.settings.lanes,
            self.plan.stages.len(),
            self.components.align_barriers,
        ))
    }

    /// Furnishes, telling `enter` of STARTING and RESTORING. `None` if a stop was asked for.
    ///
    /// # Errors
    /// Everything that can keep an application from starting.
    pub fn furnish(
        &self,
        shared: &Arc<Shared>,
        enter: &dyn Fn(Lifecycle),
    ) -> Result<Option<House>> {
        let settings = &self.settings;
        let broker = &self.components.broker;
        enter(Lifecycle::Starting);
        if settings.ensure_explicit_naming {
            stoatflow_plan::require_explicit_names(&self.plan)?;
        }
        let Some(topics) = self.reach_topics(shared)? else {
            return Ok(None);
        };
        let mut timing = self.timing();
        let specs = self.specs(&timing)?;
        let changelogs = self.changelogs(broker.as_ref(), &topics, &specs)?;
        // Opening the producer fences an older instance and ends what it left open: only after that
        // are committed offsets and changelog ends final.
        let mode = self.producer_mode();
        let producer = broker.producer(&mode, settings.broker_wait)?;
        let Some(backend) = self.open_backend(shared, &specs)? else {
            return Ok(None);
        };
        let stores = self.stores(&backend, &changelogs, &specs)?;
        enter(Lifecycle::Restoring);
        recover::restore(
            shared,
            broker.as_ref(),
            backend.as_ref(),
            &stores,
            &settings.application_id,
            settings.broker_wait,
        )?;
        if let Some(id) = timing.store {
            timing.load(&stores[usize::from(id.0)].store)?;
        }
        let timing = Arc::new(timing);
        let slots = self.slots(broker.as_ref(), &topics)?;
        let mut consumer = broker.consumer(&settings.application_id)?;
        consumer.assign(
            &slots
                .iter()
                .map(|s| (s.partition.clone(), s.start))
                .collect::<Vec<_>>(),
        )?;
        let dispatch = Dispatch::new(
            Arc::clone(shared),
            Arc::clone(&slots),
            self.schedule(),
            self.limits(),
        );
        let lanes =
            (0..settings.lanes).map(|id| self.lane(Lane(id), shared, &slots, &stores, &timing));
        let house = House {
            lanes: lanes.collect::<Result<_>>()?,
            intake: Intake::new(Arc::clone(shared), consumer, dispatch),
            commit: CommitRoom::new(CommitParts {
                shared: Arc::clone(shared),
                producer,
                backend: Arc::clone(&backend),
                stores: stores.clone(),
                group: settings.application_id.clone(),
                guarantee: settings.guarantee,
                timeout: settings.commit_timeout,
                lanes: settings.lanes,
                order: self.components.commit_order,
            }),
            shared: Arc::clone(shared),
            stores,
            backend,
            slots,
        };
        Ok(Some(house))
    }

    fn timing(&self) -> Timing {
        let ms = |d: Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
        Timing {
            window_emit_ms: ms(self.settings.window_emit_interval),
            join_emit_ms: ms(self.settings.join_emit_interval),
            ..Timing::new(&self.plan)
        }
    }

    /// The plan's stores, and the engine's own after them.
    fn specs(&self, timing: &Timing) -> Result<Vec<Store>> {
        let own = timing.store_spec(&self.plan)?;
        Ok(self.plan.stores.iter().cloned().chain(own).collect())
    }

    fn producer_mode(&self) -> ProducerMode {
        let id = self.settings.application_id.clone();
        let timeout = self.settings.transaction_timeout;
        match self.settings.guarantee {
            Guarantee::ExactlyOnceV2 => ProducerMode::Transactional { id, timeout },
            Guarantee::AtLeastOnce => ProducerMode::Plain { id, timeout },
        }
    }

    fn schedule(&self) -> Schedule {
        Schedule {
            max_interval: self.settings.commit_interval,
            min_interval: self.settings.commit_min_interval,
            max_bytes: self.settings.in_flight_max_bytes as u64,
            idle_interval: IDLE_INTERVAL,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            in_flight: i64::try_from(self.settings.in_flight_max_bytes).unwrap_or(i64::MAX),
            batch: self.settings.batch_max_records,
            idle: self.settings.max_task_idle,
        }
    }

    /// Waits for the broker within its budget and gives the source topics.
    fn reach_topics(&self, shared: &Shared) -> Result<Option<BTreeMap<String, TopicInfo>>> {
        let broker = &self.components.broker;
        let clock = &self.components.clock;
        let names: Vec<&str> = self
            .plan
            .sources
            .iter()
            .flat_map(|s| s.topics.iter().map(String::as_str))
            .collect();
        let began = clock.monotonic();
        loop {
            if shared.is_stopping() {
                return Ok(None);
            }
            match broker.topics(&names, Duration::from_secs(3)) {
                Ok(infos) => return found(&names, infos, &broker.address()).map(Some),
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    let waited = clock.monotonic().saturating_sub(began);
                    if waited >= self.settings.broker_wait {
                        return Err(Error::unavailable(format!(
                            "no broker answered at {} within {:.0} s",
                            broker.address(),
                            self.settings.broker_wait.as_secs_f64()
                        ))
                        .hint("start the broker or correct bootstrap.servers; broker.wait.timeout.ms sets how long to keep trying")
                        .caused_by(error));
                    }
                    tracing::warn!(
                        address = broker.address(),
                        "the broker does not answer yet; trying again"
                    );
                    shared.wait_for_credit(Duration::from_millis(500));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes changelog topics that don't exist; gives their names by store.
    fn changelogs(
        &self,
        broker: &dyn Broker,
        sources: &BTreeMap<String, TopicInfo>,
        specs: &[Store],
    ) -> Result<Vec<Option<Arc<str>>>> {
        let timeout = self.settings.broker_wait;
        let names: Vec<Option<Arc<str>>> = specs
            .iter()
            .map(|s| {
                s.logged.then(|| {
                    Arc::from(format!(
                        "{}-{}-changelog",
                        self.settings.application_id, s.name
                    ))
                })
            })
            .collect();
        let wanted: Vec<&str> = names.iter().flatten().map(AsRef::as_ref).collect();
        if wanted.is_empty() {
            return Ok(names);
        }
        let known = broker.topics(&wanted, timeout)?;
        let widest = sources.values().map(|t| t.partitions).max().unwrap_or(1);
        let partitions = if self.settings.changelog_partitions > 0 {
            self.settings.changelog_partitions
        } else {
            widest
        };
        let missing: Vec<NewTopic> = wanted
            .iter()
            .zip(&known)
            .filter(|(_, info)| info.is_none())
            .map(|(name, _)| NewTopic {
                name: (*name).to_owned(),
                partitions,
                replication: self.settings.replication_factor,
                config: vec![("cleanup.policy".into(), "compact".into())],
            })
            .collect();
        if !missing.is_empty() {
            broker.create_topics(&missing, timeout)?;
        }
        Ok(names)
    }

    fn open_backend(&self, shared: &Shared, specs: &[Store]) -> Result<Option<Arc<dyn Backend>>> {
        if let Some(backend) = &self.components.backend {
            return Ok(Some(Arc::clone(backend)));
        }
        let layouts: Vec<StoreLayout> = specs
            .iter()
            .map(|s| {
                let name = |spec: &stoatflow_plan::SerdeSpec| {
                    self.foreign.serde(spec).map(|s| s.name().to_owned())
                };
                Ok(recover::store_layout(
                    s.id,
                    s,
                    &name(&s.key)?,
                    &name(&s.value)?,
                ))
            })
            .collect::<Result<_>>()?;
        if self.settings.store_backend == StoreBackend::Memory {
            return Ok(Some(Arc::new(MemoryBackend::new(false))));
        }
        let dir = self.settings.state_dir.join("rocksdb");
        let clock = &self.components.clock;
        let began = clock.monotonic();
        loop {
            match RocksBackend::open(&dir, &layouts, self.settings.state_memory_max_bytes / 4 * 3) {
                Ok(backend) => return Ok(Some(Arc::new(backend))),
                Err(error)
                    if error.kind() == ErrorKind::StateLocked
                        && clock.monotonic().saturating_sub(began) < LOCK_PATIENCE =>
                {
                    if shared.is_stopping() {
                        return Ok(None);
                    }
                    tracing::warn!(%error, "waiting for the older instance to let go of the state directory");
                    shared.wait_for_credit(Duration::from_millis(200));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn stores(
        &self,
        backend: &Arc<dyn Backend>,
        changelogs: &[Option<Arc<str>>],
        specs: &[Store],
    ) -> Result<Vec<LoggedStore>> {
        // Clean values kept decoded in front of RocksDB share the quarter of the budget that it doesn't get.
        let cache = self.settings.state_memory_max_bytes / 4 / specs.len().max(1);
        specs
            .iter()
            .zip(changelogs)
            .map(|(spec, changelog)| {
                let store = KeyValueStore::new(
                    spec.id,
                    Arc::from(spec.name.as_str()),
                    self.foreign.serde(&spec.value)?,
                    Arc::clone(backend),
                    cache,
                );
                Ok(LoggedStore {
                    store: Arc::new(store),
                    changelog: changelog.clone(),
                })
            })
            .collect()
    }

    fn slots(&self, broker: &dyn Broker, topics: &BTreeMap<String, TopicInfo>) -> Result<Slots> {
        let timeout = self.settings.broker_wait;
        let mut slots: BTreeMap<TopicPartition, Slot> = BTreeMap::new();
        let mut resets: BTreeMap<TopicPartition, Reset> = BTreeMap::new();
        let default = if self.settings.reset_to_earliest {
            Reset::Earliest
        } else {
            Reset::Latest
        };
        for source in &self.plan.sources {
            for (index, topic) in source.topics.iter().enumerate() {
                for p in 0..topics[topic].partitions {
                    let partition = TopicPartition::new(Arc::clone(&topics[topic].name), p);
                    resets.insert(partition.clone(), source.reset.unwrap_or(default));
                    let slot = slots.entry(partition.clone()).or_insert_with(|| Slot {
                        partition,
                        start: Offset(0),
                        stream_time: Timestamp::UNKNOWN,
                        readers: Vec::new(),
                    });
                    slot.readers.push(Reader {
                        source: source.id,
                        topic: u16::try_from(index).unwrap_or(u16::MAX),
                        entry: source.entry,
                        key: self.foreign.serde(&source.key)?,
                        value: self.foreign.serde(&source.value)?,
                    });
                }
            }
        }
        let partitions: Vec<TopicPartition> = slots.keys().cloned().collect();
        let committed = broker.committed(&self.settings.application_id, &partitions, timeout)?;
        let ranges = broker.ranges(&partitions, timeout)?;
        for ((slot, committed), range) in slots.values_mut().zip(committed).zip(ranges) {
            slot.start = match (&committed, resets[&slot.partition]) {
                (Some(c), _) => c.offset.max(range.begin),
                (None, Reset::Earliest) => range.begin,
                (None, Reset::Latest) => range.stable_end,
            };
            if let Some(c) = committed {
                slot.stream_time = decode_stream_time(&c.metadata);
            }
        }
        Ok(slots.into_values().collect())
    }

    fn lane(
        &self,
        id: Lane,
        shared: &Arc<Shared>,
        slots: &Slots,
        stores: &[LoggedStore],
        timing: &Arc<Timing>,
    ) -> Result<LaneRoom> {
        let options = ChainOptions {
            cached: self.settings.cache_max_bytes > 0,
            partitions: Some(BrokerPartitions::new(
                &self.components,
                self.settings.broker_wait,
            )),
        };
        let chains = self
            .plan
            .stages
            .iter()
            .map(|s| Chain::build(&self.plan, s.id, &self.foreign, options.clone()));
        Ok(LaneRoom::new(LaneParts {
            id,
            shared: Arc::clone(shared),
            plan: Arc::clone(&self.plan),
            chains: chains.collect::<Result<_>>()?,
            stores: stores
                .iter()
                .map(|s| LaneStore {
                    store: Arc::clone(&s.store),
                    dirty: Dirty::default(),
                })
                .collect(),
            slots: Arc::clone(slots),
            sinks: self
                .plan
                .sinks
                .iter()
                .map(|s| Arc::from(s.topic.as_deref().unwrap_or_default()))
                .collect(),
            batch_max: self.settings.batch_max_records,
            timing: Arc::clone(timing),
        }))
    }
}

fn found(
    names: &[&str],
    infos: Vec<Option<TopicInfo>>,
    address: &str,
) -> Result<BTreeMap<String, TopicInfo>> {
    let missing: Vec<&str> = names
        .iter()
        .zip(&infos)
        .filter(|(_, i)| i.is_none())
        .map(|(n, _)| *n)
        .collect();
    if !missing.is_empty() {
        return Err(Error::missing_topic(format!("source topic(s) {} do not exist at {address}", quoted(&missing)))
            .hint("create them (the engine never creates source topics, so that a typo is seen), or fix the names in the topology")
            .at(|at| at.topic = Some(missing[0].to_owned())));
    }
    Ok(names
        .iter()
        .map(|n| (*n).to_owned())
        .zip(infos.into_iter().flatten())
        .collect())
}

fn quoted(names: &[&str]) -> String {
    names
        .iter()
        .map(|n| format!("'{n}'"))
        .collect::<Vec<_>>()
        .join(", ")
}
