//! The [`Broker`](crate::Broker) of a Kafka cluster.
//!
//! Takes the bootstrap list and the user's properties, returns consumers, producers and answers of the
//! admin client. Owns the checked properties and the admin client. `connect` never waits: call `topics`
//! to find out whether a broker answers.

use super::admin::AdminClient;
use super::alternating;
use super::native::admin::NativeAdmin;
use super::native::{self, FetchLimits};
use super::properties::Properties;
use super::tokens::TokenProvider;
use crate::kafka::librdkafka::admin::Admin;
use crate::kafka::librdkafka::consumer::KafkaConsumer;
use crate::{
    Broker, ClientCounts, ClientInUse, ClusterExpiry, Committed, Consumer, GroupInUse,
    LastTransaction, NewTopic, OpenTransaction, Producer, ProducerMode, Range, TopicInfo,
    TransactionOutcome,
};
use rdkafka::config::ClientConfig;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::settings::ClientRole;
use stoatflow_core::{ErrorKind, Offset, Result, Timestamp, TopicPartition};

/// A Kafka cluster.
#[derive(Debug)]
pub struct KafkaBroker {
    properties: Properties,
    admin: Arc<dyn AdminClient>,
}

/// Prepares the clients of a cluster; they connect with the first request.
///
/// # Errors
/// `Config` with every property that is wrong or that the engine owns.
pub fn connect(
    bootstrap: &str,
    properties: &[(ClientRole, String, String)],
) -> Result<Arc<KafkaBroker>> {
    connect_with_tokens(bootstrap, properties, None)
}

/// Like [`connect`], with the tokens of SASL/OAUTHBEARER from this provider.
///
/// # Errors
/// As [`connect`].
pub fn connect_with_tokens(
    bootstrap: &str,
    properties: &[(ClientRole, String, String)],
    tokens: Option<Arc<dyn TokenProvider>>,
) -> Result<Arc<KafkaBroker>> {
    let properties = Properties::with_tokens(bootstrap, properties, tokens)?;
    let admin: Arc<dyn AdminClient> = match properties.native(ClientRole::Admin) {
        Some(native) => Arc::new(NativeAdmin::new(native.config.clone())),
        None => Arc::new(Admin::new(&properties)?),
    };
    Ok(Arc::new(KafkaBroker { properties, admin }))
}

/// Checks the properties as [`connect_with_tokens`] does, and creates nothing.
///
/// # Errors
/// As [`connect`].
pub fn check_properties(
    bootstrap: &str,
    properties: &[(ClientRole, String, String)],
    tokens: Option<Arc<dyn TokenProvider>>,
) -> Result<()> {
    Properties::with_tokens(bootstrap, properties, tokens).map(drop)
}

/// Names and versions of the libraries that the clients are built with.
#[must_use]
pub fn built_with() -> Vec<(&'static str, String)> {
    let (_, librdkafka) = rdkafka::util::get_rdkafka_version();
    let features = ClientConfig::new().create_native_config();
    let features = features.and_then(|config| config.get("builtin.features"));
    vec![
        ("librdkafka", librdkafka),
        ("librdkafka features", features.unwrap_or_default()),
    ]
}

impl KafkaBroker {
    fn reader(
        &self,
        fetch_limits: FetchLimits,
        config: impl FnOnce() -> ClientConfig,
        divided: bool,
    ) -> Result<Box<dyn Consumer>> {
        let (bootstrap, admin) = (self.properties.bootstrap(), self.admin.clone());
        if let Some(native) = self.properties.native(ClientRole::Consumer) {
            let limits = native.fetch_limits(fetch_limits);
            return Ok(Box::new(native::reader(&native.config, admin, limits)));
        }
        let config = &config();
        let reader = KafkaConsumer::new(config, divided, bootstrap, admin)?;
        Ok(Box::new(reader))
    }
}

impl Broker for KafkaBroker {
    fn address(&self) -> String {
        self.properties.bootstrap().to_owned()
    }

    fn client(&self) -> ClientInUse {
        self.properties.client().clone()
    }

    fn throttled(&self) -> Duration {
        let native = self.properties.native(ClientRole::Admin);
        native.map_or(Duration::ZERO, |native| {
            native.config.context.throttled.time()
        })
    }

    fn client_counts(&self) -> Vec<ClientCounts> {
        let roles = [
            (ClientRole::Consumer, "consumer"),
            (ClientRole::Producer, "producer"),
            (ClientRole::Admin, "admin"),
        ];
        let counted = roles.into_iter().filter_map(|(role, name)| {
            let native = self.properties.native(role)?;
            Some(native.config.context.counters.counts(name))
        });
        counted.collect()
    }

    fn topics(&self, names: &[&str], timeout: Duration) -> Result<Vec<Option<TopicInfo>>> {
        self.admin.topics(names, timeout)
    }

    fn expiry(&self) -> ClusterExpiry {
        ClusterExpiry::AfterRetention
    }

    fn tombstone_retention(
        &self,
        topics: &[&str],
        timeout: Duration,
    ) -> Result<Vec<Option<Duration>>> {
        self.admin.tombstone_retention(topics, timeout)
    }

    fn topic_names(&self, timeout: Duration) -> Result<Vec<Arc<str>>> {
        self.admin.topic_names(timeout)
    }

    fn learn_leaders(&self, topics: &[&str], timeout: Duration) -> Result<()> {
        self.admin.learn_leaders(topics, timeout)
    }

    fn create_topics(&self, topics: &[NewTopic], timeout: Duration) -> Result<()> {
        self.admin.create_topics(topics, timeout)
    }

    fn delete_topics(&self, names: &[&str], timeout: Duration) -> Result<()> {
        self.admin.delete_topics(names, timeout)
    }

    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>> {
        self.admin.committed(group, partitions, timeout)
    }

    fn committed_despite_pending(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<(Option<Committed>, bool)>> {
        (self.admin).committed_despite_pending(group, partitions, timeout)
    }

    fn group_in_use(&self, group: &str, timeout: Duration) -> Result<Option<GroupInUse>> {
        self.admin.group_in_use(group, timeout)
    }

    fn ranges(&self, partitions: &[TopicPartition], timeout: Duration) -> Result<Vec<Range>> {
        self.admin.ranges(partitions, timeout)
    }

    fn high_watermarks(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Offset>> {
        self.admin.high_watermarks(partitions, timeout)
    }

    fn open_transactions(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<OpenTransaction>>> {
        match self.admin.open_transactions(partitions, timeout) {
            Err(error) if error.kind() != ErrorKind::Unavailable => {
                tracing::debug!(target: "stoatflow::kafka", %error, "open transactions are not known");
                Ok(vec![None; partitions.len()])
            }
            asked => asked,
        }
    }

    fn end_last_transactions(
        &self,
        application: &str,
        timeout: Duration,
    ) -> Result<Vec<LastTransaction>> {
        let ids = alternating::transactional_ids(application);
        self.admin
            .end_last_transactions(&ids.each_ref().map(String::as_str), timeout)
    }

    fn write_marker(
        &self,
        partition: &TopicPartition,
        open: &OpenTransaction,
        outcome: TransactionOutcome,
        timeout: Duration,
    ) -> Result<()> {
        self.admin.write_marker(partition, open, outcome, timeout)
    }

    fn epoch_ends(
        &self,
        asked: &[(TopicPartition, i32)],
        timeout: Duration,
    ) -> Result<Vec<Option<Offset>>> {
        self.admin.epoch_ends(asked, timeout)
    }

    fn offsets_for_times(
        &self,
        partitions: &[TopicPartition],
        since: Timestamp,
        timeout: Duration,
    ) -> Result<Vec<Option<Offset>>> {
        self.admin.offsets_for_times(partitions, since, timeout)
    }

    fn consumer(&self, group: &str, partitions: usize) -> Result<Box<dyn Consumer>> {
        let config = || self.properties.divided_consumer(group, partitions);
        self.reader(Properties::fetch_limits(partitions), config, true)
    }

    fn bulk_consumer(&self, group: &str) -> Result<Box<dyn Consumer>> {
        let config = || self.properties.bulk_consumer(group);
        self.reader(Properties::bulk_fetch_limits(), config, false)
    }

    fn producer(&self, mode: &ProducerMode, timeout: Duration) -> Result<Box<dyn Producer>> {
        alternating::open(&self.properties, &self.admin, mode, timeout)
    }
}
