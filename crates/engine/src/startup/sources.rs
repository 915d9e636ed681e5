//! Resolves sources: which partitions are read, from which offset, by which source.
//!
//! Waits for the broker at most `broker_wait`. Never creates a source topic.

mod conflicts;

use super::{CommittedOffsets, EngineSpec};
use crate::commit::LoggedStore;
use crate::intake::source_partitions::{SourceBinding, SourcePartition, SourcePartitions};
use crate::intake::timestamps::Extractor;
use crate::intake::watermarks::{Progress, WatermarkOf};
use crate::runtime::shared::Shared;
use conflicts::{refuse_conflicts, two_extractors, two_resets, two_watermarks};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{
    Error, ErrorKind, NodeId, Offset, Result, SourceId, Timestamp, TopicPartition,
};
use stoatflow_log::{Broker, Committed, TopicInfo};
use stoatflow_operators::dropped;
use stoatflow_operators::expr::Compiled;
use stoatflow_plan::{Op, PhysicalPlan, Reset, Source, Store, TimestampExtractor, topic_pattern};
use stoatflow_state::Backend;

/// Timeout of one request to the broker.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// The partitions of all sources, and what their offsets depend on.
struct BoundPartitions {
    slots: BTreeMap<TopicPartition, SourcePartition>,
    resets: BTreeMap<TopicPartition, Reset>,
    /// Partitions of global tables without a changelog: these are read from the beginning at each start.
    from_begin: BTreeSet<TopicPartition>,
}

impl EngineSpec {
    /// All topics of the cluster, if a source has a pattern. `None` if a stop was requested
    /// meanwhile.
    pub(crate) fn matched(&self, shared: &Shared) -> Result<Option<Vec<Arc<str>>>> {
        if self.plan.sources.iter().all(|s| s.pattern.is_none()) {
            return Ok(Some(Vec::new()));
        }
        self.reach(shared, |broker| broker.topic_names(REQUEST_TIMEOUT))
    }

    /// This spec, with patterns resolved to the topics that match now.
    pub(crate) fn resolved(&self, names: &[Arc<str>]) -> Result<Self> {
        let mut plan = (*self.plan).clone();
        let specs = self.specs(&self.timing())?;
        let changelogs: BTreeSet<String> = specs.iter().map(|s| self.changelog_of(s)).collect();
        let offsets = crate::commit::offsets_topic::topic_name(&self.settings.application_id);
        let own =
            |name: &str| name.starts_with("__") || name == offsets || changelogs.contains(name);
        plan.handlers = plan.handlers.or(&self.settings.handlers);
        if plan.with_window_boundary.is_some() && plan.handlers.may_drop_input() {
            return Err(Error::internal(
                "the plan is not the one for these handlers; see PhysicalPlan::for_handlers",
            ));
        }
        for source in &mut plan.sources {
            let Some(pattern) = &source.pattern else {
                continue;
            };
            let whole = topic_pattern(pattern)?;
            let found = names.iter().filter(|n| whole.is_match(n) && !own(n));
            source.topics = found.map(ToString::to_string).collect();
            if source.topics.is_empty() {
                return Err(Error::missing_topic(format!(
                    "no topic at {} matches the pattern '{pattern}' of the source '{}'",
                    self.components.broker.address(),
                    source.name
                ))
                .hint(
                    "create one before you start; topics created later are found while it runs",
                ));
            }
        }
        refuse_conflicts(&plan.sources)?;
        Ok(Self {
            plan: Arc::new(plan),
            ..self.clone()
        })
    }

    /// The topics that the sources would read now.
    pub(crate) fn source_topics(&self) -> Result<Vec<String>> {
        let patterns = self.plan.sources.iter().any(|s| s.pattern.is_some());
        let names = if patterns {
            self.components.broker.topic_names(REQUEST_TIMEOUT)?
        } else {
            Vec::new()
        };
        let resolved = self.resolved(&names)?;
        let topics = resolved.plan.sources.iter().flat_map(|s| &s.topics);
        Ok(topics.cloned().collect())
    }

    /// Whether there are partitions that `slots` lacks: of its topics, or of new topics that match a
    /// pattern.
    ///
    /// # Errors
    /// Errors of the broker.
    pub(crate) fn has_new_partitions(&self, slots: &SourcePartitions) -> Result<bool> {
        let broker = &self.components.broker;
        let topics = self.source_topics()?;
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        let infos = broker.topics(&names, REQUEST_TIMEOUT)?;
        let read: BTreeSet<&TopicPartition> = slots.iter().map(|s| &s.partition).collect();
        Ok(infos.into_iter().flatten().any(|topic| {
            (0..topic.partitions)
                .any(|p| !read.contains(&TopicPartition::new(Arc::clone(&topic.name), p)))
        }))
    }

    /// The ids of the existing changelog topics, by name.
    ///
    /// # Errors
    /// Errors of the broker.
    pub(crate) fn changelog_ids(&self) -> Result<BTreeMap<Arc<str>, Arc<str>>> {
        let stores = self.specs(&self.timing())?;
        let own = |store: &&Store| store.logged && self.source_topic_of(store).is_none();
        let logged = stores.iter().filter(own);
        let names: Vec<String> = logged.map(|store| self.changelog_of(store)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = self.components.broker.topics(&names, REQUEST_TIMEOUT)?;
        let id = |topic: TopicInfo| Some((topic.name, topic.id?));
        Ok(found.into_iter().flatten().filter_map(id).collect())
    }

    /// The source topics; waits for the broker at most `broker_wait`. `None` if a stop was requested.
    pub(crate) fn reach_topics(
        &self,
        shared: &Shared,
    ) -> Result<Option<BTreeMap<String, TopicInfo>>> {
        let names: Vec<&str> = self
            .plan
            .sources
            .iter()
            .flat_map(|s| s.topics.iter().map(String::as_str))
            .collect();
        let Some(infos) = self.reach(shared, |broker| broker.topics(&names, REQUEST_TIMEOUT))?
        else {
            return Ok(None);
        };
        found(&names, infos, &self.components.broker.address()).map(Some)
    }

    /// Repeats a request until the broker answers, at most `broker_wait`. `None` if a stop was
    /// requested.
    fn reach<T>(
        &self,
        shared: &Shared,
        ask: impl Fn(&dyn Broker) -> Result<T>,
    ) -> Result<Option<T>> {
        let broker = &self.components.broker;
        let clock = &self.components.clock;
        let began = clock.monotonic();
        loop {
            if shared.is_stopping() {
                return Ok(None);
            }
            let asked = clock.monotonic();
            match ask(broker.as_ref()) {
                Ok(answer) => {
                    shared.status.broker_answers();
                    return Ok(Some(answer));
                }
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    shared.status.broker_is_silent(asked);
                    let waited = clock.monotonic().saturating_sub(began);
                    if waited >= self.settings.broker_wait {
                        const START: &str = "start the broker or correct bootstrap.servers";
                        let next = error
                            .given_hint()
                            .map_or_else(|| START.to_owned(), |hint| format!("{START}; {hint}"));
                        return Err(Error::unavailable(format!(
                            "no broker answered at {} within {:.0} s",
                            broker.address(),
                            self.settings.broker_wait.as_secs_f64()
                        ))
                        .hint(format!(
                            "{next}; broker.wait.timeout.ms sets how long to keep trying"
                        ))
                        .caused_by(error));
                    }
                    tracing::warn!(
                        address = broker.address(),
                        reason = error.message(),
                        "the broker does not answer yet; trying again"
                    );
                    shared.pause(Duration::from_millis(500));
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn slots(
        &self,
        shared: &Shared,
        topics: &BTreeMap<String, TopicInfo>,
        stores: (&[LoggedStore], &dyn Backend),
        committed_offsets: &CommittedOffsets,
    ) -> Result<SourcePartitions> {
        let mut bound = self.bound_partitions(topics, stores)?;
        self.set_offsets(shared, &mut bound, committed_offsets)?;
        Ok(bound.slots.into_values().collect())
    }

    /// The partitions of all sources, without their offsets.
    fn bound_partitions(
        &self,
        topics: &BTreeMap<String, TopicInfo>,
        (stores, backend): (&[LoggedStore], &dyn Backend),
    ) -> Result<BoundPartitions> {
        let mut slots: BTreeMap<TopicPartition, SourcePartition> = BTreeMap::new();
        let mut resets: BTreeMap<TopicPartition, Reset> = BTreeMap::new();
        let default = if self.settings.reset_to_earliest {
            Reset::Earliest
        } else {
            Reset::Latest
        };
        let mut from_begin = BTreeSet::new();
        let mut groups = Vec::new();
        for source in &self.plan.sources {
            let time = self.time_of(&source.timestamp)?;
            // Records of global tables and answers don't advance the application's time.
            let ahead = self.settings.max_timestamp_ahead;
            let max_ahead = ahead
                .filter(|_| !source.global && !source.answers)
                .map(|ahead| i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX));
            let mark = self.settings.watermark_default;
            let watermark = WatermarkOf::source(source, mark, &self.foreign, &mut groups)?;
            let unlogged = source.global && self.empty_unlogged_table(source, stores, backend)?;
            let error_policy = self.reading(source)?;
            let late = self.late_policy(source)?;
            for (index, topic) in source.topics.iter().enumerate() {
                for p in 0..topics[topic].partitions {
                    let partition = TopicPartition::new(Arc::clone(&topics[topic].name), p);
                    let reset = if source.global {
                        Reset::Earliest
                    } else {
                        source.reset.unwrap_or(default)
                    };
                    if resets
                        .insert(partition.clone(), reset)
                        .is_some_and(|other| other != reset)
                    {
                        return Err(two_resets(topic));
                    }
                    if unlogged {
                        from_begin.insert(partition.clone());
                    }
                    let slot = slots
                        .entry(partition.clone())
                        .or_insert_with(|| SourcePartition {
                            partition,
                            start: Offset(0),
                            end: Offset(0),
                            fresh: true,
                            progress: Progress::NONE,
                            bindings: Vec::new(),
                            time: time.clone(),
                            max_ahead,
                            watermark: watermark.clone(),
                            is_global: source.global,
                            is_answers: source.answers,
                            parking_offloads: Vec::new(),
                        });
                    slot.parking_offloads
                        .extend(parking_offloads(&self.plan, source.id));
                    if !slot.time.is_same(&time) {
                        return Err(two_extractors(topic));
                    }
                    if !slot.watermark.is_same(&watermark) {
                        return Err(two_watermarks(topic));
                    }
                    slot.bindings.push(SourceBinding {
                        source: source.id,
                        topic: u16::try_from(index).unwrap_or(u16::MAX),
                        entry: source.entry,
                        key: self.foreign.serde(&source.key)?,
                        value: self.foreign.serde(&source.value)?,
                        error_policy: error_policy.clone(),
                        late: late.clone(),
                    });
                }
            }
        }
        Ok(BoundPartitions {
            slots,
            resets,
            from_begin,
        })
    }

    /// Sets where each partition is read from, and its end.
    fn set_offsets(
        &self,
        shared: &Shared,
        bound: &mut BoundPartitions,
        committed_offsets: &CommittedOffsets,
    ) -> Result<()> {
        let broker = self.components.broker.as_ref();
        let timeout = self.settings.broker_wait;
        let partitions: Vec<TopicPartition> = bound.slots.keys().cloned().collect();
        let committed = committed_offsets.of(&partitions);
        let ranges = broker.ranges(&partitions, timeout)?;
        let known = self.known(&partitions, &committed);
        let mut without_offset = Vec::new();
        for ((slot, committed), range) in bound.slots.values_mut().zip(committed).zip(ranges) {
            slot.end = range.stable_end;
            slot.start = match (&committed, bound.resets[&slot.partition]) {
                _ if bound.from_begin.contains(&slot.partition) => range.begin,
                (Some(c), reset) => {
                    if c.offset < range.begin && reset == Reset::None {
                        without_offset.push(slot.partition.clone());
                    }
                    if c.offset < range.begin {
                        self.log_expired(shared, slot, c.offset, range.begin);
                    }
                    c.offset.max(range.begin)
                }
                // A new partition is read from its beginning, whatever `reset` says: none of it was read
                // before.
                (None, _) if known.contains(&slot.partition.topic) => range.begin,
                (None, Reset::Earliest) => range.begin,
                (None, Reset::Latest) => range.stable_end,
                (None, Reset::None) => {
                    without_offset.push(slot.partition.clone());
                    range.begin
                }
                (None, Reset::ByDuration(back)) => self
                    .offsets_for_times(broker, &slot.partition, back)?
                    .unwrap_or(range.stable_end),
            };
            slot.fresh = committed.is_none();
            if let Some(c) = committed {
                slot.progress = Progress::decode(&c.metadata);
            }
        }
        if !without_offset.is_empty() {
            return Err(no_position(&without_offset, &self.settings.application_id));
        }
        Ok(())
    }

    /// Counts and logs records that the broker has deleted before the application read them.
    fn log_expired(&self, shared: &Shared, slot: &SourcePartition, from: Offset, to: Offset) {
        let count = u64::try_from(to.0 - from.0).unwrap_or(0);
        for source in &slot.bindings {
            let node = &self.plan.nodes[source.entry.0 as usize].name;
            shared.status.dropped(node, dropped::EXPIRED, count);
        }
        tracing::warn!(
            partition = %slot.partition,
            %from,
            %to,
            "the broker has removed records before the application has read them (retention.ms, or somebody deleted \
                records): {count} offsets are passed over"
        );
    }

    /// Topics with a committed offset, and all topics of a pattern if one of them has any. A partition
    /// of these topics without a committed offset is new.
    fn known(
        &self,
        partitions: &[TopicPartition],
        committed: &[Option<Committed>],
    ) -> BTreeSet<Arc<str>> {
        let read = partitions.iter().zip(committed);
        let mut known: BTreeSet<Arc<str>> = read
            .filter(|(_, c)| c.is_some())
            .map(|(p, _)| Arc::clone(&p.topic))
            .collect();
        for source in self.plan.sources.iter().filter(|s| s.pattern.is_some()) {
            if source.topics.iter().any(|t| known.contains(t.as_str())) {
                known.extend(source.topics.iter().map(|t| Arc::from(t.as_str())));
            }
        }
        known
    }

    /// The offset of the first record not older than `back` milliseconds by the wall clock.
    fn offsets_for_times(
        &self,
        broker: &dyn Broker,
        partition: &TopicPartition,
        back: i64,
    ) -> Result<Option<Offset>> {
        let since = Timestamp(self.components.clock.now().0.saturating_sub(back));
        let asked = std::slice::from_ref(partition);
        let found = broker.offsets_for_times(asked, since, self.settings.broker_wait)?;
        Ok(found.into_iter().next().flatten())
    }

    fn time_of(&self, extractor: &TimestampExtractor) -> Result<Extractor> {
        Ok(match extractor {
            TimestampExtractor::Udf(index) => Extractor::Function(self.foreign.udf(*index)?),
            TimestampExtractor::Expr(e) => Extractor::Expression(Arc::new(Compiled::new(e)?)),
            TimestampExtractor::FailOnInvalid => Extractor::FailOnInvalid,
            TimestampExtractor::LogAndSkip => Extractor::LogAndSkip,
            TimestampExtractor::UsePartitionTime => Extractor::UsePartitionTime,
            TimestampExtractor::Wallclock => Extractor::Wallclock,
        })
    }

    /// Empties the stores of a global table without a changelog, which is restored from its topic, so
    /// that deleted and compacted rows don't stay. True if there is such a store.
    fn empty_unlogged_table(
        &self,
        source: &Source,
        stores: &[LoggedStore],
        backend: &dyn Backend,
    ) -> Result<bool> {
        let mut unlogged = false;
        for child in &self.plan.nodes[source.entry.0 as usize].children {
            for id in self.plan.nodes[child.0 as usize].op.stores() {
                if stores[usize::from(id.0)].changelog.is_none() {
                    backend.wipe(id)?;
                    unlogged = true;
                }
            }
        }
        Ok(unlogged)
    }
}

/// The offloads that park records of this source.
fn parking_offloads(plan: &PhysicalPlan, source: SourceId) -> impl Iterator<Item = NodeId> {
    plan.nodes.iter().filter_map(move |node| match &node.op {
        Op::Offload { feeders, .. } => feeders.contains(&source).then_some(node.id),
        _ => None,
    })
}

/// The error for a source with `reset="none"` that has partitions without a committed offset.
fn no_position(partitions: &[TopicPartition], group: &str) -> Error {
    let topic = Arc::clone(&partitions[0].topic);
    let numbers = partitions.iter().filter(|p| p.topic == topic);
    let numbers: Vec<String> = numbers.map(|p| p.partition.to_string()).collect();
    Error::config(format!(
        "the group '{group}' has no committed position, or none that the topic still has, for \
            partition(s) {} of the topic '{topic}', and its source has no reset (reset=\"none\")",
        numbers.join(", ")
    ))
    .hint(format!(
        "commit positions for the group '{group}' before you start (kafka-consumer-groups.sh \
            --reset-offsets), correct application.id, or give the source reset=\"earliest\" or \"latest\""
    ))
    .at(|at| at.topic = Some(topic.to_string()))
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
        return Err(Error::missing_topic(format!(
            "source topic(s) {} do not exist at {address}",
            quoted(&missing)
        ))
        .hint(
            "create them (the engine never creates source topics, so that a typo is noticed), or \
                fix the names in the topology",
        )
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
