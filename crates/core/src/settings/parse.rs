//! Parses raw pairs into [`Settings`], or reports every problem at once.
//!
//! Takes names with dots or underscores and values as JSON scalars. Contains the checks that
//! involve several settings, and those of names that become topics.

use super::clients::{Client, client};
use super::read::{Value, bool_of, duration_of, number_of, shown, size_of, text_of};
use super::table::{FOREIGN, KEYS, KeySpec, KeyType};
use super::{BrokerAddress, ClientRole, Guarantee, Settings, StoreBackend, WatermarkDefault};
use crate::{Error, Handler, Handlers, Result};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Kafka's bound for topic names is 249; the longest name made of it has to fit.
const MAX_APPLICATION_ID: usize = 150;

/// What was parsed so far.
#[derive(Default)]
struct Reading {
    values: BTreeMap<&'static str, Value>,
    clients: Vec<(ClientRole, String, String)>,
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
    let settings = reading.settings();
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

impl Reading {
    fn problem(&mut self, name: &str, value: &Json, why: &str) {
        self.problems
            .push(format!("{name} = {}: {why}", shown(name, value)));
    }

    fn pair(&mut self, given: &str, value: &Json) {
        // Kafka Streams' internal settings stand between underscores: __emit.interval.ms...__
        let name = given.trim().trim_matches('_').replace('_', ".");
        if let Some(key) = KEYS
            .iter()
            .find(|k| k.name == name || k.alias == Some(name.as_str()))
        {
            if self.values.contains_key(key.name) {
                return self.problem(
                    given,
                    value,
                    &format!("{} is given twice; keep one of the two", key.name),
                );
            }
            match read(key, value) {
                Ok(read) => drop(self.values.insert(key.name, read)),
                Err(why) => {
                    self.problem(key.name, value, &why);
                    // Known to be given, so that it isn't reported as missing too.
                    self.values.insert(key.name, Value::Wrong);
                }
            }
            return;
        }
        if let Some((_, instead)) = FOREIGN.iter().find(|(n, _)| n.replace('_', ".") == name) {
            return self.problem(given, value, &format!("has no meaning here: {instead}"));
        }
        if name.starts_with("topic.") && name != "topic.metadata.refresh.interval.ms" {
            return self.problem(
                given,
                value,
                "settings of changelog topics are given at the store, not here",
            );
        }
        if name.starts_with("global.consumer.") {
            return self.problem(
                given,
                value,
                "there is one consumer; use the prefix consumer.",
            );
        }
        // librdkafka has names with underscores (log_level): those stay as they are.
        let (dotted, raw) = (client(&name), client(given));
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
            Client::Refused(reason) => {
                self.problem(given, value, &format!("can't be set: {reason}"))
            }
            Client::No => {
                let near = nearest(&name);
                self.problem(
                    given,
                    value,
                    &format!("there is no such setting; the nearest is {near}"),
                );
            }
        }
    }

    fn fill(&mut self, key: &'static KeySpec) {
        if self.values.contains_key(key.name) {
            return;
        }
        let value = match (key.name, key.default) {
            ("lanes.count", _) => Value::Number(default_lanes()),
            ("state.dir", _) => Value::Text(
                std::env::temp_dir()
                    .join("stoatflow")
                    .to_string_lossy()
                    .into_owned(),
            ),
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

    /// The user's properties, and which client is to serve.
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
            in_flight_max_bytes: self.size("in.flight.max.bytes"),
            cache_max_bytes: self.size("statestore.cache.max.bytes"),
            emit_at_barrier: self.text("emit.mode") == "barrier",
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
            handlers: Handlers {
                processing: self.handler("processing.exception.handler"),
                deserialization: self.handler("deserialization.exception.handler"),
                production: self.handler("production.exception.handler"),
            },
            ensure_explicit_naming: matches!(
                self.values["ensure.explicit.naming"],
                Value::Bool(true)
            ),
            client_properties: self.client_properties(),
            application_id,
        };
        self.names(&settings);
        self.contradictions(&settings);
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

    /// Rules over several settings; settings that are wrong by themselves are skipped.
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

    fn broker(&mut self) -> BrokerAddress {
        let text = self.text("bootstrap.servers");
        if let Some(path) = text.strip_prefix("embedded:") {
            return BrokerAddress::Embedded((!path.is_empty()).then(|| PathBuf::from(path)));
        }
        if !matches!(self.values["bootstrap.servers"], Value::Wrong) {
            let bad = text
                .split(',')
                .map(str::trim)
                .find(|part| !is_address(part));
            if let Some(bad) = bad {
                let why =
                    format!("'{bad}' is not host:port; write host:port,host:port or embedded:PATH");
                self.problem("bootstrap.servers", &Json::from(text.as_str()), &why);
            }
        }
        BrokerAddress::Kafka(text)
    }

    fn handler(&mut self, name: &str) -> Option<Handler> {
        let text = self.text(name);
        let handler = Handler::of_setting(&text);
        if handler.is_none() && !matches!(self.values[name], Value::Wrong) {
            self.problem(
                name,
                &Json::from(text),
                "write log_and_fail, log_and_continue or dlq:TOPIC; others are given in code (on_processing_error=, on_deserialization_error=, on_production_error=)",
            );
        }
        handler
    }

    fn watermark(&mut self) -> WatermarkDefault {
        let name = "watermark.default";
        let text = self.text(name);
        let found = watermark_of(&text);
        if found.is_none() && !matches!(self.values[name], Value::Wrong) {
            self.problem(
                name,
                &Json::from(text),
                "write bounded:10s (how late records may be), monotonic or none; with ,idle:5m behind it partitions that are silent for so long hold nobody back",
            );
        }
        found.unwrap_or_default()
    }

    fn admin(&mut self) -> Option<String> {
        let text = self.text("admin.listen");
        if matches!(text.as_str(), "off" | "false" | "") {
            return None;
        }
        let port = text
            .rsplit_once(':')
            .filter(|(host, _)| !host.is_empty())
            .map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(_))) {
            self.problem(
                "admin.listen",
                &Json::from(text.as_str()),
                "write host:port (port 0 takes a free one), or off",
            );
        }
        Some(text)
    }

    fn text(&self, name: &str) -> String {
        if let Value::Text(text) = &self.values[name] {
            text.clone()
        } else {
            String::new()
        }
    }

    fn number(&self, name: &str) -> i64 {
        if let Value::Number(n) = self.values[name] {
            n
        } else {
            1
        }
    }

    fn size(&self, name: &str) -> usize {
        usize::try_from(self.number(name)).unwrap_or(usize::MAX)
    }

    /// `None`: below 0.
    fn interval(&self, name: &str) -> Option<Duration> {
        u64::try_from(self.number(name))
            .ok()
            .map(Duration::from_millis)
    }

    fn duration(&self, name: &str) -> Duration {
        Duration::from_millis(u64::try_from(self.number(name)).unwrap_or(0))
    }
}

fn of_table(key: &KeySpec, default: &str) -> Value {
    read(key, &Json::from(default)).expect("defaults in the table are valid (tested)")
}

/// A value of the kind that the row asks for, or what is allowed instead.
fn read(key: &KeySpec, value: &Json) -> std::result::Result<Value, String> {
    let text = text_of(value);
    let bounded = |n: Option<i64>, what: &str| match n {
        Some(n) if (key.min..=key.max).contains(&n) => Ok(Value::Number(n)),
        Some(_) if key.max == i64::MAX => Err(format!("must be at least {}", key.min)),
        Some(_) => Err(format!("must be between {} and {}", key.min, key.max)),
        None => Err(what.to_owned()),
    };
    match key.kind {
        KeyType::Text | KeyType::Path => text
            .filter(|t| !t.trim().is_empty())
            .map(Value::Text)
            .ok_or_else(|| "must be text".to_owned()),
        KeyType::Choice => {
            let words = || format!("must be {}", key.allowed.join(" or "));
            let text = text.ok_or_else(words)?;
            let found = key
                .allowed
                .iter()
                .find(|w| w.eq_ignore_ascii_case(text.trim()));
            found
                .map(|w| Value::Text((*w).to_owned()))
                .ok_or_else(words)
        }
        KeyType::Bool => bool_of(value)
            .map(Value::Bool)
            .ok_or_else(|| "must be true or false".to_owned()),
        KeyType::Count => bounded(number_of(value), "must be a whole number"),
        KeyType::Duration => bounded(
            duration_of(value),
            "must be milliseconds, or a duration such as 100ms, 5s, 2m",
        ),
        KeyType::Size => bounded(
            size_of(value),
            "must be bytes, or a size such as 64MiB, 10MB, 512KiB",
        ),
    }
}

/// `bounded:10s`, `monotonic` or `none`, and perhaps `,idle:5m`.
fn watermark_of(text: &str) -> Option<WatermarkDefault> {
    let ms = |text: &str| duration_of(&Json::from(text.trim())).filter(|ms| *ms >= 0);
    let (strategy, idle) = match text.split_once(',') {
        Some((strategy, idle)) => {
            let idle = ms(idle.trim().strip_prefix("idle:")?).filter(|ms| *ms > 0)?;
            (strategy, Some(idle))
        }
        None => (text, None),
    };
    let delay_ms = match strategy.trim() {
        "none" => None,
        "monotonic" => Some(0),
        bounded => Some(ms(bounded.strip_prefix("bounded:")?)?),
    };
    let idle = idle.and_then(|ms| u64::try_from(ms).ok());
    Some(WatermarkDefault {
        delay_ms,
        idle_after: idle.map(Duration::from_millis),
    })
}

fn is_address(part: &str) -> bool {
    // PLAINTEXT://host:port is accepted by librdkafka too.
    let rest = part.split_once("://").map_or(part, |(_, rest)| rest);
    rest.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && !host.contains(char::is_whitespace)
            && port.parse::<u16>().is_ok_and(|p| p > 0)
    })
}

fn default_lanes() -> i64 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    i64::try_from(cores * 4).unwrap_or(4).min(4_096)
}

/// The valid name that looks most like this one.
fn nearest(name: &str) -> &'static str {
    let score = |key: &&KeySpec| {
        strsim::jaro_winkler(name, key.name)
            .max(key.alias.map_or(0.0, |a| strsim::jaro_winkler(name, a)))
    };
    KEYS.iter()
        .max_by(|a, b| score(a).total_cmp(&score(b)))
        .map_or("application.id", |k| k.name)
}
