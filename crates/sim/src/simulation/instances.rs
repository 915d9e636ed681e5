//! Starts of processes: on which machine, with which disk, and what an older one left.
//!
//! Keeps one process running, starts second ones that fence it, and checks what a start promises: the
//! committed watermark, and the use of answers that were there before.

use super::{Detector, Simulation};
use crate::checkers;
use crate::process::Process;
use crate::workload::{APPLICATION, Part, is_changelog};
use std::collections::BTreeSet;
use std::time::Duration;
use stoatflow_core::Guarantee;
use stoatflow_state::memory::MemoryBackend;

/// Longer than the broker keeps offsets and tombstones.
const LONG_PAUSE: Duration = Duration::from_secs(2 * 86_400);

impl Simulation {
    /// The correlation ids of answers that are there before a start and must be used.
    fn answered_before_start(&mut self) -> Result<BTreeSet<String>, String> {
        let Some(settings) = self.job.offload_settings() else {
            return Ok(BTreeSet::new());
        };
        // A start takes some time: numbers of parked records begin with the clock, so they differ
        // between starts.
        self.advance(Duration::from_millis(1));
        // Under at-least-once an older instance may not know yet that it has been replaced.
        if self.job.guarantee == Guarantee::AtLeastOnce {
            return Ok(BTreeSet::new());
        }
        let (parked, answered) = checkers::answered_before_start(&self.world.broker)?;
        if parked as u64 > settings.max_parked && !settings.rekeyed {
            return Err(format!(
                "{parked} records are parked, {} may be",
                settings.max_parked
            ));
        }
        self.world
            .add("answers that came before a start", answered.len() as u64);
        Ok(answered)
    }

    /// Simulates a long time without a process.
    fn long_pause(&mut self) {
        self.had_long_pause = true;
        self.world.event("two days go by".into());
        self.world.count("long pauses");
        self.world.clock.advance(LONG_PAUSE);
        let topics = self.world.changelogs.iter().map(|(topic, _)| topic);
        let changelogs = topics.filter(|topic| is_changelog(topic));
        self.world.broker.expire_offsets_and_tombstones(changelogs);
    }

    pub(super) fn start(&mut self, machine: usize) -> Result<bool, String> {
        self.started += 1;
        // Timers by the clock would be expected to have fired during the pause.
        let timers = self
            .job
            .parts
            .iter()
            .any(|part| matches!(part, Part::Timers(_)));
        let alone = self.processes.is_empty() && self.started > 1 && !timers;
        if alone && !self.world.is_healed() && self.schedule.rng().chance(400) {
            self.long_pause();
        }
        if let Some(ticks) = checkers::uncommitted_ticks(&self.world.broker) {
            self.uncommitted_ticks = ticks;
        }
        let answered_before_start = self.answered_before_start()?;
        if !self.world.is_healed() && self.schedule.rng().chance(300) {
            self.world
                .event(format!("the disk of machine {machine} is lost"));
            self.world.count("disks lost");
            self.disks[machine] = MemoryBackend::new(true);
        }
        let disk = self.disks[machine].clone();
        let place = (self.started, machine, disk);
        match Process::start(
            &self.world,
            &self.job,
            &mut self.schedule,
            self.mutation,
            place,
        ) {
            Ok(mut process) => {
                self.world.count("starts");
                self.answered_before_start.extend(answered_before_start);
                let (before, restored) = (self.watermark, process.watermark());
                self.watermark = checkers::watermark(&self.job, &self.world.broker);
                // Under at-least-once the offsets topic may lack the last commit, and after a long pause
                // only that topic is left.
                let may_go_back =
                    self.had_long_pause && self.job.guarantee == Guarantee::AtLeastOnce;
                let (back, other) = (self.watermark < before, restored != self.watermark);
                if back && !may_go_back || other && !(may_go_back && restored < self.watermark) {
                    return Err(format!(
                        "the watermark was {before}, {} is committed, and a start began with {restored}",
                        self.watermark
                    ));
                }
                if self.last_lanes != 0 && self.last_lanes != process.lanes {
                    self.world.count("lanes changed");
                }
                self.last_lanes = process.lanes;
                self.processes.push(process);
                Ok(true)
            }
            Err(None) => Ok(false),
            Err(Some(finding)) => {
                self.detector = Detector::Engine;
                Err(finding)
            }
        }
    }

    /// A machine without a process.
    fn free_machine(&mut self) -> Option<usize> {
        let free = |m: &usize| self.processes.iter().all(|p| p.machine != *m);
        let free: Vec<usize> = (0..self.disks.len()).filter(free).collect();
        // Usually the first: a second disk that is far behind is the rarer case.
        if free.len() > 1 && self.schedule.rng().chance(8000) {
            return free.first().copied();
        }
        free.last().copied()
    }

    /// Starts a process if none is active and one may start.
    pub(super) fn start_if_needed(&mut self) -> Result<(), String> {
        if self.processes.iter().any(|p| !p.stale) {
            return Ok(());
        }
        let machine = match self.awaited_machine {
            // A new instance waits until the old one has released the state directory.
            Some(machine) if self.processes.iter().any(|p| p.machine == machine) => None,
            Some(machine) => Some(machine),
            None => self.free_machine(),
        };
        if let Some(machine) = machine
            && self.start(machine)?
        {
            self.awaited_machine = None;
        }
        Ok(())
    }

    /// Starts a second instance.
    pub(super) fn take_over(&mut self, elsewhere: bool) -> Result<(), String> {
        let Some(machine) = self.processes.iter().find(|p| !p.stale).map(|p| p.machine) else {
            return Ok(());
        };
        if elsewhere {
            let Some(machine) = self.free_machine() else {
                return Ok(());
            };
            self.world
                .event("a second instance starts elsewhere".into());
            self.world.count("second instances elsewhere");
            if self.job.guarantee == Guarantee::AtLeastOnce {
                self.world
                    .count("second instances elsewhere, at least once");
            }
            self.processes.iter_mut().for_each(Process::become_stale);
            self.start(machine)?;
            return Ok(());
        }
        // On the same machine it fences the old instance first and then waits for the lock.
        self.world.event("a second instance starts here".into());
        self.world.count("second instances here");
        self.world.broker.take_over(APPLICATION);
        self.processes.iter_mut().for_each(Process::become_stale);
        self.awaited_machine = Some(machine);
        Ok(())
    }
}
