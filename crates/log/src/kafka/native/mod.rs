//! Kafka's protocol, spoken by ourselves.
//!
//! Takes what a [`Producer`](crate::Producer) or a [`Consumer`](crate::Consumer) takes, sends requests to brokers.
//! Records are written straight into the batch that the socket sends, and read where the response lies: nothing is
//! copied twice, and the client has no thread of its own. One request per broker is in flight; what arrives meanwhile
//! goes with the next one.

pub(super) mod consumer;
mod error_class;
pub(super) mod net;
mod open_transactions;
pub(super) mod producer;
mod records;
#[cfg(test)]
mod tests;

use crate::OpenTransaction;
use crate::kafka::librdkafka::admin::Admin;
pub(super) use consumer::fetch::FetchLimits;
pub(super) use consumer::reader::NativeConsumer;
use net::cluster::Cluster;
pub(super) use net::connection::BrokerAddress;
use net::connection::ConnectionError;
pub(super) use producer::idempotent::IdempotentProducer;
pub(super) use producer::transactional::TransactionalProducer;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::TopicPartition;

/// The addresses of a bootstrap list; None if one of them asks for more than a plain connection.
pub(super) fn address_list(bootstrap: &str) -> Option<Vec<BrokerAddress>> {
    let list: Option<Vec<_>> = (bootstrap.split(','))
        .filter(|part| !part.trim().is_empty())
        .map(BrokerAddress::read)
        .collect();
    list.filter(|list| !list.is_empty())
}

/// The transactions that hold partitions back; why they are not known otherwise.
pub(super) fn open_transactions(
    addresses: Vec<BrokerAddress>,
    client: &str,
    partitions: &[TopicPartition],
    timeout: Duration,
) -> Result<Vec<Option<OpenTransaction>>, String> {
    let cluster = Cluster::new(addresses, client);
    let asked = open_transactions::open_transactions(cluster, partitions, timeout);
    asked.map_err(|ConnectionError(why)| why)
}

/// A reader, with nothing assigned.
pub(super) fn reader(
    addresses: Vec<BrokerAddress>,
    client: &str,
    bootstrap: &str,
    admin: Arc<Admin>,
    fetch_limits: FetchLimits,
) -> NativeConsumer {
    NativeConsumer::new(
        Cluster::new(addresses, client),
        bootstrap,
        admin,
        fetch_limits,
    )
}

/// A writer outside of transactions, not yet opened, behind an open guard of the same id.
pub(super) fn plain(
    guard: TransactionalProducer,
    addresses: Vec<BrokerAddress>,
    client: &str,
    id: &str,
    bootstrap: &str,
    silence: Duration,
) -> IdempotentProducer {
    let cluster = Cluster::new(addresses, client);
    IdempotentProducer::new(guard, cluster, id, bootstrap, silence)
}

/// A writer of transactions for an id, not yet opened.
pub(super) fn producer(
    addresses: Vec<BrokerAddress>,
    client: &str,
    id: &str,
    bootstrap: &str,
    silence: Duration,
) -> TransactionalProducer {
    TransactionalProducer::new(Cluster::new(addresses, client), id, bootstrap, silence)
}
