//! Admin requests with the native client: topics, committed offsets, ranges, open transactions.
//!
//! Takes names, returns answers within a deadline. Retries while the cluster answers "not yet" (a leader
//! is being elected, a transaction is being completed), but not beyond the timeout. Has no thread; a
//! call uses connections of its own, so a slow one delays no other, and leaves them for the next call.

mod configs;
mod epochs;
mod groups;
mod members;
mod offsets;
#[cfg(test)]
mod tests;
mod topics;
mod transactions;

use crate::kafka::admin::AdminClient;
use crate::kafka::errors::{ErrorContext, error};
use crate::kafka::native::error_class::named;
use crate::kafka::native::net::cluster::{Cluster, Node};
use crate::kafka::native::net::connection_error::ConnectionError;
use crate::kafka::native::net::network::Stopwatch;
use crate::kafka::native::net::throttle::Throttled;
use crate::kafka::native::{NativeConfig, unreachable};
use crate::{
    Committed, GroupInUse, LastTransaction, NewTopic, OpenTransaction, Range, TopicInfo,
    TransactionOutcome,
};
use kafka_protocol::messages::{MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::{Request, StrBytes};
use parking_lot::Mutex;
use rdkafka::types::RDKafkaErrorCode as Code;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Offset, Result, Timestamp, TopicPartition};

/// The pause before a request is repeated: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// With less time left than this, no further request is sent.
const MIN_TIME_LEFT: Duration = Duration::from_millis(100);
/// Timeout of one answer; after it, another broker may know.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that were unused for this long are dropped: brokers close them after ten minutes, some
/// clouds after four.
const IDLE_TIMEOUT: Duration = Duration::from_secs(180);
/// Maximum number of unused sets of connections.
const MAX_IDLE_CONNECTIONS: usize = 4;

/// The partitions of a request, by topic and without duplicates.
type Topics<'p> = BTreeMap<&'p str, BTreeSet<i32>>;

/// The admin client.
#[derive(Debug)]
pub(in crate::kafka) struct NativeAdmin {
    config: NativeConfig,
    /// The connections of calls that have ended, and when they ended.
    idle: Mutex<Vec<(Cluster, Duration)>>,
    /// Brokers that didn't answer in time, and until when they are skipped.
    silent: Mutex<BTreeMap<Node, Duration>>,
    clock: Stopwatch,
}

/// A call in progress: its timeout and its connections.
struct Call<'a> {
    admin: &'a NativeAdmin,
    cluster: Cluster,
    clock: Stopwatch,
    timeout: Duration,
    what: &'static str,
    /// The API of the last request, for the count of retries.
    api: i16,
}

impl NativeAdmin {
    pub(in crate::kafka) fn new(config: NativeConfig) -> Self {
        Self {
            clock: config.context.stopwatch(),
            config,
            idle: Mutex::default(),
            silent: Mutex::default(),
        }
    }

    /// Runs `ask` with connections that no other call uses meanwhile.
    fn call<T>(
        &self,
        timeout: Duration,
        what: &'static str,
        ask: impl FnOnce(&mut Call<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut call = Call {
            admin: self,
            cluster: self.take(),
            clock: self.config.context.stopwatch(),
            timeout,
            what,
            api: MetadataRequest::KEY,
        };
        let outcome = ask(&mut call);
        self.return_connections(call.cluster);
        outcome
    }

    fn take(&self) -> Cluster {
        let mut idle = self.idle.lock();
        let now = self.clock.elapsed();
        idle.retain(|(_, since)| now.saturating_sub(*since) < IDLE_TIMEOUT);
        // The most recent one: unneeded ones then become old enough to be dropped.
        let found = idle.pop();
        drop(idle);
        found.map_or_else(|| Cluster::new(&self.config), |(cluster, _)| cluster)
    }

    fn return_connections(&self, cluster: Cluster) {
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push((cluster, self.clock.elapsed()));
        }
    }
}

impl Call<'_> {
    fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.clock.elapsed())
    }

    /// The timeout for the broker's own work before it answers.
    fn millis(&self) -> i32 {
        i32::try_from(self.left().min(ANSWER_TIMEOUT).as_millis()).unwrap_or(i32::MAX)
    }

    fn fail(&self, code: i16, said: &str, topic: Option<&str>) -> Error {
        self.failed(named(code), said, topic)
    }

    fn failed(&self, code: Code, said: &str, topic: Option<&str>) -> Error {
        let doing = ErrorContext {
            address: &self.admin.config.address,
            what: self.what,
            topic,
        };
        error(code, said, doing)
    }

    fn not_yet(&self, said: &str, topic: Option<&str>) -> Error {
        self.failed(Code::LeaderNotAvailable, said, topic)
    }

    fn unanswered(&self, why: &ConnectionError) -> Error {
        if why.is_final() || why.is_advertised() {
            return unreachable(&self.admin.config.address, self.what, why);
        }
        let error = if self.left().is_zero() {
            let said = format!("no answer within {:?}; last: {why}", self.timeout);
            self.failed(Code::OperationTimedOut, &said, None)
        } else {
            self.failed(Code::BrokerTransportFailure, &why.to_string(), None)
        };
        match why.hint() {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }

    fn until_ready<T>(&mut self, mut ask: impl FnMut(&mut Self) -> Result<T>) -> Result<T> {
        let mut pause = PAUSE;
        let mut last = None;
        loop {
            let outcome = ask(self);
            let left = self.left();
            match outcome {
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    if left <= MIN_TIME_LEFT {
                        // An attempt that had no time left to be answered says less than the one before.
                        return Err(last.filter(|_| left.is_zero()).unwrap_or(error));
                    }
                    tracing::trace!(target: "stoatflow::kafka", %error, "asked again");
                    last = Some(error);
                    let counters = &self.admin.config.context.counters;
                    counters.retried(self.api, 1);
                    self.cluster.pause(pause.min(left - MIN_TIME_LEFT));
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                other => return other,
            }
        }
    }

    /// Sends a request to this broker, in the newest version that both sides know.
    fn ask<R: Request>(
        &mut self,
        node: Node,
        most: Duration,
        request: impl FnOnce(i16) -> R,
    ) -> Result<R::Response>
    where
        R::Response: Throttled,
    {
        let answer = self.ask_from(node, 0, most, request)?;
        answer.ok_or_else(|| {
            let link = self.cluster.control(node, Duration::ZERO);
            let why = link.map_or_else(|why| why, |link| link.unsupported::<R>());
            self.unanswered(&why)
        })
    }

    /// The same, in version `least` or a newer one; `None` if the broker knows none of these.
    fn ask_from<R: Request>(
        &mut self,
        node: Node,
        least: i16,
        most: Duration,
        request: impl FnOnce(i16) -> R,
    ) -> Result<Option<R::Response>>
    where
        R::Response: Throttled,
    {
        self.api = R::KEY;
        let (clock, end) = (&self.clock, (self.clock.elapsed() + most).min(self.timeout));
        let left = || end.saturating_sub(clock.elapsed());
        let asked = self.cluster.control(node, left()).and_then(|link| {
            let version = link.api_versions.version::<R>(i16::MAX);
            let version = version.filter(|version| *version >= least);
            let answer = version.map(|version| link.call(version, &request(version), left()));
            answer.transpose()
        });
        asked.map_err(|why| {
            // A late answer must not be taken for that of the next request.
            self.cluster.drop_control(node, &why);
            self.unanswered(&why)
        })
    }

    /// Sends a request to any broker that answers.
    fn ask_anyone<R: Request + Clone>(&mut self, request: &R) -> Result<R::Response>
    where
        R::Response: Throttled,
    {
        self.api = R::KEY;
        let most = self.left().min(ANSWER_TIMEOUT);
        let asked = (self.cluster).ask_anyone(i16::MAX, |_| request.clone(), most);
        asked
            .map(|(answer, _)| answer)
            .map_err(|why| self.unanswered(&why))
    }

    /// The metadata of these topics, and of the brokers, from any broker.
    fn metadata(&mut self, names: &[&str]) -> Result<MetadataResponse> {
        self.api = MetadataRequest::KEY;
        let names: BTreeSet<&str> = names.iter().copied().collect();
        let names: Vec<Arc<str>> = names.into_iter().map(Arc::from).collect();
        let asked = self
            .cluster
            .metadata(&names, self.left().min(ANSWER_TIMEOUT));
        let answer = asked.map_err(|why| self.unanswered(&why))?;
        if answer.brokers.is_empty() {
            return Err(self.not_yet("the broker has just started, and knows of no other", None));
        }
        Ok(answer)
    }

    /// The broker that creates and deletes topics. On KRaft it is any broker, which forwards the
    /// request.
    fn controller(&mut self) -> Result<Node> {
        let answer = self.metadata(&[])?;
        let mut nodes = answer.brokers.iter().map(|broker| broker.node_id);
        if nodes.any(|node| node == answer.controller_id) {
            return Ok(answer.controller_id.0);
        }
        Err(self.failed(
            Code::NotController,
            "the cluster has no controller at the moment",
            None,
        ))
    }

    /// The leaders of partitions, and the partitions of each leader.
    fn leaders<'p>(
        &mut self,
        partitions: &'p [TopicPartition],
    ) -> Result<BTreeMap<Node, Topics<'p>>> {
        let names: Vec<_> = partitions.iter().map(|p| &*p.topic).collect();
        let answer = self.metadata(&names)?;
        let mut leaders: BTreeMap<Node, Topics<'p>> = BTreeMap::new();
        for partition in partitions {
            let name = &*partition.topic;
            let unknown = Code::UnknownTopicOrPartition;
            let missing =
                |call: &Self| call.failed(unknown, &format!("{partition} is unknown"), Some(name));
            let found = topics::named_in(&answer, name).ok_or_else(|| missing(self))?;
            match named(found.error_code) {
                Code::NoError => {}
                Code::UnknownTopicOrPartition | Code::UnknownTopic => return Err(missing(self)),
                code => return Err(self.failed(code, "the topic is refused", Some(name))),
            }
            let of_topic = &found.partitions;
            let led = of_topic
                .iter()
                .find(|p| p.partition_index == partition.partition.0)
                .ok_or_else(|| missing(self))?;
            if led.leader_id.0 < 0 {
                let said = format!("{partition} has no leader");
                return Err(self.not_yet(&said, Some(name)));
            }
            let of_leader = leaders.entry(led.leader_id.0).or_default();
            of_leader
                .entry(name)
                .or_default()
                .insert(partition.partition.0);
        }
        Ok(leaders)
    }
}

fn text(name: &str) -> StrBytes {
    StrBytes::from_string(name.to_owned())
}

fn topic_name(name: &str) -> TopicName {
    TopicName::from(text(name))
}

impl AdminClient for NativeAdmin {
    fn address(&self) -> &str {
        &self.config.address
    }

    fn topics(&self, names: &[&str], timeout: Duration) -> Result<Vec<Option<TopicInfo>>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        self.call(timeout, "asking for topics", |call| {
            call.until_ready(|call| call.topics(names))
        })
    }

    fn topic_names(&self, timeout: Duration) -> Result<Vec<Arc<str>>> {
        self.call(timeout, "asking for the names of topics", |call| {
            call.until_ready(Call::topic_names)
        })
    }

    fn learn_leaders(&self, names: &[&str], timeout: Duration) -> Result<()> {
        self.call(timeout, "asking for leaders", |call| {
            call.until_ready(|call| call.learn_leaders(names))
        })
    }

    fn create_topics(&self, topics: &[NewTopic], timeout: Duration) -> Result<()> {
        self.call(timeout, "making topics", |call| call.create_topics(topics))
    }

    fn delete_topics(&self, names: &[&str], timeout: Duration) -> Result<()> {
        self.call(timeout, "deleting topics", |call| call.delete_topics(names))
    }

    fn tombstone_retention(
        &self,
        names: &[&str],
        timeout: Duration,
    ) -> Result<Vec<Option<Duration>>> {
        self.call(timeout, "asking for the settings of topics", |call| {
            call.tombstone_retention(names)
        })
    }

    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        self.call(timeout, "asking for committed offsets", |call| {
            call.until_ready(|call| call.committed(group, partitions))
        })
    }

    fn committed_despite_pending(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<(Option<Committed>, bool)>> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        self.call(timeout, "asking for committed offsets", |call| {
            call.until_ready(|call| call.committed_despite_pending(group, partitions))
        })
    }

    fn group_in_use(&self, group: &str, timeout: Duration) -> Result<Option<GroupInUse>> {
        self.call(timeout, "asking for the members of the group", |call| {
            call.until_ready(|call| call.group_in_use(group))
        })
    }

    fn ranges(&self, partitions: &[TopicPartition], timeout: Duration) -> Result<Vec<Range>> {
        self.call(timeout, "asking for the ranges of partitions", |call| {
            call.ranges(partitions)
        })
    }

    fn high_watermarks(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Offset>> {
        self.call(timeout, "asking for the ends of partitions", |call| {
            call.high_watermarks(partitions)
        })
    }

    fn offsets_for_times(
        &self,
        partitions: &[TopicPartition],
        since: Timestamp,
        timeout: Duration,
    ) -> Result<Vec<Option<Offset>>> {
        self.call(timeout, "asking for offsets by time", |call| {
            call.offsets_for_times(partitions, since)
        })
    }

    fn epoch_ends(
        &self,
        asked: &[(TopicPartition, i32)],
        timeout: Duration,
    ) -> Result<Vec<Option<Offset>>> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        self.call(timeout, "asking for the ends of leader epochs", |call| {
            call.until_ready(|call| call.epoch_ends(asked))
        })
    }

    fn open_transactions(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<OpenTransaction>>> {
        self.call(timeout, "asking for open transactions", |call| {
            call.until_ready(|call| call.open_transactions(partitions))
        })
    }

    fn end_last_transactions(
        &self,
        ids: &[&str],
        timeout: Duration,
    ) -> Result<Vec<LastTransaction>> {
        self.call(timeout, "ending the last transactions", |call| {
            let last = ids
                .iter()
                .map(|id| call.until_ready(|call| call.end_last_transaction(id)));
            last.filter_map(Result::transpose).collect()
        })
    }

    fn write_marker(
        &self,
        partition: &TopicPartition,
        open: &OpenTransaction,
        outcome: TransactionOutcome,
        timeout: Duration,
    ) -> Result<()> {
        self.call(timeout, "ending a hanging transaction", |call| {
            call.until_ready(|call| call.write_marker(partition, open, outcome))
        })
    }
}
