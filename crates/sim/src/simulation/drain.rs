//! Phase two: no more faults, and everything must be done within a bounded number of rounds.
//!
//! Ends with a clean stop, and a restore on every disk and on an empty one: all must reach the same
//! state.

use super::Simulation;
use crate::checkers;
use std::time::Duration;
use stoatflow_engine::runtime::inline::Turn;
use stoatflow_state::memory::MemoryBackend;

/// Within this many rounds, plus some per record, a system without faults must be done, and an old
/// instance must have noticed that it is fenced.
const HEALED_ROUNDS: usize = 3_000;
/// The smallest budgets admit a record or two at a time, and each repeated request waits for 200 ms.
const ROUNDS_PER_RECORD: usize = 30;

impl Simulation {
    /// Runs phase two.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        let rounds = HEALED_ROUNDS + ROUNDS_PER_RECORD * self.job.inputs.len();
        for _ in 0..rounds {
            if !self.feeder.is_done() {
                self.feed()?;
            }
            self.start_if_needed()?;
            self.round()?;
            let alone = self.processes.iter().all(|p| !p.stale) && !self.processes.is_empty();
            if alone && self.feeder.is_done() && self.drained().is_ok() {
                return self.stop_cleanly();
            }
            if let Some(what) = self.world.first_violation() {
                return Err(what);
            }
        }
        let stale = self.processes.iter().filter(|p| p.stale).count();
        let why = self.drained().err().unwrap_or_default();
        Err(format!(
            "no end within {rounds} rounds without misfortune ({stale} fenced instances still run; {why})"
        ))
    }

    fn drained(&self) -> checkers::Verdict {
        if self.worker.as_ref().is_some_and(|worker| !worker.is_idle()) {
            return Err("the worker has not answered everything".into());
        }
        checkers::drained(&self.job, &self.world.broker, self.healed_at)
    }

    /// Runs every part of every process once, in random order, and advances the clock a little.
    fn round(&mut self) -> Result<(), String> {
        self.advance(Duration::from_millis(40));
        self.work()?;
        for at in (0..self.processes.len()).rev() {
            let lanes = (0..self.processes[at].lanes).map(Turn::Lane);
            let mut turns: Vec<Turn> = lanes.chain([Turn::Intake, Turn::Commit]).collect();
            self.schedule.rng().shuffle(&mut turns);
            let number = self.processes[at].number();
            for turn in turns {
                if self.processes.get(at).is_none_or(|p| p.number() != number) {
                    break;
                }
                self.turn(at, turn)?;
            }
        }
        Ok(())
    }

    fn stop_cleanly(&mut self) -> Result<(), String> {
        for process in &mut self.processes {
            if !process.stopping {
                process.stop();
            }
        }
        for _ in 0..HEALED_ROUNDS {
            if self.processes.is_empty() {
                return Ok(());
            }
            self.round()?;
        }
        Err(format!(
            "a clean stop took more than {HEALED_ROUNDS} rounds"
        ))
    }

    /// Restores on all disks and on an empty one: all must reach the same state.
    pub(super) fn restore_everywhere(&mut self) -> Result<(), String> {
        self.disks.push(MemoryBackend::new(true));
        for machine in 0..self.disks.len() {
            if !self.start(machine)? {
                return Err("a start without misfortune failed".into());
            }
            self.processes.clear();
            checkers::disk(&self.job, &self.world.broker, &self.disks[machine])?;
        }
        self.world.first_violation().map_or(Ok(()), Err)
    }
}
