//! Builds a runnable engine from a plan, settings and components.
//!
//! Reaches the broker, checks and creates topics, fences an older instance and waits for its
//! transactions, opens the state and restores it. The result is positioned at the last committed
//! offsets. Runs once per start and keeps no state.

mod await_transactions;
mod changelog_formats;
mod committed_offsets;
pub mod components;
mod group_members;
mod handlers;
mod hanging_transactions;
mod missing_changelogs;
mod orphans;
mod partition_counts;
mod repartition_leftovers;
mod sources;
pub mod spec;
mod split_backend;
mod store_options;
pub mod store_spec;
mod stores;
mod take_over;
mod truncated;
mod wipe_state;

pub(crate) use committed_offsets::CommittedOffsets;
pub(crate) use orphans::left_over;
pub use spec::{EngineParts, EngineSpec, StartupContext};

use crate::commit::guard::InstanceGuard;
use crate::commit::{CommitParts, Committer, LoggedStore};
use crate::index::build::{Unbuilt, find_unbuilt};
use crate::index::build_at_start::build_now;
use crate::index::{entry_store, index_stores};
use crate::intake::Intake;
use crate::intake::dispatch::{AdmissionLimits, Dispatch};
use crate::intake::source_partitions::SourcePartitions;
use crate::intake::timestamps::TimestampAssigner;
use crate::lane::stream_time::Timing;
use crate::lane::{LaneParts, LaneWorker};
use crate::restore::{Parallelism, Restore};
use crate::runtime::shared::Shared;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Guarantee, Lane, Result};
use stoatflow_log::CutEntry;
use stoatflow_operators::{Chain, ChainOptions, LaneStore, LeftRows};
use stoatflow_plan::Store;
use stoatflow_protocol::{Lifecycle, Schedule};
use stoatflow_state::{Backend, Dirty};
use take_over::TakeOverResult;

/// How long a new instance waits for an older one on this machine to notice that it is fenced and
/// to release the state directory.
const LOCK_TIMEOUT: Duration = Duration::from_secs(15);
/// An idle engine commits an empty epoch this often, to find out whether it was fenced. Must stay
/// below [`LOCK_TIMEOUT`].
const IDLE_INTERVAL: Duration = Duration::from_secs(5);

/// The restored state, and the source partitions.
struct Opened {
    unbuilt: Vec<Unbuilt>,
    stores: Vec<LoggedStore>,
    backend: Arc<dyn Backend>,
    slots: SourcePartitions,
    timing: Arc<Timing>,
}

impl EngineSpec {
    /// Builds all parts; reports STARTING and RESTORING. `None` if a stop was requested meanwhile.
    ///
    /// # Errors
    /// Anything that can keep an application from starting.
    pub fn build(
        &self,
        shared: &Arc<Shared>,
        context: &StartupContext<'_>,
    ) -> Result<Option<EngineParts>> {
        (context.on_state)(Lifecycle::Starting);
        if self.settings.ensure_explicit_naming {
            stoatflow_plan::require_explicit_names(&self.plan)?;
        }
        let Some(names) = self.matched(shared)? else {
            return Ok(None);
        };
        let resolved = self.resolved(&names)?;
        for source in &resolved.plan.sources {
            if source.pattern.is_some() {
                tracing::info!(source = source.name, topics = ?source.topics, "topics that match");
            }
        }
        resolved.build_resolved(shared, context)
    }

    /// As [`Self::build`], once topic patterns are resolved.
    fn build_resolved(
        &self,
        shared: &Arc<Shared>,
        context: &StartupContext<'_>,
    ) -> Result<Option<EngineParts>> {
        let settings = &self.settings;
        let broker = &self.components.broker;
        let Some(topics) = self.reach_topics(shared)? else {
            return Ok(None);
        };
        self.find_dead_letter_topics(broker.as_ref())?;
        let mut timing = self.timing();
        let specs = self.specs(&timing)?;
        self.check_store_options(&specs)?;
        let changelogs = self.changelogs(broker.as_ref(), &topics, &specs)?;
        let formats = self.changelog_formats(&specs, &changelogs)?;
        let Some(taken) = self.take_over(shared, &topics, &changelogs, formats)? else {
            return Ok(None);
        };
        let Some(backend) = self.open_backend(shared, &specs)? else {
            return Ok(None);
        };
        let stores = self.stores(&backend, &changelogs, &specs)?;
        shared.status.set_source_topics(source_topics(&stores));
        (context.on_state)(Lifecycle::Restoring);
        let restored = (stores.as_slice(), &backend);
        if !self.restore(shared, restored, &taken, context.parallelism)? {
            return Ok(None);
        }
        let beside = matches!(context.parallelism, Parallelism::Threads(..));
        let built = self.indexes(shared, (&stores, backend.as_ref()), beside)?;
        let Some(unbuilt) = built else {
            return Ok(None);
        };
        if let Some(id) = timing.store {
            timing.load(&stores[usize::from(id.0)].store)?;
        }
        let state = (stores.as_slice(), backend.as_ref());
        let slots = self.slots(shared, &topics, state, &taken.committed_offsets)?;
        let offsets = taken.offsets.as_ref();
        if offsets.is_some_and(|o| o.is_behind(&start(&slots))) {
            // The first epoch writes positions that the offsets topic lacks; commit it soon.
            shared.request_commit();
        }
        timing.begin_with(&slots, shared, settings.guarantee);
        // If event time is the watermark, records of other lanes don't advance it.
        let by_itself = settings.lanes == 1 || settings.time_by_watermark;
        timing.divide(&self.plan, &slots, by_itself);
        timing.catch_up(&slots, settings.guarantee);
        let timing = Arc::new(timing);
        let opened = Opened {
            unbuilt,
            stores,
            backend,
            slots,
            timing,
        };
        self.assemble(shared, taken, opened).map(Some)
    }

    /// Restores the stores from their changelogs. `false` if a stop was requested.
    fn restore(
        &self,
        shared: &Arc<Shared>,
        (stores, backend): (&[LoggedStore], &Arc<dyn Backend>),
        taken: &TakeOverResult,
        parallelism: Parallelism<'_>,
    ) -> Result<bool> {
        let settings = &self.settings;
        let committed = taken.committed_offsets.by_partition();
        let restore = Restore {
            shared,
            broker: self.components.broker.as_ref(),
            backend,
            stores,
            group: &settings.application_id,
            timeout: settings.broker_wait,
            // Caches are still empty, so the restore may use part of their memory.
            memory: settings.state_memory_max_bytes / 4,
            now: taken.now,
            committed: &committed,
            markers: i64::from(settings.guarantee == Guarantee::ExactlyOnceV2),
            parallelism,
            listener: self.components.on_restore.clone(),
        };
        restore.run()
    }

    /// Builds the parts around the opened state, with the consumer positioned.
    fn assemble(
        &self,
        shared: &Arc<Shared>,
        taken: TakeOverResult,
        opened: Opened,
    ) -> Result<EngineParts> {
        let (settings, broker) = (&self.settings, &self.components.broker);
        let Opened {
            unbuilt,
            stores,
            backend,
            slots,
            timing,
        } = opened;
        let mut consumer = broker.consumer(&settings.application_id, slots.len())?;
        consumer.assign(
            &slots
                .iter()
                .map(|s| (s.partition.clone(), s.start))
                .collect::<Vec<_>>(),
        )?;
        let timestamps = TimestampAssigner::new(
            Arc::clone(shared),
            Arc::clone(&slots),
            self.plan.sources.iter().map(|s| s.name.clone()).collect(),
        );
        let dispatch = Dispatch::new(
            Arc::clone(shared),
            Arc::clone(&slots),
            self.schedule(),
            self.limits(),
            settings.time_by_watermark,
            stores.iter().map(|s| Arc::clone(&s.store)).collect(),
        );
        let options = ChainOptions {
            cached: settings.cache_max_bytes > 0 || settings.emit_at_barrier,
            at_barrier: settings.emit_at_barrier,
            // Shared by all lanes, so that the broker is asked once.
            partitions: Some(self.partition_counts()),
            largest: self.largest(),
            tasks: timing.tasks.clone().into(),
            by_task: timing.by_task.clone().into(),
            left_rows: LeftRows::default(),
            active: Arc::default(),
            fault: self.components.fault,
        };
        let lanes = (0..settings.lanes)
            .map(|id| self.lane(Lane(id), shared, &slots, &stores, &timing, &options));
        Ok(EngineParts {
            lanes: lanes.collect::<Result<_>>()?,
            intake: Intake::new(Arc::clone(shared), consumer, dispatch, timestamps),
            commit: Committer::new(CommitParts {
                shared: Arc::clone(shared),
                guard: (!taken.producer.sends_are_fenced())
                    .then(|| InstanceGuard::new(self.components.lease, &start(&slots))),
                producer: taken.producer,
                backend: Arc::clone(&backend),
                stores: stores.clone(),
                times: timing.store,
                group: settings.application_id.clone(),
                guarantee: settings.guarantee,
                timeout: settings.commit_timeout,
                lanes: settings.lanes,
                order: self.components.commit_order,
                broker: Arc::clone(broker),
                offsets: taken.offsets,
            }),
            shared: Arc::clone(shared),
            unbuilt,
            stores,
            backend,
            slots,
        })
    }

    pub(crate) fn timing(&self) -> Timing {
        let ms = |d: Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
        Timing {
            by_watermark: self.settings.time_by_watermark,
            window_emit_ms: self.settings.window_emit_interval.map(ms),
            join_emit_ms: self.settings.join_emit_interval.map(ms),
            ..Timing::new(&self.plan)
        }
    }

    /// The plan's stores, followed by the engine's own: the store of stream times, and the indexes.
    pub(crate) fn specs(&self, timing: &Timing) -> Result<Vec<Store>> {
        let own = timing.store_spec(&self.plan)?;
        let mut all: Vec<Store> = self.plan.stores.iter().cloned().chain(own).collect();
        for (id, of, index) in index_stores(&self.plan) {
            assert_eq!(usize::from(id.0), all.len(), "stores are numbered in order");
            all.push(entry_store(id, of, index));
        }
        Ok(all)
    }

    /// Checks how far the indexes are built. Urgent ones are built at once (all of them, unless they can
    /// be built `beside` the run); returns the others. `None` if a stop was requested.
    fn indexes(
        &self,
        shared: &Shared,
        (stores, backend): (&[LoggedStore], &dyn Backend),
        beside: bool,
    ) -> Result<Option<Vec<Unbuilt>>> {
        let mut later = Vec::new();
        let with: Vec<_> = stores.iter().filter_map(|s| s.indexes.as_ref()).collect();
        let all = with.iter().flat_map(|of| &of.indexes);
        let all = all.map(|index| Arc::clone(&index.status));
        shared.status.set_indexes(all.collect());
        for of in with {
            let Some(unbuilt) = find_unbuilt(backend, of)? else {
                continue;
            };
            if beside && !unbuilt.is_urgent(backend) {
                later.push(unbuilt);
            } else if !build_now(backend, &unbuilt, || shared.is_stopping())? {
                return Ok(None);
            }
            // Its restore has left this to the build of its indexes.
            backend.loaded(of.store)?;
        }
        Ok(Some(later))
    }

    fn schedule(&self) -> Schedule {
        let in_flight = self.settings.in_flight_max_bytes;
        let max_bytes = match self.kept_for_dead_letters() {
            0 => in_flight,
            // An open transaction has at most as many bytes of records as are kept.
            kept if self.settings.guarantee == Guarantee::ExactlyOnceV2 => kept,
            _ => in_flight,
        };
        Schedule {
            max_interval: self.settings.commit_interval,
            min_interval: self.settings.commit_min_interval,
            max_bytes: max_bytes as u64,
            idle_interval: IDLE_INTERVAL,
        }
    }

    fn limits(&self) -> AdmissionLimits {
        AdmissionLimits {
            in_flight: i64::try_from(self.settings.in_flight_max_bytes).unwrap_or(i64::MAX),
            batch: self.settings.batch_max_records,
            idle: self.settings.max_task_idle,
            hidden_until_commit: self.settings.guarantee == Guarantee::ExactlyOnceV2
                && !self.plan.has_side_effects(),
        }
    }

    fn lane(
        &self,
        id: Lane,
        shared: &Arc<Shared>,
        slots: &SourcePartitions,
        stores: &[LoggedStore],
        timing: &Arc<Timing>,
        options: &ChainOptions,
    ) -> Result<LaneWorker> {
        let options = ChainOptions {
            active: Arc::clone(&shared.status.lane(id).active_node),
            ..options.for_lane()
        };
        let chains = self
            .plan
            .stages
            .iter()
            .map(|s| Chain::build(&self.plan, s.id, &self.foreign, options.clone()));
        Ok(LaneWorker::new(LaneParts {
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
            indexes: stores.iter().map(|s| s.indexes.clone()).collect(),
            slots: Arc::clone(slots),
            limits: self.output_limits()?,
            sinks: self
                .plan
                .sinks
                .iter()
                .map(|s| Arc::from(s.topic.as_deref().unwrap_or_default()))
                .collect(),
            batch_max: self.settings.batch_max_records,
            keep_most: self.kept_for_dead_letters(),
            keep_uncommitted: self.settings.guarantee == Guarantee::ExactlyOnceV2,
            streams_letter_headers: self.settings.streams_letter_headers,
            timing: Arc::clone(timing),
            fault: self.components.fault,
        }))
    }
}

/// By store, the source topics of tables that are restored from them.
fn source_topics(stores: &[LoggedStore]) -> BTreeMap<String, Arc<str>> {
    let topic = |s: &LoggedStore| Some(Arc::clone(&s.source.as_ref()?.topic));
    let all = stores.iter();
    all.filter_map(|s| Some((s.store.name().to_owned(), topic(s)?)))
        .collect()
}

/// The offsets from which reading starts.
fn start(slots: &SourcePartitions) -> Vec<CutEntry> {
    let entry = |slot: &crate::intake::source_partitions::SourcePartition| CutEntry {
        partition: slot.partition.clone(),
        offset: slot.start,
        metadata: slot.progress.encode(),
    };
    slots.iter().map(entry).collect()
}
