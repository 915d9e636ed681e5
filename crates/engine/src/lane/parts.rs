//! The parts that a lane is built from.
//!
//! Startup builds one set for each lane. Never changed afterwards.

use crate::index::StoreIndexes;
use crate::intake::source_partitions::SourcePartitions;
use crate::lane::stream_time::Timing;
use crate::runtime::shared::Shared;
use std::sync::Arc;
use stoatflow_core::Lane;
use stoatflow_operators::{Chain, ErrorPolicy, FaultInjection, LaneStore};
use stoatflow_plan::PhysicalPlan;

/// Limits on the size of outputs.
#[derive(Clone, Debug)]
pub struct OutputLimits {
    /// The largest record that the producer accepts, if a policy decides about larger ones.
    pub largest: Option<usize>,
    /// The policy, by sink.
    pub error_policies: Arc<[Option<Arc<ErrorPolicy>>]>,
}

/// The parts that a lane is built from.
pub struct LaneParts {
    /// Its number.
    pub id: Lane,
    /// Shared by all parts of the run.
    pub shared: Arc<Shared>,
    /// The topology.
    pub plan: Arc<PhysicalPlan>,
    /// One chain per stage.
    pub chains: Vec<Chain>,
    /// All stores, by number.
    pub stores: Vec<LaneStore>,
    /// Their indexes, by number.
    pub indexes: Vec<Option<Arc<StoreIndexes>>>,
    /// The partitions that are read.
    pub slots: SourcePartitions,
    /// Topics of the sinks, by number.
    pub sinks: Arc<[Arc<str>]>,
    /// Limits on the size of outputs.
    pub limits: OutputLimits,
    /// Maximum records per batch.
    pub batch_max: usize,
    /// Bytes of input records that all lanes keep for dead letters.
    pub keep_most: usize,
    /// True if records of uncommitted epochs stay, however many there are.
    pub keep_uncommitted: bool,
    /// True if dead letters also have the headers of Kafka Streams.
    pub streams_letter_headers: bool,
    /// The clocks, and how times are stored.
    pub timing: Arc<Timing>,
    /// Injected faults; [`FaultInjection::None`] except in mutation tests.
    pub fault: FaultInjection,
}
