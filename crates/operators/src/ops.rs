//! The operators, one file each, by kind.

pub(crate) mod aggregates;
pub(crate) mod async_ops;
pub(crate) mod batches;
pub(crate) mod joins;
pub mod offload;
pub(crate) mod process;
pub(crate) mod routing;
pub(crate) mod stateless;
pub(crate) mod tables;
pub(crate) mod windows;
