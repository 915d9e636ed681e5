//! Refuses to start if Kafka Streams has left records in its repartition topics.
//!
//! If Kafka Streams ran the application before, it may have been stopped while records were on their way
//! from one sub-topology to the next: their input is committed, but they are not processed. The engine
//! doesn't read those topics, so continuing would lose them.

use super::EngineSpec;
use crate::runtime::shared::Shared;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Result, TopicPartition};

const STEP: Duration = Duration::from_millis(50);

/// Whether this is the name of a repartition topic of this application, or of one whose id begins with
/// this one's.
fn is_repartition_topic(application: &str, topic: &str) -> bool {
    let rest = topic.strip_prefix(application);
    let rest = rest.and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| rest.ends_with("-repartition"))
}

/// Partitions that aren't committed up to their end: where to begin to look, and where to end.
fn unread(
    partitions: &[TopicPartition],
    committed: &[Option<Offset>],
    ranges: &[(Offset, Offset)],
) -> Vec<(TopicPartition, Offset, Offset)> {
    // A topic of which the group never committed a partition is another application's.
    let own = |topic: &str| {
        let mut all = partitions.iter().zip(committed);
        all.any(|(p, at)| &*p.topic == topic && at.is_some())
    };
    let rows = partitions.iter().zip(committed).zip(ranges);
    rows.filter_map(|((partition, at), (begin, end))| {
        let at = at.map_or(*begin, |at| at.max(*begin));
        (own(&partition.topic) && at < *end).then(|| (partition.clone(), at, *end))
    })
    .collect()
}

impl EngineSpec {
    /// Looks for unprocessed records in repartition topics.
    ///
    /// # Errors
    /// `Incompatible` if there is such a record; errors of the broker.
    pub(super) fn refuse_unprocessed_repartition_records(&self, shared: &Shared) -> Result<()> {
        let (settings, broker) = (&self.settings, self.components.broker.as_ref());
        let (group, timeout) = (settings.application_id.as_str(), settings.broker_wait);
        let names = broker.topic_names(timeout)?;
        let names: Vec<&str> = names
            .iter()
            .map(AsRef::as_ref)
            .filter(|name| is_repartition_topic(group, name))
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        let found = broker.topics(&names, timeout)?;
        let partitions: Vec<TopicPartition> = found
            .into_iter()
            .flatten()
            .flat_map(|topic| {
                let name = Arc::clone(&topic.name);
                (0..topic.partitions).map(move |p| TopicPartition::new(Arc::clone(&name), p))
            })
            .collect();
        let committed = broker.committed(group, &partitions, timeout)?;
        let committed: Vec<_> = committed
            .iter()
            .map(|c| c.as_ref().map(|c| c.offset))
            .collect();
        if committed.iter().all(Option::is_none) {
            return Ok(());
        }
        let ranges = broker.ranges(&partitions, timeout)?;
        let ranges: Vec<_> = ranges.iter().map(|r| (r.begin, r.stable_end)).collect();
        for (partition, from, end) in unread(&partitions, &committed, &ranges) {
            // There may be nothing but commit markers: only reading tells.
            let mut consumer = broker.bulk_consumer(group)?;
            consumer.assign(&[(partition.clone(), from)])?;
            let (mut seen, mut silent) = (None, Duration::ZERO);
            while seen.is_none() && consumer.positions()[0] < end && silent < timeout {
                if shared.is_stopping() {
                    return Ok(());
                }
                let before = consumer.positions()[0];
                consumer.poll_borrowed(1, STEP, &mut |record| {
                    seen = seen.or(Some(record.offset));
                })?;
                let moved = consumer.positions()[0] > before;
                silent = if moved { Duration::ZERO } else { silent + STEP };
            }
            if let Some(offset) = seen.filter(|offset| *offset < end) {
                return Err(left(&partition, offset));
            }
        }
        Ok(())
    }
}

fn left(partition: &TopicPartition, offset: Offset) -> Error {
    let topic = &partition.topic;
    Error::incompatible(format!(
        "Kafka Streams has left records in the repartition topic '{topic}' that it has read from its input and \
         not processed; repartition topics are not read here, and their records would be lost"
    ))
    .hint(format!(
        "start the Kafka Streams application again, stop it when its group has no lag in '{topic}', then start \
         this one; or delete that topic, if its records are not needed"
    ))
    .at(|at| {
        at.topic = Some(topic.to_string());
        at.partition = Some(partition.partition);
        at.offset = Some(offset);
    })
}

#[cfg(test)]
mod tests;
