//! Properties of the Kafka clients: passed through, or refused with the reason.
//!
//! Takes a name as the user wrote it; gives the client it is for and the name without prefix. Owns
//! the list of properties that the engine decides itself. What librdkafka knows, only it says.

use super::ClientRole;

/// Client properties that the engine owns, and why.
pub const OWNED: &[(&str, &str)] = &[
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
        "set auto.offset.reset without a prefix, or reset at the source",
    ),
    (
        "bootstrap.servers",
        "set bootstrap.servers without a prefix",
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
        "enable.idempotence",
        "it is always on: without it a retry could write a record twice",
    ),
    ("group.id", "it is application.id"),
    (
        "group.instance.id",
        "one process reads all partitions and joins no group",
    ),
    ("interceptor.classes", "Java classes can't run here"),
    ("isolation.level", "only committed records are read"),
    ("key.deserializer", "give the source its serde"),
    ("key.serializer", "give the sink its serde"),
    (
        "partition.assignment.strategy",
        "one process reads all partitions and joins no group",
    ),
    (
        "transaction.timeout.ms",
        "set transaction.timeout.ms without a prefix",
    ),
    ("transactional.id", "it is made of application.id"),
    ("value.deserializer", "give the source its serde"),
    ("value.serializer", "give the sink its serde"),
];

/// Names of the Java clients, and what librdkafka calls the thing.
const JAVA_ONLY: &[(&str, &str)] = &[
    ("fetch.max.wait.ms", "use fetch.wait.max.ms"),
    (
        "max.poll.records",
        "use batch.max.records: it bounds what a lane takes at a time",
    ),
    ("receive.buffer.bytes", "use socket.receive.buffer.bytes"),
    (
        "sasl.jaas.config",
        "use sasl.username and sasl.password (or sasl.kerberos.*)",
    ),
    ("send.buffer.bytes", "use socket.send.buffer.bytes"),
    (
        "ssl.keystore.type",
        "use ssl.keystore.location (PKCS#12), or ssl.certificate.location and ssl.key.location (PEM)",
    ),
    (
        "ssl.truststore.location",
        "use ssl.ca.location with a PEM file",
    ),
    (
        "ssl.truststore.password",
        "use ssl.ca.location with a PEM file, which needs no password",
    ),
    ("ssl.truststore.type", "use ssl.ca.location with a PEM file"),
];

const PREFIXES: &[(&str, ClientRole)] = &[
    ("main.consumer.", ClientRole::Consumer),
    ("restore.consumer.", ClientRole::Consumer),
    ("consumer.", ClientRole::Consumer),
    ("producer.", ClientRole::Producer),
    ("admin.", ClientRole::Admin),
];

/// Families that need no prefix.
const FAMILIES: &[&str] = &[
    "sasl.",
    "ssl.",
    "socket.",
    "security.",
    "broker.address.",
    "topic.metadata.",
    "oauthbearer.",
];

const BARE: &[(&str, ClientRole)] = &[
    ("api.version.request", ClientRole::All),
    ("client.dns.lookup", ClientRole::All),
    ("client.id", ClientRole::All),
    ("client.rack", ClientRole::All),
    ("connections.max.idle.ms", ClientRole::All),
    ("debug", ClientRole::All),
    ("enable.ssl.certificate.verification", ClientRole::All),
    ("log_level", ClientRole::All),
    ("message.max.bytes", ClientRole::All),
    ("reconnect.backoff.max.ms", ClientRole::All),
    ("reconnect.backoff.ms", ClientRole::All),
    ("request.timeout.ms", ClientRole::All),
    ("retry.backoff.max.ms", ClientRole::All),
    ("retry.backoff.ms", ClientRole::All),
    ("batch.size", ClientRole::Producer),
    ("compression.level", ClientRole::Producer),
    ("compression.type", ClientRole::Producer),
    ("delivery.timeout.ms", ClientRole::Producer),
    ("linger.ms", ClientRole::Producer),
    ("fetch.max.bytes", ClientRole::Consumer),
    ("fetch.min.bytes", ClientRole::Consumer),
    ("fetch.wait.max.ms", ClientRole::Consumer),
    ("max.partition.fetch.bytes", ClientRole::Consumer),
];

/// What a name is, to the clients.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Client<'a> {
    /// Goes to this client under this name.
    Passed(ClientRole, &'a str),
    /// Can't be set, and why.
    Refused(&'static str),
    /// Another spelling works.
    Elsewhere(&'static str),
    /// Not a client property.
    No,
}

/// Says what a name is, to the clients.
pub(super) fn client(name: &str) -> Client<'_> {
    if let Some((prefix, role)) = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return known(*role, &name[prefix.len()..]);
    }
    let bare = BARE
        .iter()
        .find(|(bare, _)| *bare == name)
        .map(|(_, role)| *role);
    let is_client = FAMILIES.iter().any(|f| name.starts_with(f))
        || OWNED.iter().chain(JAVA_ONLY).any(|(n, _)| *n == name);
    match bare.or(is_client.then_some(ClientRole::All)) {
        Some(role) => known(role, name),
        None => Client::No,
    }
}

fn known(role: ClientRole, name: &str) -> Client<'_> {
    if let Some((_, reason)) = OWNED.iter().find(|(owned, _)| *owned == name) {
        return Client::Refused(reason);
    }
    if let Some((_, other)) = JAVA_ONLY.iter().find(|(java, _)| *java == name) {
        return Client::Elsewhere(other);
    }
    Client::Passed(role, name)
}
