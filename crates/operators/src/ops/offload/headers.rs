//! The headers of requests and answers.
//!
//! Reads the headers of answers, and adds those of requests. Never looks at parked records.

use stoatflow_core::{Header, Headers};

/// The header by which an answer finds its record; the worker copies it to the answer.
pub const CORRELATION: &str = "stoatflow-correlation";
/// The header that counts the requests for a record, from 1 on; the worker may copy it to the answer.
pub const ATTEMPT: &str = "stoatflow-attempt";
/// The header that makes an answer an error, with the message.
pub const ERROR: &str = "stoatflow-error";

/// The last header with this name.
pub(super) fn header<'h>(headers: &'h Headers, name: &str) -> Option<&'h Header> {
    let all = headers.as_deref().unwrap_or_default();
    all.iter().rev().find(|header| &*header.name == name)
}

/// The attempt that an answer belongs to, if it has the header.
pub(super) fn attempt(headers: &Headers) -> Option<u32> {
    let value = header(headers, ATTEMPT)?.value.as_deref()?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The correlation text, which together with the key identifies the row of an answer.
pub(super) fn correlation(name: &str, number: u64) -> String {
    format!("{name}/{number:x}")
}

/// The number in a correlation of this node.
pub(super) fn number(headers: &Headers, name: &str) -> Option<u64> {
    let value = header(headers, CORRELATION)?.value.as_deref()?;
    let text = std::str::from_utf8(value).ok()?;
    let number = text.strip_prefix(name)?.strip_prefix('/')?;
    u64::from_str_radix(number, 16).ok()
}

/// Headers of a request; they replace those of an earlier offload.
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
