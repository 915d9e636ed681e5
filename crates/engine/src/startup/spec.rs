//! What an engine is built from, and the parts that are built.

use crate::admin::status::Status;
use crate::commit::{Committer, LoggedStore};
use crate::index::build::Unbuilt;
use crate::intake::Intake;
use crate::intake::source_partitions::SourcePartitions;
use crate::lane::LaneWorker;
use crate::restore::Parallelism;
use crate::runtime::failpoint::Failpoints;
use crate::runtime::shared::Shared;
use crate::startup::components::Components;
use std::sync::Arc;
use stoatflow_core::Settings;
use stoatflow_operators::ForeignCode;
use stoatflow_plan::PhysicalPlan;
use stoatflow_protocol::Lifecycle;
use stoatflow_state::Backend;

/// The parts of one run.
pub struct EngineParts {
    /// What the parts share.
    pub shared: Arc<Shared>,
    /// Consumer and dispatch.
    pub intake: Intake,
    /// The lanes.
    pub lanes: Vec<LaneWorker>,
    /// Sends and commits.
    pub commit: Committer,
    /// Indexes to build while the application runs.
    pub unbuilt: Vec<Unbuilt>,
    /// Stores by number.
    pub stores: Vec<LoggedStore>,
    /// The committed state.
    pub backend: Arc<dyn Backend>,
    /// The source partitions.
    pub slots: SourcePartitions,
}

/// What the caller of [`EngineSpec::build`] provides.
#[derive(Clone, Copy)]
pub struct StartupContext<'a> {
    /// Called with every lifecycle state.
    pub on_state: &'a dyn Fn(Lifecycle),
    /// Whether a restore may use threads.
    pub parallelism: Parallelism<'a>,
}

/// What an engine is built from.
#[derive(Clone)]
pub struct EngineSpec {
    /// The topology.
    pub plan: Arc<PhysicalPlan>,
    /// User functions and serdes.
    pub foreign: Arc<ForeignCode>,
    /// The settings.
    pub settings: Arc<Settings>,
    /// Broker, clock and whatever else differs between product and tests.
    pub components: Components,
}

impl EngineSpec {
    /// What the parts share, created before any of them (the admin port needs it during the restore).
    #[must_use]
    pub fn shared(&self, status: Arc<Status>, failpoints: Failpoints) -> Arc<Shared> {
        Arc::new(Shared::new(
            status,
            Arc::clone(&self.components.clock),
            self.settings.lanes,
            self.plan.stages.len(),
            self.components.align_barriers,
            failpoints,
        ))
    }
}
