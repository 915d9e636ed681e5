//! What outlives every engine of a run: the broker, the clock, randomness, and the trace.
//!
//! Decides from the seed whether a call fails, and collects violations. An [`Instance`] is one process:
//! once it is down, its calls have no effect.

use crate::broker::{Ends, SimBroker};
use crate::faults::{Fault, FaultPoint};
use crate::rng::SimRng;
use crate::trace::{Statistics, Trace};
use crate::workload::indexes::SimIndex;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use stoatflow_core::{Error, ManualClock, Result};
use stoatflow_log::ClusterExpiry;
use stoatflow_state::Layout;

#[derive(Debug)]
struct Inner {
    rng: SimRng,
    trace: Trace,
    statistics: Statistics,
    violations: Vec<String>,
    /// Number of faults left.
    budget: u32,
    /// Multiplies every probability.
    severity: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct World {
    pub broker: SimBroker,
    pub clock: Arc<ManualClock>,
    /// Changelog topics and layouts by store number.
    pub changelogs: Vec<(String, Layout)>,
    /// Indexes to compare with their stores after each write.
    pub indexes: Vec<SimIndex>,
    /// Whether to compare the disk with the broker after each epoch.
    pub watch_disk: bool,
    /// What engines believe the broker forgets.
    pub expiry: ClusterExpiry,
    /// Whether engines believe that tombstones are kept forever (a mutation).
    pub tombstones_kept_forever: bool,
    /// Whether engines trust stale metadata (a mutation).
    pub trusts_stale_metadata: bool,
    /// The ends of logs when the previous process started.
    earlier_ends: Mutex<Ends>,
    /// The topic that engines write to outside their transactions (a mutation).
    pub outside: Option<&'static str>,
    inner: Mutex<Inner>,
}

impl World {
    pub fn new(
        broker: SimBroker,
        clock: Arc<ManualClock>,
        changelogs: Vec<(String, Layout)>,
        mut rng: SimRng,
        keep_events: bool,
    ) -> Self {
        let budget = u32::try_from(rng.between(0, 24)).unwrap_or(0);
        let severity = u32::try_from(rng.between(1, 4)).unwrap_or(1);
        let inner = Inner {
            rng,
            trace: Trace::new(keep_events),
            statistics: Statistics::default(),
            violations: Vec::new(),
            budget,
            severity,
        };
        Self {
            broker,
            clock,
            changelogs,
            indexes: Vec::new(),
            watch_disk: true,
            expiry: ClusterExpiry::AfterRetention,
            tombstones_kept_forever: false,
            trusts_stale_metadata: false,
            earlier_ends: Mutex::default(),
            outside: None,
            inner: Mutex::new(inner),
        }
    }

    pub fn event(&self, event: String) {
        self.inner.lock().trace.event(event);
    }

    pub fn count(&self, what: &str) {
        self.inner.lock().statistics.count(what);
    }

    pub fn add(&self, what: &str, times: u64) {
        self.inner.lock().statistics.add(what, times);
    }

    pub fn below(&self, end: usize) -> usize {
        self.inner.lock().rng.index(end)
    }

    /// Whether a fault is left and happens with this probability (in ten thousand); uses it up then.
    pub fn fault_happens(&self, in_ten_thousand: u32) -> bool {
        let mut inner = self.inner.lock();
        if inner.budget == 0 {
            return false;
        }
        let chance = in_ten_thousand * inner.severity;
        let fault_happens = inner.rng.chance(chance);
        inner.budget -= u32::from(fault_happens);
        fault_happens
    }

    /// What happens to a call. Draws one random number, whatever the outcome.
    fn draw_fault(&self, point: FaultPoint) -> Fault {
        let mut inner = self.inner.lock();
        if inner.budget == 0 {
            return Fault::None;
        }
        let mut drawn = u32::try_from(inner.rng.below(10_000)).unwrap_or(0);
        for (fault, chance) in point.chances() {
            let chance = chance * inner.severity;
            if drawn < chance {
                inner.budget -= 1;
                return fault;
            }
            drawn -= chance;
        }
        Fault::None
    }

    /// The ends of logs when the previous process started, which a stale broker reports. Called once by
    /// each process.
    pub fn stale_ends(&self) -> Ends {
        std::mem::replace(&mut *self.earlier_ends.lock(), self.broker.ends())
    }

    /// No more faults from now on.
    pub fn heal(&self) {
        self.inner.lock().budget = 0;
    }

    pub fn is_healed(&self) -> bool {
        self.inner.lock().budget == 0
    }

    pub fn violation(&self, what: String) {
        let mut inner = self.inner.lock();
        inner.trace.event(format!("BROKEN: {what}"));
        inner.violations.push(what);
    }

    pub fn first_violation(&self) -> Option<String> {
        self.inner.lock().violations.first().cloned()
    }

    pub fn hash(&self) -> u64 {
        self.inner.lock().trace.hash()
    }

    pub fn take_trace(&self) -> Vec<String> {
        self.inner.lock().trace.take()
    }

    pub fn take_statistics(&self) -> Statistics {
        std::mem::take(&mut self.inner.lock().statistics)
    }
}

/// One process.
#[derive(Debug)]
pub(crate) struct Instance {
    pub world: Arc<World>,
    pub number: u32,
    down: AtomicBool,
    had_fault: AtomicBool,
    stopping: AtomicBool,
}

impl Instance {
    pub fn new(world: Arc<World>, number: u32) -> Self {
        let off = || AtomicBool::new(false);
        Self {
            world,
            number,
            down: off(),
            had_fault: off(),
            stopping: off(),
        }
    }

    /// Whether the process is dead.
    pub fn is_down(&self) -> bool {
        self.down.load(Relaxed)
    }

    /// Whether one of its calls was made to fail.
    pub fn had_fault(&self) -> bool {
        self.had_fault.load(Relaxed)
    }

    /// The process has been asked to stop.
    pub fn stopping(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// Kills the process.
    pub fn crash(&self, phase: &str) {
        self.down.store(true, Relaxed);
        self.world.count(&format!("crash {phase}"));
        if self.stopping.load(Relaxed) {
            self.world.count("crash in shutdown");
        }
        self.world.event(format!("#{} crash {phase}", self.number));
    }

    fn dead() -> Error {
        Error::unavailable("this process is dead; nobody should see this message")
    }

    /// What happens to a call of this process; `Err` if it is dead already.
    pub fn draw_fault(&self, point: FaultPoint) -> Result<Fault> {
        if self.is_down() {
            return Err(Self::dead());
        }
        Ok(self.world.draw_fault(point))
    }

    /// Makes a call, with a fault from the seed.
    pub fn call<T>(&self, point: FaultPoint, act: impl FnOnce() -> Result<T>) -> Result<T> {
        let fault = self.draw_fault(point)?;
        self.call_as(point, fault, act)
    }

    /// Like `call`, with a known fault.
    pub fn call_as<T>(
        &self,
        point: FaultPoint,
        fault: Fault,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match fault {
            Fault::None => {
                let outcome = act();
                let said = outcome.as_ref().map_or_else(|e| e.kind().name(), |_| "ok");
                self.world
                    .event(format!("#{} {point:?} {said}", self.number));
                outcome
            }
            Fault::CrashBefore => {
                self.crash(point.phase_before());
                Err(Self::dead())
            }
            Fault::CrashAfter => {
                let happened = act().is_ok();
                self.crash(if happened {
                    point.phase_after()
                } else {
                    point.phase_before()
                });
                Err(Self::dead())
            }
            Fault::FailBefore => Err(self.failure(point, false)),
            Fault::FailAfter | Fault::Aborted => {
                act()?;
                Err(self.failure(point, true))
            }
        }
    }

    /// Notes that a call failed, and returns the error.
    pub fn failure(&self, point: FaultPoint, happened: bool) -> Error {
        self.had_fault.store(true, Relaxed);
        let kind = point.failure();
        let what = format!("{} at {point:?}, happened: {happened}", kind.name());
        self.world.count(&what);
        self.world.event(format!("#{} {what}", self.number));
        Error::new(kind, format!("simulated: {what}"))
    }
}
