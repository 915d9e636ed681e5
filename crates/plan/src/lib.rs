//! Compiles the user's topology: decode, check, serdes, names, stages, fuse, describe. Pure: no I/O.
//!
//! [`logical`] is the plan as the host language sends it (JSON), [`physical`] the plan from which the
//! engine builds its lanes, [`compile`](fn@compile) runs the passes between them; `describe()` returns Kafka
//! Streams' text.

mod aggregation;
mod call;
mod callables;
mod calls;
mod check;
pub mod columns;
pub mod compile;
mod decode;
mod describe;
pub mod expression;
pub mod find;
mod function;
mod fuse;
mod infer;
mod json;
pub mod logical;
mod materialized;
mod name;
mod native_aggregation;
pub mod offloading;
pub mod op;
mod order;
mod pattern;
pub mod physical;
mod problems;
mod serdes;
mod spec;
mod stages;
mod suggestion;
mod tables;
pub mod timetable;
pub mod view;
pub mod window;

pub use call::CALLS;
pub use callables::callables;
pub use calls::side_by_side;
pub use columns::{Column, ColumnType, TimeUnit, columns_problem, rows_problem};
pub use compile::{compile, compile_plan, entries, require_explicit_names};
pub use expression::{Expression, Literal, ScalarFunction};
pub use function::Function;
pub use logical::LogicalPlan;
pub use materialized::{Expiry, ExpiryClock, IndexField, IndexSpec, Materialized, Ttl};
pub use native_aggregation::{Aggregation, AggregationKind, Measure};
pub use offloading::{OffloadSpec, RetryPolicy};
pub use pattern::topic_pattern;
pub use physical::*;
pub use spec::{AsyncSpec, Reset, SerdeSpec};
pub use timetable::{CatchUp, Missed, Timetable, TimetableSpec};
pub use view::{Kind as JoinKind, View};
pub use window::{
    Emit, JoinWindow, StoreKind, TimestampExtractor, Until, Watermark, WatermarkStrategy, WhenFull,
    Window,
};

#[cfg(test)]
mod testing;
