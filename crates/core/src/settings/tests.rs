//! Settings: defaults, spellings, and every kind of mistake.

use super::*;
use crate::{BlockCompression, CompactionStyle, ErrorKind, RocksDbOptions};
use serde_json::{Value, json};

fn pairs(value: &Value) -> Vec<(String, Value)> {
    value
        .as_object()
        .unwrap()
        .iter()
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// Valid settings with these added or replaced.
fn with(more: &Value) -> crate::Result<Settings> {
    let mut all = pairs(&json!({"application.id": "app", "bootstrap.servers": "localhost:9092"}));
    for (name, value) in pairs(more) {
        all.retain(|(n, _)| *n != name);
        all.push((name, value));
    }
    Settings::from_pairs(&all)
}

fn problems(more: &Value) -> Vec<String> {
    let error = with(more).expect_err("must be refused");
    assert_eq!(error.kind(), ErrorKind::Config);
    error
        .message()
        .lines()
        .skip(1)
        .map(|l| l.trim().to_owned())
        .collect()
}

fn only_problem(more: &Value) -> String {
    let mut all = problems(more);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn defaults_are_those_of_the_table() {
    let s = with(&json!({})).unwrap();
    assert_eq!(
        (s.application_id.as_str(), &s.broker),
        ("app", &BrokerAddress::Kafka("localhost:9092".into()))
    );
    assert_eq!(s.guarantee, Guarantee::ExactlyOnceV2);
    let ms = |d: Duration| d.as_millis();
    assert_eq!(
        (
            ms(s.commit_interval),
            ms(s.commit_min_interval),
            ms(s.commit_timeout)
        ),
        (100, 7, 60_000)
    );
    assert_eq!(
        (
            ms(s.transaction_timeout),
            ms(s.shutdown_timeout),
            s.stall_timeout.map(ms),
            ms(s.broker_wait),
            s.max_task_idle.map(ms)
        ),
        (60_000, 30_000, Some(300_000), 30_000, Some(0))
    );
    assert_eq!((s.restart_max, ms(s.restart_window)), (10, 600_000));
    assert_eq!(ms(s.metadata_max_age), 60_000);
    assert_eq!(
        s.lanes as usize,
        4 * std::thread::available_parallelism().unwrap().get()
    );
    assert_eq!(
        (s.batch_max_records, s.in_flight_max_bytes),
        (128, 16 << 20)
    );
    assert_eq!(
        (s.state_memory_max_bytes, s.cache_max_bytes),
        (256 << 20, 10_485_760)
    );
    assert_eq!(
        s.state_dir,
        super::state_dir::default_state_dir("").join("app")
    );
    assert_eq!(s.store_backend, StoreBackend::RocksDb);
    assert_eq!(s.rocksdb, RocksDbOptions::default());
    assert!(s.reset_to_earliest && s.ensure_explicit_naming && !s.emit_at_barrier);
    assert!(!s.streams_letter_headers);
    assert_eq!((s.changelog_partitions, s.replication_factor), (0, -1));
    assert_eq!(s.admin_listen.as_deref(), Some("127.0.0.1:0"));
    assert!(s.client_properties.is_empty());
}

#[test]
fn every_value_can_be_written_in_the_ways_of_python_and_the_environment() {
    let s = with(&json!({
        "processing_guarantee": "AT_LEAST_ONCE", "commit.interval.ms": "2s", "commit.min.interval.ms": 0, "lanes.count": "7",
        "in.flight.max.bytes": "1.5MiB", "state.memory.max.bytes": "32 MB", "cache.max.bytes.buffering": 0, "max.task.idle.ms": "250",
        "state.dir": "/data", "default.dsl.store": "IN_MEMORY", "auto.offset.reset": "latest", "emit.mode": "Barrier", "errors.dead.letter.queue.headers": "kafka-streams", "admin.listen": "off",
        "ensure.explicit.naming": "false", "replication.factor": "3", "bootstrap.servers": "embedded:/topics",
    }))
    .unwrap();
    assert_eq!(s.guarantee, Guarantee::AtLeastOnce);
    assert_eq!(
        (s.commit_interval, s.commit_min_interval),
        (Duration::from_secs(2), Duration::ZERO)
    );
    assert_eq!(
        (
            s.lanes,
            s.in_flight_max_bytes,
            s.state_memory_max_bytes,
            s.cache_max_bytes
        ),
        (7, 3 << 19, 32_000_000, 0)
    );
    assert_eq!(
        (s.max_task_idle, s.state_dir),
        (Some(Duration::from_millis(250)), PathBuf::from("/data/app"))
    );
    assert_eq!(
        (s.store_backend, s.reset_to_earliest, s.admin_listen),
        (StoreBackend::Memory, false, None)
    );
    assert_eq!((s.ensure_explicit_naming, s.replication_factor), (false, 3));
    assert!(s.emit_at_barrier);
    assert!(s.streams_letter_headers);
    assert_eq!(
        s.broker,
        BrokerAddress::Embedded(Some(PathBuf::from("/topics")))
    );
    let temporary = with(&json!({"bootstrap.servers": "embedded:"})).unwrap();
    assert_eq!(temporary.broker, BrokerAddress::Embedded(None));
}

#[test]
fn how_stores_are_kept_on_disk_is_a_word_or_a_number() {
    let s = with(&json!({
        "rocksdb.compression": "ZSTD", "rocksdb.block.size": "16KiB", "rocksdb.bloom.bits": "0",
        "rocksdb_compaction": "universal",
    }))
    .unwrap();
    let expected = RocksDbOptions {
        compression: BlockCompression::Zstd,
        block_size: 16 << 10,
        bloom_bits: 0,
        compaction: CompactionStyle::Universal,
        cache_size: None,
    };
    assert_eq!(s.rocksdb, expected);
    for (name, value, why) in [
        (
            "rocksdb.compression",
            json!("snappy"),
            "must be none or lz4 or zstd",
        ),
        (
            "rocksdb.compaction",
            json!("fifo"),
            "must be level or universal",
        ),
        (
            "rocksdb.block.size",
            json!(100),
            "must be between 1024 and 1048576",
        ),
        ("rocksdb.bloom.bits", json!(64), "must be between 0 and 32"),
    ] {
        let problem = only_problem(&json!({ name: value }));
        assert!(problem.contains(why), "{problem}");
    }
}

#[test]
fn time_is_that_of_streams_or_the_watermark() {
    let s = with(&json!({})).unwrap();
    let bounded = |ms: i64, idle: Option<u64>| WatermarkDefault {
        delay_ms: Some(ms),
        idle_after: idle.map(Duration::from_secs),
    };
    assert_eq!(
        (s.time_by_watermark, s.watermark_default),
        (false, bounded(10_000, None))
    );
    let s = with(&json!({"time.semantics": "watermark"})).unwrap();
    assert!(s.time_by_watermark);
    for (text, expected) in [
        ("monotonic", bounded(0, None)),
        ("bounded:250ms", bounded(250, None)),
        (" bounded: 2s , idle: 1m ", bounded(2_000, Some(60))),
        ("monotonic,idle:5s", bounded(0, Some(5))),
        ("none", WatermarkDefault::default()),
    ] {
        let s = with(&json!({"watermark.default": text})).unwrap();
        assert_eq!(s.watermark_default, expected, "{text}");
    }
    for wrong in [
        "bounded",
        "bounded:x",
        "bounded:-1s",
        "late",
        "none,idle",
        "monotonic,idle:0s",
    ] {
        let problem = only_problem(&json!({"watermark.default": wrong}));
        assert!(problem.contains("write bounded:10s"), "{problem}");
    }
    let problem = only_problem(&json!({"time.semantics": "event"}));
    assert!(
        problem.contains("must be stream-time or watermark"),
        "{problem}"
    );
}

#[test]
fn all_problems_come_in_one_message() {
    let found = problems(&json!({
        "strict": true, "application.id": "my app", "processing.guarantee": "exactly_twice",
        "comit.interval.ms": 5, "lanes.count": 0,
        "num.stream.threads": 4, "consumer.group.id": "mine", "state.memory.max.bytes": "lots", "ensure.explicit.naming": "maybe",
    }));
    assert_eq!(found.len(), 8, "{found:#?}");
    let expected = [
        "application.id = \"my app\": ' ' can't be part of a topic's name",
        "processing.guarantee = \"exactly_twice\": must be exactly_once_v2 or at_least_once",
        "comit.interval.ms = 5: there is no such setting; the nearest is commit.interval.ms",
        "lanes.count = 0: must be between 1 and 4096",
        "num.stream.threads = 4: has no meaning here: keys are spread over lanes (lanes.count)",
        "consumer.group.id = \"mine\": can't be set: it is application.id",
        "state.memory.max.bytes = \"lots\": must be bytes, or a size such as 64MiB",
        "ensure.explicit.naming = \"maybe\": must be true or false",
    ];
    for part in expected {
        assert!(
            found.iter().any(|p| p.starts_with(part)),
            "{part} is not in {found:#?}"
        );
    }
}

#[test]
fn missing_required_settings_are_reported() {
    let error = Settings::from_pairs(&[]).unwrap_err();
    assert!(error.message().contains("application.id is not set"));
    assert!(error.message().contains("bootstrap.servers is not set"));
    assert!(error.message().starts_with("2 settings are wrong"));
}

#[test]
fn a_short_interval_shortens_the_least_one_too() {
    let ms = |d: Duration| d.as_millis();
    let s = with(&json!({"commit.interval.ms": 5})).unwrap();
    assert_eq!((ms(s.commit_interval), ms(s.commit_min_interval)), (5, 5));
    let s = with(&json!({"commit.interval.ms": "1s"})).unwrap();
    assert_eq!(
        (ms(s.commit_interval), ms(s.commit_min_interval)),
        (1000, 7)
    );
}

#[test]
fn contradictions_are_problems() {
    let found = only_problem(&json!({"commit.min.interval.ms": "1s"}));
    assert_eq!(
        found,
        "commit.min.interval.ms = 1000 is more than commit.interval.ms = 100: lower the first or raise the second"
    );
    let found = only_problem(&json!({"commit.interval.ms": "2m"}));
    assert!(
        found.starts_with(
            "transaction.timeout.ms = 60000 is not more than commit.interval.ms = 120000"
        ),
        "{found}"
    );
    // Without transactions there is nothing to time out; and a wrong value is reported once.
    with(&json!({"commit.interval.ms": "2m", "processing.guarantee": "at_least_once"})).unwrap();
    only_problem(&json!({"commit.min.interval.ms": "never"}));
}

#[test]
fn a_setting_given_in_two_spellings_is_a_problem() {
    let found = only_problem(&json!({"lanes.count": 1, "lanes_count": 2}));
    assert!(found.contains("lanes.count is given twice"), "{found}");
}

#[test]
fn client_properties_pass_through_with_their_client() {
    let s = with(&json!({
        "security.protocol": "SASL_SSL", "sasl.username": "me", "client.id": "x", "consumer.fetch.min.bytes": 5,
        "producer.linger.ms": 2, "admin.request.timeout.ms": 9, "main.consumer.check.crcs": true, "linger.ms": 1, "log_level": 7,
    }))
    .unwrap();
    let has = |role, name: &str, value: &str| {
        s.client_properties
            .contains(&(role, name.to_owned(), value.to_owned()))
    };
    assert!(has(ClientRole::All, "security.protocol", "SASL_SSL"));
    assert!(has(ClientRole::All, "sasl.username", "me"));
    assert!(has(ClientRole::All, "client.id", "x"));
    assert!(has(ClientRole::Consumer, "fetch.min.bytes", "5"));
    assert!(has(ClientRole::Consumer, "check.crcs", "true"));
    assert!(has(ClientRole::Producer, "linger.ms", "2"));
    assert!(has(ClientRole::Producer, "linger.ms", "1"));
    assert!(has(ClientRole::Admin, "request.timeout.ms", "9"));
    assert!(has(ClientRole::All, "log_level", "7"));
    assert_eq!(s.client_properties.len(), 9);
}

#[test]
fn the_chosen_client_goes_along() {
    let chosen = |s: &Settings| {
        let mut rows = s.client_properties.iter();
        rows.find(|(_, name, _)| name == "kafka.client")
            .map(|(_, _, value)| value.clone())
    };
    assert_eq!(chosen(&with(&json!({})).unwrap()), None);
    let native = with(&json!({"kafka.client": "native"})).unwrap();
    assert_eq!(chosen(&native).as_deref(), Some("native"));
    assert!(only_problem(&json!({"kafka.client": "java"})).contains("kafka.client"));
}

#[test]
fn every_owned_property_is_refused_with_every_prefix() {
    for (owned, _) in OWNED {
        let own = KEYS.iter().any(|k| k.name == *owned);
        for prefix in [
            "",
            "consumer.",
            "producer.",
            "main.consumer.",
            "restore.consumer.",
            "admin.",
        ] {
            let setting = super::clients::own_setting(&format!("{prefix}{owned}"));
            if !(prefix.is_empty() && own) && setting.is_none() {
                let name = format!("{prefix}{owned}");
                let found = only_problem(&json!({ name.as_str(): "x" }));
                assert!(found.contains("can't be set: "), "{found}");
            }
        }
    }
}

#[test]
fn mistyped_names_get_a_neighbour_only_if_one_is_near() {
    let near = |name: &str| only_problem(&json!({ name: "x" }));
    assert!(near("securty.protocol").contains("the nearest is security.protocol"));
    assert!(near("sesion.timeout.ms").contains("there is no such setting"));
    assert!(near("pasword").contains("docs/reference/settings.md lists all"));
    assert!(near("num.stream.thread").contains("the nearest is num.stream.threads"));
}

#[test]
fn secrets_are_not_shown() {
    for name in ["pasword", "my.sasl_password", "secrte.token"] {
        let found = only_problem(&json!({ name: "hunter2" }));
        assert!(!found.contains("hunter2"), "{found}");
    }
    for name in [
        "sasl.password",
        "sasl_pasword",
        "sasl.jaas.config",
        "ssl.keystore.key",
        "SSL.KEY.PEM",
    ] {
        assert!(is_secret(name), "{name}");
    }
    for name in [
        "sasl.username",
        "ssl.key.location",
        "lanes.count",
        "default.key.serde",
    ] {
        assert!(!is_secret(name), "{name}");
    }
}

#[test]
fn application_ids_that_kafka_refuses_in_topic_names_are_problems() {
    for bad in ["", " ", "a b", "a/b", "ü", ".", "..", &"x".repeat(151)] {
        let found = only_problem(&json!({"application.id": bad}));
        assert!(found.starts_with("application.id = "), "{found}");
    }
    with(&json!({"application.id": "Orders_v2.eu-1"})).unwrap();
}

#[test]
fn addresses_are_checked() {
    for bad in [
        "localhost",
        "localhost:",
        ":9092",
        "a:1,b",
        "a:x",
        "a:99999",
        "embeded:",
    ] {
        assert!(
            only_problem(&json!({"bootstrap.servers": bad})).contains("host:port"),
            "{bad}"
        );
    }
    for good in ["a:1,b:2", "[::1]:9092", "PLAINTEXT://a:1, b:2"] {
        with(&json!({"bootstrap.servers": good})).unwrap();
    }
    for bad in ["8080", "localhost:http", ":80"] {
        assert!(
            only_problem(&json!({"admin.listen": bad})).contains("port 0"),
            "{bad}"
        );
    }
}

#[test]
fn the_table_is_sound_and_documented() {
    for key in KEYS {
        assert!(
            !key.doc.is_empty() && key.doc.ends_with('.'),
            "{}",
            key.name
        );
        assert_eq!(
            key.kind == KeyType::Choice,
            !key.allowed.is_empty(),
            "{}",
            key.name
        );
        assert_eq!(
            KEYS.iter()
                .filter(|k| k.name == key.name || k.alias == Some(key.name))
                .count(),
            1,
            "{}",
            key.name
        );
        let kinds = [("ms", KeyType::Duration), ("bytes", KeyType::Size)];
        for (end, kind) in kinds {
            assert!(
                !key.name.ends_with(&format!(".{end}")) || key.kind == kind,
                "{}",
                key.name
            );
        }
    }
    let docs = docs_markdown();
    assert_eq!(docs.lines().count(), KEYS.len() + 2);
    assert!(KEYS.iter().all(|k| docs.contains(&format!("`{}`", k.name))));
    assert!(docs.contains("| `application.id` | text | required |"));
}

#[test]
fn the_admin_port_is_guarded_as_it_is_told() {
    let s = with(&json!({})).unwrap();
    assert_eq!(
        s.admin,
        AdminAccess {
            max_connections: 128,
            ..AdminAccess::default()
        }
    );
    let s = with(&json!({
        "admin.token": "file:/t", "admin.ssl.certificate": "c", "admin.ssl.key": "k", "admin.ssl.ca": "a",
        "admin.open": true, "admin.max.connections": 4,
    }));
    let file = |name: &str| Some(PathBuf::from(name));
    assert_eq!(
        s.unwrap().admin,
        AdminAccess {
            token: Some("file:/t".to_owned()),
            certificate: file("c"),
            key: file("k"),
            client_ca: file("a"),
            open: true,
            max_connections: 4,
        }
    );
    let short = only_problem(&json!({"admin.token": "swordfish"}));
    assert!(
        short.contains("admin.token = ***") && !short.contains("swordfish"),
        "{short}"
    );
    assert!(only_problem(&json!({"admin.ssl.key": "k"})).contains("admin.ssl.certificate"));
    // Still a property of the admin client.
    let s = with(&json!({"admin.ssl.ca.location": "x"})).unwrap();
    assert_eq!(
        s.client_properties[0],
        (ClientRole::Admin, "ssl.ca.location".into(), "x".into())
    );
}

#[test]
fn values_in_force_are_the_given_ones_and_the_defaults() {
    let pairs = [
        ("application.id".to_owned(), json!("a")),
        ("commit_interval_ms".to_owned(), json!("2s")),
        ("consumer.fetch.min.bytes".to_owned(), json!(7)),
    ];
    let all = in_force(&pairs);
    assert_eq!(all.len(), KEYS.len() + 1);
    let row = |name: &str| all.iter().find(|row| row.0 == name).unwrap().clone();
    let of = |name: &str, value: serde_json::Value, given| (name.to_owned(), value, given);
    assert_eq!(
        row("commit.interval.ms"),
        of("commit.interval.ms", json!(2000), true)
    );
    assert_eq!(
        row("commit.timeout.ms"),
        of("commit.timeout.ms", json!(60_000), false)
    );
    assert_eq!(row("admin.open"), of("admin.open", json!(false), false));
    let client = of("consumer.fetch.min.bytes", json!("7"), true);
    assert_eq!(row("consumer.fetch.min.bytes"), client);
}
