//! What a thread of a run is doing: for the log, the admin port and error messages.
//!
//! Read from counters and from the user function that a thread is running; never blocks.

use crate::admin::status::{LaneStatus, Status};
use serde::Serialize;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Error, Lane, Offset, Partition};
use stoatflow_operators::current_call::{CurrentCall, Running};

/// Name prefix of lane threads.
const LANE: &str = "stoatflow-lane-";
/// The thread of intake, which also calls extractors.
pub(crate) const INTAKE: &str = "stoatflow-intake";

/// The name of a lane's thread.
pub(crate) fn lane_thread(lane: Lane) -> String {
    format!("{LANE}{lane}")
}

/// See the module. Unknown fields are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadActivity {
    /// The thread's name.
    #[serde(skip)]
    pub thread: String,
    /// The lane.
    #[serde(skip)]
    pub lane: Option<u32>,
    /// The stage of its current batch.
    #[serde(skip)]
    pub stage: Option<u64>,
    /// The user function that it is running (`app.py:12 is_large`).
    pub function: Option<String>,
    /// The node that calls it, or all of them if several do.
    pub node: Option<String>,
    /// The topic of the record passed to the function.
    pub topic: Option<String>,
    /// Its partition.
    pub partition: Option<i32>,
    /// Its offset.
    pub offset: Option<i64>,
    /// For how long the call has run, or the batch if no function is running.
    #[serde(skip)]
    pub for_ms: Option<u64>,
    /// The interpreter's id of the thread.
    #[serde(skip)]
    pub id: Option<u64>,
}

impl ThreadActivity {
    /// Whether the thread is in a user function.
    #[must_use]
    pub const fn is_in_function(&self) -> bool {
        self.function.is_some()
    }

    /// Adds the activity to an error's coordinates.
    #[must_use]
    pub fn locate(&self, error: Error) -> Error {
        error.at(|at| {
            at.function.clone_from(&self.function);
            at.node.clone_from(&self.node);
            at.topic.clone_from(&self.topic);
            at.partition = self.partition.map(Partition);
            at.offset = self.offset.map(Offset);
            at.lane = self.lane.map(Lane);
        })
    }
}

impl fmt::Display for ThreadActivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.thread)?;
        let mut say = |what: &str, value: Option<String>| match value {
            Some(value) => write!(f, ", {what} {value}"),
            None => Ok(()),
        };
        say("stage", self.stage.map(|s| s.to_string()))?;
        say("function", self.function.clone())?;
        say("node", self.node.clone())?;
        say("topic", self.topic.clone())?;
        say("partition", self.partition.map(|p| p.to_string()))?;
        say("offset", self.offset.map(|o| o.to_string()))?;
        #[allow(clippy::cast_precision_loss)] // tenths of seconds
        let seconds = self.for_ms.map(|ms| format!("{:.1} s", ms as f64 / 1000.0));
        say("for", seconds)
    }
}

impl Status {
    /// What the thread with this name is doing. `now_ms`: monotonic.
    pub(crate) fn thread_activity(&self, thread: &str, now_ms: u64) -> ThreadActivity {
        let lane = thread.strip_prefix(LANE).and_then(|n| n.parse().ok());
        match lane {
            Some(lane) => self.lane_activity(Lane(lane), now_ms),
            None if thread == INTAKE => self.in_function(thread, &self.intake, now_ms),
            None => ThreadActivity {
                thread: thread.to_owned(),
                ..ThreadActivity::default()
            },
        }
    }

    /// What a lane is doing.
    pub(crate) fn lane_activity(&self, lane: Lane, now_ms: u64) -> ThreadActivity {
        let status = self.lane(lane);
        let since = status.busy_since_ms.load(Relaxed);
        let found = self.in_function(&lane_thread(lane), &status.current_call, now_ms);
        ThreadActivity {
            lane: Some(lane.0),
            stage: status.stage_plus_one.load(Relaxed).checked_sub(1),
            for_ms: found
                .for_ms
                .or_else(|| (since > 0).then(|| now_ms.saturating_sub(since))),
            ..found
        }
    }

    /// The activity and the open epoch of the lane whose thread has this id in the interpreter.
    #[must_use]
    pub fn activity_of(&self, thread: u64, now_ms: u64) -> Option<(ThreadActivity, u64)> {
        let is = |lane: &LaneStatus| lane.current_call.thread() == Some(thread);
        let lane = self.lanes.iter().position(is)?;
        let epoch = self.lanes[lane].epoch.load(Relaxed);
        let lane = Lane(u32::try_from(lane).ok()?);
        Some((self.lane_activity(lane, now_ms), epoch))
    }

    fn in_function(&self, thread: &str, current_call: &CurrentCall, now_ms: u64) -> ThreadActivity {
        let mut found = ThreadActivity {
            thread: thread.to_owned(),
            id: current_call.thread(),
            ..ThreadActivity::default()
        };
        let Some(running) = current_call.running() else {
            return found;
        };
        let (function, nodes) = self.calls.at(running.callee).unwrap_or(("?", &[]));
        found.function = Some(function.to_owned());
        found.node = (!nodes.is_empty()).then(|| nodes.join(" or "));
        found.for_ms = Some(now_ms.saturating_sub(running.since_ms));
        self.add_record(&mut found, running);
        found
    }

    fn add_record(&self, found: &mut ThreadActivity, running: Running) {
        let Some(origin) = running.origin else {
            return;
        };
        let source = self.plan.sources.get(usize::from(origin.source.0));
        found.topic = source
            .and_then(|source| source.topics.get(usize::from(origin.topic)))
            .cloned();
        found.partition = Some(origin.partition.0);
        found.offset = Some(origin.offset.0);
    }
}
