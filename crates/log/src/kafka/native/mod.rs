//! Kafka's protocol, spoken by ourselves.
//!
//! Takes what a [`Producer`](crate::Producer) or a [`Consumer`](crate::Consumer) takes, sends
//! requests to brokers. Records are written straight into the batch that the socket sends, and read
//! where the response lies: nothing is copied twice, and the client has no thread of its own. One
//! request per broker is in flight; what arrives meanwhile goes with the next one.

pub(super) mod admin;
pub(super) mod consumer;
mod error_class;
#[cfg(test)]
mod fuzz;
pub(super) mod net;
pub(super) mod producer;
pub(super) mod properties;
mod records;
#[cfg(test)]
mod tests;

use crate::kafka::admin::AdminClient;
pub(super) use consumer::fetch::FetchLimits;
pub(super) use consumer::reader::NativeConsumer;
pub(super) use net::address::BrokerAddress;
#[cfg(test)]
use net::answer_timeout::REQUEST_TIMEOUT;
use net::connection_error::ConnectionError;
pub(super) use net::security::ClientContext;
pub(super) use producer::idempotent::IdempotentProducer;
pub(super) use producer::transactional::TransactionalProducer;
pub(super) use records::compression::Compression;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind};

/// What a native client needs to know of a cluster.
#[derive(Clone, Debug)]
pub(super) struct NativeConfig {
    /// Where to begin.
    pub bootstrap: Vec<BrokerAddress>,
    /// The bootstrap list as it was given, for messages.
    pub address: String,
    /// Encryption, authentication and names.
    pub context: Arc<ClientContext>,
    /// How records are compressed.
    pub compression: Compression,
    /// How long an answer is waited for at first (`request.timeout.ms`).
    pub request_timeout: Duration,
}

#[cfg(test)]
impl NativeConfig {
    /// Of a plaintext cluster.
    pub(super) fn plaintext(bootstrap: &str) -> Self {
        Self {
            bootstrap: BrokerAddress::read_list(bootstrap).expect("addresses"),
            address: bootstrap.to_owned(),
            context: Arc::new(ClientContext::plaintext("test")),
            compression: Compression::default(),
            request_timeout: REQUEST_TIMEOUT,
        }
    }
}

/// The error of a broker that can't be reached, or that refuses this client.
fn unreachable(address: &str, what: &str, why: &ConnectionError) -> Error {
    let error = match why.kind() {
        ErrorKind::Unavailable if why.is_answered() => Error::unavailable(format!(
            "{what}: the broker at {address} can't do it now ({why})"
        )),
        ErrorKind::Unavailable => Error::unavailable(format!(
            "{what}: the broker at {address} doesn't answer ({why})"
        )),
        kind => Error::new(kind, format!("{what}: {why}")),
    };
    match why.hint() {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// A reader, with nothing assigned.
pub(super) fn reader(
    config: &NativeConfig,
    admin: Arc<dyn AdminClient>,
    fetch_limits: FetchLimits,
) -> NativeConsumer {
    NativeConsumer::new(config, admin, fetch_limits)
}

/// A writer outside of transactions, not yet opened, behind an open guard of the same id. With
/// `waits`, `send` returns once the records are acknowledged: for a caller that doesn't poll.
pub(super) fn plain(
    guard: TransactionalProducer,
    config: &NativeConfig,
    id: &str,
    silence: Duration,
    waits: bool,
) -> IdempotentProducer {
    IdempotentProducer::new(guard, config, id, (silence, waits))
}

/// A writer of transactions for an id, not yet opened.
pub(super) fn producer(
    config: &NativeConfig,
    id: &str,
    silence: Duration,
) -> TransactionalProducer {
    TransactionalProducer::new(config, id, silence)
}
