//! One run of a seed: phase one with faults, phase two without, then the checks.
//!
//! Gives a report or the first broken promise. Has the machines, the processes, and the time limit
//! within which a healed system must have done all its work.

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
use crate::workload::{APPLICATION, Job, Part};
use crate::world::World;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Guarantee, ManualClock, Timestamp};
use stoatflow_engine::runtime::inline::Turn;
use stoatflow_log::{Broker, Forgetting, NewTopic};
use stoatflow_state::memory::MemoryBackend;

/// The longest phase with misfortune.
const TROUBLED_TURNS: u32 = 12_000;
/// Longer than a broker keeps offsets and tombstones.
const LONG_PAUSE: Duration = Duration::from_secs(2 * 86_400);
/// In this many rounds of all rooms, and in some more per record, a healed system must be done and an
/// old instance must have noticed that it is fenced.
const HEALED_ROUNDS: usize = 3_000;
/// The smallest budgets let a record or two through at a time, and what is asked again waits for
/// 200 ms each time.
const ROUNDS_PER_RECORD: usize = 30;

/// A run that kept all promises.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of all events in order; equal for equal seeds.
    pub hash: u64,
    /// What happened how often.
    pub statistics: Statistics,
    /// The events, if they were asked for.
    pub events: Vec<String>,
}

/// Where a broken promise was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// The engine: it ended by an error that nothing had caused.
    Engine,
    /// A checker: the results were wrong, whatever the engine thought.
    Checker,
}

/// A run that broke one.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which, in words.
    pub what: String,
    /// Where it was noticed.
    pub witness: Witness,
    /// The events, if they were asked for.
    pub events: Vec<String>,
}

/// Runs a seed. `narrate` keeps the events as text.
///
/// # Errors
/// The first broken promise.
pub fn simulate(seed: u64, mutation: Mutation, narrate: bool) -> Result<Report, Failure> {
    let mut simulation = Simulation::new(seed, mutation, narrate).map_err(|e| {
        broken(
            format!("the simulator itself: {e}"),
            Witness::Checker,
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
        Err(what) => Err(broken(what, simulation.witness, events)),
    }
}

fn broken(what: String, witness: Witness, events: Vec<String>) -> Failure {
    Failure {
        what,
        witness,
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
    /// Correlations of answers that were there when an instance started.
    promised: BTreeSet<String>,
    mutation: Mutation,
    /// The disks of two machines.
    disks: Vec<MemoryBackend>,
    /// The newest process is the last one.
    processes: Vec<Process>,
    started: u32,
    /// The committed watermark at the last start.
    watermark: i64,
    /// So many ticks were shown before one was counted.
    uncounted: usize,
    /// Since when there is no misfortune.
    healed: Timestamp,
    last_lanes: usize,
    /// Was there a long pause?
    forgotten: bool,
    /// The machine whose lock a new instance waits for.
    waits_for: Option<usize>,
    witness: Witness,
}

impl Simulation {
    fn new(seed: u64, mutation: Mutation, narrate: bool) -> stoatflow_core::Result<Self> {
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
        let mut world = World::new(broker, clock, job.changelogs(), root.split(), narrate);
        world.watch_disk = mutation != Mutation::StoreFirstUnseen;
        world.outside = (mutation == Mutation::RequestsOutside).then_some(REQUESTS);
        if mutation == Mutation::OffsetsExpire {
            world.forgetting = Forgetting::Nothing;
        }
        world.ageless = mutation == Mutation::StateAgeless;
        world.credulous = mutation == Mutation::LeadersUnasked;
        world.event(format!(
            "{:?} {:?} cached: {} by watermark: {}",
            job.parts, job.guarantee, job.cached, job.by_watermark
        ));
        let schedule = Schedule::new(root.split());
        let worker = job
            .parking()
            .map(|parking| Worker::new(root.split(), &world.broker, parking))
            .transpose()?;
        Ok(Self {
            world: Arc::new(world),
            schedule,
            feeder,
            worker,
            promised: BTreeSet::new(),
            mutation,
            disks: vec![MemoryBackend::new(true), MemoryBackend::new(true)],
            processes: Vec::new(),
            started: 0,
            watermark: -1,
            uncounted: 0,
            healed: Timestamp(0),
            last_lanes: 0,
            forgotten: false,
            waits_for: None,
            witness: Witness::Checker,
            job,
        })
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..TROUBLED_TURNS {
            if self.feeder.is_done() && self.world.is_healed() {
                break;
            }
            self.move_once()?;
            if let Some(what) = self.world.first_violation() {
                return Err(what);
            }
        }
        self.world.heal();
        self.healed = self.world.clock.now();
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
        if self.job.asking().is_some() {
            self.world.count("runs with async calls");
        }
        if self.job.parts.iter().any(|part| part.joining().is_some()) {
            self.world.count("runs with an async joiner");
        }
        if self.job.parking().is_some() {
            self.world.count("runs with an offload");
        }
        if let Some(Part::Batches { .. }) = self.job.parts.last() {
            self.world.count("runs with batches");
        }
        let late = checkers::late(&self.world.broker) as u64;
        self.world.add("late records", late);
        self.world.count(match self.job.guarantee {
            Guarantee::ExactlyOnceV2 => "runs exactly once",
            Guarantee::AtLeastOnce => "runs at least once",
        });
        checkers::outputs(&self.job, &self.world.broker, self.uncounted)?;
        if self.worker.is_some() {
            checkers::kept(&self.world.broker, &self.promised)?;
        }
        self.restore_everywhere()
    }

    /// Answers that are there before a start must count.
    fn promise(&mut self) -> Result<BTreeSet<String>, String> {
        let Some(parking) = self.job.parking() else {
            return Ok(BTreeSet::new());
        };
        // A start takes some time: what is parked is told apart by it.
        self.advance(Duration::from_millis(1));
        // Under at-least-once an older instance may not know yet that it is none any more.
        if self.job.guarantee == Guarantee::AtLeastOnce {
            return Ok(BTreeSet::new());
        }
        let (parked, answered) = checkers::answered(&self.world.broker)?;
        if parked as u64 > parking.most && !parking.rekeyed {
            return Err(format!(
                "{parked} records are parked, {} may be",
                parking.most
            ));
        }
        self.world
            .add("answers that came before a start", answered.len() as u64);
        Ok(answered)
    }

    /// No process runs for a long time.
    fn pause(&mut self) {
        self.forgotten = true;
        self.world.event("two days go by".into());
        self.world.count("long pauses");
        self.world.clock.advance(LONG_PAUSE);
        let changelogs = self.world.changelogs.iter().map(|(topic, _)| topic);
        self.world.broker.forget(changelogs);
    }

    fn start(&mut self, machine: usize) -> Result<bool, String> {
        self.started += 1;
        // What rings by the clock would be expected to have rung in between.
        let bells = self
            .job
            .parts
            .iter()
            .any(|part| matches!(part, Part::Bells(_)));
        let alone = self.processes.is_empty() && self.started > 1 && !bells;
        if alone && !self.world.is_healed() && self.schedule.rng().chance(400) {
            self.pause();
        }
        if let Some(ticks) = checkers::uncounted(&self.world.broker) {
            self.uncounted = ticks;
        }
        let promised = self.promise()?;
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
                self.promised.extend(promised);
                let (before, restored) = (self.watermark, process.watermark());
                self.watermark = checkers::watermark(&self.job, &self.world.broker);
                // Under at-least-once the offsets topic may lack the last commit, and only it is
                // left after a long pause.
                let may_go_back = self.forgotten && self.job.guarantee == Guarantee::AtLeastOnce;
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
                self.witness = Witness::Engine;
                Err(finding)
            }
        }
    }

    /// A machine without a process.
    fn free_machine(&mut self) -> Option<usize> {
        let free = |m: &usize| self.processes.iter().all(|p| p.machine != *m);
        let free: Vec<usize> = (0..self.disks.len()).filter(free).collect();
        // Mostly the first: a second disk that is far behind is the rarer case.
        if free.len() > 1 && self.schedule.rng().chance(8000) {
            return free.first().copied();
        }
        free.last().copied()
    }

    /// Starts a process if none is at work and one may start.
    fn start_if_needed(&mut self) -> Result<(), String> {
        if self.processes.iter().any(|p| !p.stale) {
            return Ok(());
        }
        let machine = match self.waits_for {
            // A new instance waits until the old one has released the state directory.
            Some(machine) if self.processes.iter().any(|p| p.machine == machine) => None,
            Some(machine) => Some(machine),
            None => self.free_machine(),
        };
        if let Some(machine) = machine
            && self.start(machine)?
        {
            self.waits_for = None;
        }
        Ok(())
    }

    /// One move of phase one.
    fn move_once(&mut self) -> Result<(), String> {
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
            Move::Room(turn) => self.turn(at, turn),
            Move::Advance(by) => {
                self.advance(by);
                Ok(())
            }
            Move::Feed => self.feed(),
            Move::Compact => {
                self.world.event("compact".into());
                self.world
                    .changelogs
                    .iter()
                    .for_each(|(topic, _)| self.world.broker.compact(topic));
                Ok(())
            }
            Move::Crash if self.world.strikes(700) => {
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
            Move::TakeOver(elsewhere) if self.world.strikes(1200) => self.take_over(elsewhere),
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

    /// A second instance.
    fn take_over(&mut self, elsewhere: bool) -> Result<(), String> {
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
        // On the same machine it fences first and then waits for the lock.
        self.world.event("a second instance starts here".into());
        self.world.count("second instances here");
        self.world.broker.take_over(APPLICATION);
        self.processes.iter_mut().for_each(Process::become_stale);
        self.waits_for = Some(machine);
        Ok(())
    }

    fn turn(&mut self, at: usize, turn: Turn) -> Result<(), String> {
        match self.processes[at].turn(turn, self.schedule.rng()) {
            Ok(Some(end)) => self.end(at, end),
            Ok(None) => {}
            Err(finding) => {
                self.witness = Witness::Engine;
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

    /// Phase two: no more misfortune; everything must be done within a bounded number of turns.
    fn drain(&mut self) -> Result<(), String> {
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
        checkers::drained(&self.job, &self.world.broker, self.healed)
    }

    /// Every room of every process once, in some order, and a little time.
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

    /// Both disks, and an empty one, must come to the same state.
    fn restore_everywhere(&mut self) -> Result<(), String> {
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
