//! Time limits of a run: how long a stop may take, how long nothing may be committed, and how long to
//! wait for threads that don't return.
//!
//! Aborts a run whose time is over, and ends the application if a thread stays in a user function, which
//! can't be interrupted. Has its own thread, so that no function, broker or disk delays it. After it has
//! given up, no run starts again in this process: the abandoned thread still holds its records.

use super::watchdog::Watchdog;
use super::{Inner, StopRequest};
use crate::admin::thread_activity::ThreadActivity;
use crate::query::followers::ChangesEnd;
use crate::runtime::shared::Shared;
use crate::runtime::signal::Ending;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind};
use stoatflow_protocol::Lifecycle;

/// How long a user function may take to return after an abort.
const USER_CODE_GRACE: Duration = Duration::from_millis(1500);
/// How long brokers and disks may take after a stop has timed out.
const IO_GRACE: Duration = Duration::from_secs(5);
/// How long to wait without a time limit.
const IDLE: Duration = Duration::from_secs(3600);

impl Inner {
    /// Enforces the time limits until the run ends.
    pub(super) fn enforce_time_limits(&self, shared: &Shared) {
        let mut ending = Ending::default();
        let mut looks = 0;
        let mut watchdog = Watchdog::new(&self.spec.settings, shared.clock.monotonic());
        while !ending.over {
            let now = shared.clock.monotonic();
            let stalls = watchdog.due(self, now);
            let due = match ending.aborted {
                Some(at) => Some(at + USER_CODE_GRACE * (looks + 1)),
                None => ending.stop_by.into_iter().chain(stalls).min(),
            };
            let wait = due.map_or(IDLE, |due| due.saturating_sub(now));
            if !wait.is_zero() {
                ending = shared.wait_for_ending(ending, wait);
                continue;
            }
            match ending.aborted {
                None if ending.stop_by.is_some_and(|by| by <= now) => self.end_stop(shared, now),
                None => self.stalled(shared),
                Some(at) => {
                    looks += 1;
                    if self.should_abandon_threads(shared, ending, now.saturating_sub(at)) {
                        return self.abandon_threads(shared);
                    }
                }
            }
            ending = shared.ending();
        }
    }

    /// Aborts the run: a clean stop has timed out.
    fn end_stop(&self, shared: &Shared, now: Duration) {
        let unfinished_threads = unfinished_threads(shared, now);
        tracing::warn!(
            application = self.status.application_id,
            unfinished_threads = one_line(&unfinished_threads),
            "not everything is committed after shutdown.timeout.ms; the rest is read again at the next start"
        );
        shared.abort();
    }

    /// True if the run was aborted so long ago that waiting is useless.
    fn should_abandon_threads(&self, shared: &Shared, ending: Ending, ago: Duration) -> bool {
        let bound = self.spec.settings.shutdown_timeout.max(USER_CODE_GRACE);
        if ago >= bound || ending.is_late() && ago >= IO_GRACE {
            return true;
        }
        // The run restarts if the function returns, which is worth a longer wait.
        let begins_anew = self.shared.lock().requested == StopRequest::Nothing
            && shared.failure_kind() == Some(ErrorKind::Unavailable);
        let now = shared.clock.monotonic();
        let in_function = || {
            unfinished_threads(shared, now)
                .iter()
                .any(ThreadActivity::is_in_function)
        };
        !begins_anew && in_function()
    }

    /// Ends the application without waiting for its threads.
    pub(super) fn abandon_threads(&self, shared: &Shared) {
        // First, so that a thread that returns meanwhile starts no new run.
        self.shared.lock().requested = StopRequest::Abort;
        let unfinished_threads = unfinished_threads(shared, shared.clock.monotonic());
        for thread in &unfinished_threads {
            tracing::error!(
                application = self.status.application_id,
                %thread,
                "left behind: this thread doesn't end"
            );
        }
        let error = Arc::new(
            shared
                .take_failure()
                .unwrap_or_else(|| stuck(&unfinished_threads)),
        );
        shared.followers.end(ChangesEnd::Failed);
        let before = self.status.state();
        {
            let mut outcome = self.outcome.lock();
            if outcome.over {
                return;
            }
            outcome.threads_abandoned = true;
            outcome.ending = true;
            let error = outcome.error.get_or_insert(error);
            self.status.failed(error);
            tracing::error!(application = self.status.application_id, %error, "stopped by an error");
            // Callers of `wait` continue now, because a listener may be what hangs.
            outcome.over = true;
        }
        let now = self.spec.components.clock.now();
        let entered = self.status.enter(Lifecycle::Failed, now);
        if entered {
            self.tell_systemd(now);
        }
        self.ended.notify_all();
        if let Some(listener) = self.listener.as_ref().filter(|_| entered) {
            listener(before, Lifecycle::Failed);
        }
    }
}

/// The threads that haven't ended, those in user functions first.
pub(super) fn unfinished_threads(shared: &Shared, now: Duration) -> Vec<ThreadActivity> {
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let threads = shared.live_threads.names().into_iter();
    let mut all: Vec<_> = threads
        .map(|thread| shared.status.thread_activity(&thread, now_ms))
        .collect();
    all.sort_by_key(|at| !at.is_in_function());
    all
}

/// The threads in one line.
pub(super) fn one_line(threads: &[ThreadActivity]) -> String {
    let all: Vec<String> = threads.iter().map(ToString::to_string).collect();
    all.join("; ")
}

fn stuck(unfinished_threads: &[ThreadActivity]) -> Error {
    match unfinished_threads.first() {
        Some(first) if first.is_in_function() => {
            let names: Vec<&str> = unfinished_threads.iter().map(|at| &*at.thread).collect();
            let error = Error::stalled(format!(
                "a function did not return when the application had to end: {} left behind",
                names.join(", ")
            ));
            first.locate(error)
        }
        Some(_) => Error::stalled(format!(
            "the application did not end in time; it waited for {}",
            one_line(unfinished_threads)
        ))
        .hint("look in the log for what the broker or the disk did, then start again: recovery finds \
            out what is committed"),
        None => Error::stalled("the application did not end in time; no thread of it is left but the \
            main one")
            .hint("look in the log for what the broker, the disk or a state listener did, then start again"),
    }
}
