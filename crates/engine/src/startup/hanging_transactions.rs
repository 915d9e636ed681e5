//! Refuses to start behind a hanging transaction: one that the coordinator has ended, while a partition
//! still has it open.
//!
//! Once the producer is open, every transaction of this application has ended. Kafka 4.4.0 drops
//! the markers for partitions without a leader, as when a killed broker comes back after the transaction
//! has timed out. `read_committed` readers, a restore among them, then see nothing behind the first
//! record of that transaction, and the next commit of the same producer commits its records.

use super::EngineSpec;
use crate::commit::offsets_topic::topic_name;
use crate::runtime::shared::Shared;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Guarantee, Offset, Result, TopicPartition};
use stoatflow_log::{ClusterExpiry, OpenTransaction, Producer};

/// How long a transaction that has ended may look open.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl EngineSpec {
    /// Checks the changelogs, the offsets topic, and the sinks whose topics are known. `false` if a stop
    /// was requested.
    ///
    /// # Errors
    /// `Unavailable` for a hanging transaction, with the command that ends it.
    pub(super) fn refuse_hanging_transactions(
        &self,
        shared: &Shared,
        producer: &dyn Producer,
        changelogs: &[Option<Arc<str>>],
    ) -> Result<bool> {
        let (settings, broker) = (&self.settings, &self.components.broker);
        if settings.guarantee != Guarantee::ExactlyOnceV2 || broker.expiry() == ClusterExpiry::Never
        {
            return Ok(true);
        }
        let offsets = topic_name(&settings.application_id);
        let own: BTreeSet<&str> = changelogs
            .iter()
            .flatten()
            .map(AsRef::as_ref)
            .chain([&*offsets])
            .collect();
        let sinks = self.plan.sinks.iter();
        let sinks = sinks.filter_map(|sink| sink.topic.as_deref());
        let sinks: BTreeSet<&str> = sinks.filter(|topic| !own.contains(topic)).collect();
        let ids = producer.producer_ids();
        let clock = &self.components.clock;
        let began = clock.monotonic();
        let mut suspects: Option<Vec<(TopicPartition, Offset)>> = None;
        loop {
            // Only this application writes to its changelogs and its offsets topic. Sinks may have other
            // producers.
            let mut hanging = self.held_back(&own)?;
            if !ids.is_empty() {
                let open = self.open_transactions(&sinks)?.into_iter();
                let open = open.filter(|(_, open)| ids.contains(&open.producer));
                hanging.extend(open.map(|(partition, open)| (partition, open.start)));
            }
            // Transactions of a newer instance come and go.
            if let Some(suspects) = &suspects {
                hanging.retain(|open| suspects.contains(open));
            }
            let Some((first, start)) = hanging.first() else {
                return Ok(true);
            };
            if clock.monotonic().saturating_sub(began) >= SETTLED_WITHIN {
                return Err(refused(hanging.len(), first, *start));
            }
            if shared.is_stopping() {
                return Ok(false);
            }
            suspects = Some(hanging);
            shared.pause(CHECK_INTERVAL);
        }
    }

    /// The partitions of some topics in which a transaction is open, and its first offset.
    fn held_back(&self, topics: &BTreeSet<&str>) -> Result<Vec<(TopicPartition, Offset)>> {
        let (wait, broker) = (self.settings.broker_wait, &self.components.broker);
        let partitions = self.partitions(topics)?;
        let ranges = broker.ranges(&partitions, wait)?;
        let ends = broker.high_watermarks(&partitions, wait)?;
        let both = partitions.into_iter().zip(ranges).zip(ends);
        let open = both.filter(|((_, range), end)| range.stable_end < *end);
        Ok(open
            .map(|((partition, range), _)| (partition, range.stable_end))
            .collect())
    }

    /// The open transactions of some topics; none if the client or the permissions don't allow to ask.
    fn open_transactions(
        &self,
        topics: &BTreeSet<&str>,
    ) -> Result<Vec<(TopicPartition, OpenTransaction)>> {
        let partitions = self.partitions(topics)?;
        let wait = self.settings.broker_wait;
        let open = match self.components.broker.open_transactions(&partitions, wait) {
            Ok(open) => open,
            Err(error) if error.kind() == ErrorKind::Unauthorized => {
                tracing::debug!(%error, "open transactions of the sinks are not known");
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let open = partitions.into_iter().zip(open);
        Ok(open.filter_map(|(p, open)| Some((p, open?))).collect())
    }

    /// All partitions of the topics that exist.
    fn partitions(&self, topics: &BTreeSet<&str>) -> Result<Vec<TopicPartition>> {
        let names: Vec<&str> = topics.iter().copied().collect();
        let broker = &self.components.broker;
        let known = broker.topics(&names, self.settings.broker_wait)?;
        let partitions = known.into_iter().flatten().flat_map(|topic| {
            let name = Arc::clone(&topic.name);
            (0..topic.partitions).map(move |p| TopicPartition::new(Arc::clone(&name), p))
        });
        Ok(partitions.collect())
    }
}

#[cold]
fn refused(count: usize, first: &TopicPartition, start: Offset) -> Error {
    let (topic, partition) = (&first.topic, first.partition.0);
    Error::unavailable(format!(
        "a transaction of this application hangs in {count} partitions, the first {first}: the broker has \
            ended it, but lost its markers"
    ))
    .hint(format!(
        "end it in each partition that kafka-transactions.sh find-hanging lists, here with \
            kafka-transactions.sh --bootstrap-server BROKER abort --topic {topic} --partition {partition} \
            --start-offset {start}; then start again"
    ))
}
