//! The contract of an operator, and what it may access while it runs.

pub(crate) mod clocks;
pub(crate) mod key_assignment;
pub(crate) mod operator;
pub(crate) mod run_coordinator;
