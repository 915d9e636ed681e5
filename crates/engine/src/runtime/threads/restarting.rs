//! Restarts of an application: whether another run follows, and the wait before the first one.
//!
//! Restarts the run if the broker was unreachable, if the user's handler decides so, or if there are new
//! partitions. Each run begins from the last commit.

use super::run::RunEnd;
use super::stop_request::StopRequest;
use super::{Inner, fenced};
use crate::query::followers::ChangesEnd;
use crate::runtime::failpoint::Failpoints;
use crate::runtime::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Result};
use stoatflow_protocol::{Lifecycle, Restarts, fencings, restarts};
use tokio::runtime::Handle;

/// The decision of the user's handler about an error that would end the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartAnswer {
    /// Another run, in this process, from the last commit.
    Replace,
    /// The application ends.
    Shutdown,
}

/// The user's handler of errors that would end the application.
pub type Uncaught = Arc<dyn Fn(&Error) -> RestartAnswer + Send + Sync>;

impl Inner {
    /// Runs until the end, with restarts as described in the module.
    pub(super) fn run_with_restarts(
        self: &Arc<Self>,
        mut shared: Arc<Shared>,
        failpoints: &Failpoints,
        runtime: &Handle,
    ) -> (Result<()>, Arc<Shared>) {
        let settings = &self.spec.settings;
        let clock = &self.spec.components.clock;
        let mut restarts = Restarts::new(settings.restart_max, settings.restart_window);
        let mut has_run = false;
        let mut spec = self.spec.clone();
        self.wait_if_fenced_often(&shared);
        loop {
            let error = match self.run_once(&spec, &shared, runtime) {
                Ok(RunEnd::Stopped) => return (Ok(()), shared),
                Ok(RunEnd::NewPartitions(backend)) => {
                    if self.shared.lock().requested != StopRequest::Nothing {
                        return (Ok(()), shared);
                    }
                    shared.set_ended();
                    spec.components.backend = Some(backend);
                    self.status.reset_for_restart();
                    self.enter(Lifecycle::Starting, clock.now());
                    shared.followers.end(ChangesEnd::NewPartitions);
                    shared = self.begin(failpoints);
                    shared.run.mark_as_restart();
                    continue;
                }
                Err(error) => error,
            };
            // After a failure only the state on disk can be trusted, and readers must not keep it
            // open.
            self.readers.end();
            spec = self.spec.clone();
            // At a first start a missing broker is more often a mistyped address than an outage.
            has_run |= matches!(self.status.state(), Lifecycle::Running | Lifecycle::Paused);
            let asked = self.shared.lock().requested;
            let pause = (has_run && asked == StopRequest::Nothing)
                .then(|| self.pause_before_restart(&mut restarts, &error))
                .flatten();
            let Some(pause) = pause else {
                return (Err(error), shared);
            };
            shared.set_ended();
            self.status.restarts.fetch_add(1, Relaxed);
            self.status.reset_for_restart();
            self.enter(Lifecycle::Starting, clock.now());
            shared.followers.end(ChangesEnd::Failed);
            shared = self.begin(failpoints);
            shared.run.mark_as_restart();
            shared.pause(pause);
        }
    }

    /// How long to wait before another run, if there is to be one.
    pub(super) fn pause_before_restart(
        &self,
        restarts: &mut Restarts,
        error: &Error,
    ) -> Option<Duration> {
        let application = self.status.application_id.as_str();
        let (kind, now) = (error.kind(), self.spec.components.clock.monotonic());
        if let Some(pause) = restarts.next(kind, now) {
            tracing::warn!(
                application,
                %error,
                pause_ms = pause.as_millis(),
                "the broker or the schema registry was unreachable; restarting from the last commit"
            );
            return Some(pause);
        }
        let ask = self.uncaught.lock().clone()?;
        if ask(error) == RestartAnswer::Shutdown {
            return None;
        }
        if !restarts::may_replace(kind) {
            tracing::error!(
                application,
                "REPLACE_THREAD is not possible after this error: only a new process can start again"
            );
            return None;
        }
        let pause = restarts.again(now);
        match pause {
            Some(pause) => tracing::warn!(
                application,
                %error,
                pause_ms = pause.as_millis(),
                "REPLACE_THREAD: restarting from the last commit"
            ),
            None => tracing::error!(
                application,
                "REPLACE_THREAD: restarted too often already (restart.max.attempts in restart.window.ms)"
            ),
        }
        pause
    }

    /// Waits before taking over if this instance was fenced several times, longer each time: another
    /// instance with the same id is probably restarted again and again too.
    pub(super) fn wait_if_fenced_often(&self, shared: &Shared) {
        let clock = &self.spec.components.clock;
        let fenced = fenced::recent(&self.spec.settings.state_dir, clock.now());
        let pause = fencings::pause(fenced.len());
        if pause.is_zero() {
            return;
        }
        tracing::error!(
            application = self.status.application_id,
            times = fenced.len(),
            within_s = fencings::WINDOW.as_secs(),
            pause_ms = pause.as_millis(),
            "this instance was fenced several times: another one with the same application.id is started \
             again and again too; it waits before it takes over. Next: stop one of the two"
        );
        self.enter(Lifecycle::Starting, clock.now());
        let until = clock.monotonic().saturating_add(pause);
        while !shared.is_stopping() {
            let left = until.saturating_sub(clock.monotonic());
            if left.is_zero() {
                break;
            }
            shared.pause(left);
        }
    }

    /// Records it if another instance took over.
    pub(super) fn note_fencing(&self, error: &Error) {
        if error.kind() == ErrorKind::Fenced {
            fenced::remember(
                &self.spec.settings.state_dir,
                self.spec.components.clock.now(),
            );
        }
    }
}
