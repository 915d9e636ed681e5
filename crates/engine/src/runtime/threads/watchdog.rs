//! Ends an application that commits nothing although records wait, and reports which thread is
//! stuck.
//!
//! Every commit waits for every lane, so one function that doesn't return stops all of them;
//! restarting the process helps. The report goes to the log and to a file. An unreachable broker
//! has time limits of its own. The interpreter is asked for stacks on another thread, because a
//! function may hold its lock.

use super::Inner;
use super::ending::{one_line, unfinished_threads};
use super::spawn::spawn;
use crate::admin::thread_activity::ThreadActivity;
use crate::runtime::shared::Shared;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::time::Duration;
use stoatflow_core::{Error, Result, Settings};
use stoatflow_protocol::Lifecycle;

/// How long the interpreter has to report where its threads are.
const STACKS_TIMEOUT: Duration = Duration::from_secs(2);

/// Detects that nothing was committed for too long.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// `stall.timeout.ms` plus the commit interval; `None`: off.
    limit: Option<Duration>,
    /// Progress before this doesn't count.
    since: Duration,
}

impl Watchdog {
    /// Starts with a new run.
    pub(super) fn new(settings: &Settings, now: Duration) -> Self {
        let limit = settings.stall_timeout;
        Self {
            limit: limit.map(|limit| limit + settings.commit_interval),
            since: now,
        }
    }

    /// When (monotonic) the run counts as stalled unless it makes progress before; `None`: off.
    pub(super) fn due(&mut self, inner: &Inner, now: Duration) -> Option<Duration> {
        let limit = self.limit?;
        let status = &inner.status;
        let works = matches!(
            status.state(),
            Lifecycle::Running | Lifecycle::Paused | Lifecycle::Stopping
        );
        if !works || status.broker_away.load(Relaxed) {
            self.since = now;
        }
        let progress = Duration::from_millis(status.progress_ms.load(Relaxed));
        Some(progress.max(self.since) + limit)
    }
}

impl Inner {
    /// Fails the run, because nothing was committed for too long.
    pub(super) fn stalled(&self, shared: &Shared) {
        self.status.stalled.store(true, Relaxed);
        let now = shared.clock.monotonic();
        let silent =
            now.saturating_sub(Duration::from_millis(self.status.progress_ms.load(Relaxed)));
        let threads = unfinished_threads(shared, now);
        let report = self.report(silent, &threads);
        let application = &self.status.application_id;
        let file = match self.keep(&report) {
            Ok(file) => file.display().to_string(),
            Err(error) => {
                tracing::warn!(application, %error, "the report of a stall can't be written to a file");
                String::new()
            }
        };
        tracing::error!(application, file, "{report}");
        let error = Error::stalled(format!(
            "nothing was committed for {} s although records wait; {}",
            silent.as_secs(),
            one_line(&threads)
        ));
        let worst = threads.iter().filter(|at| at.is_in_function());
        shared.fail(match worst.max_by_key(|at| at.for_ms) {
            Some(at) => at.locate(error),
            None => error.hint(
                "look in the log and at the report beside the state for the step that \
                hangs, then start again",
            ),
        });
    }

    fn report(&self, silent: Duration, threads: &[ThreadActivity]) -> String {
        let status = &self.status;
        let mut text = format!(
            "{} has committed nothing for {} s although records wait.\n\nThreads:\n",
            status.application_id,
            silent.as_secs()
        );
        for thread in threads {
            let _infallible = writeln!(text, "  {thread}");
        }
        let barrier = status.barrier();
        let _infallible = writeln!(
            text,
            "\nEpochs: {} is open, {:?} is being committed (step {:?}), {:?} was the last one.",
            barrier.open_epoch, barrier.in_flight, barrier.step, barrier.committed
        );
        let stacks = self.stacks(threads);
        text + "\n"
            + stacks.as_deref().unwrap_or(
                "The interpreter's stacks are not available: a \
            function holds it, or there is none.\n",
            )
    }

    /// The stacks of the interpreter's threads.
    fn stacks(&self, threads: &[ThreadActivity]) -> Option<String> {
        let runtime = self.spec.foreign.runtime.clone()?;
        let named: Vec<(u64, String)> = threads
            .iter()
            .filter_map(|at| Some((at.id?, at.thread.clone())))
            .collect();
        let (said, hears) = mpsc::channel();
        spawn("stoatflow-stacks", move || {
            // The receiver is gone if this took too long.
            let _unheard = said.send(runtime.stacks(&named));
        })
        .ok()?;
        hears.recv_timeout(STACKS_TIMEOUT).ok().flatten()
    }

    fn keep(&self, report: &str) -> Result<PathBuf> {
        let folder = &self.spec.settings.state_dir;
        let now = self.spec.components.clock.now();
        let file = folder.join(format!("stalled-{}.txt", now.0));
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&file, report))
            .map_err(|e| Error::internal(file.display().to_string()).caused_by(e))?;
        Ok(file)
    }
}
