use super::*;
use stoatflow_core::RocksDbOptions;

fn store(kind: StoreKind) -> Store {
    let builtin = |name: &str| stoatflow_plan::SerdeSpec::Builtin(name.into());
    Store {
        cached: true,
        ordered: false,
        ..Store::new("s", kind, builtin("string"), builtin("int64"))
    }
}

fn config(store: &Store, name: &str) -> Option<String> {
    let config = topic_config(store, 1_000, &std::collections::BTreeMap::new());
    let mut found = config.into_iter().filter(|(n, _)| n == name);
    let value = found.next().map(|(_, value)| value);
    assert!(found.next().is_none(), "{name} is set twice");
    value
}

#[test]
fn changelogs_keep_what_their_stores_need() {
    let window = |retention_ms| {
        store(StoreKind::Window {
            retention_ms,
            size_ms: 10,
            duplicates: false,
            timestamped: true,
        })
    };
    let plain = store(StoreKind::TimestampedKeyValue);
    assert_eq!(config(&plain, "cleanup.policy").unwrap(), "compact");
    assert_eq!(config(&plain, "retention.ms"), None);
    assert_eq!(
        config(&window(60), "cleanup.policy").unwrap(),
        "compact,delete"
    );
    assert_eq!(config(&window(60), "retention.ms").unwrap(), "1060");
    let endless = i64::MAX.to_string();
    assert_eq!(config(&window(i64::MAX), "retention.ms").unwrap(), endless);
    let versioned = store(StoreKind::Versioned { history_ms: 5 });
    assert_eq!(
        config(&versioned, "min.compaction.lag.ms").unwrap(),
        "86400005"
    );
    assert_eq!(config(&versioned, "cleanup.policy").unwrap(), "compact");
}

#[test]
fn the_user_has_the_last_word_about_a_topic() {
    let mut spec = store(StoreKind::Session { retention_ms: 5 });
    spec.topic.insert("retention.ms".into(), "77".into());
    spec.topic.insert("segment.ms".into(), "9".into());
    assert_eq!(config(&spec, "retention.ms").unwrap(), "77");
    assert_eq!(config(&spec, "segment.ms").unwrap(), "9");
    assert_eq!(config(&spec, "cleanup.policy").unwrap(), "compact,delete");
}

#[test]
fn configurations_of_the_application_stand_behind_those_of_store_and_kind() {
    let given = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let application = std::collections::BTreeMap::from([
        given("segment.ms", "1"),
        given("min.insync.replicas", "2"),
        given("cleanup.policy", "delete"),
    ]);
    let mut spec = store(StoreKind::KeyValue);
    spec.topic.insert("segment.ms".into(), "9".into());
    let config: std::collections::BTreeMap<_, _> = topic_config(&spec, 1_000, &application)
        .into_iter()
        .collect();
    assert_eq!(config["segment.ms"], "9");
    assert_eq!(config["min.insync.replicas"], "2");
    assert_eq!(config["cleanup.policy"], "compact");
}

#[test]
fn the_format_on_disk_says_the_layout() {
    let word =
        |kind| store_layout(&store(kind), "string", "int64", RocksDbOptions::default()).format;
    assert_eq!(
        word(StoreKind::TimestampedKeyValue),
        "key-value-timestamped-1:string:int64"
    );
    assert_eq!(
        word(StoreKind::Session {
            retention_ms: 240_000
        }),
        "session-1(120000):string:int64"
    );
    assert_eq!(word(StoreKind::Timers), "timers-1:string:int64");
    assert_ne!(
        word(StoreKind::TimeOrdered),
        word(StoreKind::TimestampedKeyValue)
    );
}
