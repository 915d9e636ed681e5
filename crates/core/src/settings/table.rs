//! The table of settings: name, type, default and description.
//!
//! Docs, Python's schema and the checks in `parse` are made from it, so a setting that isn't here
//! doesn't exist.

use crate::rocksdb_options::{BLOCK_SIZES, BLOOM_BITS};

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// Any text.
    Text,
    /// One of the words in [`KeySpec::allowed`].
    Choice,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Count,
    /// A number of milliseconds, or text such as `5s`.
    Duration,
    /// A number of bytes, or text such as `64MiB`.
    Size,
    /// A file system path.
    Path,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Its name, dotted.
    pub name: &'static str,
    /// What a value looks like.
    pub kind: KeyType,
    /// Its default as a user would write it; `None` if it must be set.
    pub default: Option<&'static str>,
    /// What it does.
    pub doc: &'static str,
    /// The words of a [`KeyType::Choice`].
    pub allowed: &'static [&'static str],
    /// The smallest valid number.
    pub min: i64,
    /// The largest valid number.
    pub max: i64,
    /// Another name for the same thing (an older name in Kafka Streams).
    pub alias: Option<&'static str>,
}

impl KeySpec {
    const fn new(
        name: &'static str,
        kind: KeyType,
        default: &'static str,
        doc: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            default: Some(default),
            doc,
            allowed: &[],
            min: 0,
            max: i64::MAX,
            alias: None,
        }
    }

    const fn required(mut self) -> Self {
        self.default = None;
        self
    }

    const fn words(mut self, allowed: &'static [&'static str]) -> Self {
        self.allowed = allowed;
        self
    }

    const fn between(mut self, min: i64, max: i64) -> Self {
        self.min = min;
        self.max = max;
        self
    }

    const fn also(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }
}

use KeyType::{Bool, Choice, Count, Duration, Path, Size, Text};

const DAY_MS: i64 = 86_400_000;
const INT: i64 = i32::MAX as i64;

/// An edge of a range that lies within `i64`.
#[allow(clippy::cast_possible_wrap)]
const fn edge(of: u64) -> i64 {
    of as i64
}

/// Every setting of the engine, by topic.
pub const KEYS: &[KeySpec] = &[
    KeySpec::new("application.id", Text, "", "Names the application: its consumer group, its transactions and its changelog topics. Letters, digits, '.', '_' and '-'.").required(),
    KeySpec::new("bootstrap.servers", Text, "", "Where the broker is: `host:port,...`, `embedded:PATH` for topics in a directory of this machine, or `embedded:` for temporary ones.").required(),
    KeySpec::new("kafka.client", Choice, "auto", "What speaks to Kafka: the native client, librdkafka, or the native client unless a property is set that only librdkafka knows.").words(&["auto", "native", "librdkafka"]),
    KeySpec::new("processing.guarantee", Choice, "exactly_once_v2", "What a commit promises: outputs, state and offsets together or not at all, or outputs at once and some of them again after a crash.").words(&["exactly_once_v2", "at_least_once"]),
    KeySpec::new("commit.interval.ms", Duration, "100", "The longest time between two commits: that of an application which is behind with its input. One that has read all there is commits as soon as its last commit is done.").between(1, DAY_MS),
    KeySpec::new("commit.min.interval.ms", Duration, "7", "The shortest time between two commits; `commit.interval.ms`, where that is less.").between(0, DAY_MS),
    KeySpec::new("commit.timeout.ms", Duration, "60000", "How long a commit may take, from when every lane has done its part until the transaction is ended. Half of it, at most 10 s, is kept for the end. A commit that takes longer is aborted, and the application goes on from the last one. Waiting for lanes is bounded by stall.timeout.ms.").between(100, DAY_MS),
    KeySpec::new("transaction.timeout.ms", Duration, "60000", "How long the broker keeps an open transaction of an application that is silent. At most the broker's transaction.max.timeout.ms.").between(1_000, INT),
    KeySpec::new("lanes.count", Count, "4 x cores", "How many keys can be worked on at the same time. May change at any restart.").between(1, 4_096),
    KeySpec::new("batch.max.records", Count, "128", "The most records a lane takes before it lets others run.").between(1, 1_000_000),
    KeySpec::new("in.flight.max.bytes", Size, "16MiB", "Records admitted and not yet committed; reading pauses beyond that.").between(1 << 16, i64::MAX),
    KeySpec::new("max.task.idle.ms", Duration, "0", "Records come in the order of their timestamps, also those of several topics and partitions: while a partition has more on the broker, or nothing is known of it yet, others wait for it. This is how long they wait for one of which all has been read. -1: nobody is waited for.").between(-1, DAY_MS),
    KeySpec::new("time.semantics", Choice, "stream-time", "What time is for windows, joins, suppressions and punctuations: the highest timestamp that each has seen, as in Kafka Streams, or the watermark: the least that is still expected of any source, which moves at commits.").words(&["stream-time", "watermark"]),
    KeySpec::new("watermark.default", Text, "bounded:10s", "The watermark of sources without one of their own: `bounded:10s` (their records are at most so late), `monotonic` or `none`. With `,idle:5m` behind it, a partition without records for 5 minutes doesn't hold the watermark back."),
    KeySpec::new("max.timestamp.ahead.ms", Duration, "-1", "The furthest that a record's time may be ahead of this machine's clock. One that is further moves no time: the deserialization handler of its source decides about it, and it is counted as `timestamp_ahead`. -1: however far.").between(-1, i64::MAX),
    KeySpec::new("auto.offset.reset", Choice, "earliest", "Where a source starts that has no committed offset.").words(&["earliest", "latest"]),
    KeySpec::new("topology.optimization", Text, "none", "`reuse.ktable.source.topics` or `all`: a table that is read from a topic has no changelog of its own; it is restored from that topic, up to the committed offset. The topic must be compacted. See docs/guide/restoring.md. `single.store.self.join` or `all`: an inner join of a stream with itself keeps one store instead of two. `merge.repartition.topics` is accepted and changes nothing: there are no repartition topics."),
    KeySpec::new("state.dir", Path, "one that survives a reboot", "Where local state lives, in a directory named after application.id. Losing it costs a restore, and what is in stores without a changelog. On embedded topics the default is `state` in their directory, unless systemd provides one. Otherwise it is the first that can be written of: what systemd gives (`STATE_DIRECTORY`), `$XDG_STATE_HOME/stoatflow`, `/var/lib/stoatflow`, `~/.local/state/stoatflow`, the temporary directory. The line of the log at the start names it."),
    KeySpec::new("state.memory.max.bytes", Size, "256MiB", "Memory for the block cache and the write buffers of all stores together.").between(8 << 20, i64::MAX),
    KeySpec::new("state.damaged", Choice, "refuse", "What becomes of local state that is damaged or of another format: the application doesn't start, or it is thrown away and restored from the changelogs. It is never used.").words(&["refuse", "rebuild"]),
    KeySpec::new("default.dsl.store", Choice, "rocksDB", "What keeps stores that don't choose: disk, or memory that is rebuilt at every start.").words(&["rocksDB", "in_memory"]),
    KeySpec::new("rocksdb.compression", Choice, "lz4", "How the files of stores on disk are compressed, where a store doesn't say it (`RocksDBConfig`): `zstd` makes them smaller than `lz4`, and takes more CPU. Rows that were just written are compressed by the first merge of their file.").words(&["none", "lz4", "zstd"]),
    KeySpec::new("rocksdb.block.size", Size, "4096", "About how many bytes of rows are read, cached and compressed together, where a store doesn't say it.").between(edge(*BLOCK_SIZES.start()), edge(*BLOCK_SIZES.end())),
    KeySpec::new("rocksdb.bloom.bits", Count, "10", "Bits of a Bloom filter for each key on disk, where a store doesn't say it: it spares reads of keys that are not there. 0: no filter.").between(edge(*BLOOM_BITS.start()), edge(*BLOOM_BITS.end())),
    KeySpec::new("rocksdb.compaction", Choice, "level", "When files on disk are merged, where a store doesn't say it: `level` merges often, so that a read looks into few files and overwritten rows soon free their space; `universal` merges seldom and writes less.").words(&["level", "universal"]),
    KeySpec::new("statestore.cache.max.bytes", Size, "10485760", "0 forwards every update of a table; more forwards the last one per key and commit.").also("cache.max.bytes.buffering"),
    KeySpec::new("emit.mode", Choice, "eager", "When tables give their updates: each as it comes (or as statestore.cache.max.bytes says), or at the barrier one result per key and commit, all of which belong to the same input.").words(&["eager", "barrier"]),
    KeySpec::new("emit.interval.ms.kstreams.windowed.aggregation", Duration, "-1", "-1: a window's result comes out with the record that closes it, whatever the number of lanes. From 0 on: results come out in passes that are so far apart, as in Kafka Streams (1000 there), and all keys of a partition share a lane there; not with several lanes behind a topic of several partitions, unless the key is new. Kafka Streams writes the name with two underscores before and after it; both are understood.").between(-1, DAY_MS),
    KeySpec::new("emit.interval.ms.kstreams.outer.join.spurious.results.fix", Duration, "-1", "-1: a row without a partner comes out with the record that ends its wait. From 0 on: such rows come out in passes when Kafka Streams makes them, which may be later; as above.").between(-1, DAY_MS),
    KeySpec::new("windowstore.changelog.additional.retention.ms", Duration, "86400000", "How much longer than its windows the changelog topic of a window or session store keeps records.").between(0, i64::MAX),
    KeySpec::new("changelog.num.partitions", Count, "0", "Partitions of changelog topics that are created; 0 takes those of the widest source topic.").between(0, 10_000),
    KeySpec::new("replication.factor", Count, "-1", "Replicas of topics that are created; -1 is the broker's default.").between(-1, 100),
    KeySpec::new("broker.wait.timeout.ms", Duration, "30000", "How long to keep trying to reach the broker, at the start and each time it begins anew.").between(0, DAY_MS),
    KeySpec::new("metadata.max.age.ms", Duration, "60000", "How often to look for new partitions of the source topics, and for new topics that match a pattern: they are read from their beginning, without a restart. The clients of Kafka have their own, under a prefix.").between(100, DAY_MS),
    KeySpec::new("restart.max.attempts", Count, "10", "How often a running application restarts by itself from the last commit after the broker or a schema registry was unreachable, within restart.window.ms. After that it stops. 0: it stops at once.").between(0, 1_000_000),
    KeySpec::new("restart.window.ms", Duration, "600000", "See restart.max.attempts.").between(1, DAY_MS),
    KeySpec::new("shutdown.timeout.ms", Duration, "30000", "How long a shutdown may take to drain and commit: `close()`, and the first SIGINT or SIGTERM of `run()`. Then the last commit is given up, and a function that does not come back is left behind two seconds later.").between(0, DAY_MS),
    KeySpec::new("stall.timeout.ms", Duration, "300000", "How long nothing may be committed although records wait. Then the application writes what every lane does to the log and to `stalled-<ms>.txt` beside its state, and ends with `StalledError`: one function that does not come back stops all commits, and a restart is all that helps. More than the longest function takes. 0 is off.").between(0, DAY_MS),
    KeySpec::new("admin.listen", Text, "127.0.0.1:0", "Where health, metrics and the live page answer: `host:port`, port 0 for a free one, or `off`. An address that others can reach needs admin.token, admin.ssl.ca or admin.open."),
    KeySpec::new("admin.token", Text, "off", "What a request to the admin port must have as `Authorization: Bearer ...`, or as the password of a browser: 16 characters or more, or `file:PATH`. `off`: on loopback nothing is asked for."),
    KeySpec::new("admin.ssl.certificate", Text, "off", "A PEM file with the certificate of the admin port, followed by those that signed it: the port then speaks HTTPS only."),
    KeySpec::new("admin.ssl.key", Text, "off", "A PEM file with the key of that certificate, not encrypted."),
    KeySpec::new("admin.ssl.ca", Text, "off", "A PEM file with the certificates that sign those of clients: a client with one of them needs no token."),
    KeySpec::new("admin.open", Bool, "false", "Allows an address in admin.listen that other machines can reach although neither admin.token nor admin.ssl.ca is set: every client that reaches the port may then use it."),
    KeySpec::new("admin.max.connections", Count, "128", "The most connections to the admin port at a time; one more is answered with 503.").between(4, 10_000),
    KeySpec::new("deserialization.exception.handler", Text, "log_and_fail", "What becomes of an input record that can't be decoded: `log_and_fail`, `log_and_continue`, or `dlq:TOPIC` for a dead letter in the same transaction. Handlers in code are nearer than this one.").also("default.deserialization.exception.handler"),
    KeySpec::new("processing.exception.handler", Text, "log_and_fail", "What becomes of a record for which a function fails: as above."),
    KeySpec::new("production.exception.handler", Text, "log_and_fail", "What becomes of an output record that can't be encoded, or is too large to be sent: as above.").also("default.production.exception.handler"),
    KeySpec::new("default.key.serde", Text, "bytes", "The serde of keys where neither source, store nor sink says one: `bytes`, `string`, `int32`, `int64`, `double`, `json`, `uuid`, `list`, the name of Kafka's class for it, or, in code, a serde or a type such as `str`."),
    KeySpec::new("default.value.serde", Text, "bytes", "The serde of values, as above."),
    KeySpec::new("default.list.key.serde.inner", Text, "off", "The serde of the entries, if `default.key.serde` is `list`: another of these names, or the name of Kafka's class for it. Null entries are None, as in Kafka Streams. `off`: none."),
    KeySpec::new("default.list.value.serde.inner", Text, "off", "The serde of the entries, if `default.value.serde` is `list`, as above."),
    KeySpec::new("default.timestamp.extractor", Text, "fail_on_invalid", "Where the time of a record comes from, for sources that don't say it: `fail_on_invalid`, `log_and_skip`, `use_partition_time`, `wallclock`, or the name of Kafka Streams' class for it."),
    KeySpec::new("errors.dead.letter.queue.topic.name", Text, "off", "A topic for dead letters: the handlers above that are `log_and_continue` become `dlq:TOPIC`. `off`: none."),
    KeySpec::new("errors.dead.letter.queue.headers", Choice, "stoatflow", "Which headers dead letters have: those of StoatFlow, or besides them those of Kafka Streams (KIP-1034), for tools that read these.").words(&["stoatflow", "kafka-streams"]),
    KeySpec::new("config.strict", Bool, "false", "Refuses settings that have no effect here. Otherwise each is accepted, and a line of the log says why it doesn't matter.").also("strict"),
    KeySpec::new("ensure.explicit.naming", Bool, "true", "Refuses topologies in which a generated name would reach disk or a topic.").also("ensure.explicit.internal.resource.naming"),
];

/// Every setting as a Markdown table, in the order of [`KEYS`].
#[must_use]
pub fn docs_markdown() -> String {
    let mut out = String::from("| setting | type | default | what it does |\n|---|---|---|---|\n");
    for key in KEYS {
        let kind = match key.kind {
            Choice => key
                .allowed
                .iter()
                .map(|w| format!("`{w}`"))
                .collect::<Vec<_>>()
                .join(" or "),
            other => format!("{other:?}").to_lowercase(),
        };
        let default = key
            .default
            .map_or_else(|| "required".to_owned(), |d| format!("`{d}`"));
        let alias = key
            .alias
            .map_or_else(String::new, |a| format!(" Also: `{a}`."));
        out.push_str(&format!(
            "| `{}` | {kind} | {default} | {}{alias} |\n",
            key.name, key.doc
        ));
    }
    out
}
