//! The names of client properties, and how the native client treats each.

/// How the native client treats a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka) enum Knowledge {
    /// It supports the property; this is its canonical name.
    Native(&'static str),
    /// The property has no effect here, and why.
    NoEffect(&'static str),
    /// It doesn't support the property; what to do instead.
    Refused(&'static str),
    /// Unknown here; librdkafka may know it.
    Unknown,
}

/// Names with the same meaning; the first is the canonical one.
const NATIVE: &[&[&str]] = &[
    &["client.id"],
    &["client.rack"],
    &["compression.gzip.level"],
    &["compression.level"],
    &["compression.lz4.level"],
    &["compression.type", "compression.codec"],
    &["compression.zstd.level"],
    &["enable.ssl.certificate.verification"],
    &["fetch.max.bytes"],
    &["https.ca.location"],
    &["https.ca.pem"],
    &["max.partition.fetch.bytes", "fetch.message.max.bytes"],
    &["request.timeout.ms", "socket.timeout.ms"],
    &["sasl.jaas.config"],
    &["sasl.login.read.timeout.ms"],
    &["sasl.mechanism", "sasl.mechanisms"],
    &[
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.credentials.client.id",
    ],
    &[
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
    ],
    &["sasl.oauthbearer.config"],
    &["sasl.oauthbearer.extensions"],
    &["sasl.oauthbearer.header.urlencode"],
    &["sasl.oauthbearer.method"],
    &["sasl.oauthbearer.scope"],
    &["sasl.oauthbearer.token.endpoint.url"],
    &["sasl.password"],
    &["sasl.username"],
    &["security.protocol"],
    &["ssl.ca.location", "ssl.truststore.location"],
    &["ssl.ca.pem", "ssl.truststore.certificates"],
    &["ssl.certificate.location", "ssl.keystore.location"],
    &["ssl.certificate.pem", "ssl.keystore.certificate.chain"],
    &["ssl.enabled.protocols"],
    &["ssl.endpoint.identification.algorithm"],
    &["ssl.key.location"],
    &["ssl.key.password"],
    &["ssl.key.pem", "ssl.keystore.key"],
    &["ssl.keystore.type"],
    &["ssl.truststore.type"],
];

const BATCHES: &str =
    "a request goes as soon as the one before it is answered, with all that has come meanwhile";
const READS: &str = "the engine says when it wants records, and how many";
const SOCKETS: &str = "the system's own values are used";
const CONNECTS: &str = "connections are made again after 20 to 500 ms, and topics are looked up \
    when a leader has moved";
const REBOOTSTRAPS: &str =
    "bootstrap.servers are asked again whenever no broker that is known answers";
const DEADLINES: &str = "broker.wait.timeout.ms, commit.timeout.ms and transaction.timeout.ms bound \
    how long a broker is waited for";

const SIZES: &str = "max.message.bytes of the topic bounds a request: what is larger is divided, \
    and a record that is larger is an error";

const TOKENS: &str = "a token is used for four fifths of its life, and asked for again after 0.25 to 10 s; \
    sasl.login.read.timeout.ms bounds how long one may take";

const NO_KEYS: &str =
    "records without a key go to a partition for 128 KiB, and then to another one";
const RUSTLS: &str = "TLS is rustls with ring, which needs no such choice";
const CHECKED_BY_BROKER: &str = "the broker checks the token, and this client reads nothing in it";
const NO_SHARES: &str = "the engine reads topics as a consumer and joins no share group";
const JAVA: &str = "Java classes can't run here";
const JAVA_TOKENS: &str = "Java classes can't run here: use sasl.oauthbearer.token.endpoint.url, or \
    oauth_cb, a function that returns a token";
const KERBEROS: &str = "Kerberos (GSSAPI) is not built in";
const ASSERTIONS: &str = "tokens are requested with the client credentials grant: set \
    sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret, or oauth_cb, a function that returns \
    a token";

/// Properties without effect.
const NO_EFFECT: &[(&str, &str)] = &[
    (
        "api.version.request",
        "the broker is always asked for its API versions",
    ),
    ("batch.num.messages", BATCHES),
    ("bootstrap.resolve.timeout.ms", CONNECTS),
    ("batch.size", BATCHES),
    (
        "broker.address.family",
        "all addresses of a name are tried, in the order of the system's resolver",
    ),
    (
        "buffer.memory",
        "in.flight.max.bytes bounds what is in memory",
    ),
    (
        "buffer.memory.allocation.strategy",
        "in.flight.max.bytes bounds what is in memory",
    ),
    ("check.crcs", "checksums are always checked"),
    ("client.dns.lookup", "all addresses of a name are tried"),
    (
        "connections.max.idle.ms",
        "a connection is made again when it is needed and the broker has closed it",
    ),
    ("delivery.timeout.ms", DEADLINES),
    ("enable.metrics.push", "this client pushes no metrics"),
    ("fetch.max.wait.ms", READS),
    ("fetch.min.bytes", READS),
    ("fetch.wait.max.ms", READS),
    (
        "internal.throw.on.fetch.stable.offset.unsupported",
        "it is internal to Java's consumer",
    ),
    ("linger.ms", BATCHES),
    (
        "log.connection.close",
        "closed connections are logged at debug level",
    ),
    (
        "max.in.flight.requests.per.connection",
        "one request per broker is in flight",
    ),
    (
        "max.poll.records",
        "batch.max.records bounds what a lane takes at a time",
    ),
    ("max.request.size", SIZES),
    ("message.max.bytes", SIZES),
    ("message.timeout.ms", DEADLINES),
    ("metadata.cluster.check.enable", CONNECTS),
    ("metadata.max.age.ms", CONNECTS),
    ("metadata.recovery.rebootstrap.trigger.ms", REBOOTSTRAPS),
    ("metadata.recovery.strategy", REBOOTSTRAPS),
    ("partitioner.adaptive.partitioning.enable", NO_KEYS),
    ("partitioner.availability.timeout.ms", NO_KEYS),
    ("partitioner.rack.aware", NO_KEYS),
    (
        "queue.buffering.max.kbytes",
        "in.flight.max.bytes bounds what is in memory",
    ),
    (
        "queue.buffering.max.messages",
        "in.flight.max.bytes bounds what is in memory",
    ),
    ("queue.buffering.max.ms", BATCHES),
    ("queued.max.messages.kbytes", READS),
    ("queued.min.messages", READS),
    ("receive.buffer.bytes", SOCKETS),
    ("reconnect.backoff.max.ms", CONNECTS),
    ("reconnect.backoff.ms", CONNECTS),
    (
        "retries",
        "what may be tried again is tried again until a deadline",
    ),
    ("retry.backoff.max.ms", CONNECTS),
    ("retry.backoff.ms", CONNECTS),
    ("send.buffer.bytes", SOCKETS),
    ("socket.connection.setup.timeout.max.ms", CONNECTS),
    ("socket.connection.setup.timeout.ms", CONNECTS),
    ("socket.keepalive.enable", "it is always on"),
    ("socket.nagle.disable", "it is always off"),
    ("socket.receive.buffer.bytes", SOCKETS),
    ("socket.send.buffer.bytes", SOCKETS),
    ("sasl.login.connect.timeout.ms", TOKENS),
    ("sasl.login.refresh.buffer.seconds", TOKENS),
    ("sasl.login.refresh.min.period.seconds", TOKENS),
    ("sasl.login.refresh.window.factor", TOKENS),
    ("sasl.login.refresh.window.jitter", TOKENS),
    ("sasl.login.retry.backoff.max.ms", TOKENS),
    ("sasl.login.retry.backoff.ms", TOKENS),
    (
        "sasl.oauthbearer.allow.unverified.audience",
        CHECKED_BY_BROKER,
    ),
    (
        "sasl.oauthbearer.allow.unverified.issuer",
        CHECKED_BY_BROKER,
    ),
    ("sasl.oauthbearer.clock.skew.seconds", CHECKED_BY_BROKER),
    ("sasl.oauthbearer.expected.audience", CHECKED_BY_BROKER),
    ("sasl.oauthbearer.expected.issuer", CHECKED_BY_BROKER),
    (
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        CHECKED_BY_BROKER,
    ),
    (
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        CHECKED_BY_BROKER,
    ),
    (
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        CHECKED_BY_BROKER,
    ),
    ("sasl.oauthbearer.jwks.endpoint.url", CHECKED_BY_BROKER),
    ("sasl.oauthbearer.scope.claim.name", CHECKED_BY_BROKER),
    ("sasl.oauthbearer.sub.claim.name", CHECKED_BY_BROKER),
    ("share.acknowledgement.mode", NO_SHARES),
    ("share.acquire.mode", NO_SHARES),
    ("ssl.keymanager.algorithm", RUSTLS),
    (
        "ssl.protocol",
        "TLS 1.3 is spoken, and 1.2 where the broker knows no newer one; ssl.enabled.protocols chooses",
    ),
    ("ssl.secure.random.implementation", RUSTLS),
    ("ssl.trustmanager.algorithm", RUSTLS),
    (
        "ssl.truststore.password",
        "certificates in PEM need no password",
    ),
    ("topic.metadata.refresh.interval.ms", CONNECTS),
];

/// Properties that this client doesn't support.
const REFUSED: &[(&str, &str)] = &[
    (
        "bootstrap.controllers",
        "the client asks brokers: set bootstrap.servers",
    ),
    (
        "config.providers",
        "Java classes can't run here: write file:PATH where a password or a secret is expected",
    ),
    ("sasl.client.callback.handler.class", JAVA),
    ("sasl.login.callback.handler.class", JAVA_TOKENS),
    ("sasl.login.class", JAVA_TOKENS),
    ("sasl.oauthbearer.jwt.retriever.class", JAVA_TOKENS),
    ("sasl.oauthbearer.jwt.validator.class", JAVA_TOKENS),
    ("security.providers", JAVA),
    (
        "ssl.cipher.suites",
        "rustls chooses among ciphers that are all safe",
    ),
    ("ssl.engine.factory.class", JAVA),
    (
        "ssl.keystore.password",
        "give the key in PEM: ssl.key.location, with ssl.key.password if it is encrypted",
    ),
    (
        "ssl.provider",
        "Java's security providers can't run here: TLS is rustls with ring",
    ),
];

/// Families of properties that this client doesn't support.
const REFUSED_FAMILIES: &[(&str, &str)] = &[
    ("sasl.kerberos.", KERBEROS),
    ("sasl.oauthbearer.assertion.", ASSERTIONS),
];

/// How the native client treats a property.
pub(in crate::kafka) fn knowledge(name: &str) -> Knowledge {
    if let Some(names) = NATIVE.iter().find(|names| names.contains(&name)) {
        return Knowledge::Native(names[0]);
    }
    let of = |table: &[(&str, &'static str)]| {
        let found = table.iter().find(|(known, _)| *known == name);
        found.map(|(_, why)| *why)
    };
    if let Some(why) = of(NO_EFFECT) {
        return Knowledge::NoEffect(why);
    }
    let family = || {
        let mut families = REFUSED_FAMILIES.iter();
        families.find(|(prefix, _)| name.starts_with(prefix))
    };
    let refused = of(REFUSED).or_else(|| family().map(|(_, why)| *why));
    refused.map_or(Knowledge::Unknown, Knowledge::Refused)
}

/// All names that the native client supports, each with its synonyms.
#[cfg(test)]
pub(super) fn native_names() -> &'static [&'static [&'static str]] {
    NATIVE
}
