//! Properties of the Kafka clients: passed on, or refused with a reason.
//!
//! Takes a name as the user wrote it; returns the client it is for and the name without its prefix.
//! Holds the list of properties that the engine sets itself. The client (crate log) checks the rest.

use super::ClientRole;

#[cfg(test)]
mod tests;

/// Client properties that only the engine sets, and why.
pub const OWNED: &[(&str, &str)] = &[
    (
        "acks",
        "nothing may be lost: every write waits for all in-sync replicas",
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
    ("isolation.level", "only committed records are read"),
    (
        "transaction.timeout.ms",
        "set transaction.timeout.ms without a prefix",
    ),
    ("transactional.id", "it is made of application.id"),
];

const NO_GROUP: &str = "one process reads all partitions and joins no group";
const METRICS: &str = "metrics are at /metrics of admin.listen";
const NO_JAVA: &str = "Java classes can't run here";

/// Properties that change nothing in this engine, and why. They are not passed on.
pub const IDLE: &[(&str, &str)] = &[
    (
        "allow.auto.create.topics",
        "a missing source topic is an error, not a new empty topic",
    ),
    (
        "auto.commit.interval.ms",
        "offsets are committed with the results, see commit.interval.ms",
    ),
    ("auto.include.jmx.reporter", METRICS),
    (
        "default.api.timeout.ms",
        "broker.wait.timeout.ms bounds how long a broker is waited for",
    ),
    ("enable.metrics.push", METRICS),
    (
        "exclude.internal.topics",
        "only the topology's topics are read",
    ),
    ("group.instance.id", NO_GROUP),
    ("group.protocol", NO_GROUP),
    ("group.remote.assignor", NO_GROUP),
    ("heartbeat.interval.ms", NO_GROUP),
    ("interceptor.classes", NO_JAVA),
    ("key.deserializer", "the source says its serde"),
    ("key.serializer", "the sink says its serde"),
    (
        "max.block.ms",
        "in.flight.max.bytes bounds what is in memory",
    ),
    (
        "max.poll.interval.ms",
        "reading goes on while functions work; stall.timeout.ms bounds how long one may take",
    ),
    (
        "metadata.max.idle.ms",
        "topics are looked up when a leader has moved",
    ),
    ("metric.reporters", METRICS),
    ("metrics.num.samples", METRICS),
    ("metrics.recording.level", METRICS),
    ("metrics.sample.window.ms", METRICS),
    ("partition.assignment.strategy", NO_GROUP),
    ("session.timeout.ms", NO_GROUP),
    ("value.deserializer", "the source says its serde"),
    ("value.serializer", "the sink says its serde"),
];

/// Owned properties with the values that the engine sets itself: setting them to these changes nothing.
const SAME: &[(&str, &[&str])] = &[
    ("acks", &["all", "-1"]),
    ("enable.auto.commit", &["false"]),
    ("enable.auto.offset.store", &["false"]),
    ("enable.idempotence", &["true"]),
    ("isolation.level", &["read_committed"]),
];

/// Whether this is the value that the engine sets itself.
pub(super) fn is_own_value(name: &str, value: &str) -> bool {
    let property = PREFIXES
        .iter()
        .find_map(|(prefix, _)| name.strip_prefix(prefix))
        .unwrap_or(name);
    SAME.iter()
        .any(|(same, values)| *same == property && values.contains(&value.trim()))
}

/// Names of client properties without their prefix, to find the nearest one to a mistyped name.
pub(super) fn bare_names() -> impl Iterator<Item = &'static str> {
    const OTHERS: [&str; 6] = [
        "sasl.jaas.config",
        "sasl.mechanism",
        "sasl.password",
        "sasl.username",
        "ssl.ca.location",
        "ssl.truststore.location",
    ];
    BARE.iter().map(|(name, _)| *name).chain(OTHERS)
}

/// Properties with a prefix that are settings of the engine.
pub(super) fn own_setting(name: &str) -> Option<&'static str> {
    match name {
        "consumer.auto.offset.reset" | "main.consumer.auto.offset.reset" => {
            Some("auto.offset.reset")
        }
        "producer.transaction.timeout.ms" => Some("transaction.timeout.ms"),
        _ => None,
    }
}

const PREFIXES: &[(&str, ClientRole)] = &[
    ("main.consumer.", ClientRole::Consumer),
    ("restore.consumer.", ClientRole::Consumer),
    ("consumer.", ClientRole::Consumer),
    ("producer.", ClientRole::Producer),
    ("admin.", ClientRole::Admin),
];

/// Families of properties that need no prefix.
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
    // The clients have a reason for each of these.
    ("bootstrap.controllers", ClientRole::Admin),
    ("bootstrap.resolve.timeout.ms", ClientRole::All),
    ("buffer.memory.allocation.strategy", ClientRole::Producer),
    ("config.providers", ClientRole::All),
    (
        "internal.throw.on.fetch.stable.offset.unsupported",
        ClientRole::Consumer,
    ),
    ("metadata.cluster.check.enable", ClientRole::All),
    ("metadata.recovery.rebootstrap.trigger.ms", ClientRole::All),
    ("metadata.recovery.strategy", ClientRole::All),
    (
        "partitioner.adaptive.partitioning.enable",
        ClientRole::Producer,
    ),
    ("partitioner.availability.timeout.ms", ClientRole::Producer),
    ("partitioner.class", ClientRole::Producer),
    ("partitioner.ignore.keys", ClientRole::Producer),
    ("partitioner.rack.aware", ClientRole::Producer),
    ("share.acknowledgement.mode", ClientRole::Consumer),
    ("share.acquire.mode", ClientRole::Consumer),
    ("transaction.two.phase.commit.enable", ClientRole::Producer),
];

/// What a name means to the Kafka clients.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Client<'a> {
    /// Passed to this client under this name.
    Passed(ClientRole, &'a str),
    /// Can't be set; the reason.
    Refused(&'static str),
    /// Changes nothing; the reason.
    Idle(&'static str),
    /// Not a client property.
    No,
}

/// Classifies a name.
pub(super) fn client(name: &str) -> Client<'_> {
    if let Some((prefix, role)) = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return known(*role, &name[prefix.len()..]);
    }
    let bare = BARE
        .iter()
        .find(|(bare, _)| *bare == name)
        .map(|(_, role)| *role);
    let is_client = FAMILIES.iter().any(|f| name.starts_with(f))
        || OWNED.iter().chain(IDLE).any(|(n, _)| *n == name);
    match bare.or(is_client.then_some(ClientRole::All)) {
        Some(role) => known(role, name),
        None => Client::No,
    }
}

fn known(role: ClientRole, name: &str) -> Client<'_> {
    if let Some((_, reason)) = OWNED.iter().find(|(owned, _)| *owned == name) {
        return Client::Refused(reason);
    }
    if let Some((_, reason)) = IDLE.iter().find(|(idle, _)| *idle == name) {
        return Client::Idle(reason);
    }
    Client::Passed(role, name)
}
