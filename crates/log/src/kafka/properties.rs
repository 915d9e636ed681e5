//! Which client an application uses, and its configuration.
//!
//! Takes the user's properties by role, returns a configuration per client, or every problem at once.
//! The native client is used unless `kafka.client` or a property that only librdkafka knows says
//! otherwise. Owns the list of properties that the engine decides itself, each with its reason. Never
//! connects, and never chooses another client later.

mod librdkafka;
pub(super) mod secrets;

use super::native::FetchLimits;
use super::native::properties::{Knowledge, NativeProperties, Security, knowledge};
use super::tokens::TokenProvider;
use crate::ClientInUse;
use librdkafka::{
    SYSTEM_CERTIFICATES, check_librdkafka, is_librdkafkas, is_secured, without_kerberos,
};
use rdkafka::config::ClientConfig;
use secrets::secret_in_file;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::settings::{ClientRole, is_secret};
use stoatflow_core::{Error, Result};

#[cfg(test)]
mod tests;

const PARTITIONER: &str =
    "keys go where Java's default partitioner puts them, so that topics stay co-partitioned";

/// Properties that a user may not set, and why.
pub(super) const OWNED: &[(&str, &str)] = &[
    (
        "acks",
        "nothing may be lost: every write waits for all in-sync replicas",
    ),
    (
        "allow.auto.create.topics",
        "a missing source topic is an error, not a new empty topic",
    ),
    (
        "auto.commit.interval.ms",
        "offsets are committed with the results, see commit.interval.ms",
    ),
    (
        "auto.offset.reset",
        "the application's own auto.offset.reset applies at its first start; a lost position is an error",
    ),
    (
        "bootstrap.servers",
        "set the application's own bootstrap.servers",
    ),
    (
        "delivery.report.only.error",
        "the engine needs every acknowledgement",
    ),
    (
        "enable.auto.commit",
        "offsets are committed with the results",
    ),
    (
        "enable.auto.offset.store",
        "offsets are committed with the results",
    ),
    (
        "enable.gapless.guarantee",
        "transactions and idempotence already hold the order",
    ),
    (
        "enable.idempotence",
        "without it a retry could write a record twice",
    ),
    (
        "enable.partition.eof",
        "the engine needs it to see the end of a changelog",
    ),
    ("group.id", "it is application.id"),
    (
        "group.instance.id",
        "the engine assigns partitions itself and joins no group",
    ),
    (
        "group.protocol",
        "the engine assigns partitions itself and joins no group",
    ),
    (
        "group.remote.assignor",
        "the engine assigns partitions itself and joins no group",
    ),
    ("isolation.level", "the engine reads committed records only"),
    ("key.deserializer", "give the source or sink a serde"),
    ("key.serializer", "give the source or sink a serde"),
    (
        "metadata.broker.list",
        "set the application's own bootstrap.servers",
    ),
    (
        "partition.assignment.strategy",
        "the engine assigns partitions itself and joins no group",
    ),
    ("partitioner", PARTITIONER),
    ("partitioner.class", PARTITIONER),
    ("partitioner.ignore.keys", PARTITIONER),
    (
        "request.required.acks",
        "nothing may be lost: every write waits for all in-sync replicas",
    ),
    (
        "transaction.timeout.ms",
        "set the application's own transaction.timeout.ms",
    ),
    (
        "transaction.two.phase.commit.enable",
        "the engine commits and aborts its transactions itself",
    ),
    ("transactional.id", "it is made of application.id"),
    ("value.deserializer", "give the source or sink a serde"),
    ("value.serializer", "give the source or sink a serde"),
];

const ALL: &[(&str, &str)] = &[
    ("client.id", "stoatflow"),
    ("socket.keepalive.enable", "true"),
    ("log.connection.close", "false"),
    // A restarted broker is found within a second instead of ten.
    ("reconnect.backoff.max.ms", "1000"),
];

const CONSUMER: &[(&str, &str)] = &[
    ("allow.auto.create.topics", "false"),
    ("isolation.level", "read_committed"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("enable.partition.eof", "true"),
    // Records are never skipped silently: a lost position is reported as an error.
    ("auto.offset.reset", "error"),
    // A smaller value would save memory and cost time: a partition that is not in the fetch under way
    // waits for its end, up to the wait below, so each fetch must bring enough (with 1 MiB, a join of
    // two backlogs took six times as long).
    ("fetch.max.bytes", "4194304"),
    // Only one fetch is in flight at a time. A partition that is added, is resumed or has room again
    // waits for its end, which takes up to this time if the partitions in it have no records. With 100,
    // a join of two backlogs waited for half of its time. An idle application fetches 50 times a second,
    // which is 0.2 % of a core.
    ("fetch.wait.max.ms", "20"),
    // With the default of 1000, a reader stops for a second each time its queue is full for a moment.
    ("fetch.queue.backoff.ms", "10"),
    // A deleted topic is reported after this time (default: 30 s).
    ("topic.metadata.propagation.max.ms", "10000"),
];

/// Size of one fetch: `fetch.max.bytes` above.
const AT_A_TIME: usize = 4 << 20;

/// The share of each of so many partitions.
fn of_each(partitions: usize) -> usize {
    (AT_A_TIME / partitions.max(1)).clamp(64 << 10, 512 << 10)
}

/// Records fetched ahead of admission take memory and shorten no wait: a tenth of a second's worth at
/// full speed is enough. It is divided among the partitions, each of which has its own queue.
fn shares(partitions: usize) -> [(&'static str, String); 3] {
    let among = |all: usize, least: usize| (all / partitions.max(1)).max(least).to_string();
    [
        ("queued.max.messages.kbytes", among(4096, 64)),
        ("queued.min.messages", among(5000, 100)),
        ("fetch.message.max.bytes", of_each(partitions).to_string()),
    ]
}

/// A restore reads a lot at once, and nothing else runs: it fetches so far ahead that the broker never
/// waits for a run to be written.
const BULK: &[(&str, &str)] = &[
    ("queued.max.messages.kbytes", "32768"),
    ("queued.min.messages", "20000"),
    ("fetch.message.max.bytes", "1048576"),
    ("fetch.max.bytes", "8388608"),
];

const PRODUCER: &[(&str, &str)] = &[
    ("enable.idempotence", "true"),
    ("acks", "all"),
    // Otherwise librdkafka doesn't call the engine's own partitioner for records without a key.
    ("sticky.partitioning.linger.ms", "0"),
    ("linger.ms", "5"),
    ("queue.buffering.max.messages", "500000"),
    ("queue.buffering.max.kbytes", "32768"),
];

/// This client only sends requests. The metrics that librdkafka would collect for the broker take about
/// 100 KB per connection.
const ADMIN: &[(&str, &str)] = &[("enable.metrics.push", "false")];

/// The property that chooses the client.
const CLIENT: &str = "kafka.client";

/// The roles of properties for a single client.
const ROLES: [ClientRole; 3] = [
    ClientRole::Consumer,
    ClientRole::Producer,
    ClientRole::Admin,
];

/// The client in use.
#[derive(Clone, Debug)]
enum ChosenClient {
    /// The native client, with its configuration by role.
    Native(Box<[NativeProperties; 3]>),
    Librdkafka,
}

/// The configurations of all clients of one application.
#[derive(Clone)]
pub(super) struct Properties {
    bootstrap: String,
    user: Vec<(ClientRole, String, String)>,
    chosen: ChosenClient,
    /// Whether the user chose the native client by its name.
    native_only: bool,
    client: ClientInUse,
}

/// Prints names only: values may be secrets.
impl Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.user.iter().map(|(_, name, _)| name);
        f.debug_struct("Properties")
            .field("bootstrap", &self.bootstrap)
            .field("user", &names.collect::<Vec<_>>())
            .field("chosen", &self.chosen)
            .finish()
    }
}

/// The properties of one client: first those for all clients, then its own, which win.
fn of_role(
    user: &[(ClientRole, String, String)],
    role: ClientRole,
) -> impl Iterator<Item = (&str, &str)> {
    let of = move |wanted| user.iter().filter(move |(role, ..)| *role == wanted);
    of(ClientRole::All)
        .chain(of(role))
        .map(|(_, name, value)| (name.as_str(), value.as_str()))
}

impl Properties {
    #[cfg(test)]
    pub(super) fn new(bootstrap: &str, given: &[(ClientRole, String, String)]) -> Result<Self> {
        Self::with_tokens(bootstrap, given, None)
    }

    /// Checks all properties without connecting. A function of the user's may provide the tokens.
    pub(super) fn with_tokens(
        bootstrap: &str,
        given: &[(ClientRole, String, String)],
        tokens: Option<Arc<dyn TokenProvider>>,
    ) -> Result<Self> {
        let mut problems: Vec<String> = Vec::new();
        if bootstrap.trim().is_empty() {
            problems.push("bootstrap.servers is empty".to_owned());
        }
        let (choice, mut user): (Vec<_>, Vec<_>) = given
            .iter()
            .cloned()
            .partition(|(_, name, _)| name == CLIENT);
        let choice = choice.last().map_or("auto", |(_, _, value)| value.as_str());
        for (_, name, _) in &user {
            if let Some((_, reason)) = OWNED.iter().find(|(owned, _)| owned == name) {
                problems.push(format!("'{name}' can't be set: {reason}"));
            }
        }
        let has_tokens = tokens.is_some();
        let native_only = choice == "native";
        let (chosen, why) = Self::choose((choice, bootstrap), &user, tokens, &mut problems);
        if has_tokens && problems.is_empty() && matches!(chosen, ChosenClient::Librdkafka) {
            problems.push(
                "oauth_cb needs the native client: leave out kafka.client=librdkafka, or what only \
                    librdkafka knows"
                    .to_owned(),
            );
        }
        // librdkafka doesn't read secrets from files.
        let is_text = |name: &str| is_secret(name) && !name.contains("url");
        for (_, name, value) in user.iter_mut().filter(|(_, name, _)| is_text(name)) {
            match secret_in_file(name, value) {
                None => {}
                Some(Ok(text)) => *value = text,
                Some(Err(problem)) => problems.push(problem),
            }
        }
        if problems.is_empty() {
            let name = match chosen {
                ChosenClient::Native(_) => "native",
                ChosenClient::Librdkafka => "librdkafka",
            };
            tracing::info!(target: "stoatflow::kafka", "the client of this application is {name}: {why}");
            if matches!(chosen, ChosenClient::Native(_)) {
                // librdkafka may still send a worker's answers on a plaintext cluster; it doesn't know
                // every Java property.
                let is_kept = |name: &str, value: &str| {
                    name == "security.protocol" || is_librdkafkas(name, value).is_ok()
                };
                user.retain(|(_, name, value)| is_kept(name, value));
            }
            return Ok(Self {
                bootstrap: bootstrap.to_owned(),
                user,
                chosen,
                native_only,
                client: ClientInUse { name, why },
            });
        }
        problems.sort();
        problems.dedup();
        Err(Error::config(format!(
            "the Kafka client properties have {} problem(s): {}",
            problems.len(),
            problems.join("; ")
        ))
        .hint("correct or remove them; docs/guide/clusters.md says which there are"))
    }

    /// Chooses the native client, unless it can't do what is asked.
    fn choose(
        (choice, bootstrap): (&str, &str),
        user: &[(ClientRole, String, String)],
        tokens: Option<Arc<dyn TokenProvider>>,
        problems: &mut Vec<String>,
    ) -> (ChosenClient, String) {
        let user = &without_kerberos(user, problems)[..];
        let is_owned = |name: &str| OWNED.iter().any(|(owned, _)| *owned == name);
        let asked: Vec<_> = (user.iter())
            .filter(|(_, name, _)| !is_owned(name))
            .collect();
        if choice == "librdkafka" {
            check_librdkafka(&asked, problems);
            return (ChosenClient::Librdkafka, format!("{CLIENT} = {choice}"));
        }
        for (_, name, _) in &asked {
            match knowledge(name) {
                Knowledge::Refused(why) => {
                    problems.push(format!("'{name}' can't be set: {why}"));
                }
                Knowledge::NoEffect(why) => {
                    tracing::info!(target: "stoatflow::kafka", "{name} changes nothing: {why}");
                }
                Knowledge::Native(_) | Knowledge::Unknown => {}
            }
        }
        let mut foreign = asked.clone();
        foreign.retain(|(_, name, _)| knowledge(name) == Knowledge::Unknown);
        if !foreign.is_empty() {
            let known = problems.len();
            for (_, name, value) in &foreign {
                problems.extend(librdkafka::problem(name, value));
            }
            let are_known = known == problems.len();
            let names: Vec<_> = foreign.iter().map(|(_, name, _)| name.as_str()).collect();
            let names = names.join(", ");
            if choice == "native" {
                problems.push(format!(
                    "the native client doesn't know {names}: remove them, or set kafka.client to \
                        auto or librdkafka"
                ));
            } else if are_known && is_secured(user) {
                problems.push(format!(
                    "only librdkafka knows {names}: remove them, or set kafka.client=librdkafka (a secured \
                        cluster gets no other client by itself)"
                ));
            } else if problems.is_empty() {
                check_librdkafka(&asked, problems);
                return (ChosenClient::Librdkafka, format!("only it knows {names}"));
            }
        }
        let mut security = Security::new(tokens);
        let mut read = |role| {
            let given = of_role(user, role);
            let read = NativeProperties::read(bootstrap, given, &mut security);
            read.map_err(|mut found| problems.append(&mut found)).ok()
        };
        let why = match choice {
            "native" => format!("{CLIENT} = {choice}"),
            _ => "it knows all properties that are set".to_owned(),
        };
        match ROLES.map(&mut read) {
            [Some(consumer), Some(producer), Some(admin)] => (
                ChosenClient::Native(Box::new([consumer, producer, admin])),
                why,
            ),
            // There are problems in this case, and the value isn't used.
            _ => (ChosenClient::Librdkafka, why),
        }
    }

    pub(super) const fn client(&self) -> &ClientInUse {
        &self.client
    }

    pub(super) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// For admin requests about a group, by a client that reads nothing.
    pub(super) fn consumer(&self, group: &str) -> ClientConfig {
        let mut config = self.layers(&[CONSUMER, ADMIN].concat(), ClientRole::Consumer);
        config.set("group.id", group);
        config
    }

    /// Configuration with one queue for each of so many partitions.
    pub(super) fn divided_consumer(&self, group: &str, partitions: usize) -> ClientConfig {
        let shares = shares(partitions);
        let shares = shares.each_ref().map(|(name, value)| (*name, &**value));
        let mut config = self.layers(&[CONSUMER, &shares].concat(), ClientRole::Consumer);
        config.set("group.id", group);
        config
    }

    /// How much a native reader fetches at a time, for so many partitions.
    pub(super) fn fetch_limits(partitions: usize) -> FetchLimits {
        FetchLimits {
            all: AT_A_TIME,
            each: of_each(partitions),
        }
    }

    /// The same for a bulk reader.
    pub(super) const fn bulk_fetch_limits() -> FetchLimits {
        FetchLimits {
            all: 2 * AT_A_TIME,
            each: AT_A_TIME / 4,
        }
    }

    pub(super) fn bulk_consumer(&self, group: &str) -> ClientConfig {
        let mut config = self.layers(&[CONSUMER, BULK].concat(), ClientRole::Consumer);
        config.set("group.id", group);
        config
    }

    pub(super) fn idempotent(&self) -> ClientConfig {
        self.layers(PRODUCER, ClientRole::Producer)
    }

    pub(super) fn transactional(&self, id: &str, timeout: Duration) -> ClientConfig {
        let mut config = self.idempotent();
        config.set("transactional.id", id);
        config.set("transaction.timeout.ms", timeout.as_millis().to_string());
        config
    }

    /// The configuration of the native client; `None` if librdkafka is used.
    pub(super) fn native(&self, role: ClientRole) -> Option<&NativeProperties> {
        let ChosenClient::Native(properties) = &self.chosen else {
            return None;
        };
        let at = ROLES.iter().position(|known| *known == role)?;
        properties.get(at)
    }

    /// Whether librdkafka sends a worker's answers beside the native client: on a plaintext cluster,
    /// unless the user chose the native client by its name.
    pub(super) fn answers_by_librdkafka(&self) -> bool {
        let native = self.native(ClientRole::Producer);
        let is_secured = native.is_some_and(|native| native.config.context.is_secured());
        !is_secured && !self.native_only
    }

    pub(super) fn admin(&self) -> ClientConfig {
        self.layers(ADMIN, ClientRole::Admin)
    }

    /// Defaults, then the user's properties for all clients, then those for this one.
    fn layers(&self, defaults: &[(&str, &str)], role: ClientRole) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        let (name, value) = SYSTEM_CERTIFICATES;
        config.set(name, value);
        for (name, value) in ALL.iter().chain(defaults) {
            config.set(*name, *value);
        }
        for wanted in [ClientRole::All, role] {
            for (_, name, value) in self.user.iter().filter(|(role, ..)| *role == wanted) {
                config.set(name, value);
            }
        }
        config
    }
}
