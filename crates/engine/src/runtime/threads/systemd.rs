//! Tells systemd how the application is: `Type=notify` and `WatchdogSec=` of a unit.
//!
//! Takes `NOTIFY_SOCKET` and `WATCHDOG_USEC` from the environment; without the first, does nothing. Sends
//! READY at the first RUNNING, STATUS when it changes, STOPPING at the end, and WATCHDOG as long as
//! `/health/live` would answer 200. Until it is ready it asks for more time, because a restore may take
//! long. Has a thread of its own that never waits for a function, a broker or a full socket.

#[cfg(test)]
mod tests;

use super::spawn::spawn;
use super::{Inner, STALL_AFTER};
use crate::admin::restored;
use crate::admin::status::Status;
use parking_lot::Mutex;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::Timestamp;
use stoatflow_protocol::Lifecycle;

/// Longest time between two looks at the status.
const LONGEST_TICK: Duration = Duration::from_secs(5);
const SHORTEST_TICK: Duration = Duration::from_millis(50);
/// How much time a start gets from each request for more.
const EXTENSION: Duration = Duration::from_secs(30);
/// Maximum length of the status.
const MAX_STATUS_CHARS: usize = 300;

/// See the module.
#[derive(Debug)]
pub(super) struct Systemd {
    socket: UnixDatagram,
    address: SocketAddr,
    /// `WatchdogSec=` of the unit.
    watchdog: Option<Duration>,
    sent: Mutex<Sent>,
}

#[derive(Debug, Default)]
struct Sent {
    is_ready: bool,
    is_stopping: bool,
    status: String,
}

impl Systemd {
    /// `None` if this process isn't a service of that kind.
    pub(super) fn from_environment() -> Option<Self> {
        // Not settings: systemd sets them for each start.
        #[allow(clippy::disallowed_methods)]
        let read = |name: &str| std::env::var(name).ok();
        let path = read("NOTIFY_SOCKET").filter(|path| !path.is_empty())?;
        let of_this_process = read("WATCHDOG_PID")
            .and_then(|pid| pid.parse::<u32>().ok())
            .is_none_or(|pid| pid == std::process::id());
        let watchdog = read("WATCHDOG_USEC")
            .and_then(|text| text.parse().ok())
            .filter(|us| of_this_process && *us > 0)
            .map(Duration::from_micros);
        match Self::new(&path, watchdog) {
            Ok(made) => Some(made),
            Err(error) => {
                tracing::warn!(%error, path, "NOTIFY_SOCKET can't be used: systemd gets no state");
                None
            }
        }
    }

    fn new(path: &str, watchdog: Option<Duration>) -> std::io::Result<Self> {
        let address = match path.strip_prefix('@') {
            #[cfg(target_os = "linux")]
            Some(name) => SocketAddr::from_abstract_name(name)?,
            #[cfg(not(target_os = "linux"))]
            Some(_) => return Err(std::io::ErrorKind::Unsupported.into()),
            None => SocketAddr::from_pathname(path)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            address,
            watchdog,
            sent: Mutex::default(),
        })
    }

    fn send(&self, lines: &str) {
        if let Err(error) = self.socket.send_to_addr(lines.as_bytes(), &self.address) {
            tracing::debug!(%error, "systemd didn't take a message");
        }
    }

    /// How often [`Self::tick`] should be called: at least twice within `WatchdogSec=`.
    fn interval(&self) -> Duration {
        let watchdog = self.watchdog.unwrap_or(LONGEST_TICK * 2);
        (watchdog / 2).clamp(SHORTEST_TICK, LONGEST_TICK)
    }

    /// The state has changed.
    pub(super) fn entered(&self, status: &Status, now: (Duration, Timestamp)) {
        self.report(status, now, false);
    }

    /// Some time has passed.
    fn tick(&self, status: &Status, now: (Duration, Timestamp)) {
        self.report(status, now, true);
    }

    fn report(&self, status: &Status, now: (Duration, Timestamp), is_tick: bool) {
        let state = status.state();
        let text = status_line(status, state, now);
        let mut sent = self.sent.lock();
        let mut lines: Vec<String> = Vec::new();
        let starts = matches!(
            state,
            Lifecycle::Created | Lifecycle::Starting | Lifecycle::Restoring
        );
        let ends = matches!(
            state,
            Lifecycle::Stopping | Lifecycle::Stopped | Lifecycle::Failed
        );
        if !starts && !ends && !sent.is_ready {
            sent.is_ready = true;
            lines.push("READY=1".to_owned());
        }
        if ends && !sent.is_stopping {
            sent.is_stopping = true;
            lines.push("STOPPING=1".to_owned());
        }
        if starts && !sent.is_ready {
            lines.push(format!("EXTEND_TIMEOUT_USEC={}", EXTENSION.as_micros()));
        }
        // The same condition as that of /health/live.
        let lives = state != Lifecycle::Failed && !status.stalled.load(Relaxed);
        if is_tick && lives && self.watchdog.is_some() {
            lines.push("WATCHDOG=1".to_owned());
        }
        if text != sent.status {
            lines.push(format!("STATUS={text}"));
            sent.status = text;
        }
        if !lines.is_empty() {
            self.send(&lines.join("\n"));
        }
    }
}

/// What `systemctl status` shows: one line.
fn status_line(status: &Status, state: Lifecycle, now: (Duration, Timestamp)) -> String {
    let away = || status.is_broker_away(now.0);
    let text = match state {
        Lifecycle::Running => match status.ready(now.0, now.1.0, STALL_AFTER) {
            Ok(()) => format!(
                "running: {} input records committed in {} commits",
                status.records_committed.load(Relaxed),
                status.commits.load(Relaxed)
            ),
            Err((_, detail)) => format!("not ready: {detail}"),
        },
        Lifecycle::Created | Lifecycle::Starting => {
            away().map_or_else(|| "starting".to_owned(), |away| format!("starting: {away}"))
        }
        Lifecycle::Restoring => {
            let progress = away().unwrap_or_else(|| restored(&status.restore()));
            format!("restoring: {progress}")
        }
        Lifecycle::Paused => "paused: it reads nothing".to_owned(),
        Lifecycle::Stopping => "stopping: it drains and commits".to_owned(),
        Lifecycle::Stopped => "stopped".to_owned(),
        Lifecycle::Failed => match status.error() {
            Some(error) => format!("failed: {}", error.message),
            None => "failed".to_owned(),
        },
    };
    // Each line of a message is a variable of its own.
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(MAX_STATUS_CHARS).collect()
}

impl Inner {
    /// The state has changed.
    pub(super) fn tell_systemd(&self, now: Timestamp) {
        if let Some(systemd) = &self.systemd {
            let monotonic = self.spec.components.clock.monotonic();
            systemd.entered(&self.status, (monotonic, now));
        }
    }

    /// Starts the thread that keeps systemd informed until the application has ended.
    pub(super) fn keep_systemd_informed(self: &Arc<Self>) {
        let Some(systemd) = &self.systemd else {
            return;
        };
        let (inner, interval) = (Arc::clone(self), systemd.interval());
        let body = move || {
            let clock = Arc::clone(&inner.spec.components.clock);
            loop {
                if let Some(systemd) = &inner.systemd {
                    systemd.tick(&inner.status, (clock.monotonic(), clock.now()));
                }
                let mut outcome = inner.outcome.lock();
                if !outcome.over {
                    inner.ended.wait_for(&mut outcome, interval);
                }
                if outcome.over {
                    return;
                }
            }
        };
        if let Err(error) = spawn("stoatflow-systemd", body) {
            tracing::warn!(%error, "systemd gets no state and no watchdog messages");
        }
    }
}
