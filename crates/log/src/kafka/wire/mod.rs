//! Transactions without librdkafka: Kafka's protocol, spoken by ourselves.
//!
//! Takes what a [`Producer`](crate::Producer) takes; gives requests to brokers. Records are written into the batch that the
//! socket sends, by the thread that has them: nothing is copied twice, and no thread of a client's own looks for work. Since
//! nobody sees a record before its commit, a request under way per broker is enough, and what comes meanwhile goes with the
//! next one. Only where the client's properties ask for no more than this can do: [`address_list`] says.

mod batch;
mod cluster;
mod coordination;
mod courier;
mod link;
mod producer;
mod sending;
#[cfg(test)]
mod tests;
mod verdict;

use cluster::Cluster;
pub(super) use link::Address;
pub(super) use producer::WireProducer;
use std::time::Duration;

/// The addresses of a bootstrap list; None if one of them asks for more than a plain connection.
pub(super) fn address_list(bootstrap: &str) -> Option<Vec<Address>> {
    let list: Option<Vec<_>> = (bootstrap.split(','))
        .filter(|part| !part.trim().is_empty())
        .map(Address::read)
        .collect();
    list.filter(|list| !list.is_empty())
}

/// A writer for an id, not yet opened.
pub(super) fn producer(
    addresses: Vec<Address>,
    client: &str,
    id: &str,
    bootstrap: &str,
    silence: Duration,
) -> WireProducer {
    WireProducer::new(Cluster::new(addresses, client), id, bootstrap, silence)
}
