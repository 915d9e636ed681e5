//! What happens to a record: one file per operator, synchronous, without clocks and threads.
//!
//! [`Operator`] is the contract, [`Chain`] runs a stage, [`Udf`] is the port to foreign functions,
//! [`expr`] the native expressions. Never waits for anything but a store's disk and the interpreter.

pub mod at_hand;
pub mod calls;
pub mod chain;
mod clocks;
pub mod dropped;
pub mod expr;
pub mod foreign;
pub mod lane_hash;
mod operator;
mod process;
mod processor;
mod udf;

mod flaw;
mod fold;
mod foreign_key;
mod function;
mod guest;
mod held;
mod idle;
mod joiner;
pub mod judge;
mod keeper;
pub mod late;
pub mod offload;
mod parked;
mod partition_counts;
mod runtime;
mod schema_ids;
mod site;
mod spread;
mod store_batches;
mod table_update;
mod time_index;
mod told;
mod view_read;
mod waiting;
mod window;
mod wire;
mod working_set;

mod aggregate;
mod count;
mod count_window_aggregate;
mod deduplicate;
mod exchange;
mod filter;
mod filter_not;
mod flat_map;
mod flat_map_values;
mod foreach;
mod global_join;
mod map;
mod map_batches;
mod map_values;
mod merge;
mod native_aggregate;
mod peek;
mod reduce;
mod scheduled;
mod select_key;
mod session_aggregate;
mod sink;
mod sliding_aggregate;
mod source;
mod split;
mod stream_join;
mod stream_table_join;
mod suppress;
mod table;
mod table_aggregate;
mod table_filter;
mod table_group_by;
mod table_join;
mod table_map_values;
mod table_merge;
mod to_stream;
mod transform_values;
mod unversioned;
mod window_aggregate;

#[cfg(test)]
mod testing;

pub use calls::{Answer, Answered, Arguments, AsyncUdf, Call, CallCounts, Line, Load, Tally, Wait};
pub use chain::{Chain, ChainOptions};
pub use clocks::{ClockRule, GroupSteps, LaneClocks, Share, Step, Steps, Time, Times, merge_times};
pub use flaw::Flaw;
pub use foreign::Foreign;
pub use function::{check_partitions, check_topic};
pub use judge::Judge;
pub use lane_hash::{jump_hash, key_hash};
pub use late::LatePolicy;
pub use operator::*;
pub use partition_counts::PartitionCounts;
pub use process::Run;
pub use processor::*;
pub use runtime::{Raised, Runtime};
pub use store_batches::{OpenSnapshot, StoreBatches, StoreQuery};
pub use udf::*;
pub use waiting::away_row;
pub use wire::size_on_wire;
