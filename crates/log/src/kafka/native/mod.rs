//! An implementation of Kafka's protocol.
//!
//! Takes the calls of a [`Producer`](crate::Producer) or a [`Consumer`](crate::Consumer), sends requests
//! to brokers. Records are written straight into the batch that the socket sends, and read in the memory
//! of the response: nothing is copied twice, and the client has no thread of its own. One request per
//! broker is in flight; records that arrive meanwhile are sent with the next one.

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

/// The configuration of a native client.
#[derive(Clone, Debug)]
pub(super) struct NativeConfig {
    /// The bootstrap addresses.
    pub bootstrap: Vec<BrokerAddress>,
    /// The bootstrap list as the user wrote it, for messages.
    pub address: String,
    /// Encryption, authentication and client names.
    pub context: Arc<ClientContext>,
    /// How records are compressed.
    pub compression: Compression,
    /// The first timeout of an answer (`request.timeout.ms`).
    pub request_timeout: Duration,
}

#[cfg(test)]
impl NativeConfig {
    /// For a plaintext cluster.
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
        ErrorKind::Unavailable if why.is_advertised() => {
            Error::unavailable(format!("{what}: {why}"))
        }
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

/// Creates a reader without an assignment.
pub(super) fn reader(
    config: &NativeConfig,
    admin: Arc<dyn AdminClient>,
    fetch_limits: FetchLimits,
) -> NativeConsumer {
    NativeConsumer::new(config, admin, fetch_limits)
}

/// Creates a producer outside of transactions, not yet opened, with an open guard of the same id. With
/// `waits`, `send` returns once the records are acknowledged: for a caller that doesn't call `send_pending`.
pub(super) fn plain(
    guard: TransactionalProducer,
    config: &NativeConfig,
    id: &str,
    silence: Duration,
    waits: bool,
) -> IdempotentProducer {
    IdempotentProducer::new(guard, config, id, (silence, waits))
}

/// Creates a transactional producer for an id, not yet opened.
pub(super) fn producer(
    config: &NativeConfig,
    id: &str,
    silence: Duration,
) -> TransactionalProducer {
    TransactionalProducer::new(config, id, silence)
}
