//! Aggregations in windows.

pub(crate) mod count_window_aggregate;
pub(crate) mod idle;
pub(crate) mod session_aggregate;
pub(crate) mod sliding_aggregate;
pub(crate) mod window;
pub(crate) mod window_aggregate;
