//! What happens to each name of Kafka Streams' `StreamsConfig`.
//!
//! A table of names and the translation of values: Java class names become words of this engine. No Java
//! code is run. The page docs/reference/streams-config.md is made from the table.

use super::table::KEYS;
use serde_json::Value as Json;

/// What a name of Kafka Streams does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is a setting here too, or an alias of one.
    Taken,
    /// It is passed to the Kafka client.
    Client,
    /// It becomes another setting.
    Becomes(&'static str),
    /// It changes nothing; the reason.
    None(&'static str),
}

/// Names and their effects, in alphabetical order.
pub const STREAMS_CONFIG: &[(&str, Effect)] = &[
    (
        "acceptable.recovery.lag",
        Effect::None("there are no standbys to choose from"),
    ),
    (
        "allow.os.group.write.access",
        Effect::None(
            "the directory of the state gets the permissions that the umask of the process leaves",
        ),
    ),
    ("application.id", Effect::Taken),
    (
        "application.server",
        Effect::None("all state is in this process; queries from outside go to admin.listen"),
    ),
    ("bootstrap.servers", Effect::Taken),
    (
        "buffered.records.per.partition",
        Effect::None("memory is bounded in bytes for all partitions together: in.flight.max.bytes"),
    ),
    (
        "built.in.metrics.version",
        Effect::None("there is one version of metrics"),
    ),
    ("cache.max.bytes.buffering", Effect::Taken),
    ("client.id", Effect::Client),
    ("commit.interval.ms", Effect::Taken),
    (
        "config.providers",
        Effect::None(
            "Java classes can't run here; secrets come from variables (STOATFLOW_...) or files (file:PATH)",
        ),
    ),
    ("connections.max.idle.ms", Effect::Client),
    (
        "default.client.supplier",
        Effect::None(
            "the clients are part of the engine; set their properties with consumer., producer. or admin.",
        ),
    ),
    ("default.deserialization.exception.handler", Effect::Taken),
    ("default.dsl.store", Effect::Taken),
    (
        "default.interactive.query.isolation.level",
        Effect::None("queries read committed state"),
    ),
    ("default.key.serde", Effect::Taken),
    ("default.list.key.serde.inner", Effect::Taken),
    (
        "default.list.key.serde.type",
        Effect::None("functions get lists of Python, whichever class of lists Java has"),
    ),
    ("default.list.value.serde.inner", Effect::Taken),
    (
        "default.list.value.serde.type",
        Effect::None("functions get lists of Python, whichever class of lists Java has"),
    ),
    ("default.production.exception.handler", Effect::Taken),
    ("default.timestamp.extractor", Effect::Taken),
    ("default.value.serde", Effect::Taken),
    ("deserialization.exception.handler", Effect::Taken),
    (
        "dsl.store.format",
        Effect::None(
            "operators write no headers to their stores, as in Kafka Streams; \
             a processor's store with headers=True keeps them",
        ),
    ),
    (
        "dsl.store.suppliers.class",
        Effect::Becomes("default.dsl.store"),
    ),
    (
        "enable.metrics.push",
        Effect::None("metrics are at /metrics of admin.listen"),
    ),
    (
        "enable.transactional.statestores",
        Effect::None(
            "stores are always transactional: nothing uncommitted reaches the disk or a query",
        ),
    ),
    ("ensure.explicit.internal.resource.naming", Effect::Taken),
    ("errors.dead.letter.queue.topic.name", Effect::Taken),
    (
        "group.protocol",
        Effect::None("one process reads all partitions and joins no group"),
    ),
    (
        "log.summary.interval.ms",
        Effect::None("a summary of the work is at /metrics of admin.listen"),
    ),
    ("max.task.idle.ms", Effect::Taken),
    (
        "max.warmup.replicas",
        Effect::None("there are no replicas to warm up: state is restored before work starts"),
    ),
    (
        "metadata.cluster.check.enable",
        Effect::None(
            "a source or changelog with another topic id stops the application, so another cluster does too",
        ),
    ),
    ("metadata.max.age.ms", Effect::Taken),
    (
        "metadata.recovery.rebootstrap.trigger.ms",
        Effect::None(
            "the addresses of bootstrap.servers are asked again whenever no known broker answers",
        ),
    ),
    (
        "metadata.recovery.strategy",
        Effect::None(
            "the addresses of bootstrap.servers are asked again whenever no known broker answers",
        ),
    ),
    (
        "metric.reporters",
        Effect::None("metrics are at /metrics of admin.listen"),
    ),
    (
        "metrics.num.samples",
        Effect::None("metrics are at /metrics of admin.listen"),
    ),
    (
        "metrics.recording.level",
        Effect::None("all metrics are always recorded"),
    ),
    (
        "metrics.sample.window.ms",
        Effect::None("metrics are at /metrics of admin.listen"),
    ),
    (
        "num.standby.replicas",
        Effect::None("one process holds all state, and restores it from the changelogs"),
    ),
    (
        "num.stream.threads",
        Effect::None("keys are spread over lanes (lanes.count), not partitions over threads"),
    ),
    (
        "poll.ms",
        Effect::None("reading never waits for processing"),
    ),
    (
        "probing.rebalance.interval.ms",
        Effect::None("there is nothing to rebalance"),
    ),
    ("processing.exception.handler", Effect::Taken),
    (
        "processing.exception.handler.global.enabled",
        Effect::None("the handler is always asked about the processors of global stores too"),
    ),
    ("processing.guarantee", Effect::Taken),
    (
        "processor.wrapper.class",
        Effect::None("Java classes can't run here; StreamsBuilder(wrapper=...) wraps functions"),
    ),
    ("production.exception.handler", Effect::Taken),
    (
        "rack.aware.assignment.non_overlap_cost",
        Effect::None("there is nothing to assign"),
    ),
    (
        "rack.aware.assignment.strategy",
        Effect::None("there is nothing to assign"),
    ),
    (
        "rack.aware.assignment.tags",
        Effect::None("there is nothing to assign"),
    ),
    (
        "rack.aware.assignment.traffic_cost",
        Effect::None("there is nothing to assign"),
    ),
    ("receive.buffer.bytes", Effect::Client),
    ("reconnect.backoff.max.ms", Effect::Client),
    ("reconnect.backoff.ms", Effect::Client),
    (
        "repartition.purge.interval.ms",
        Effect::None("there are no repartition topics"),
    ),
    ("replication.factor", Effect::Taken),
    ("request.timeout.ms", Effect::Client),
    ("retry.backoff.ms", Effect::Client),
    (
        "rocksdb.config.setter",
        Effect::None(
            "Java classes can't run here; rocksdb.compression and its like hold for all stores, \
             RocksDBConfig for one, and state.memory.max.bytes is one budget for all",
        ),
    ),
    ("security.protocol", Effect::Client),
    ("send.buffer.bytes", Effect::Client),
    (
        "state.cleanup.delay.ms",
        Effect::None(
            "state never moves to another instance; that of removed stores stays until it is deleted",
        ),
    ),
    (
        "state.cleanup.dir.max.age.ms",
        Effect::None(
            "a start names the state of stores that the topology no longer has, and deletes nothing",
        ),
    ),
    ("state.dir", Effect::Taken),
    ("statestore.cache.max.bytes", Effect::Taken),
    (
        "statestore.uncommitted.max.bytes",
        Effect::None("in.flight.max.bytes bounds what is not committed"),
    ),
    (
        "task.assignor.class",
        Effect::None("there is nothing to assign"),
    ),
    (
        "task.timeout.ms",
        Effect::None(
            "waiting for a broker is bounded by commit.timeout.ms and broker.wait.timeout.ms",
        ),
    ),
    (
        "topology.description.push.enabled",
        Effect::None("no description is sent to the broker; topology.describe() gives it"),
    ),
    ("topology.optimization", Effect::Taken),
    (
        "upgrade.from",
        Effect::None("there is no rolling upgrade of one process"),
    ),
    (
        "window.size.ms",
        Effect::None("the window is part of the topology: Serdes.time_windowed(serde, size)"),
    ),
    (
        "windowed.inner.class.serde",
        Effect::None("a windowed source says its serde: Serdes.time_windowed(serde, size)"),
    ),
    (
        "windowstore.changelog.additional.retention.ms",
        Effect::Taken,
    ),
];

/// Prefixes of `StreamsConfig`, and what happens to the names that start with them.
pub const STREAMS_PREFIXES: &[(&str, &str)] = &[
    ("admin.", "goes to the admin client"),
    ("client.tag.", "accepted: there is nothing to assign"),
    (
        "consumer.",
        "goes to the consumer; `consumer.auto.offset.reset` becomes `auto.offset.reset`",
    ),
    (
        "global.consumer.",
        "accepted: one consumer reads everything, set its properties with `consumer.`",
    ),
    ("main.consumer.", "as `consumer.`"),
    (
        "producer.",
        "goes to the producer; `producer.transaction.timeout.ms` becomes `transaction.timeout.ms`",
    ),
    ("restore.consumer.", "as `consumer.`"),
    (
        "topic.",
        "taken over: a configuration of the changelog topics that are created, where their store has none of that name",
    ),
];

/// The effect of a name written with dots.
pub(super) fn effect(name: &str) -> Option<Effect> {
    if name.starts_with("client.tag.") {
        return Some(Effect::None("there is nothing to assign"));
    }
    if name.starts_with("global.consumer.") {
        return Some(Effect::None(
            "one consumer reads everything; set its properties with consumer.",
        ));
    }
    let found = STREAMS_CONFIG
        .iter()
        .find(|(known, _)| known.replace('_', ".") == name);
    found.map(|(_, effect)| *effect)
}

/// Why a value can't be supported, for a name that has no effect otherwise.
pub(super) fn impossible(name: &str, value: &Json) -> Option<&'static str> {
    if name != "dsl.store.format" {
        return None;
    }
    let given = value.as_str().unwrap_or_default().trim();
    let known = ["DEFAULT", "HEADERS"];
    let is_known = known.iter().any(|known| given.eq_ignore_ascii_case(known));
    (!is_known).then_some("no format of Kafka Streams; write DEFAULT or HEADERS, or leave it out")
}

/// The optimizations that `topology.optimization` may list.
const OPTIMIZATIONS: [&str; 3] = [REUSE_SOURCE_TOPICS, "merge.repartition.topics", SELF_JOIN];
pub(super) const REUSE_SOURCE_TOPICS: &str = "reuse.ktable.source.topics";
pub(super) const SELF_JOIN: &str = "single.store.self.join";

/// The parts of `topology.optimization` that matter here: one of the two, `all` or `none`.
pub(super) fn optimization(text: &str) -> Result<&'static str, String> {
    match text.trim() {
        "all" => return Ok("all"),
        "none" => return Ok("none"),
        _ => {}
    }
    let listed: Vec<&str> = text.split(',').map(str::trim).collect();
    match listed.iter().find(|name| !OPTIMIZATIONS.contains(name)) {
        Some(other) => Err(format!(
            "'{other}' is no optimization; takes all, none, or a list of {}",
            OPTIMIZATIONS.join(", ")
        )),
        None => Ok(
            match (
                listed.contains(&REUSE_SOURCE_TOPICS),
                listed.contains(&SELF_JOIN),
            ) {
                (true, true) => "all",
                (true, false) => REUSE_SOURCE_TOPICS,
                (false, true) => SELF_JOIN,
                (false, false) => "none",
            },
        ),
    }
}

/// The last part of a Java class name.
fn class(text: &str) -> &str {
    text.trim()
        .trim_start_matches("class ")
        .rsplit(['.', '$'])
        .next()
        .unwrap_or_default()
}

/// Today's value for one that older versions of Kafka Streams used, and a note about it.
pub(super) fn older_value(key: &str, value: &Json) -> Option<(&'static str, &'static str)> {
    let text = value.as_str()?.trim();
    match (key, text) {
        ("processing.guarantee", "exactly_once" | "exactly_once_beta") => Some((
            "exactly_once_v2",
            "it is taken for exactly_once_v2, which replaced it in Kafka Streams 3.0",
        )),
        _ => None,
    }
}

/// The note for settings that Confluent's serdes read from the same configuration.
pub(super) const REGISTRY: &str = "a schema registry is asked by serdes: \
     registry = sf.SchemaRegistry.from_config(config), then Serdes.avro(..., registry=registry)";

/// Whether it is a setting of Confluent's serdes.
pub(super) fn is_of_registry(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "auto.register.schemas",
        "basic.auth.credentials.source",
        "basic.auth.user.info",
        "bearer.auth.credentials.source",
        "bearer.auth.token",
        "key.subject.name.strategy",
        "normalize.schemas",
        "use.latest.version",
        "value.subject.name.strategy",
    ];
    name.starts_with("schema.registry.") || NAMES.contains(&name)
}

/// The serde that a setting names; `custom` stands for one of the user. The entries of a `list` have a
/// setting of their own.
pub(super) fn serde(text: &str) -> Result<&'static str, String> {
    const WORDS: [&str; 9] = [
        "bytes", "string", "int32", "int64", "double", "json", "uuid", "list", "custom",
    ];
    if let Some(word) = WORDS
        .iter()
        .find(|word| text.trim().eq_ignore_ascii_case(word))
    {
        return Ok(word);
    }
    match class(text) {
        "StringSerde" => Ok("string"),
        "LongSerde" => Ok("int64"),
        "IntegerSerde" => Ok("int32"),
        "DoubleSerde" => Ok("double"),
        "BytesSerde" | "ByteArraySerde" | "ByteBufferSerde" => Ok("bytes"),
        "UUIDSerde" => Ok("uuid"),
        "ListSerde" => Ok("list"),
        _ => Err(
            "write bytes, string, int32, int64, double, json, uuid or list, the name of Kafka's class for one of \
             them, or give a serde in code (default_key_serde=str, default_value_serde=MySerde())"
                .to_owned(),
        ),
    }
}

/// The serde of the entries of lists that a setting names.
pub(super) fn list_entries(text: &str) -> Result<&'static str, String> {
    match serde(text) {
        Ok("list" | "custom") | Err(_) => Err(
            "write bytes, string, int32, int64, double, json or uuid, or the name of Kafka's class for one of them; \
             lists of anything else are given in code (default_value_serde=Serdes.list(MySerde()))"
                .to_owned(),
        ),
        found => found,
    }
}

/// How sources determine the timestamp of a record.
pub(super) fn extractor(text: &str) -> Result<&'static str, String> {
    const WORDS: [(&str, &str); 4] = [
        ("fail_on_invalid", "FailOnInvalidTimestamp"),
        ("log_and_skip", "LogAndSkipOnInvalidTimestamp"),
        ("use_partition_time", "UsePartitionTimeOnInvalidTimestamp"),
        ("wallclock", "WallclockTimestampExtractor"),
    ];
    let found = WORDS
        .iter()
        .find(|(word, java)| text.trim().eq_ignore_ascii_case(word) || class(text) == *java);
    found.map(|(word, _)| *word).ok_or_else(|| {
        "write fail_on_invalid, log_and_skip, use_partition_time or wallclock; a function of yours is given at the \
         source (timestamp=)"
            .to_owned()
    })
}

/// The word of `default.dsl.store` for a class of `dsl.store.suppliers.class`.
pub(super) fn store_suppliers(text: &str) -> Result<&'static str, String> {
    match class(text) {
        "RocksDBDslStoreSuppliers" => Ok("rocksDB"),
        "InMemoryDslStoreSuppliers" => Ok("in_memory"),
        _ => Err(
            "Java classes can't run here; write default.dsl.store=rocksDB or in_memory".to_owned(),
        ),
    }
}

/// Every name as a Markdown table, then the prefixes.
#[must_use]
pub fn streams_markdown() -> String {
    let mut out = String::from("| name | what becomes of it |\n|---|---|\n");
    for (name, effect) in STREAMS_CONFIG {
        let said = match effect {
            Effect::Taken => match KEYS.iter().find(|key| key.alias == Some(name)) {
                Some(key) => format!("taken over, as `{}`", key.name),
                None => "taken over".to_owned(),
            },
            Effect::Client => "goes to the Kafka client".to_owned(),
            Effect::Becomes(other) => format!("becomes `{other}`"),
            Effect::None(why) => format!("accepted: {why}"),
        };
        out.push_str(&format!("| `{name}` | {said} |\n"));
    }
    out.push_str("\n| prefix | what becomes of names behind it |\n|---|---|\n");
    for (prefix, said) in STREAMS_PREFIXES {
        out.push_str(&format!("| `{prefix}` | {said} |\n"));
    }
    out
}
