//! One run of a seed: phase one with faults, phase two without, then the checks.
//!
//! Returns a report or the first violated guarantee. Holds the machines, the processes, and the limit
//! within which a system without faults must finish all its work.

mod drain;
mod instances;

use crate::broker::SimBroker;
use crate::checkers;
use crate::feeder::Feeder;
use crate::mutation::Mutation;
use crate::process::{End, Process};
use crate::rng::SimRng;
use crate::schedule::{Move, Schedule};
use crate::trace::Statistics;
use crate::worker::Worker;
use crate::workload::offloads::REQUESTS;
use crate::workload::{Job, Part, is_changelog};
use crate::world::World;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Guarantee, ManualClock, Timestamp};
use stoatflow_engine::runtime::inline::Turn;
use stoatflow_log::{Broker, ClusterExpiry, NewTopic};
use stoatflow_state::memory::MemoryBackend;

/// Maximum number of turns with faults.
const MAX_FAULTY_TURNS: u32 = 12_000;

/// A run without violations.
#[derive(Clone, Debug)]
pub struct Report {
    /// Hash of all events in order; equal for equal seeds.
    pub hash: u64,
    /// How often each thing happened.
    pub statistics: Statistics,
    /// The events, if requested.
    pub events: Vec<String>,
}

/// Where a violation was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detector {
    /// The engine: it ended with an error that no fault had caused.
    Engine,
    /// A checker: the results were wrong, though the engine reported no error.
    Checker,
}

/// A run with a violation.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The violation, in words.
    pub what: String,
    /// Where it was noticed.
    pub detector: Detector,
    /// The events, if requested.
    pub events: Vec<String>,
}

/// Runs a seed. `keep_events` keeps the events as text.
///
/// # Errors
/// The first violation.
pub fn simulate(seed: u64, mutation: Mutation, keep_events: bool) -> Result<Report, Failure> {
    let mut simulation = Simulation::new(seed, mutation, keep_events).map_err(|e| {
        failure(
            format!("the simulator itself: {e}"),
            Detector::Checker,
            Vec::new(),
        )
    })?;
    let done = simulation.run();
    let world = &simulation.world;
    let first = world.first_violation();
    let (hash, events) = (world.hash(), world.take_trace());
    match first.map_or(done, Err) {
        Ok(()) => Ok(Report {
            hash,
            events,
            statistics: world.take_statistics(),
        }),
        Err(what) => Err(failure(what, simulation.detector, events)),
    }
}

fn failure(what: String, detector: Detector, events: Vec<String>) -> Failure {
    Failure {
        what,
        detector,
        events,
    }
}

struct Simulation {
    world: Arc<World>,
    job: Job,
    schedule: Schedule,
    feeder: Feeder,
    /// The worker that answers offloads.
    worker: Option<Worker>,
    /// Correlation ids of answers that were there when an instance started.
    answered_before_start: BTreeSet<String>,
    mutation: Mutation,
    /// The disks of two machines; at the end a third, empty one is added.
    disks: Vec<MemoryBackend>,
    /// The newest process is the last one.
    processes: Vec<Process>,
    started: u32,
    /// The committed watermark at the last start.
    watermark: i64,
    /// Number of ticks emitted before the schedule's position was committed for the first time.
    uncommitted_ticks: usize,
    /// The time since which there are no faults.
    healed_at: Timestamp,
    last_lanes: usize,
    /// Whether there was a long pause.
    had_long_pause: bool,
    /// The machine whose lock a new instance waits for.
    awaited_machine: Option<usize>,
    detector: Detector,
}

impl Simulation {
    fn new(seed: u64, mutation: Mutation, keep_events: bool) -> stoatflow_core::Result<Self> {
        let mut root = SimRng::new(seed);
        let job = Job::new(&mut root.split())?;
        let broker = SimBroker::new();
        let topic = |(name, partitions): (&&str, &i32)| NewTopic {
            name: (*name).to_owned(),
            partitions: *partitions,
            replication: -1,
            config: Vec::new(),
        };
        let topics: Vec<NewTopic> = job.topics.iter().map(topic).collect();
        broker.create_topics(&topics, Duration::ZERO)?;
        let feeder = Feeder::new(root.split(), &broker, job.inputs.clone());
        let clock = Arc::new(ManualClock::new(Timestamp(1_700_000_000_000)));
        let mut world = World::new(broker, clock, job.changelogs(), root.split(), keep_events);
        world.watch_disk = mutation != Mutation::StoreFirstUnseen;
        world.indexes.clone_from(&job.indexes);
        world.outside = (mutation == Mutation::RequestsOutsideTransaction).then_some(REQUESTS);
        if mutation == Mutation::OffsetsExpire {
            world.expiry = ClusterExpiry::Never;
        }
        world.tombstones_kept_forever = mutation == Mutation::StaleStateTrusted;
        world.trusts_stale_metadata = mutation == Mutation::StaleMetadataTrusted;
        world.event(format!(
            "{:?} {:?} cached: {} by watermark: {}",
            job.parts, job.guarantee, job.cached, job.by_watermark
        ));
        let schedule = Schedule::new(root.split());
        let worker = job
            .offload_settings()
            .map(|settings| Worker::new(root.split(), &world.broker, settings))
            .transpose()?;
        Ok(Self {
            world: Arc::new(world),
            schedule,
            feeder,
            worker,
            answered_before_start: BTreeSet::new(),
            mutation,
            disks: vec![MemoryBackend::new(true), MemoryBackend::new(true)],
            processes: Vec::new(),
            started: 0,
            watermark: -1,
            uncommitted_ticks: 0,
            healed_at: Timestamp(0),
            last_lanes: 0,
            had_long_pause: false,
            awaited_machine: None,
            detector: Detector::Checker,
            job,
        })
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..MAX_FAULTY_TURNS {
            if self.feeder.is_done() && self.world.is_healed() {
                break;
            }
            self.step()?;
            if let Some(what) = self.world.first_violation() {
                return Err(what);
            }
        }
        self.world.heal();
        self.healed_at = self.world.clock.now();
        self.drain()?;
        if self.job.by_watermark {
            self.world.count("runs by watermark");
        }
        if self.job.parts.iter().any(|part| part.has_timers()) {
            self.world.count("runs with timers");
        }
        if self.job.parts.contains(&Part::Bank) {
            self.world.count("runs with a bank");
        }
        if self.job.async_function().is_some() {
            self.world.count("runs with async calls");
        }
        if self
            .job
            .parts
            .iter()
            .any(|part| part.joiner_settings().is_some())
        {
            self.world.count("runs with an async joiner");
        }
        if self.job.offload_settings().is_some() {
            self.world.count("runs with an offload");
        }
        if !self.job.indexes.is_empty() {
            self.world.count("runs with indexes");
        }
        if let Some(Part::Batches { .. }) = self.job.parts.last() {
            self.world.count("runs with batches");
        }
        let late = checkers::late_records_count(&self.world.broker) as u64;
        self.world.add("late records", late);
        self.world.count(match self.job.guarantee {
            Guarantee::ExactlyOnceV2 => "runs exactly once",
            Guarantee::AtLeastOnce => "runs at least once",
        });
        checkers::outputs(&self.job, &self.world.broker, self.uncommitted_ticks)?;
        if self.worker.is_some() {
            checkers::check_answers_used(&self.world.broker, &self.answered_before_start)?;
        }
        self.restore_everywhere()
    }

    /// One move of phase one.
    fn step(&mut self) -> Result<(), String> {
        self.start_if_needed()?;
        if self.worker.as_mut().is_some_and(Worker::wants_a_turn) {
            self.work()?;
        }
        if self.processes.is_empty() {
            return Ok(());
        }
        let at = if self.schedule.rng().chance(5000) {
            self.processes.len() - 1
        } else {
            let count = self.processes.len();
            self.schedule.rng().index(count)
        };
        match self.schedule.next(self.processes[at].lanes) {
            Move::Turn(turn) => self.turn(at, turn),
            Move::Advance(by) => {
                self.advance(by);
                Ok(())
            }
            Move::Feed => self.feed(),
            Move::Compact => {
                self.world.event("compact".into());
                let changelogs = self.world.changelogs.iter().map(|(topic, _)| topic);
                let own = changelogs.filter(|topic| is_changelog(topic));
                own.for_each(|topic| self.world.broker.compact(topic));
                Ok(())
            }
            Move::Crash if self.world.fault_happens(700) => {
                self.processes[at].crash();
                self.end(at, End::Crashed);
                Ok(())
            }
            Move::Stop if !self.processes[at].stopping => {
                self.world
                    .event(format!("#{} is asked to stop", self.processes[at].number()));
                self.processes[at].stop();
                Ok(())
            }
            Move::TakeOver(elsewhere) if self.world.fault_happens(1200) => {
                self.take_over(elsewhere)
            }
            _ => Ok(()),
        }
    }

    /// The worker continues, whatever happens to the application.
    fn work(&mut self) -> Result<(), String> {
        let Some(worker) = &mut self.worker else {
            return Ok(());
        };
        let done = worker.turn(&self.world);
        done.map_err(|e| format!("the simulator itself: {e}"))
    }

    fn advance(&self, by: Duration) {
        self.world.event(format!("clock +{}", by.as_millis()));
        self.world.clock.advance(by);
    }

    fn feed(&mut self) -> Result<(), String> {
        self.world.event("feed".into());
        self.feeder
            .feed()
            .map_err(|e| format!("the simulator itself: {e}"))
    }

    fn turn(&mut self, at: usize, turn: Turn) -> Result<(), String> {
        match self.processes[at].turn(turn, self.schedule.rng()) {
            Ok(Some(end)) => self.end(at, end),
            Ok(None) => {}
            Err(finding) => {
                self.detector = Detector::Engine;
                return Err(finding);
            }
        }
        Ok(())
    }

    fn end(&mut self, at: usize, end: End) {
        let process = self.processes.remove(at);
        self.world.count(&format!("ended: {end:?}"));
        self.world
            .event(format!("#{} ended: {end:?}", process.number()));
    }
}
