//! How records enter a stage, change lanes, branch, merge and leave.

pub(crate) mod exchange;
pub(crate) mod merge;
pub(crate) mod scheduled;
pub(crate) mod sink;
pub(crate) mod source;
pub(crate) mod split;
