//! The requests beside reading and writing, for both clients.
//!
//! The native client and librdkafka both implement it; readers, writers and the broker use nothing else
//! for metadata, offsets and groups. Calls block at most for their timeout, and may come from several
//! threads at once.

use super::errors::{ErrorContext, error};
use crate::{
    Committed, GroupInUse, LastTransaction, NewTopic, OpenTransaction, Range, TopicInfo,
    TransactionOutcome,
};
use rdkafka::types::RDKafkaErrorCode as Code;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Result, Timestamp, TopicPartition};

#[cfg(test)]
mod tests;

/// Kafka's default of `delete.retention.ms`.
pub(super) const DEFAULT_TOMBSTONE_RETENTION: Duration = Duration::from_secs(86_400);

/// Implemented by the admin client of each library. [`Broker`](crate::Broker) documents the methods.
pub(super) trait AdminClient: Debug + Send + Sync {
    /// The bootstrap list, for messages.
    fn address(&self) -> &str;
    fn topics(&self, names: &[&str], timeout: Duration) -> Result<Vec<Option<TopicInfo>>>;
    fn topic_names(&self, timeout: Duration) -> Result<Vec<Arc<str>>>;
    /// Does nothing where the client does so by itself, or can't.
    fn learn_leaders(&self, names: &[&str], timeout: Duration) -> Result<()> {
        let _ = (names, timeout);
        Ok(())
    }
    fn create_topics(&self, topics: &[NewTopic], timeout: Duration) -> Result<()>;
    fn delete_topics(&self, names: &[&str], timeout: Duration) -> Result<()>;
    fn tombstone_retention(
        &self,
        names: &[&str],
        timeout: Duration,
    ) -> Result<Vec<Option<Duration>>>;
    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>>;
    fn committed_despite_pending(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<(Option<Committed>, bool)>> {
        let committed = self.committed(group, partitions, timeout)?;
        Ok(committed.into_iter().map(|at| (at, false)).collect())
    }
    fn group_in_use(&self, group: &str, timeout: Duration) -> Result<Option<GroupInUse>>;
    fn ranges(&self, partitions: &[TopicPartition], timeout: Duration) -> Result<Vec<Range>>;
    fn high_watermarks(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Offset>>;
    fn offsets_for_times(
        &self,
        partitions: &[TopicPartition],
        since: Timestamp,
        timeout: Duration,
    ) -> Result<Vec<Option<Offset>>>;
    /// `None` where the client doesn't support it.
    fn epoch_ends(
        &self,
        asked: &[(TopicPartition, i32)],
        timeout: Duration,
    ) -> Result<Vec<Option<Offset>>> {
        let _ = timeout;
        Ok(vec![None; asked.len()])
    }
    /// Unlike the broker's method, it fails where the cluster or the client doesn't support it.
    fn open_transactions(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<OpenTransaction>>>;
    /// None where the client can't ask.
    fn end_last_transactions(
        &self,
        ids: &[&str],
        timeout: Duration,
    ) -> Result<Vec<LastTransaction>> {
        let _ = (ids, timeout);
        Ok(Vec::new())
    }
    fn write_marker(
        &self,
        partition: &TopicPartition,
        open: &OpenTransaction,
        outcome: TransactionOutcome,
        timeout: Duration,
    ) -> Result<()> {
        let _ = (partition, open, outcome, timeout);
        Err(Error::config(
            "librdkafka can't end the transaction of another producer",
        ))
    }

    /// Fails with the first partition that doesn't exist: a reader would wait for it forever without an
    /// error.
    fn must_have(&self, partitions: &[(TopicPartition, Offset)], timeout: Duration) -> Result<()> {
        let names: Vec<_> = partitions.iter().map(|(p, _)| &*p.topic).collect();
        for ((partition, _), known) in partitions.iter().zip(self.topics(&names, timeout)?) {
            if known.is_none_or(|t| !(0..t.partitions).contains(&partition.partition.0)) {
                let doing = ErrorContext {
                    address: self.address(),
                    what: "reading",
                    topic: Some(&partition.topic),
                };
                let said = format!("{partition} is unknown");
                return Err(error(Code::UnknownTopicOrPartition, &said, doing));
            }
        }
        Ok(())
    }
}

/// How long a topic keeps a tombstone, from the values of its `cleanup.policy` and
/// `delete.retention.ms`; `None` if it isn't compacted.
pub(super) fn retention_of(policy: Option<&str>, retention: Option<&str>) -> Option<Duration> {
    let compacts = policy.is_none_or(|policy| policy.split(',').any(|p| p.trim() == "compact"));
    let retention = retention.and_then(|ms| ms.parse().ok());
    compacts.then(|| retention.map_or(DEFAULT_TOMBSTONE_RETENTION, Duration::from_millis))
}

/// A user without permission to describe a topic's settings gets Kafka's default: the check that uses it
/// tolerates a wrong value.
pub(super) fn default_retention(
    refused: &stoatflow_core::Error,
    topics: usize,
) -> Vec<Option<Duration>> {
    tracing::info!(
        target: "stoatflow::kafka",
        error = %refused,
        "delete.retention.ms is taken for 24 hours: this user has no DescribeConfigs on the topics"
    );
    vec![Some(DEFAULT_TOMBSTONE_RETENTION); topics]
}
