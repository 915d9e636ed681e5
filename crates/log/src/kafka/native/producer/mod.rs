//! Producing records, with and without transactions.

pub(in crate::kafka) mod accumulator;
pub(in crate::kafka) mod append_ends;
pub(in crate::kafka) mod coordination;
pub(in crate::kafka) mod idempotent;
pub(in crate::kafka) mod sender;
pub(in crate::kafka) mod transactional;
