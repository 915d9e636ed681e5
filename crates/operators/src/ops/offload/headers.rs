//! The headers of requests and answers.
//!
//! Takes a record's headers, gives what the other side says in them, and marks requests. Never knows what
//! is parked.

use stoatflow_core::{Header, Headers};

/// The header by which an answer finds its record; the worker hands it back.
pub const CORRELATION: &str = "stoatflow-correlation";
/// The header that counts the requests for a record, from 1 on; the worker may hand it back.
pub const ATTEMPT: &str = "stoatflow-attempt";
/// The header of an answer that is an error: what went wrong.
pub const ERROR: &str = "stoatflow-error";

/// The last header of a name.
pub(super) fn header<'h>(headers: &'h Headers, name: &str) -> Option<&'h Header> {
    let all = headers.as_deref().unwrap_or_default();
    all.iter().rev().find(|header| &*header.name == name)
}

/// Which request it answers, if it says so.
pub(super) fn attempt(headers: &Headers) -> Option<u32> {
    let value = header(headers, ATTEMPT)?.value.as_deref()?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The text by which an answer finds its row, together with its key.
pub(super) fn correlation(name: &str, number: u64) -> String {
    format!("{name}/{number:x}")
}

/// The number in a correlation that this node gave.
pub(super) fn number(headers: &Headers, name: &str) -> Option<u64> {
    let value = header(headers, CORRELATION)?.value.as_deref()?;
    let text = std::str::from_utf8(value).ok()?;
    let number = text.strip_prefix(name)?.strip_prefix('/')?;
    u64::from_str_radix(number, 16).ok()
}

/// Headers of a request, instead of those of an earlier offload.
pub(super) fn marked(headers: &Headers, correlation: String, attempt: u32) -> Headers {
    let others = headers.as_deref().unwrap_or_default().iter();
    let others = others.filter(|h| ![CORRELATION, ATTEMPT, ERROR].contains(&&*h.name));
    let own = |name: &str, value: String| Header {
        name: name.into(),
        value: Some(value.into()),
    };
    let own = [
        own(CORRELATION, correlation),
        own(ATTEMPT, attempt.to_string()),
    ];
    Some(others.cloned().chain(own).collect())
}
