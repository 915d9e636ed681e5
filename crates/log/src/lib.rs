//! The broker port: partitioned logs with transactions.
//!
//! Takes records and cuts from the engine, returns records. [`kafka`] talks to a real broker with the
//! native client or librdkafka, [`embedded`] keeps topics in RocksDB, the simulator has its own
//! implementation. One suite ([`contract`]) tests all of them. Never knows what a topology is.

/// Lets fuzz tests measure how much memory is allocated at once.
#[cfg(test)]
#[global_allocator]
static MEMORY: stoatflow_fuzz::Watched = stoatflow_fuzz::Watched;

pub mod contract;
pub mod embedded;
pub mod kafka;
mod port;

pub use port::*;
pub use stoatflow_core::murmur2;
