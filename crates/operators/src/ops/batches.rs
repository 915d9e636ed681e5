//! Records as Arrow batches: `map_batches`, and what a store holds.

pub(crate) mod map_batches;
pub(crate) mod store_batches;
