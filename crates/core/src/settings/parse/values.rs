//! The typed value of each setting.
//!
//! Takes the values that were read, returns addresses, durations, handlers and so on, and adds a problem
//! for text that has no meaning. Looks at a second setting only where the two are one thing: a
//! certificate and its key.

use super::Reading;
use crate::settings::kinds::{is_address, watermark_of};
use crate::settings::read::Value;
use crate::settings::{AdminAccess, BrokerAddress, WatermarkDefault};
use crate::{BlockCompression, CompactionStyle, Handler, RocksDbOptions};
use serde_json::Value as Json;
use std::path::PathBuf;
use std::time::Duration;

impl Reading {
    pub(super) fn broker(&mut self) -> BrokerAddress {
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

    /// The word of a setting, if it is set.
    pub(super) fn word(
        &mut self,
        name: &'static str,
        of: fn(&str) -> std::result::Result<&'static str, String>,
    ) -> Option<&'static str> {
        if !self.given.contains(name) || matches!(self.values[name], Value::Wrong) {
            return None;
        }
        let text = self.text(name);
        match of(&text) {
            Ok(word) => Some(word),
            Err(why) => {
                self.problem(name, &Json::from(text), &why);
                None
            }
        }
    }

    /// The handler that a setting names; `log_and_continue` writes dead letters if there is a topic for
    /// them.
    pub(super) fn handler(&mut self, name: &str) -> Option<Handler> {
        let text = self.text(name);
        let letters = self.text("errors.dead.letter.queue.topic.name");
        let handler = match Handler::of_setting(&text) {
            Some(Handler::Continue) if letters != "off" => Some(Handler::Dlq(letters)),
            other => other,
        };
        if handler.is_none() && !matches!(self.values[name], Value::Wrong) {
            self.problem(
                name,
                &Json::from(text),
                "write log_and_fail, log_and_continue or dlq:TOPIC; others are given in code (on_processing_error=, on_deserialization_error=, on_production_error=)",
            );
        }
        handler
    }

    pub(super) fn rocksdb(&self) -> RocksDbOptions {
        RocksDbOptions {
            compression: BlockCompression::named(&self.text("rocksdb.compression"))
                .unwrap_or_default(),
            block_size: u64::try_from(self.number("rocksdb.block.size")).unwrap_or(0),
            bloom_bits: u32::try_from(self.number("rocksdb.bloom.bits")).unwrap_or(0),
            compaction: CompactionStyle::named(&self.text("rocksdb.compaction"))
                .unwrap_or_default(),
            cache_size: None,
        }
    }

    pub(super) fn watermark(&mut self) -> WatermarkDefault {
        let name = "watermark.default";
        let text = self.text(name);
        let found = watermark_of(&text);
        if found.is_none() && !matches!(self.values[name], Value::Wrong) {
            self.problem(
                name,
                &Json::from(text),
                "write bounded:10s (how late records may be), monotonic or none; with ,idle:5m a partition without records for 5 minutes doesn't hold the watermark back",
            );
        }
        found.unwrap_or_default()
    }

    pub(super) fn admin(&mut self) -> Option<String> {
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

    pub(super) fn admin_access(&mut self) -> AdminAccess {
        let file = |text: Option<String>| text.map(PathBuf::from);
        let access = AdminAccess {
            token: self.unless_off("admin.token"),
            certificate: file(self.unless_off("admin.ssl.certificate")),
            key: file(self.unless_off("admin.ssl.key")),
            client_ca: file(self.unless_off("admin.ssl.ca")),
            open: matches!(self.values["admin.open"], Value::Bool(true)),
            max_connections: self.size("admin.max.connections"),
        };
        if let Some(token) = &access.token
            && !token.starts_with("file:")
            && let Err(why) = crate::settings::check_token(token)
        {
            self.problem("admin.token", &Json::from(""), &why);
        }
        let has = |name: &str| !matches!(&self.values[name], Value::Text(text) if text == "off");
        let missing = [
            ("admin.ssl.certificate", "admin.ssl.key"),
            ("admin.ssl.key", "admin.ssl.certificate"),
            ("admin.ssl.ca", "admin.ssl.certificate"),
        ];
        let missing = missing
            .iter()
            .find(|(given, other)| has(given) && !has(other));
        if let Some((given, other)) = missing {
            self.problems.push(format!(
                "{given} needs {other} beside it: set both, or neither"
            ));
        }
        access
    }

    /// The text, unless it is `off` or empty.
    fn unless_off(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !matches!(text.as_str(), "off" | ""))
    }

    pub(super) fn text(&self, name: &str) -> String {
        if let Value::Text(text) = &self.values[name] {
            text.clone()
        } else {
            String::new()
        }
    }

    pub(super) fn number(&self, name: &str) -> i64 {
        if let Value::Number(n) = self.values[name] {
            n
        } else {
            1
        }
    }

    pub(super) fn size(&self, name: &str) -> usize {
        usize::try_from(self.number(name)).unwrap_or(usize::MAX)
    }

    /// A duration; `None` if the number is negative.
    pub(super) fn interval(&self, name: &str) -> Option<Duration> {
        u64::try_from(self.number(name))
            .ok()
            .map(Duration::from_millis)
    }

    pub(super) fn duration(&self, name: &str) -> Duration {
        Duration::from_millis(u64::try_from(self.number(name)).unwrap_or(0))
    }
}
