//! Aggregations without windows, and `deduplicate`.

pub(crate) mod aggregate;
pub(crate) mod count;
pub(crate) mod deduplicate;
pub(crate) mod fold;
pub(crate) mod native_aggregate;
pub(crate) mod reduce;
pub(crate) mod working_set;
