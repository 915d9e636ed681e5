//! The settings, declared once.
//!
//! Takes raw key-value pairs (Kafka Streams' names); returns checked [`Settings`], or every problem at
//! once with the nearest valid name. Docs, Python fields and the parity test are made from the same
//! table. Python reads files and the environment, and passes the origin.

mod clients;
mod kinds;
mod nearest;
mod parse;
mod read;
mod state_dir;
mod streams;
#[cfg(test)]
mod streams_tests;
mod table;
#[cfg(test)]
mod tests;

pub use clients::{IDLE, OWNED};
pub use read::is_secret;
pub use streams::{Effect, STREAMS_CONFIG, STREAMS_PREFIXES, streams_markdown};
pub use table::{KEYS, KeySpec, KeyType, docs_markdown};

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Minimum length of a token for the admin port: a shorter one could be guessed.
const SHORTEST_TOKEN: usize = 16;

/// What a commit promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// Outputs, state and offsets commit together or not at all.
    ExactlyOnceV2,
    /// Outputs are sent at once; after a crash some may be sent again.
    AtLeastOnce,
}

/// Where records are read from and written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrokerAddress {
    /// Real Kafka: the bootstrap list.
    Kafka(String),
    /// Topics in RocksDB at this path; `None`: a temporary directory.
    Embedded(Option<PathBuf>),
}

/// The back end that keeps the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreBackend {
    /// On disk.
    RocksDb,
    /// In memory; rebuilt from the changelog at every start.
    Memory,
}

/// The watermark of sources that don't choose one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatermarkDefault {
    /// This many milliseconds behind the highest timestamp; `None`: no watermark.
    pub delay_ms: Option<i64>,
    /// A partition without records for this long is idle and no longer holds back the watermark.
    pub idle_after: Option<Duration>,
}

/// Who may use the admin port: `admin.token`, `admin.ssl.*`, `admin.open`, `admin.max.connections`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AdminAccess {
    /// `admin.token`; a `file:PATH` is still the path here.
    pub token: Option<String>,
    /// `admin.ssl.certificate`.
    pub certificate: Option<PathBuf>,
    /// `admin.ssl.key`.
    pub key: Option<PathBuf>,
    /// `admin.ssl.ca`.
    pub client_ca: Option<PathBuf>,
    /// `admin.open`.
    pub open: bool,
    /// `admin.max.connections`; 0 means the default.
    pub max_connections: usize,
}

/// Never prints the token.
impl fmt::Debug for AdminAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminAccess")
            .field("has_token", &self.token.is_some())
            .field("certificate", &self.certificate)
            .field("client_ca", &self.client_ca)
            .field("open", &self.open)
            .field("max_connections", &self.max_connections)
            .finish_non_exhaustive()
    }
}

/// All settings, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `application.id`: names the group, the transactions and the changelogs.
    pub application_id: String,
    /// `bootstrap.servers`: `host:port,...`, `embedded:PATH` or `embedded:`.
    pub broker: BrokerAddress,
    /// `processing.guarantee`.
    pub guarantee: Guarantee,
    /// `commit.interval.ms`: upper bound between barriers.
    pub commit_interval: Duration,
    /// `commit.min.interval.ms`: lower bound between barriers.
    pub commit_min_interval: Duration,
    /// `commit.timeout.ms`: a commit that takes longer is aborted.
    pub commit_timeout: Duration,
    /// `lanes.count`.
    pub lanes: u32,
    /// `batch.max.records`: the most records a lane takes at a time.
    pub batch_max_records: usize,
    /// `state.dir` plus the directory of this application.
    pub state_dir: PathBuf,
    /// `state.memory.max.bytes`: block cache and write buffers of all stores together.
    pub state_memory_max_bytes: usize,
    /// `state.damaged`: whether local state that can't be used is deleted and restored.
    pub rebuild_damaged_state: bool,
    /// `default.dsl.store`.
    pub store_backend: StoreBackend,
    /// `rocksdb.*`: options of stores that don't set their own.
    pub rocksdb: crate::RocksDbOptions,
    /// `in.flight.max.bytes`: records admitted but not yet committed.
    pub in_flight_max_bytes: usize,
    /// `statestore.cache.max.bytes`: 0 forwards every update; more forwards one per key and commit.
    pub cache_max_bytes: usize,
    /// `emit.mode`: whether all tables emit one result per key and commit, at the barrier.
    pub emit_at_barrier: bool,
    /// `emit.interval.ms.kstreams.windowed.aggregation`.
    pub window_emit_interval: Option<Duration>,
    /// `emit.interval.ms.kstreams.outer.join.spurious.results.fix`.
    pub join_emit_interval: Option<Duration>,
    /// `windowstore.changelog.additional.retention.ms`.
    pub window_changelog_retention: Duration,
    /// `max.task.idle.ms`: how long dispatch waits for new records of a partition that has been read to
    /// its end, to keep timestamp order. `None` (-1): dispatch does not wait.
    pub max_task_idle: Option<Duration>,
    /// `time.semantics`: whether time is the watermark instead of the highest timestamp an operator has
    /// seen.
    pub time_by_watermark: bool,
    /// `watermark.default` for sources without one of their own.
    pub watermark_default: WatermarkDefault,
    /// `max.timestamp.ahead.ms`: a record further ahead of the wall clock doesn't advance time.
    pub max_timestamp_ahead: Option<Duration>,
    /// `auto.offset.reset` of sources without one of their own: true for earliest.
    pub reset_to_earliest: bool,
    /// `changelog.num.partitions`; 0: as many as the widest source topic has.
    pub changelog_partitions: i32,
    /// `topology.optimization`: whether tables are restored from their source topics.
    pub reuse_source_topics: bool,
    /// `topology.optimization`: whether a stream that is joined with itself has one store.
    pub single_store_self_join: bool,
    /// `replication.factor` of topics that the engine creates; -1 is the broker's default.
    pub replication_factor: i32,
    /// `broker.wait.timeout.ms`: how long to keep trying to reach the broker at start.
    pub broker_wait: Duration,
    /// How often the application restarts by itself after a broker outage, within `restart_window`.
    pub restart_max: u32,
    /// See `restart_max`.
    pub restart_window: Duration,
    /// `metadata.max.age.ms`: how often the engine looks for new partitions and topics to read.
    pub metadata_max_age: Duration,
    /// `transaction.timeout.ms`.
    pub transaction_timeout: Duration,
    /// `shutdown.timeout.ms`.
    pub shutdown_timeout: Duration,
    /// `stall.timeout.ms`; `None` is off.
    pub stall_timeout: Option<Duration>,
    /// `admin.listen`: `host:port` of the admin port; `None` is off. With port 0 a free one is chosen.
    pub admin_listen: Option<String>,
    /// Who may use the admin port.
    pub admin: AdminAccess,
    /// `processing.exception.handler`, `deserialization.exception.handler`, `production.exception.handler`.
    pub handlers: crate::Handlers,
    /// `errors.dead.letter.queue.headers`: whether dead letters also carry the headers of Kafka Streams.
    pub streams_letter_headers: bool,
    /// `ensure.explicit.naming`: generated names of topics and stores are refused.
    pub ensure_explicit_naming: bool,
    /// `default.key.serde`, if it is set: the name of a serde, or `custom` for a serde of the user.
    pub default_key_serde: Option<&'static str>,
    /// `default.value.serde`, if it is set.
    pub default_value_serde: Option<&'static str>,
    /// `default.list.key.serde.inner`, if it is set: the name of the serde of the entries of lists.
    pub default_key_entries: Option<&'static str>,
    /// `default.list.value.serde.inner`, if it is set.
    pub default_value_entries: Option<&'static str>,
    /// `default.timestamp.extractor`, if it is set.
    pub default_timestamp: Option<&'static str>,
    /// `topic.*`: configuration of the changelog topics that the engine creates, by name.
    pub changelog_config: BTreeMap<String, String>,
    /// Sentences about settings that have no effect.
    pub notes: Vec<String>,
    /// Client properties with Kafka's prefixes (`consumer.`, `producer.`, `admin.`, none), passed
    /// through.
    pub client_properties: Vec<(ClientRole, String, String)>,
}

/// Which client a passed-through property is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientRole {
    /// All of them.
    All,
    /// The consumer.
    Consumer,
    /// The producer.
    Producer,
    /// The admin client.
    Admin,
}

/// Checks that a token for the admin port is long enough and well-formed.
///
/// # Errors
/// The reason why the token is refused.
pub fn check_token(token: &str) -> std::result::Result<(), String> {
    let make = "make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'";
    if token.len() < SHORTEST_TOKEN {
        return Err(format!(
            "the token has {} characters, {SHORTEST_TOKEN} are the least; {make}",
            token.len()
        ));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "the token has characters that no header can have; {make}"
        ));
    }
    Ok(())
}

impl ClientRole {
    /// The prefix of the properties of this client.
    const fn prefix(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Consumer => "consumer.",
            Self::Producer => "producer.",
            Self::Admin => "admin.",
        }
    }
}

/// Every setting with its value in force (milliseconds and bytes as numbers) and whether it was set,
/// then the properties of the clients. Secrets are not masked.
#[must_use]
pub fn in_force(pairs: &[(String, serde_json::Value)]) -> Vec<(String, serde_json::Value, bool)> {
    parse::in_force(pairs)
}

impl Settings {
    /// Checks raw settings. Values are JSON (text, numbers, booleans); durations accept numbers of
    /// milliseconds under `*.ms` names and text such as `"5s"`.
    ///
    /// # Errors
    /// `Config`, one message with every problem.
    pub fn from_pairs(pairs: &[(String, serde_json::Value)]) -> crate::Result<Self> {
        parse::parse(pairs)
    }
}
