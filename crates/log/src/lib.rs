//! The broker port: partitioned logs with transactions, whoever keeps them.
//!
//! Takes records and cuts from the engine, gives records back. [`kafka`] speaks to a real broker
//! through rdkafka, [`embedded`] keeps topics in RocksDB, the simulator brings its own. One suite
//! ([`contract`]) holds all of them to the same promises. Never knows what a topology is.

/// Fuzzing looks at what is asked of it.
#[cfg(test)]
#[global_allocator]
static MEMORY: stoatflow_fuzz::Watched = stoatflow_fuzz::Watched;

pub mod contract;
pub mod embedded;
pub mod kafka;
mod port;

pub use port::*;
pub use stoatflow_core::murmur2;
