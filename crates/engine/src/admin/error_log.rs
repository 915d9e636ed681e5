//! The last errors, each cause once: what failed, how often, since when, and at which record.
//!
//! Takes errors of dropped records, and errors that end a run. Parts that differ from record to record
//! (numbers, quoted values) don't make another cause. The traceback is that of the first error: later
//! ones cost only a lookup.

mod file;
#[cfg(test)]
mod tests;

use super::{Shared, answer};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use stoatflow_core::{Error, Timestamp};
use stoatflow_operators::Runtime;

/// Maximum number of causes; the one seen longest ago is dropped first.
const MAX_CAUSES: usize = 100;
/// Characters kept of a text.
const MAX_TEXT_CHARS: usize = 4_000;

/// One cause.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ErrorEntry {
    #[serde(skip)]
    cause: String,
    /// What happened: `failed` (the run ended), or why the record was dropped.
    pub outcome: Cow<'static, str>,
    /// Its kind.
    pub kind: Cow<'static, str>,
    /// Number of errors.
    pub count: u64,
    /// Wall clock, ms.
    pub first_at_ms: i64,
    /// Wall clock, ms.
    pub last_at_ms: i64,
    /// The node of the topology.
    pub node: Option<String>,
    /// The user's function.
    pub function: Option<String>,
    /// The store.
    pub store: Option<String>,
    /// The topic of the last record.
    pub topic: Option<String>,
    /// Its partition.
    pub partition: Option<i32>,
    /// Its offset.
    pub offset: Option<i64>,
    /// The message of the last error.
    pub message: String,
    /// What to do.
    pub next_step: String,
    /// The class of the exception.
    pub exception: Option<String>,
    /// The traceback of the first error.
    pub traceback: Option<String>,
}

/// The result of [`ErrorLog::note`].
#[derive(Debug)]
pub struct NoteOutcome {
    /// Identifies the cause: the same for all records that fail in the same way.
    pub cause: String,
    /// The traceback, only for the first error of a cause.
    pub traceback: Option<String>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct ErrorLog {
    entries: Mutex<Vec<ErrorEntry>>,
    /// True if there are errors that were not saved yet.
    is_changed: AtomicBool,
    saved_at: Mutex<Option<Duration>>,
    /// Describes the exception behind an error.
    runtime: Option<Arc<dyn Runtime>>,
}

impl ErrorLog {
    /// With the runtime of the user's functions.
    #[must_use]
    pub fn of(runtime: Option<Arc<dyn Runtime>>) -> Self {
        Self {
            runtime,
            ..Self::default()
        }
    }

    /// Records an error. The first of its cause may wait for the interpreter.
    pub fn note(
        &self,
        error: &Error,
        node: Option<&str>,
        outcome: &'static str,
        now: Timestamp,
    ) -> NoteOutcome {
        let at = error.coordinates();
        let node = node.or(at.node.as_deref());
        let cause = cause(error, node, outcome);
        let is_known = |entries: &[ErrorEntry]| entries.iter().any(|entry| entry.cause == cause);
        // Describing it may run user code and wait for the interpreter, so no lock is held meanwhile.
        let is_new = !is_known(&self.entries.lock());
        let runtime = self.runtime.as_ref().filter(|_| is_new);
        let raised = runtime.and_then(|runtime| runtime.exception(error));
        let message = short(&said(error));
        let mut entries = self.entries.lock();
        let known = entries.iter().position(|entry| entry.cause == cause);
        let mut entry = match known {
            Some(known) => entries.remove(known),
            None => ErrorEntry {
                cause: cause.clone(),
                outcome: outcome.into(),
                kind: error.kind().name().into(),
                count: 0,
                first_at_ms: now.0,
                last_at_ms: now.0,
                node: node.map(str::to_owned),
                function: at.function.clone(),
                store: at.store.clone(),
                topic: None,
                partition: None,
                offset: None,
                message: String::new(),
                next_step: error.next_step().to_owned(),
                exception: None,
                traceback: None,
            },
        };
        entry.count += 1;
        entry.last_at_ms = now.0;
        entry.topic.clone_from(&at.topic);
        entry.partition = at.partition.map(|partition| partition.0);
        entry.offset = at.offset.map(|offset| offset.0);
        entry.message = message;
        let mut traceback = None;
        if let Some(raised) = raised {
            entry.exception = Some(raised.class);
            entry.traceback = raised.traceback.as_deref().map(short);
            traceback.clone_from(&entry.traceback);
        }
        if entries.len() >= MAX_CAUSES {
            entries.remove(0);
        }
        entries.push(entry);
        self.is_changed.store(true, Relaxed);
        NoteOutcome { cause, traceback }
    }

    /// All causes, the most recent first.
    #[must_use]
    pub fn entries(&self) -> Vec<ErrorEntry> {
        let entries = self.entries.lock();
        entries.iter().rev().cloned().collect()
    }
}

/// The message, with its cause.
fn said(error: &Error) -> String {
    match error.cause() {
        Some(cause) => format!("{}: {cause}", error.message()),
        None => error.message().to_owned(),
    }
}

/// A text that is the same for all records that fail in the same way.
fn cause(error: &Error, node: Option<&str>, outcome: &str) -> String {
    let at = error.coordinates();
    let mut text = String::new();
    let (mut quoted, mut before) = (None, ' ');
    for sign in said(error).chars().take(MAX_TEXT_CHARS) {
        match (quoted, sign) {
            (Some(quote), sign) if sign == quote => quoted = None,
            (Some(_), _) => {}
            // The apostrophe in "can't" doesn't begin a quotation.
            (None, '\'' | '"') if !before.is_alphanumeric() => quoted = Some(sign),
            (None, sign) if sign.is_ascii_digit() => {
                if !text.ends_with('#') {
                    text.push('#');
                }
            }
            (None, sign) => text.push(sign),
        }
        before = sign;
    }
    let function = at.function.as_deref().unwrap_or_default();
    let node = node.unwrap_or_default();
    format!("{outcome}|{}|{node}|{function}|{text}", error.kind().name())
}

fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The endpoint.
pub(super) async fn errors(State(shared): State<Arc<Shared>>) -> Response {
    let body = json!({ "errors": shared.status.errors.entries(), "at_ms": shared.clock.now().0 });
    answer(StatusCode::OK, &body)
}
