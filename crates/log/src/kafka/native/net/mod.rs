//! Connections to the brokers of a cluster.

pub(in crate::kafka) mod address;
pub(in crate::kafka::native) mod answer_timeout;
mod broker_link;
pub(in crate::kafka) mod cluster;
pub(in crate::kafka) mod connection;
pub(in crate::kafka) mod connection_error;
pub(in crate::kafka) mod counters;
mod error_codes;
pub(in crate::kafka) mod leader_epochs;
pub(in crate::kafka) mod network;
mod poll;
pub(in crate::kafka) mod sasl;
pub(in crate::kafka) mod security;
mod session;
pub(in crate::kafka) mod throttle;
pub(in crate::kafka) mod tls;
pub(in crate::kafka) mod transport;

#[cfg(test)]
pub(in crate::kafka::native) use poll::wait;
