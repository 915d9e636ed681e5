//! One process of the application: an engine on a disk, from its start to its end.
//!
//! Knows which ends are allowed: a crash, a clean stop, being fenced by a new instance, or an
//! injected error. Anything else is a finding.

use crate::async_service::AsyncService;
use crate::faults::{FaultyBroker, FaultyDisk};
use crate::mutation::Mutation;
use crate::rng::SimRng;
use crate::schedule::Schedule;
use crate::workload::Job;
use crate::world::{Instance, World};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Error, ErrorKind};
use stoatflow_engine::runtime::inline::Turn;
use stoatflow_engine::startup::EngineSpec;
use stoatflow_engine::{Components, Inline};
use stoatflow_state::memory::MemoryBackend;

/// One process.
pub(crate) struct Process {
    engine: Inline,
    instance: Arc<Instance>,
    /// The service for its async calls.
    service: Option<Arc<AsyncService>>,
    /// The machine that it runs on.
    pub machine: usize,
    pub lanes: usize,
    /// Another instance has taken over, and this one must notice.
    pub stale: bool,
    pub stopping: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Crashed,
    Stopped,
    Fenced,
    Failed,
}

impl Process {
    /// Starts a process.
    ///
    /// # Errors
    /// `Err(None)` if it died of an injected fault, `Err(Some(..))` for an error that must not happen.
    pub fn start(
        world: &Arc<World>,
        job: &Job,
        schedule: &mut Schedule,
        mutation: Mutation,
        (number, machine, disk): (u32, usize, MemoryBackend),
    ) -> Result<Self, Option<String>> {
        let settings = schedule.settings(job);
        let lanes = settings.lanes as usize;
        world.event(format!(
            "#{number} starts on machine {machine} with {lanes} lanes"
        ));
        let instance = Arc::new(Instance::new(Arc::clone(world), number));
        let components = Components {
            broker: Arc::new(FaultyBroker::new(Arc::clone(&instance))),
            clock: world.clock.clone(),
            backend: Some(Arc::new(FaultyDisk::new(Arc::clone(&instance), disk))),
            commit_order: mutation.order(),
            on_restore: None,
            align_barriers: mutation != Mutation::BarriersUnaligned,
            lease: mutation.lease(),
            fault: mutation.fault(),
        };
        let service = job
            .async_function()
            .map(|function| AsyncService::new(world, number, function, schedule.rng().split()));
        let spec = EngineSpec {
            plan: Arc::clone(&job.plan),
            foreign: job.foreign(service.clone()),
            settings: Arc::new(settings),
            components,
        };
        match Inline::start(&spec) {
            Ok(engine) => {
                if let Some(service) = &service {
                    service.started();
                }
                let (stale, stopping) = (false, false);
                Ok(Self {
                    engine,
                    instance,
                    service,
                    machine,
                    lanes,
                    stale,
                    stopping,
                })
            }
            Err(error) => match classify_end(&instance, false, &error) {
                Ok(end) => {
                    world.event(format!("#{number} did not start: {end:?}"));
                    Err(None)
                }
                Err(finding) => Err(Some(finding)),
            },
        }
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.instance.number
    }

    /// The application's watermark in this process.
    pub fn watermark(&mut self) -> i64 {
        self.engine.parts().shared.status.watermark.load(Relaxed)
    }

    /// Runs one turn of the intake, a lane or the commit. Returns `Ok(Some(..))` if it ended the
    /// process.
    ///
    /// # Errors
    /// An end that must not happen.
    pub fn turn(&mut self, turn: Turn, rng: &mut SimRng) -> Result<Option<End>, String> {
        let world = Arc::clone(&self.instance.world);
        if let Some(service) = &self.service {
            let run = &self.engine.parts().shared.run;
            service.set_barrier_late(run.is_barrier_late() || run.has_ended());
            service.answer_due();
        }
        match self.engine.take(turn) {
            Ok(moved) => {
                world.event(format!("#{} {turn:?} {moved}", self.number()));
                if self.stopping && self.engine.parts().intake.is_settled() {
                    self.engine.parts().commit.close();
                    return Ok(Some(End::Stopped));
                }
                Ok(None)
            }
            Err(error) => {
                world.event(format!(
                    "#{} {turn:?} {}",
                    self.number(),
                    error.kind().name()
                ));
                let end = classify_end(&self.instance, self.stale, &error)?;
                self.run_after_failure(turn, rng);
                Ok(Some(end))
            }
        }
    }

    /// On real threads, other parts continue for a moment after one has failed.
    fn run_after_failure(&mut self, failed: Turn, rng: &mut SimRng) {
        if self.instance.is_down() {
            return;
        }
        for _ in 0..rng.below(4) {
            let turn = match rng.below(3) {
                0 => Turn::Intake,
                1 => Turn::Commit,
                _ => Turn::Lane(rng.index(self.lanes)),
            };
            if let Some(service) = &self.service {
                service.set_barrier_late(true);
            }
            // Its result doesn't matter any more, but its effects do.
            if turn != failed && self.engine.take(turn).is_err() {
                return;
            }
        }
        if rng.chance(5000) {
            self.engine.parts().commit.abandon();
        }
    }

    /// A newer instance has taken over, whether this one has noticed or not.
    pub fn become_stale(&mut self) {
        self.stale = true;
    }

    /// Requests a stop.
    pub fn stop(&mut self) {
        self.instance.stopping();
        self.stopping = true;
        self.engine.parts().shared.stop();
    }

    /// Kills the process.
    pub fn crash(&self) {
        self.instance.crash("between turns");
    }
}

/// Whether the process may end with this error: returns how it ended, or a finding.
fn classify_end(instance: &Instance, stale: bool, error: &Error) -> Result<End, String> {
    if instance.is_down() {
        return Ok(End::Crashed);
    }
    match error.kind() {
        ErrorKind::Fenced if stale => Ok(End::Fenced),
        ErrorKind::Unavailable | ErrorKind::UnknownOutcome | ErrorKind::DiskFull
            if instance.had_fault() =>
        {
            Ok(End::Failed)
        }
        kind => Err(format!(
            "process {} ended by '{}' without a reason: {error}",
            instance.number,
            kind.name()
        )),
    }
}
