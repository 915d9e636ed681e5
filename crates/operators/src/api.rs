//! What an operator is, and what it may touch while it runs.

pub(crate) mod clocks;
pub(crate) mod operator;
pub(crate) mod run_coordinator;
pub(crate) mod share;
