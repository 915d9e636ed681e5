//! Parses raw pairs into [`Settings`], or reports every problem at once.
//!
//! Takes names with dots or underscores and values as JSON scalars. Contains the checks that involve
//! several settings, and those of names that become topics.

mod values;

use super::clients::{self, Client, client};
use super::kinds::{default_lanes, of_table, read};
use super::nearest::nearest;
use super::read::{Value, shown, text_of};
use super::state_dir::default_state_dir;
use super::streams::{self, Effect};
use super::table::{KEYS, KeySpec};
use super::{ClientRole, Guarantee, Settings, StoreBackend};
use crate::{Error, Handlers, Result};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Kafka allows 249 characters in a topic name; the longest name that contains the id has to fit.
const MAX_APPLICATION_ID: usize = 150;

/// What was parsed so far.
#[derive(Default)]
struct Reading {
    values: BTreeMap<&'static str, Value>,
    clients: Vec<(ClientRole, String, String)>,
    /// Configuration of changelog topics: the names after `topic.`.
    topics: BTreeMap<String, String>,
    /// Names in the table that the user set.
    given: BTreeSet<&'static str>,
    /// Settings that the user set and that change nothing: what was set, and why it has no effect.
    idle: Vec<(String, String)>,
    problems: Vec<String>,
}

pub(super) fn parse(pairs: &[(String, Json)]) -> Result<Settings> {
    let mut reading = Reading::default();
    for (name, value) in pairs {
        reading.pair(name, value);
    }
    for key in KEYS {
        reading.fill(key);
    }
    let mut settings = reading.settings();
    let idle = std::mem::take(&mut reading.idle);
    if matches!(reading.values["config.strict"], Value::Bool(true)) {
        let refused = idle.into_iter();
        let refused = refused.map(|(what, why)| format!("{what}: has no meaning here: {why}"));
        reading.problems.extend(refused);
    } else {
        let accepted = idle.into_iter();
        let accepted = accepted.map(|(what, why)| format!("{what} has no effect here: {why}"));
        settings.notes = accepted.collect();
    }
    if reading.problems.is_empty() {
        return Ok(settings);
    }
    let head = match reading.problems.len() {
        1 => "one setting is wrong".to_owned(),
        n => format!("{n} settings are wrong"),
    };
    Err(
        Error::config(format!("{head}:\n  {}", reading.problems.join("\n  ")))
            .hint("fix what is listed; nothing was started"),
    )
}

/// Every setting with its value and whether it was set, then the properties of the clients.
pub(super) fn in_force(pairs: &[(String, Json)]) -> Vec<(String, Json, bool)> {
    let mut reading = Reading::default();
    for (name, value) in pairs {
        reading.pair(name, value);
    }
    let given: Vec<&str> = reading.values.keys().copied().collect();
    for key in KEYS {
        reading.fill(key);
    }
    let settings = KEYS.iter().map(|key| {
        let value = match &reading.values[key.name] {
            Value::Text(text) => Json::from(text.as_str()),
            Value::Number(number) => Json::from(*number),
            Value::Bool(is) => Json::from(*is),
            Value::Wrong => Json::Null,
        };
        (key.name.to_owned(), value, given.contains(&key.name))
    });
    let clients = reading.clients.iter().map(|(role, property, value)| {
        let name = format!("{}{property}", role.prefix());
        (name, Json::from(value.as_str()), true)
    });
    settings.chain(clients).collect()
}

impl Reading {
    fn problem(&mut self, name: &str, value: &Json, why: &str) {
        self.problems
            .push(format!("{name} = {}: {why}", shown(name, value)));
    }

    /// Accepts a setting without effect; the log says why it doesn't matter.
    fn idle(&mut self, name: &str, value: &Json, why: &str) {
        let what = format!("{name} = {}", shown(name, value));
        self.idle.push((what, why.to_owned()));
    }

    fn pair(&mut self, given: &str, value: &Json) {
        // Kafka Streams' internal settings are enclosed in underscores: __emit.interval.ms...__
        let name = given.trim().trim_matches('_').replace('_', ".");
        let own = clients::own_setting(&name).unwrap_or(&name);
        if let Some(key) = KEYS.iter().find(|k| k.name == own || k.alias == Some(own)) {
            return self.key(key, given, value);
        }
        if let Some(effect) = streams::effect(&name)
            && self.of_kafka_streams(effect, given, value)
        {
            return;
        }
        if streams::is_of_registry(&name) {
            return self.idle(given, value, streams::REGISTRY);
        }
        if let Some(property) = name.strip_prefix("topic.")
            && name != "topic.metadata.refresh.interval.ms"
        {
            match text_of(value) {
                Some(text) if !property.is_empty() => {
                    self.topics.insert(property.to_owned(), text);
                }
                _ => self.problem(
                    given,
                    value,
                    "a configuration of topics is text or a number",
                ),
            }
            return;
        }
        self.client_property(&name, given, value);
    }

    fn key(&mut self, key: &'static KeySpec, given: &str, value: &Json) {
        if self.values.contains_key(key.name) {
            return self.problem(
                given,
                value,
                &format!("{} is given twice; keep one of the two", key.name),
            );
        }
        self.given.insert(key.name);
        let newer = streams::older_value(key.name, value).map(|(newer, why)| {
            self.idle(given, value, why);
            Json::from(newer)
        });
        match read(key, newer.as_ref().unwrap_or(value)) {
            Ok(read) => drop(self.values.insert(key.name, read)),
            Err(why) => {
                self.problem(key.name, value, &why);
                // Marked as set, so that it isn't reported as missing too.
                self.values.insert(key.name, Value::Wrong);
            }
        }
    }

    /// Handles a name of Kafka Streams that is not a setting here; false if the clients know it.
    fn of_kafka_streams(&mut self, effect: Effect, given: &str, value: &Json) -> bool {
        match effect {
            Effect::None(why) => match streams::impossible(given, value) {
                Some(why) => self.problem(given, value, why),
                None => self.idle(given, value, why),
            },
            Effect::Becomes(other) => {
                let key = KEYS.iter().find(|key| key.name == other);
                let key = key.expect("the table names settings (tested)");
                match streams::store_suppliers(&text_of(value).unwrap_or_default()) {
                    Ok(word) => self.key(key, given, &Json::from(word)),
                    Err(why) => self.problem(given, value, &why),
                }
            }
            Effect::Taken | Effect::Client => return false,
        }
        true
    }

    fn client_property(&mut self, name: &str, given: &str, value: &Json) {
        // librdkafka has names with underscores (log_level); those are kept.
        let (dotted, raw) = (client(name), client(given));
        match if raw == Client::No { dotted } else { raw } {
            Client::Passed(role, property) if !value.is_null() => match text_of(value) {
                Some(text) => self.clients.push((role, property.to_owned(), text)),
                None => self.problem(
                    given,
                    value,
                    "a client property is text, a number, true or false",
                ),
            },
            Client::Passed(..) => {}
            Client::Idle(why) => self.idle(given, value, why),
            Client::Refused(reason) => {
                let same = text_of(value).is_some_and(|text| clients::is_own_value(name, &text));
                if !same {
                    self.problem(given, value, &format!("can't be set: {reason}"));
                }
            }
            Client::No => {
                let near = nearest(name).map_or_else(
                    || "docs/reference/settings.md lists all".to_owned(),
                    |near| format!("the nearest is {near}"),
                );
                let why = format!("there is no such setting; {near}");
                self.problem(given, value, &why);
            }
        }
    }

    fn fill(&mut self, key: &'static KeySpec) {
        if self.values.contains_key(key.name) {
            return;
        }
        let value = match (key.name, key.default) {
            ("lanes.count", _) => Value::Number(default_lanes()),
            ("state.dir", _) => {
                let servers = self.text("bootstrap.servers");
                Value::Text(default_state_dir(&servers).to_string_lossy().into_owned())
            }
            // With a shorter interval the minimum needn't be set too.
            ("commit.min.interval.ms", Some(default)) => {
                match (of_table(key, default), &self.values["commit.interval.ms"]) {
                    (Value::Number(least), Value::Number(longest)) => {
                        Value::Number(least.min(*longest))
                    }
                    (least, _) => least,
                }
            }
            (_, Some(default)) => of_table(key, default),
            (_, None) => {
                self.problems
                    .push(format!("{} is not set: {}", key.name, key.doc));
                Value::Wrong
            }
        };
        self.values.insert(key.name, value);
    }

    /// The user's client properties, and the choice of the client.
    fn client_properties(&mut self) -> Vec<(ClientRole, String, String)> {
        let mut properties = std::mem::take(&mut self.clients);
        let client = self.text("kafka.client");
        if client != "auto" {
            properties.push((ClientRole::All, "kafka.client".into(), client));
        }
        properties
    }

    fn settings(&mut self) -> Settings {
        let (commit_interval, commit_min_interval) = (
            self.duration("commit.interval.ms"),
            self.duration("commit.min.interval.ms"),
        );
        let (commit_timeout, transaction_timeout) = (
            self.duration("commit.timeout.ms"),
            self.duration("transaction.timeout.ms"),
        );
        let application_id = self.text("application.id");
        let optimization = self.word("topology.optimization", streams::optimization);
        let settings = Settings {
            broker: self.broker(),
            guarantee: if self.text("processing.guarantee") == "at_least_once" {
                Guarantee::AtLeastOnce
            } else {
                Guarantee::ExactlyOnceV2
            },
            commit_interval,
            commit_min_interval,
            commit_timeout,
            lanes: u32::try_from(self.number("lanes.count")).unwrap_or(1),
            batch_max_records: self.size("batch.max.records"),
            // As in Kafka Streams: applications that share the directory don't share their state.
            state_dir: PathBuf::from(self.text("state.dir")).join(&application_id),
            state_memory_max_bytes: self.size("state.memory.max.bytes"),
            rebuild_damaged_state: self.text("state.damaged") == "rebuild",
            store_backend: if self.text("default.dsl.store") == "in_memory" {
                StoreBackend::Memory
            } else {
                StoreBackend::RocksDb
            },
            rocksdb: self.rocksdb(),
            in_flight_max_bytes: self.size("in.flight.max.bytes"),
            cache_max_bytes: self.size("statestore.cache.max.bytes"),
            emit_at_barrier: self.text("emit.mode") == "barrier",
            streams_letter_headers: self.text("errors.dead.letter.queue.headers")
                == "kafka-streams",
            window_emit_interval: self.interval("emit.interval.ms.kstreams.windowed.aggregation"),
            join_emit_interval: self
                .interval("emit.interval.ms.kstreams.outer.join.spurious.results.fix"),
            window_changelog_retention: self
                .duration("windowstore.changelog.additional.retention.ms"),
            max_task_idle: (self.number("max.task.idle.ms") >= 0)
                .then(|| self.duration("max.task.idle.ms")),
            time_by_watermark: self.text("time.semantics") == "watermark",
            watermark_default: self.watermark(),
            max_timestamp_ahead: self.interval("max.timestamp.ahead.ms"),
            reset_to_earliest: self.text("auto.offset.reset") != "latest",
            changelog_partitions: i32::try_from(self.number("changelog.num.partitions"))
                .unwrap_or(0),
            replication_factor: i32::try_from(self.number("replication.factor")).unwrap_or(-1),
            broker_wait: self.duration("broker.wait.timeout.ms"),
            restart_max: u32::try_from(self.number("restart.max.attempts")).unwrap_or(u32::MAX),
            restart_window: self.duration("restart.window.ms"),
            metadata_max_age: self.duration("metadata.max.age.ms"),
            transaction_timeout,
            shutdown_timeout: self.duration("shutdown.timeout.ms"),
            stall_timeout: Some(self.duration("stall.timeout.ms")).filter(|limit| !limit.is_zero()),
            admin_listen: self.admin(),
            admin: self.admin_access(),
            handlers: Handlers {
                processing: self.handler("processing.exception.handler"),
                deserialization: self.handler("deserialization.exception.handler"),
                production: self.handler("production.exception.handler"),
            },
            default_key_serde: self.word("default.key.serde", streams::serde),
            default_value_serde: self.word("default.value.serde", streams::serde),
            default_key_entries: self.entries("default.list.key.serde.inner"),
            default_value_entries: self.entries("default.list.value.serde.inner"),
            default_timestamp: self.word("default.timestamp.extractor", streams::extractor),
            reuse_source_topics: matches!(optimization, Some("all" | streams::REUSE_SOURCE_TOPICS)),
            single_store_self_join: matches!(optimization, Some("all" | streams::SELF_JOIN)),
            changelog_config: std::mem::take(&mut self.topics),
            notes: Vec::new(),
            ensure_explicit_naming: matches!(
                self.values["ensure.explicit.naming"],
                Value::Bool(true)
            ),
            client_properties: self.client_properties(),
            application_id,
        };
        self.names(&settings);
        self.contradictions(&settings);
        self.lists(&settings);
        settings
    }

    fn names(&mut self, settings: &Settings) {
        let id = &settings.application_id;
        if matches!(self.values["application.id"], Value::Wrong) {
            return;
        }
        let shown = Json::from(id.as_str());
        if id.is_empty() || id == "." || id == ".." {
            self.problem(
                "application.id",
                &shown,
                "needs a name made of letters, digits, '.', '_' and '-'",
            );
        } else if let Some(bad) = id
            .chars()
            .find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')))
        {
            let why = format!(
                "'{bad}' can't be part of a topic's name, and changelog topics are named after it; use letters, digits, '.', '_' and '-'"
            );
            self.problem("application.id", &shown, &why);
        } else if id.len() > MAX_APPLICATION_ID {
            self.problem("application.id", &shown, &format!("is {} characters long; at most {MAX_APPLICATION_ID} leave room for the names of changelog topics", id.len()));
        }
    }

    /// The serde of the entries of lists that a setting names.
    fn entries(&mut self, name: &'static str) -> Option<&'static str> {
        if self.text(name) == "off" {
            return None;
        }
        self.word(name, streams::list_entries)
    }

    /// A default serde of lists needs the serde of its entries, and only it reads that.
    fn lists(&mut self, s: &Settings) {
        for (name, serde, entries) in [
            (
                "default.key.serde",
                s.default_key_serde,
                "default.list.key.serde.inner",
            ),
            (
                "default.value.serde",
                s.default_value_serde,
                "default.list.value.serde.inner",
            ),
        ] {
            let given = Json::from(self.text(entries));
            match (serde == Some("list"), given != "off") {
                (true, false) => {
                    let why = format!("lists need the serde of their entries: set {entries}");
                    self.problem(name, &Json::from("list"), &why);
                }
                (false, true) => {
                    let why = format!("it is read if {name} is list, as in Kafka Streams");
                    self.idle(entries, &given, &why);
                }
                _ => {}
            }
        }
    }

    /// Rules over several settings; skips settings that are wrong by themselves.
    fn contradictions(&mut self, s: &Settings) {
        let known = |names: &[&str]| {
            names
                .iter()
                .all(|n| !matches!(self.values[n], Value::Wrong))
        };
        let mut found = Vec::new();
        if known(&["commit.min.interval.ms", "commit.interval.ms"])
            && s.commit_min_interval > s.commit_interval
        {
            found.push(format!(
                "commit.min.interval.ms = {} is more than commit.interval.ms = {}: lower the first or raise the second",
                s.commit_min_interval.as_millis(),
                s.commit_interval.as_millis()
            ));
        }
        // A transaction is open for a whole interval before its commit begins.
        if known(&["transaction.timeout.ms", "commit.interval.ms"])
            && s.guarantee == Guarantee::ExactlyOnceV2
            && s.transaction_timeout <= s.commit_interval
        {
            found.push(format!(
                "transaction.timeout.ms = {} is not more than commit.interval.ms = {}: the broker would abort each transaction before its commit; raise the first",
                s.transaction_timeout.as_millis(),
                s.commit_interval.as_millis()
            ));
        }
        self.problems.extend(found);
    }
}
