//! Builds a stage's operators from the plan, and runs batches of records through them.

mod build;
pub(crate) mod chain;
