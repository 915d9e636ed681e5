//! Runs an engine on the caller's thread, one step at a time.
//!
//! The test driver runs all parts until none makes progress; the simulator chooses the next step by a
//! seed. The parts are those of the product; only their caller differs.

use crate::admin::status::Status;
use crate::lane::LaneWorker;
use crate::restore::Parallelism;
use crate::runtime::failpoint::Failpoints;
use crate::startup::{EngineParts, EngineSpec, StartupContext};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Result};
use stoatflow_protocol::Lifecycle;

/// The part whose step is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    /// Consumer and dispatch.
    Intake,
    /// One lane.
    Lane(usize),
    /// Producer and transactions.
    Commit,
}

/// See the module.
pub struct Inline {
    parts: EngineParts,
}

impl Inline {
    /// Builds the engine and restores its state.
    ///
    /// # Errors
    /// Errors that keep an application from starting.
    pub fn start(spec: &EngineSpec) -> Result<Self> {
        Self::start_with(spec, Failpoints::default())
    }

    /// As [`Self::start`], with failpoints.
    ///
    /// # Errors
    /// Errors that keep an application from starting.
    pub fn start_with(spec: &EngineSpec, failpoints: Failpoints) -> Result<Self> {
        let status = Status::new(
            &spec.settings.application_id,
            Arc::clone(&spec.plan),
            spec.settings.lanes,
        );
        let status = Arc::new(status.calling(&spec.foreign));
        let shared = spec.shared(status, failpoints);
        let parts = spec
            .build(
                &shared,
                &StartupContext {
                    on_state: &|state| {
                        shared.status.enter(state, shared.clock.now());
                    },
                    parallelism: Parallelism::Sequential,
                },
            )?
            .ok_or_else(|| {
                Error::internal("an inline engine was asked to stop while it was starting")
            })?;
        let mut parts = parts;
        parts.lanes.iter_mut().try_for_each(LaneWorker::open)?;
        shared.status.enter(Lifecycle::Running, shared.clock.now());
        Ok(Self { parts })
    }

    /// The engine's counters; a restart begins new ones.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.parts.shared.status
    }

    /// Closes processors. A simulated crash doesn't call this.
    pub fn close(&mut self) {
        self.parts.lanes.iter_mut().for_each(LaneWorker::close);
    }

    /// The engine's parts.
    pub const fn parts(&mut self) -> &mut EngineParts {
        &mut self.parts
    }

    /// All steps that can be taken.
    #[must_use]
    pub fn turns(&self) -> Vec<Turn> {
        let lanes = (0..self.parts.lanes.len()).map(Turn::Lane);
        std::iter::once(Turn::Intake)
            .chain(lanes)
            .chain(std::iter::once(Turn::Commit))
            .collect()
    }

    /// Takes a step; true if it made progress.
    ///
    /// # Errors
    /// Errors of the part; the engine can't be used after one.
    pub fn take(&mut self, turn: Turn) -> Result<bool> {
        match turn {
            Turn::Intake => self.parts.intake.step(false),
            Turn::Lane(lane) => self.parts.lanes[lane].step(),
            Turn::Commit => self.parts.commit.step(Duration::ZERO),
        }
    }

    /// Takes steps until no part makes progress.
    ///
    /// # Errors
    /// As [`Inline::take`].
    pub fn run_until_idle(&mut self) -> Result<()> {
        loop {
            let mut moved = self.take(Turn::Intake)?;
            for lane in 0..self.parts.lanes.len() {
                while self.take(Turn::Lane(lane))? {
                    moved = true;
                }
            }
            moved |= self.take(Turn::Commit)?;
            if !moved {
                return Ok(());
            }
        }
    }

    /// Processes all input, and commits it.
    ///
    /// # Errors
    /// As [`Inline::take`].
    pub fn run_and_commit(&mut self) -> Result<()> {
        self.run_until_idle()?;
        // Once, however far the clock has moved: the schedule decides how often it fires.
        if self.parts.intake.is_settled() && self.parts.intake.dispatch().punctuation_due() {
            self.parts.intake.dispatch().barrier();
            self.run_until_idle()?;
        }
        // A commit can cause more work: a topic may be both sink and source, a processor may have
        // requested a watermark, and timers and ticks may wait for the next barrier.
        while !self.parts.intake.is_settled()
            || self.parts.intake.dispatch().time_is_due()
            || self.parts.shared.run.timers_wait()
            || self.parts.shared.run.ticks_wait()
        {
            self.parts.intake.dispatch().barrier();
            self.run_until_idle()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
