//! Starts threads, and ends the run if one of them panics.
//!
//! A panic becomes the run's error and names the thread; otherwise the others would wait for it.

use crate::runtime::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use stoatflow_core::{Error, Lane, Result};
use stoatflow_operators::Runtime;
use stoatflow_operators::current_call::{CurrentCall, watch_thread};
use tracing::Span;

/// Starts a thread. Its log lines have the fields of the current span: application, lane.
#[allow(clippy::disallowed_methods)] // the one place that starts threads
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let span = Span::current();
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || span.in_scope(body))
        .map_err(|e| Error::internal(format!("the thread '{name}' can't be started")).caused_by(e))
}

/// The span of an application's log lines. Enabled at every level that logs errors.
pub(super) fn application_span(application: &str) -> Span {
    tracing::error_span!(target: "stoatflow", "application", application)
}

/// The span of a lane's log lines. The lane updates its epoch.
pub(super) fn lane_span(lane: Lane, shared: &Shared) -> Span {
    let epoch = shared.status.lane(lane).epoch.load(Relaxed);
    tracing::error_span!(target: "stoatflow", "lane", lane = lane.0, epoch)
}

/// Runs a thread's body; attached to the interpreter if it calls user functions. Records which
/// function it is in.
pub(super) fn hosted(
    guest: Option<&dyn Runtime>,
    (at, shared): (&Arc<CurrentCall>, &Shared),
    body: impl FnOnce() + Send,
) {
    watch_thread(Arc::clone(at), Arc::clone(&shared.clock));
    let mut body = Some(body);
    let mut work = || {
        if let Some(body) = body.take() {
            body();
        }
    };
    match guest {
        Some(guest) => guest.host(&mut work),
        None => work(),
    }
}

/// The threads of a run. A panic, or a thread that can't be started, ends the run.
pub(super) struct Threads<'a> {
    shared: &'a Arc<Shared>,
    started: Vec<JoinHandle<()>>,
}

impl<'a> Threads<'a> {
    pub const fn new(shared: &'a Arc<Shared>) -> Self {
        Self {
            shared,
            started: Vec::new(),
        }
    }

    pub fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) {
        let guard = PanicGuard::new(name.to_owned(), self.shared);
        let thread = spawn(name, move || {
            body();
            drop(guard);
        });
        match thread {
            Ok(thread) => self.started.push(thread),
            Err(error) => self.shared.fail(error),
        }
    }

    pub fn join(self) {
        for thread in self.started {
            // Its guard has reported a panic.
            drop(thread.join());
        }
    }
}

/// Fails the run if its thread panics. While it exists the thread counts as live.
pub(super) struct PanicGuard {
    thread: String,
    shared: Arc<Shared>,
}

impl PanicGuard {
    pub fn new(thread: String, shared: &Arc<Shared>) -> Self {
        let shared = Arc::clone(shared);
        shared.live_threads.add(&thread);
        Self { thread, shared }
    }
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.fail(panicked(&self.thread));
        }
        self.shared.live_threads.remove(&self.thread);
    }
}

pub(crate) fn panicked(thread: &str) -> Error {
    tracing::error!(thread, "a thread of the engine panicked");
    Error::internal(format!("the thread '{thread}' panicked")).hint(
        "this is a bug in the engine: report it with the log lines before; a restart continues \
            from the last commit",
    )
}
