//! Takes over from an older instance.
//!
//! Opens the producer, which fences the older instance, and waits for its transactions. Only then are
//! committed offsets and changelog ends final, and only then are they read. Refuses to continue if
//! something has changed since they were written.

use super::changelog_formats::refuse_other_formats;
use super::committed_offsets::CommittedOffsets;
use super::spec::EngineSpec;
use crate::commit::offsets_topic::{OffsetRows, OffsetsTopic, topic_name};
use crate::reset::refuse_unfinished;
use crate::runtime::failpoint::Failpoint;
use crate::runtime::shared::Shared;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Error, Guarantee, Result, Timestamp};
use stoatflow_log::{ClusterExpiry, Producer, ProducerMode, TopicInfo};

/// What this instance has after taking over from an older one.
pub(super) struct TakeOverResult {
    pub(super) producer: Box<dyn Producer>,
    pub(super) committed_offsets: CommittedOffsets,
    /// The offsets topic, if the broker expires committed offsets.
    pub(super) offsets: Option<OffsetsTopic>,
    /// The broker's time, before the ends of changelogs are read.
    pub(super) now: Option<Timestamp>,
}

impl EngineSpec {
    /// Opens the producer, which fences an older instance, and waits for that one's transactions. Only
    /// then are committed offsets and changelog ends final. It doesn't fence members of the group, so
    /// there must be none. `None` if a stop was requested.
    pub(super) fn take_over(
        &self,
        shared: &Shared,
        topics: &BTreeMap<String, TopicInfo>,
        changelogs: &[Option<Arc<str>>],
        formats: BTreeMap<Arc<str>, String>,
    ) -> Result<Option<TakeOverResult>> {
        let (settings, broker) = (&self.settings, &self.components.broker);
        self.learn_leaders(topics, changelogs)?;
        if !self.refuse_members(shared)? {
            return Ok(None);
        }
        if shared.status.announced.load(Relaxed) != 0 {
            // A restart: opening the producer fences every other instance, so first check that no
            // newer one has started.
            let (id, timeout) = (&settings.application_id, settings.broker_wait);
            let Some(rows) = OffsetRows::read(broker.as_ref(), id, timeout, shared)? else {
                return Ok(None);
            };
            rows.refuse_successor(shared)?;
        }
        let Some(written) = self.end_hanging_transactions(shared, changelogs)? else {
            return Ok(None);
        };
        let mut producer = broker.producer(&self.producer_mode(), settings.broker_wait)?;
        let fenced = self.components.clock.monotonic();
        shared.failpoints.reach(Failpoint::StartFenced)?;
        self.provable(producer.as_ref())?;
        self.learn_leaders(topics, changelogs)?;
        if !self.refuse_hanging_transactions(shared, producer.as_ref(), &written)? {
            return Ok(None);
        }
        let Some(committed_offsets) = self.committed_offsets(shared, topics)? else {
            return Ok(None);
        };
        refuse_unfinished(&settings.application_id, &committed_offsets.committed)?;
        self.refuse_unprocessed_repartition_records(shared)?;
        if !self.await_transactions(shared, &committed_offsets, fenced)? {
            return Ok(None);
        }
        let mut offsets = self.offsets(&committed_offsets.rows, topics, changelogs, formats)?;
        self.refuse_truncated(&committed_offsets)?;
        let now = match &mut offsets {
            Some(offsets) => {
                offsets.announce(producer.as_mut(), shared, settings.commit_timeout)?
            }
            None => None,
        };
        Ok(Some(TakeOverResult {
            producer,
            committed_offsets,
            offsets,
            now,
        }))
    }

    /// Committed positions and changelog ends must come from current leaders, not from a broker that
    /// missed elections. Called again once the producer is open: the broker that opened it knows all
    /// elections before the last commit.
    fn learn_leaders(
        &self,
        topics: &BTreeMap<String, TopicInfo>,
        changelogs: &[Option<Arc<str>>],
    ) -> Result<()> {
        let offsets = topic_name(&self.settings.application_id);
        let read = topics.values().map(|topic| &*topic.name);
        let own = changelogs.iter().flatten().map(AsRef::as_ref);
        let names: Vec<&str> = read.chain(own).chain([&*offsets]).collect();
        let broker = &self.components.broker;
        broker.learn_leaders(&names, self.settings.broker_wait)
    }

    /// Checks that this instance can prove that it is the only one. Without transactions, only committed
    /// offsets can prove that, and an application that reads no topic has none.
    fn provable(&self, producer: &dyn Producer) -> Result<()> {
        if !self.plan.sources.is_empty() || producer.sends_are_fenced() {
            return Ok(());
        }
        Err(Error::config(
            "an application that reads no topic can't prove under processing.guarantee=at_least_once \
                that it is the only instance: the proof is a commit of offsets",
        )
        .hint("leave processing.guarantee at exactly_once_v2, or let the topology read a topic"))
    }

    /// The offsets topic, if the broker expires committed offsets.
    ///
    /// # Errors
    /// `Incompatible` if the application was handed over to Spark, if a topic was deleted and created
    /// again, or if a changelog has another number of partitions, has lost records, or has rows of another
    /// format.
    fn offsets(
        &self,
        rows: &OffsetRows,
        sources: &BTreeMap<String, TopicInfo>,
        changelogs: &[Option<Arc<str>>],
        formats: BTreeMap<Arc<str>, String>,
    ) -> Result<Option<OffsetsTopic>> {
        let (settings, broker) = (&self.settings, &self.components.broker);
        if broker.expiry() == ClusterExpiry::Never {
            return Ok(None);
        }
        rows.refuse_handed_over(&settings.application_id)?;
        let names: Vec<&str> = changelogs.iter().flatten().map(AsRef::as_ref).collect();
        let own = broker.topics(&names, settings.broker_wait)?;
        let topics = sources.values().chain(own.iter().flatten());
        let ids: BTreeMap<Arc<str>, Arc<str>> = topics
            .filter_map(|topic| Some((Arc::clone(&topic.name), Arc::clone(topic.id.as_ref()?))))
            .collect();
        rows.refuse_recreated(&settings.application_id, &ids, changelogs)?;
        let own: Vec<TopicInfo> = own.into_iter().flatten().collect();
        rows.refuse_other_partitions(&own)?;
        let ends = self.refuse_truncated_changelogs(rows, &own)?;
        refuse_other_formats(rows, &formats, &ends)?;
        let mut topic = OffsetsTopic::new(&settings.application_id, rows.clone(), ids);
        topic.note_formats(formats);
        for changelog in &own {
            topic.note_partitions(changelog);
        }
        for (partition, end) in ends.into_iter().filter(|(_, end)| end.0 > 0) {
            topic.note_ends(&partition.topic, vec![(partition.partition, end)]);
        }
        Ok(Some(topic))
    }

    fn producer_mode(&self) -> ProducerMode {
        let id = self.settings.application_id.clone();
        let timeout = self.settings.transaction_timeout;
        match self.settings.guarantee {
            Guarantee::ExactlyOnceV2 => ProducerMode::Transactional { id, timeout },
            Guarantee::AtLeastOnce => ProducerMode::Plain { id, timeout },
        }
    }
}
