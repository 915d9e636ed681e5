//! Connections to the brokers of a cluster.

pub(in crate::kafka) mod cluster;
pub(in crate::kafka) mod connection;
