//! Properties of the Kafka clients: passed on, or refused with a reason.
//!
//! Takes a name as the user wrote it; gives the client it is for and the name without its prefix.
//! Has the list of properties that the engine sets itself. The client (crate log) checks the rest.

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
    "https.ca.",
];

const BARE: &[(&str, ClientRole)] = &[
    ("api.version.request", ClientRole::All),
    ("buffer.memory", ClientRole::Producer),
    ("check.crcs", ClientRole::Consumer),
    ("client.dns.lookup", ClientRole::All),
    ("client.id", ClientRole::All),
    ("client.rack", ClientRole::All),
    ("connections.max.idle.ms", ClientRole::All),
    ("debug", ClientRole::All),
    ("enable.ssl.certificate.verification", ClientRole::All),
    ("log_level", ClientRole::All),
    ("message.max.bytes", ClientRole::All),
    ("metadata.max.age.ms", ClientRole::All),
    ("receive.buffer.bytes", ClientRole::All),
    ("reconnect.backoff.max.ms", ClientRole::All),
    ("reconnect.backoff.ms", ClientRole::All),
    ("request.timeout.ms", ClientRole::All),
    ("retries", ClientRole::All),
    ("retry.backoff.max.ms", ClientRole::All),
    ("retry.backoff.ms", ClientRole::All),
    ("send.buffer.bytes", ClientRole::All),
    ("batch.size", ClientRole::Producer),
    ("compression.codec", ClientRole::Producer),
    ("compression.gzip.level", ClientRole::Producer),
    ("compression.level", ClientRole::Producer),
    ("compression.lz4.level", ClientRole::Producer),
    ("compression.type", ClientRole::Producer),
    ("compression.zstd.level", ClientRole::Producer),
    ("delivery.timeout.ms", ClientRole::Producer),
    ("linger.ms", ClientRole::Producer),
    ("fetch.max.bytes", ClientRole::Consumer),
    ("fetch.max.wait.ms", ClientRole::Consumer),
    ("fetch.min.bytes", ClientRole::Consumer),
    ("fetch.wait.max.ms", ClientRole::Consumer),
    (
        "max.in.flight.requests.per.connection",
        ClientRole::Producer,
    ),
    ("max.partition.fetch.bytes", ClientRole::Consumer),
    ("max.poll.records", ClientRole::Consumer),
    ("max.request.size", ClientRole::Producer),
];

/// What a name is, to the clients.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Client<'a> {
    /// Goes to this client under this name.
    Passed(ClientRole, &'a str),
    /// Can't be set, and why.
    Refused(&'static str),
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
    let is_client =
        FAMILIES.iter().any(|f| name.starts_with(f)) || OWNED.iter().any(|(n, _)| *n == name);
    match bare.or(is_client.then_some(ClientRole::All)) {
        Some(role) => known(role, name),
        None => Client::No,
    }
}

fn known(role: ClientRole, name: &str) -> Client<'_> {
    if let Some((_, reason)) = OWNED.iter().find(|(owned, _)| *owned == name) {
        return Client::Refused(reason);
    }
    Client::Passed(role, name)
}
