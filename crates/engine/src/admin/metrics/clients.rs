//! Requests and connections of the Kafka clients.

use super::families::{Families, Labels};
use std::fmt;
use stoatflow_log::{ClientCounts, RequestCounts};

/// Writes families without samples if the client doesn't count.
pub(super) fn encode(clients: &[ClientCounts], families: &mut Families<'_>) -> fmt::Result {
    requests(clients, families)?;
    connections(clients, families)
}

/// Each API of each client.
fn rows(clients: &[ClientCounts]) -> impl Iterator<Item = (Labels, &RequestCounts)> {
    clients.iter().flat_map(|of| {
        let labels = |api: &str| vec![("client", of.client.to_owned()), ("api", api.to_owned())];
        (of.requests.iter()).map(move |counts| (labels(&counts.api), counts))
    })
}

fn requests(clients: &[ClientCounts], families: &mut Families<'_>) -> fmt::Result {
    families.counter(
        "client_requests",
        "Requests that a Kafka client sent, by API",
        rows(clients).map(|(labels, of)| (labels, of.sent)),
    )?;
    families.durations(
        "client_request_duration_seconds",
        "From a request of a Kafka client until it has read the answer, by API; of Fetch, with the wait for records",
        rows(clients).map(|(labels, of)| (labels, (&of.durations).into())),
    )?;
    families.counter(
        "client_requests_unanswered",
        "Requests of a Kafka client without an answer: the connection was lost, or the timeout passed",
        rows(clients).map(|(labels, of)| (labels, of.unanswered)),
    )?;
    families.counter(
        "client_retries",
        "Requests that a Kafka client sent again, by API; of Produce, record batches",
        rows(clients).map(|(labels, of)| (labels, of.retried)),
    )?;
    let errors = rows(clients).flat_map(|(labels, of)| {
        (of.errors.iter()).map(move |(error, count)| {
            let mut labels = labels.clone();
            labels.push(("error", error.clone()));
            (labels, *count)
        })
    });
    families.counter(
        "client_errors",
        "Error codes in answers to a Kafka client: of the answer, or of a topic, partition or group in it",
        errors,
    )?;
    families.counter(
        "client_throttle_seconds",
        "For how long quotas have made a Kafka client wait, by the API that was answered so",
        rows(clients).map(|(labels, of)| (labels, of.throttled.as_secs_f64())),
    )?;
    families.counter(
        "client_sent_bytes",
        "Bytes of requests of a Kafka client, before encryption",
        rows(clients).map(|(labels, of)| (labels, of.sent_bytes)),
    )?;
    families.counter(
        "client_received_bytes",
        "Bytes of answers to a Kafka client, after decryption",
        rows(clients).map(|(labels, of)| (labels, of.received_bytes)),
    )
}

fn connections(clients: &[ClientCounts], families: &mut Families<'_>) -> fmt::Result {
    let rows = || {
        let of = |client: &ClientCounts| vec![("client", client.client.to_owned())];
        clients.iter().map(move |c| (of(c), c.connections))
    };
    families.gauge(
        "client_connections",
        "Open connections of a Kafka client",
        rows().map(|(labels, of)| (labels, of.open())),
    )?;
    families.counter(
        "client_connections_opened",
        "Connections that a Kafka client opened, authentication included",
        rows().map(|(labels, of)| (labels, of.opened)),
    )?;
    families.counter(
        "client_connections_failed",
        "Attempts of a Kafka client to connect that failed, by address that was tried",
        rows().map(|(labels, of)| (labels, of.failed)),
    )?;
    families.counter(
        "client_connections_closed",
        "Connections of a Kafka client that were closed, by either side",
        rows().map(|(labels, of)| (labels, of.closed)),
    )?;
    families.counter(
        "client_reconnects",
        "Connections that a Kafka client opened again to a broker that it had lost",
        rows().map(|(labels, of)| (labels, of.reopened)),
    )
}
