//! Fetching records.

pub(in crate::kafka) mod fetch;
pub(in crate::kafka) mod fetch_state;
pub(in crate::kafka) mod reader;
