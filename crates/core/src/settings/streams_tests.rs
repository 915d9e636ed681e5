//! Names of Kafka Streams: each is taken over, mapped, or accepted with a note.

use super::*;
use crate::Handler;
use serde_json::{Value, json};

fn with(more: &Value) -> crate::Result<Settings> {
    let mut all = json!({"application.id": "app", "bootstrap.servers": "localhost:9092"});
    let map = all.as_object_mut().unwrap();
    map.extend(more.as_object().unwrap().clone());
    let pairs: Vec<_> = map.clone().into_iter().collect();
    Settings::from_pairs(&pairs)
}

/// The names of Kafka's own `StreamsConfig.configDef()`, one a line.
const NAMES: &str = include_str!("streams_config_names.txt");

#[test]
fn the_table_has_every_name_of_streams_config_and_is_sorted() {
    let missing: Vec<_> = NAMES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter(|name| !STREAMS_CONFIG.iter().any(|(known, _)| known == name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(STREAMS_CONFIG.is_sorted_by_key(|(name, _)| *name));
}

#[test]
fn taken_names_are_settings_and_others_are_not() {
    for (name, effect) in STREAMS_CONFIG {
        let known = |n: &str| KEYS.iter().any(|k| k.name == n || k.alias == Some(n));
        assert_eq!(known(name), *effect == Effect::Taken, "{name}");
        match effect {
            Effect::Becomes(other) => assert!(known(other), "{name}"),
            Effect::Client => {
                let set = with(&json!({ *name: "1" })).unwrap();
                assert!(
                    set.client_properties.iter().any(|(_, n, _)| n == name),
                    "{name}"
                );
            }
            _ => {}
        }
    }
}

#[test]
fn names_without_effect_are_accepted_with_a_sentence_or_refused_if_strict() {
    for (name, effect) in STREAMS_CONFIG {
        let Effect::None(why) = effect else { continue };
        let value = match *name {
            "dsl.store.format" => "headers",
            _ => "x",
        };
        let set = with(&json!({ *name: value })).unwrap();
        assert_eq!(
            set.notes,
            [format!("{name} = \"{value}\" has no effect here: {why}")],
            "{name}"
        );
        let refused = with(&json!({ *name: value, "config.strict": true })).unwrap_err();
        let message = refused.message();
        assert!(
            message.contains(&format!("has no meaning here: {why}")),
            "{message}"
        );
    }
    for name in [
        "client.tag.zone",
        "global.consumer.x",
        "consumer.session.timeout.ms",
        "key.serializer",
    ] {
        assert_eq!(
            with(&json!({ name: "x" })).unwrap().notes.len(),
            1,
            "{name}"
        );
        with(&json!({ name: "x", "strict": "true" })).unwrap_err();
    }
    assert!(with(&json!({})).unwrap().notes.is_empty());
}

#[test]
fn class_names_of_java_become_words() {
    let set = with(&json!({
        "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
        "default.value.serde": "class org.apache.kafka.common.serialization.Serdes$LongSerde",
        "default.timestamp.extractor": "org.apache.kafka.streams.processor.WallclockTimestampExtractor",
        "dsl.store.suppliers.class": "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers",
        "processing.guarantee": "exactly_once_beta",
    }))
    .unwrap();
    assert_eq!(set.default_key_serde, Some("string"));
    assert_eq!(set.default_value_serde, Some("int64"));
    assert_eq!(set.default_timestamp, Some("wallclock"));
    assert_eq!(set.store_backend, StoreBackend::Memory);
    assert_eq!(set.guarantee, Guarantee::ExactlyOnceV2);
    assert!(set.notes[0].contains("exactly_once_v2"), "{:?}", set.notes);
    let none = with(&json!({})).unwrap();
    assert_eq!(none.default_key_serde, None);
    for (name, value) in [
        ("default.key.serde", "com.acme.OrderSerde"),
        ("default.list.key.serde.inner", "com.acme.OrderSerde"),
        ("default.timestamp.extractor", "com.acme.Extractor"),
        ("dsl.store.format", "plain"),
        ("dsl.store.suppliers.class", "com.acme.Suppliers"),
    ] {
        let message = with(&json!({ name: value })).unwrap_err();
        assert!(
            message.message().contains("write ") || message.message().contains("leave it out"),
            "{}",
            message.message()
        );
    }
}

#[test]
fn uuids_and_lists_are_named_by_their_classes() {
    let java = |name: &str| format!("org.apache.kafka.common.serialization.Serdes${name}");
    let set = with(&json!({
        "default.key.serde": java("UUIDSerde"),
        "default.value.serde": java("ListSerde"),
        "default.list.value.serde.inner": java("UUIDSerde"),
        "default.list.value.serde.type": "java.util.ArrayList",
    }))
    .unwrap();
    assert_eq!(set.default_key_serde, Some("uuid"));
    assert_eq!(set.default_value_serde, Some("list"));
    assert_eq!(set.default_value_entries, Some("uuid"));
    assert_eq!(set.default_key_entries, None);
    assert_eq!(set.notes.len(), 1, "{:?}", set.notes);
    assert!(set.notes[0].starts_with("default.list.value.serde.type"));

    for (side, name) in [("key", "list"), ("value", "LIST")] {
        let serde = format!("default.{side}.serde");
        let entries = format!("default.list.{side}.serde.inner");
        let set = with(&json!({ serde.as_str(): name, entries.as_str(): "string" })).unwrap();
        let (found, other) = match side {
            "key" => (set.default_key_entries, set.default_value_entries),
            _ => (set.default_value_entries, set.default_key_entries),
        };
        assert_eq!((found, other), (Some("string"), None));

        let off = json!({ serde.as_str(): name, entries.as_str(): "off" });
        with(&off).unwrap_err();
        let missing = with(&json!({ serde.as_str(): name })).unwrap_err();
        let expected =
            format!("{serde} = \"list\": lists need the serde of their entries: set {entries}");
        assert!(
            missing.message().contains(&expected),
            "{}",
            missing.message()
        );

        // Kafka Streams reads it only for a list serde, too.
        let alone = json!({ serde.as_str(): "string", entries.as_str(): "string" });
        let expected = format!("it is read if {serde} is list");
        assert!(with(&alone).unwrap().notes[0].contains(&expected));

        for bad in [java("ListSerde").as_str(), "custom", "com.acme.OrderSerde"] {
            let refused =
                with(&json!({ serde.as_str(): name, entries.as_str(): bad })).unwrap_err();
            let message = refused.message();
            assert!(message.contains("Serdes.list(MySerde())"), "{message}");
            assert!(message.starts_with("one setting is wrong"), "{message}");
        }
    }
}

#[test]
fn dead_letters_go_to_the_topic_where_a_handler_continues() {
    let set = with(&json!({
        "errors.dead.letter.queue.topic.name": "dead",
        "deserialization.exception.handler": "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler",
    }))
    .unwrap();
    assert_eq!(
        set.handlers.deserialization,
        Some(Handler::Dlq("dead".into()))
    );
    assert_eq!(set.handlers.processing, Some(Handler::Fail));
}

#[test]
fn prefixed_settings_of_the_engine_are_settings() {
    let set = with(&json!({
        "consumer.auto.offset.reset": "latest", "producer.transaction.timeout.ms": 30000,
        "topic.segment.bytes": 1048576,
        "acks": "all", "producer.enable.idempotence": true, "consumer.isolation.level": "read_committed",
    }))
    .unwrap();
    assert!(!set.reset_to_earliest);
    assert_eq!(set.transaction_timeout, Duration::from_secs(30));
    assert_eq!(set.changelog_config["segment.bytes"], "1048576");
    assert!(set.client_properties.is_empty() && set.notes.is_empty());
    with(&json!({"acks": 1})).unwrap_err();
}

#[test]
fn the_page_names_each_once() {
    let page = streams_markdown();
    for (name, _) in STREAMS_CONFIG {
        assert_eq!(page.matches(&format!("| `{name}` |")).count(), 1, "{name}");
    }
}

#[test]
fn settings_of_confluents_serdes_name_their_owner() {
    let registry = json!({
        "schema.registry.url": "http://ann:hunter2@registry:8081",
        "basic.auth.user.info": "ann:hunter2",
        "auto.register.schemas": "false",
    });
    let notes = with(&registry).unwrap().notes.join("\n");
    for name in registry.as_object().unwrap().keys() {
        assert!(notes.contains(name), "{notes}");
    }
    assert!(
        notes.contains("SchemaRegistry.from_config(config)"),
        "{notes}"
    );
    assert!(!notes.contains("hunter2"), "{notes}");
    let strict = json!({"auto.register.schemas": true, "basic.auth.user.info": "ann:hunter2", "strict": true});
    let error = with(&strict).unwrap_err().to_string();
    assert!(error.contains("auto.register.schemas"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn optimizations_are_taken_by_their_names() {
    use super::streams::{REUSE_SOURCE_TOPICS, SELF_JOIN, optimization};
    for word in ["all", "none", REUSE_SOURCE_TOPICS, SELF_JOIN] {
        assert_eq!(optimization(word), Ok(word));
    }
    assert_eq!(optimization("merge.repartition.topics"), Ok("none"));
    let both = "single.store.self.join, reuse.ktable.source.topics";
    assert_eq!(optimization(both), Ok("all"));
    for (word, expected) in [
        ("all", (true, true)),
        ("none", (false, false)),
        (REUSE_SOURCE_TOPICS, (true, false)),
        (SELF_JOIN, (false, true)),
    ] {
        let settings = with(&json!({"topology.optimization": word})).unwrap();
        let found = (
            settings.reuse_source_topics,
            settings.single_store_self_join,
        );
        assert_eq!(found, expected, "{word}");
    }
    let why = optimization("all,none").unwrap_err();
    assert!(why.starts_with("'all' is no optimization"), "{why}");
}
