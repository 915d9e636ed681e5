//! A broker inside the process: topics, offsets and fences in one RocksDB.
//!
//! Takes a path (or none, for a temporary directory that is removed at the end), returns a
//! [`Broker`](crate::Broker). Owns the directory. A transaction is one write batch, so records and the
//! offsets of the group that caused them become visible together or not at all. The write-ahead log is
//! on and not synced: a killed process loses nothing, a power failure may lose the last moments,
//! consistently. Never talks to another process: a directory has one owner.

mod broker;
mod chunk;
mod codec;
mod consumer;
mod errors;
#[cfg(test)]
mod fuzz;
mod keys;
mod log;
mod producer;
mod registry;
mod temporary;
#[cfg(test)]
mod tests;

pub use broker::{EmbeddedBroker, EmbeddedRecord, open};
