//! What was asked of an application, and how it ended.

use crate::runtime::shared::Shared;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;
use stoatflow_core::Error;

/// The run that is on, and what was asked of it: a run that begins anew is told too.
#[derive(Default)]
pub(super) struct Current {
    pub run: Option<Arc<Shared>>,
    pub requested: StopRequest,
    /// Until when a clean stop may take, monotonic.
    pub stop_by: Option<Duration>,
}

/// What the application's owner has asked for.
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
    /// Somebody is at its end.
    pub ending: bool,
    /// It ended without its threads.
    pub left: bool,
    /// The last of them has ended.
    pub all_ended: bool,
    /// There before the state says so: nobody sees the end without it.
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
