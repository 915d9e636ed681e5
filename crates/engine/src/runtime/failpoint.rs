//! Failpoints: named places where a run can be killed, stopped, failed or delayed on purpose.
//!
//! Set with `STOATFLOW_FAILPOINTS="commit.before-offsets=kill@3,restore.batch=sleep:50"`, read when
//! an engine starts. They are in the released wheel, so that anyone can repeat what the
//! documentation says about crashes. Without the variable a failpoint costs one check of an
//! `Option`. The code at the failpoint decides what an error means.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use stoatflow_core::{Error, Result};

#[cfg(test)]
mod tests;

/// The environment variable.
pub const VARIABLE: &str = "STOATFLOW_FAILPOINTS";

/// The places, in the order in which a run reaches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failpoint {
    /// The producer is open, which has fenced older ones; the state isn't open yet.
    StartFenced,
    /// A batch of a changelog was read and is about to be written to the back end.
    RestoreBatch,
    /// Records are about to be fetched.
    IntakeFetch,
    /// Some outputs of an epoch are about to be sent.
    EpochSend,
    /// A lane has reached a barrier and hasn't handled it.
    LaneBarrier,
    /// A lane has finished an epoch and hasn't handed over its writes.
    LaneSeal,
    /// Every lane has handed over its writes; no changelog record is sent yet.
    CommitBeforeChangelog,
    /// Everything is sent, not everything is acknowledged.
    CommitBeforeFlush,
    /// Everything is acknowledged; the offsets aren't in the transaction.
    CommitBeforeOffsets,
    /// The offsets are in the transaction, which isn't committed.
    CommitBeforeCommit,
    /// The broker has committed; the local store hasn't.
    CommitBeforeApply,
    /// The local store's write batch is built; with `kill:MICROSECONDS` the process dies while it
    /// is written.
    CommitDuringApply,
    /// The local store has committed too; the commit isn't announced.
    CommitAfterApply,
    /// A stop was requested, and its barrier is about to be inserted.
    ShutdownBarrier,
    /// End offsets are about to be requested.
    ObserveEnds,
}

/// All failpoints with their names.
pub const FAILPOINT_NAMES: &[(Failpoint, &str)] = &[
    (Failpoint::StartFenced, "start.fenced"),
    (Failpoint::RestoreBatch, "restore.batch"),
    (Failpoint::IntakeFetch, "intake.fetch"),
    (Failpoint::EpochSend, "epoch.send"),
    (Failpoint::LaneBarrier, "lane.barrier"),
    (Failpoint::LaneSeal, "lane.seal"),
    (Failpoint::CommitBeforeChangelog, "commit.before-changelog"),
    (Failpoint::CommitBeforeFlush, "commit.before-flush"),
    (Failpoint::CommitBeforeOffsets, "commit.before-offsets"),
    (Failpoint::CommitBeforeCommit, "commit.before-commit"),
    (Failpoint::CommitBeforeApply, "commit.before-apply"),
    (Failpoint::CommitDuringApply, "commit.during-apply"),
    (Failpoint::CommitAfterApply, "commit.after-apply"),
    (Failpoint::ShutdownBarrier, "shutdown.barrier"),
    (Failpoint::ObserveEnds, "observe.ends"),
];

impl Failpoint {
    /// Its name in the variable.
    #[must_use]
    pub fn name(self) -> &'static str {
        let row = FAILPOINT_NAMES.iter().find(|row| row.0 == self);
        row.expect("every place is in FAILPOINT_NAMES (tested)").1
    }
}

/// The action at a failpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailpointAction {
    /// SIGKILL, at once or after this time, while the engine continues.
    Kill(Duration),
    /// SIGSTOP, until SIGCONT arrives.
    Stop,
    /// Fails as if the broker were unreachable.
    Error,
    /// The thread panics.
    Panic,
    /// The thread sleeps.
    Sleep(Duration),
}

impl FromStr for FailpointAction {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = |text: &str| text.parse::<u64>().map_err(drop);
        match text.split_once(':') {
            None if text == "kill" => Ok(Self::Kill(Duration::ZERO)),
            None if text == "stop" => Ok(Self::Stop),
            None if text == "error" => Ok(Self::Error),
            None if text == "panic" => Ok(Self::Panic),
            Some(("kill", us)) => Ok(Self::Kill(Duration::from_micros(number(us)?))),
            Some(("sleep", ms)) => Ok(Self::Sleep(Duration::from_millis(number(ms)?))),
            _ => Err(()),
        }
    }
}

/// One entry of the variable.
#[derive(Debug)]
struct Armed {
    place: Failpoint,
    fault: FailpointAction,
    /// The number of the pass at which it acts, from 1.
    at: u64,
    met: AtomicU64,
}

/// The armed failpoints. Copies count passes together.
#[derive(Clone, Default)]
pub struct Failpoints(Option<Arc<[Armed]>>);

impl fmt::Debug for Failpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("none"),
            Some(armed) => f.debug_list().entries(armed.iter()).finish(),
        }
    }
}

impl Failpoints {
    /// The failpoints that the environment variable arms.
    ///
    /// # Errors
    /// `Config`, as [`Self::parse`].
    pub fn from_environment() -> Result<Self> {
        // Not a setting, so that a configuration file can't arm it by accident.
        #[allow(clippy::disallowed_methods)]
        match std::env::var(VARIABLE) {
            Ok(text) => Self::parse(&text),
            Err(_) => Ok(Self::default()),
        }
    }

    /// Parses `failpoint=action[@pass],...`.
    ///
    /// # Errors
    /// `Config`, listing the places and faults that exist.
    pub fn parse(text: &str) -> Result<Self> {
        let entries = text.split(',').map(str::trim).filter(|e| !e.is_empty());
        let armed = entries.map(entry).collect::<Result<Vec<_>>>()?;
        Ok(Self((!armed.is_empty()).then(|| armed.into())))
    }

    /// Call when the engine reaches this failpoint.
    ///
    /// # Errors
    /// `Unavailable` if the failpoint is armed with `error`.
    #[inline]
    pub fn reach(&self, place: Failpoint) -> Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(armed) => meet(armed, place),
        }
    }
}

#[cold]
fn meet(armed: &[Armed], place: Failpoint) -> Result<()> {
    for one in armed.iter().filter(|one| one.place == place) {
        if one.met.fetch_add(1, Relaxed) + 1 == one.at {
            tracing::warn!(place = place.name(), fault = ?one.fault, "failpoint");
            trigger(one)?;
        }
    }
    Ok(())
}

fn trigger(armed: &Armed) -> Result<()> {
    match armed.fault {
        FailpointAction::Kill(Duration::ZERO) => signal(libc::SIGKILL),
        FailpointAction::Kill(later) => {
            let end = move || {
                wait(later);
                signal(libc::SIGKILL);
            };
            let thread = std::thread::Builder::new().name("stoatflow-failpoint".into());
            // Never joined: the process does not outlive it.
            thread
                .spawn(end)
                .map_err(|e| Error::internal("the failpoint has no thread").caused_by(e))?;
        }
        FailpointAction::Stop => signal(libc::SIGSTOP),
        FailpointAction::Error => {
            return Err(Error::unavailable(format!(
                "the failpoint {} says that the broker is away",
                armed.place.name()
            ))
            .hint(format!("it was armed by {VARIABLE}; start again without")));
        }
        FailpointAction::Panic => panic!("the failpoint {} was told to", armed.place.name()),
        FailpointAction::Sleep(time) => wait(time),
    }
    Ok(())
}

#[allow(clippy::disallowed_methods)] // the delay is what was requested
fn wait(time: Duration) {
    std::thread::sleep(time);
}

fn signal(number: libc::c_int) {
    // SAFETY: two system calls without pointers; the process sends to itself.
    unsafe { libc::kill(libc::getpid(), number) };
}

fn entry(text: &str) -> Result<Armed> {
    let wrong = |what: String| {
        let places: Vec<_> = FAILPOINT_NAMES.iter().map(|(_, name)| *name).collect();
        Error::config(format!("{VARIABLE}: {what} in '{text}'")).hint(format!(
            "write PLACE=FAULT or PLACE=FAULT@N (at the Nth meeting), with commas in between. Places: {}. \
             Faults: kill, kill:MICROSECONDS, stop, error, panic, sleep:MILLISECONDS",
            places.join(", ")
        ))
    };
    let (name, rest) = text
        .split_once('=')
        .ok_or_else(|| wrong("there is no '='".into()))?;
    let place = FAILPOINT_NAMES
        .iter()
        .find(|(_, known)| *known == name.trim());
    let (place, _) = *place.ok_or_else(|| wrong(format!("there is no place '{}'", name.trim())))?;
    let (fault, at) = rest.split_once('@').unwrap_or((rest, "1"));
    let fault =
        (fault.trim().parse()).map_err(|()| wrong(format!("there is no fault '{fault}'")))?;
    let at = at.trim().parse().ok().filter(|at| *at > 0);
    Ok(Armed {
        place,
        fault,
        at: at.ok_or_else(|| wrong("the number after '@' is not 1 or more".into()))?,
        met: AtomicU64::new(0),
    })
}
