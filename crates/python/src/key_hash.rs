//! Kafka's hash of a key, for code that decides where a record goes outside of the engine.

use pyo3::prelude::*;

/// The hash, made positive: modulo the number of partitions it is the key's partition.
#[pyfunction]
pub fn murmur2(key: &[u8]) -> i32 {
    stoatflow_core::murmur2::murmur2(key) & i32::MAX
}
