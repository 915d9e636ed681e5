//! The inline host: one thread, one room at a time.
//!
//! Takes turns as its caller says: the test driver runs everything until nothing moves, the simulator
//! picks rooms by a seed. The rooms are those of the product; only who calls `step` differs.

use crate::admin::status::Status;
use crate::lane::LaneRoom;
use crate::restore::Hands;
use crate::runtime::failpoint::Failpoints;
use crate::startup::{Blueprint, Host, House};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Result};
use stoatflow_protocol::Lifecycle;

/// A room, as a turn to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    /// Consumer and dispatch.
    Intake,
    /// One lane.
    Lane(usize),
    /// The producer's room.
    Commit,
}

/// The host.
pub struct Inline {
    house: House,
}

impl Inline {
    /// Furnishes and restores.
    ///
    /// # Errors
    /// What keeps an application from starting.
    pub fn start(blueprint: &Blueprint) -> Result<Self> {
        Self::start_with(blueprint, Failpoints::default())
    }

    /// As [`Self::start`], with faults that are to happen.
    ///
    /// # Errors
    /// What keeps an application from starting.
    pub fn start_with(blueprint: &Blueprint, failpoints: Failpoints) -> Result<Self> {
        let status = Status::new(
            &blueprint.settings.application_id,
            Arc::clone(&blueprint.plan),
            blueprint.settings.lanes,
        );
        let status = Arc::new(status.calling(&blueprint.foreign));
        let shared = blueprint.shared(status, failpoints);
        let house = blueprint
            .furnish(
                &shared,
                &Host {
                    enter: &|state| {
                        shared.status.enter(state, shared.clock.now());
                    },
                    hands: Hands::One,
                },
            )?
            .ok_or_else(|| {
                Error::internal("an inline engine was asked to stop while it was starting")
            })?;
        let mut house = house;
        house.lanes.iter_mut().try_for_each(LaneRoom::open)?;
        shared.status.enter(Lifecycle::Running, shared.clock.now());
        Ok(Self { house })
    }

    /// The end: processors are told. A crash doesn't call this.
    pub fn close(&mut self) {
        self.house.lanes.iter_mut().for_each(LaneRoom::close);
    }

    /// The rooms.
    pub const fn house(&mut self) -> &mut House {
        &mut self.house
    }

    /// All turns that can be taken.
    #[must_use]
    pub fn turns(&self) -> Vec<Turn> {
        let lanes = (0..self.house.lanes.len()).map(Turn::Lane);
        std::iter::once(Turn::Intake)
            .chain(lanes)
            .chain(std::iter::once(Turn::Commit))
            .collect()
    }

    /// Lets one room take a turn; true if it moved anything.
    ///
    /// # Errors
    /// What the room fails with; the engine is dead then.
    pub fn take(&mut self, turn: Turn) -> Result<bool> {
        match turn {
            Turn::Intake => self.house.intake.step(false),
            Turn::Lane(lane) => self.house.lanes[lane].step(),
            Turn::Commit => self.house.commit.step(Duration::ZERO),
        }
    }

    /// Lets every room take turns until nothing moves.
    ///
    /// # Errors
    /// As [`Inline::take`].
    pub fn settle(&mut self) -> Result<()> {
        loop {
            let mut moved = self.take(Turn::Intake)?;
            for lane in 0..self.house.lanes.len() {
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

    /// Processes what can be read, and commits it.
    ///
    /// # Errors
    /// As [`Inline::take`].
    pub fn settle_and_commit(&mut self) -> Result<()> {
        self.settle()?;
        // Once, however long the clock has been moved: a schedule says itself how often it fires then.
        if self.house.intake.is_settled() && self.house.intake.dispatch().punctuation_due() {
            self.house.intake.dispatch().barrier();
            self.settle()?;
        }
        // A commit can bring new input: a topic may be a sink and a source of the same topology. It can bring a
        // watermark that a processor has asked for, and timers and ticks may wait for the cut after theirs, with
        // no record to bring it.
        while !self.house.intake.is_settled()
            || self.house.intake.dispatch().time_is_due()
            || self.house.shared.run.timers_wait()
            || self.house.shared.run.ticks_wait()
        {
            self.house.intake.dispatch().barrier();
            self.settle()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
