//! One dead letter, as far as it is kept.
//!
//! Takes a record with the headers of a dead letter; gives the input record, where it came from, and
//! what went wrong.

use super::excerpt::Excerpt;
use serde_json::{Value, json};
use std::sync::Arc;
use stoatflow_core::Header;
use stoatflow_log::ProducerRecord;

/// Bytes kept of a key or a value.
const MAX_PAYLOAD_BYTES: usize = 4_096;
/// Bytes kept of a header's value.
const MAX_HEADER_BYTES: usize = 1_024;
/// Number of headers kept of a record.
const MAX_HEADERS: usize = 32;
/// Characters kept of a text.
const MAX_TEXT_CHARS: usize = 4_000;
/// Prefix of the headers that describe the error.
const ERROR_HEADER_PREFIX: &str = "__stoatflow.errors.";
/// The first of these headers; the headers of the input record come before it.
const FIRST_ERROR_HEADER: &str = "__stoatflow.errors.application";

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    /// When it was committed (wall clock, ms).
    pub(super) at_ms: i64,
    /// The dead-letter topic.
    to: Arc<str>,
    timestamp: i64,
    key: Option<Excerpt>,
    value: Option<Excerpt>,
    headers: Vec<(Arc<str>, Option<Excerpt>)>,
    headers_left_out: usize,
    /// The error: header names without the prefix, and their texts.
    error_headers: Vec<(Arc<str>, String)>,
}

impl Letter {
    pub(super) fn of(record: &ProducerRecord) -> Self {
        let all = record.headers.as_deref().unwrap_or_default();
        // A record that had been a dead letter, was replayed and failed again has the headers of both
        // failures: the last ones count.
        let begin = all
            .iter()
            .rposition(|header| &*header.name == FIRST_ERROR_HEADER);
        let (own, error_headers) = all.split_at(begin.unwrap_or(all.len()));
        let payload =
            |bytes: &Option<bytes::Bytes>| Some(Excerpt::of(bytes.as_ref()?, MAX_PAYLOAD_BYTES));
        let header = |header: &Header| {
            let value = header.value.as_ref();
            (
                Arc::clone(&header.name),
                value.map(|value| Excerpt::of(value, MAX_HEADER_BYTES)),
            )
        };
        Self {
            at_ms: 0,
            to: Arc::clone(&record.topic),
            timestamp: record.timestamp.0,
            key: payload(&record.key),
            value: payload(&record.value),
            headers: own.iter().take(MAX_HEADERS).map(header).collect(),
            headers_left_out: own.len().saturating_sub(MAX_HEADERS),
            error_headers: error_headers.iter().filter_map(said).collect(),
        }
    }

    fn error_header(&self, name: &str) -> Option<&str> {
        let found = self
            .error_headers
            .iter()
            .find(|(known, _)| &**known == name);
        found.map(|(_, text)| text.as_str())
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.error_header(name)?.parse().ok()
    }

    pub(super) fn shown(&self, number: u64) -> Value {
        let shown = |part: &Option<Excerpt>| part.as_ref().map(Excerpt::shown);
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| json!({ "name": name, "value": shown(value) }));
        json!({
            "id": number,
            "at_ms": self.at_ms,
            "to": self.to,
            "topic": self.error_header("topic"),
            "partition": self.number("partition"),
            "offset": self.number("offset"),
            "timestamp_ms": self.timestamp,
            "kind": self.error_header("kind"),
            "node": self.error_header("node"),
            "function": self.error_header("function"),
            "exception": self.error_header("exception"),
            "message": self.error_header("message"),
            "traceback": self.error_header("traceback"),
            "attempts": self.number("attempts"),
            "gone": self.error_header("gone") == Some("true"),
            "key": shown(&self.key),
            "value": shown(&self.value),
            "headers": headers.collect::<Vec<_>>(),
            "headers_left_out": self.headers_left_out,
        })
    }
}

/// The name and text of a header that describes the error.
fn said(header: &Header) -> Option<(Arc<str>, String)> {
    let name = header.name.strip_prefix(ERROR_HEADER_PREFIX)?;
    let value = header.value.as_deref()?;
    // A character has at most four bytes.
    let text = String::from_utf8_lossy(&value[..value.len().min(4 * MAX_TEXT_CHARS)]);
    let text = match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    };
    Some((name.into(), text))
}
