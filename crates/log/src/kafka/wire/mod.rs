//! Reading and writing without librdkafka: Kafka's protocol, spoken by ourselves.
//!
//! Takes what a [`Producer`](crate::Producer) or a [`Consumer`](crate::Consumer) takes; gives requests to brokers. Records are
//! written into the batch that the socket sends, and read where the answer lies, by the thread that has them or wants them:
//! nothing is copied twice, and no thread of a client's own looks for work. A request under way per broker is enough, and what comes
//! meanwhile goes with the next one. Only where the client's properties ask for
//! no more than this can do: [`address_list`] says.

mod batch;
mod cluster;
mod coordination;
mod courier;
mod fetch;
mod link;
mod plain;
mod producer;
mod producers;
mod reader;
mod sending;
mod slots;
#[cfg(test)]
mod tests;
mod unpack;
mod verdict;

use super::admin::Admin;
use crate::OpenTransaction;
use cluster::Cluster;
pub(super) use fetch::Portion;
pub(super) use link::Address;
pub(super) use plain::PlainProducer;
pub(super) use producer::WireProducer;
pub(super) use reader::WireReader;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::TopicPartition;

/// The addresses of a bootstrap list; None if one of them asks for more than a plain connection.
pub(super) fn address_list(bootstrap: &str) -> Option<Vec<Address>> {
    let list: Option<Vec<_>> = (bootstrap.split(','))
        .filter(|part| !part.trim().is_empty())
        .map(Address::read)
        .collect();
    list.filter(|list| !list.is_empty())
}

/// The transactions that hold partitions back; why they are not known otherwise.
pub(super) fn open_transactions(
    addresses: Vec<Address>,
    client: &str,
    partitions: &[TopicPartition],
    timeout: Duration,
) -> Result<Vec<Option<OpenTransaction>>, String> {
    let cluster = Cluster::new(addresses, client);
    let asked = producers::open_transactions(cluster, partitions, timeout);
    asked.map_err(|link::Broken(why)| why)
}

/// A reader, with nothing assigned.
pub(super) fn reader(
    addresses: Vec<Address>,
    client: &str,
    bootstrap: &str,
    admin: Arc<Admin>,
    portion: Portion,
) -> WireReader {
    WireReader::new(Cluster::new(addresses, client), bootstrap, admin, portion)
}

/// A writer outside of transactions, not yet opened, behind an open guard of the same id.
pub(super) fn plain(
    guard: WireProducer,
    addresses: Vec<Address>,
    client: &str,
    id: &str,
    bootstrap: &str,
    silence: Duration,
) -> PlainProducer {
    let cluster = Cluster::new(addresses, client);
    PlainProducer::new(guard, cluster, id, bootstrap, silence)
}

/// A writer of transactions for an id, not yet opened.
pub(super) fn producer(
    addresses: Vec<Address>,
    client: &str,
    id: &str,
    bootstrap: &str,
    silence: Duration,
) -> WireProducer {
    WireProducer::new(Cluster::new(addresses, client), id, bootstrap, silence)
}
