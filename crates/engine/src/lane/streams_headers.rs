//! The headers that Kafka Streams gives its dead letters (KIP-1034), for tools that read these.
//!
//! Takes the headers of a dead letter of ours, gives the same in the words of Kafka Streams'
//! `ExceptionHandlerUtils`. What isn't known has no header.

#[cfg(test)]
mod tests;

use stoatflow_core::Header;

const OURS: &str = "__stoatflow.errors.";

/// Theirs, and ours with the same meaning; the exception is put together.
const SAME: [(&str, &str); 5] = [
    ("__streams.errors.message", "message"),
    ("__streams.errors.stacktrace", "traceback"),
    ("__streams.errors.topic", "topic"),
    ("__streams.errors.partition", "partition"),
    ("__streams.errors.offset", "offset"),
];

/// See the module.
pub(super) fn streams_headers(ours: &[Header]) -> Vec<Header> {
    let value = |name: &str| {
        let found = ours
            .iter()
            .find(|h| h.name.strip_prefix(OURS) == Some(name));
        found.and_then(|header| header.value.clone())
    };
    let text = |name: &str| value(name).map(|v| String::from_utf8_lossy(&v).into_owned());
    // A late record has none: its kind says what it is.
    let class = text("exception").or_else(|| text("kind"));
    // As `Throwable.toString` writes it.
    let exception = class.map(|class| match text("message") {
        Some(message) => format!("{class}: {message}"),
        None => class,
    });
    let exception = exception.map(|exception| Header {
        name: "__streams.errors.exception".into(),
        value: Some(exception.into()),
    });
    let same = SAME.iter().filter_map(|(theirs, name)| {
        Some(Header {
            name: (*theirs).into(),
            value: Some(value(name)?),
        })
    });
    exception.into_iter().chain(same).collect()
}
