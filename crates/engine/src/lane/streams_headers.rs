//! The headers of dead letters in Kafka Streams (KIP-1034), for tools that read them.
//!
//! Translates the headers of our dead letters into those of Kafka Streams' `ExceptionHandlerUtils`.
//! Unknown values have no header.

#[cfg(test)]
mod tests;

use stoatflow_core::Header;

const ERROR_HEADER_PREFIX: &str = "__stoatflow.errors.";

/// Their header, and ours with the same meaning; the exception header is composed of several.
const EQUIVALENT_HEADERS: [(&str, &str); 5] = [
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
            .find(|h| h.name.strip_prefix(ERROR_HEADER_PREFIX) == Some(name));
        found.and_then(|header| header.value.clone())
    };
    let text = |name: &str| value(name).map(|v| String::from_utf8_lossy(&v).into_owned());
    // A late record has no exception; its kind stands in for it.
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
    let equivalent = EQUIVALENT_HEADERS
        .iter()
        .filter_map(|(streams_name, name)| {
            Some(Header {
                name: (*streams_name).into(),
                value: Some(value(name)?),
            })
        });
    exception.into_iter().chain(equivalent).collect()
}
