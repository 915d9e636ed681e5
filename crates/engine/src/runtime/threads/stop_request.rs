//! What the user has requested of an application, and how it ended.

use crate::runtime::shared::Shared;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;
use stoatflow_core::Error;

/// The current run, and the request, which also applies to later runs.
#[derive(Default)]
pub(super) struct Current {
    pub run: Option<Arc<Shared>>,
    pub requested: StopRequest,
    /// True if reading is paused.
    pub paused: bool,
    /// When a clean stop must be done (monotonic).
    pub stop_by: Option<Duration>,
}

/// The request of the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StopRequest {
    #[default]
    Nothing,
    Stop,
    Abort,
}

#[derive(Default)]
pub(super) struct Outcome {
    pub started: bool,
    pub over: bool,
    /// True if a thread is already ending it.
    pub ending: bool,
    /// True if it ended without waiting for its threads.
    pub threads_abandoned: bool,
    /// True if all threads have ended.
    pub all_ended: bool,
    /// Set before the state, so that the end is never seen without it.
    pub error: Option<Arc<Error>>,
    /// The thread that calls listeners.
    pub main: Option<ThreadId>,
}

pub(super) fn signal(shared: &Shared, what: StopRequest, stop_by: Option<Duration>) {
    if let Some(at) = stop_by {
        shared.stop_by(at);
    }
    match what {
        StopRequest::Nothing => {}
        StopRequest::Stop => shared.stop(),
        StopRequest::Abort => shared.abort(),
    }
}
