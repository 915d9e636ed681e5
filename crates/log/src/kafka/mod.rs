//! Real Kafka behind the port.
//!
//! `native` implements Kafka's protocol itself; `librdkafka` is the second implementation, for what
//! the first doesn't support. Takes a bootstrap list and the user's client properties, returns a
//! [`Broker`](crate::Broker). Owns the properties that exactly-once depends on. Never joins a consumer
//! group: the engine assigns partitions, and offsets travel in its transactions.

mod admin;
mod alternating;
mod blocks;
mod broker;
mod errors;
mod librdkafka;
mod lost_records;
mod markers;
mod native;
mod partitioner;
mod properties;
#[cfg(test)]
mod tests;
mod tokens;
mod transactional_side;

pub use broker::{KafkaBroker, built_with, check_properties, connect, connect_with_tokens};
pub use tokens::{OauthToken, TokenProvider};
