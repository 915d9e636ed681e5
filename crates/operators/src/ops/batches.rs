//! Records as Arrow batches: `map_batches`, and reading a store.

pub(crate) mod map_batches;
pub(crate) mod store_batches;
