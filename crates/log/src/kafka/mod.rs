//! Real Kafka behind the port: reading and transactions by itself over plain connections ([`wire`]), all else through librdkafka.
//!
//! Takes a bootstrap list and the user's client properties, gives a [`Broker`](crate::Broker). Owns
//! the native clients and the properties that exactly-once hangs on. Calls librdkafka's own
//! functions where the Rust crate waits in steps of 100 ms (a commit costs 3 to 8 ms this way, 100
//! ms the other) and where it makes an object per record. Never joins a consumer group: the engine
//! assigns, and offsets travel in its transactions.

mod admin;
mod blocks;
mod broker;
mod consume;
mod errors;
mod group;
mod markers;
mod native;
mod outgoing;
mod partition;
mod produce;
mod properties;
mod queues;
mod reports;
#[cfg(test)]
mod tests;
mod turns;
mod wire;

pub use broker::{KafkaBroker, connect};
