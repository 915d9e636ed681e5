//! The ports to the host language: its functions, processors, async functions and runtime, as traits.

pub(crate) mod async_udf;
pub mod current_call;
pub mod custom_metrics;
pub(crate) mod failure;
pub mod foreign;
pub(crate) mod lock_table;
pub(crate) mod partition_counts;
pub(crate) mod processor;
pub(crate) mod runtime;
pub(crate) mod udf;
