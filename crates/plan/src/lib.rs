//! What the user wrote → checked → named → cut into stages → fused → what will run. Pure: no I/O.
//!
//! [`logical`] is the plan as it crosses the border (JSON), [`physical`] what the engine furnishes
//! its rooms with, [`compile`] the way from one to the other, `describe()` the text of Kafka Streams.

mod check;
pub mod compile;
mod cut;
mod decode;
mod describe;
pub mod expression;
mod fuse;
mod infer;
pub mod logical;
mod name;
mod order;
pub mod physical;
mod problems;
mod serdes;

pub use compile::{compile, compile_plan, entries, require_explicit_names};
pub use expression::{Expression, Literal};
pub use logical::LogicalPlan;
pub use physical::*;

#[cfg(test)]
mod testing;
