//! Record processing: one file per operator, synchronous, without clocks and threads.
//!
//! `api` is the contract of an operator ([`Operator`]), `exec` builds and runs a stage ([`Chain`]),
//! `port` holds the traits that the host language implements ([`Udf`], [`Processor`], [`AsyncUdf`]),
//! [`expr`] the native expressions, `ops` the operators by kind, `support` what they share. Waits only
//! for a store's disk, for the interpreter, and for async calls within the bounds that their operator
//! sets.

mod api;
mod exec;
pub mod expr;
pub mod indexing;
mod ops;
mod port;
mod support;
#[cfg(test)]
mod testing;

pub use api::clocks::{
    ClockRule, GroupSteps, LaneClocks, RecordTimes, Step, Steps, Time, Times, merge_times,
};
pub use api::key_assignment::KeyAssignment;
pub use api::operator::*;
pub use api::run_coordinator::RunCoordinator;
pub use exec::chain::{Chain, ChainOptions};
pub use ops::async_ops::{CallCounts, CallQueue, CallsInFlight, OldestCall, Tally};
pub use ops::batches::store_batches::{OpenSnapshot, StoreBatches, StoreQuery};
pub use ops::joins::foreign_key::epoch_rows::LeftRows;
pub use ops::offload;
pub use port::async_udf::{Answer, Answered, Arguments, AsyncUdf, Call, Wait};
pub use port::current_call;
pub use port::custom_metrics;
pub use port::foreign::ForeignCode;
pub use port::lock_table::{HeldLocks, LockHolder, LockKey, LockRefused, LockTable};
pub use port::partition_counts::PartitionCounts;
pub use port::processor::*;
pub use port::runtime::{Raised, Runtime, StackFrame, ThreadStack};
pub use port::udf::*;
pub use support::active_node::ActiveNode;
pub use support::dropped;
pub use support::error_policy::{self, ErrorPolicy};
pub use support::fault_injection::FaultInjection;
pub use support::function::{check_partitions, check_topic};
pub use support::lane_hash::{jump_hash, key_hash};
pub use support::late::{self, LatePolicy};
pub use support::record_size::size_on_wire;
pub use support::waiting::other_task_marker_key;
