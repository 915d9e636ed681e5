//! The stacks of the host language's threads, for `/debug/threads`.
//!
//! A thread of its own asks the runtime, which may have to wait for the interpreter; the port waits for a
//! moment only. At most one such thread exists: while it waits, there are no stacks.

#[cfg(test)]
mod tests;

use crate::admin::status::{LaneStatus, Status};
use crate::runtime::threads::spawn::spawn;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use stoatflow_operators::{Runtime, StackFrame, ThreadStack};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long the interpreter has to let a thread in.
const STACKS_TIMEOUT: Duration = Duration::from_millis(300);

/// Reads stacks, one request at a time.
#[derive(Debug, Default)]
pub(in crate::admin) struct StackReader {
    is_waiting: Arc<AtomicBool>,
}

/// Stacks, or why there are none.
pub(in crate::admin) type Stacks = Result<Vec<ThreadStack>, &'static str>;

const HELD: &str = "the interpreter lets no thread in: a function holds its lock (the GIL). The lane whose \
    `call` has run for longest is the first suspect";

impl StackReader {
    /// All stacks.
    pub(in crate::admin) async fn read(&self, runtime: Option<Arc<dyn Runtime>>) -> Stacks {
        let Some(runtime) = runtime else {
            return Err("the application runs no interpreter");
        };
        if self.is_waiting.swap(true, SeqCst) {
            return Err(HELD);
        }
        let waits = EndsWaiting(Arc::clone(&self.is_waiting));
        let (said, hears) = oneshot::channel();
        let asks = move || {
            let stacks = runtime.thread_stacks();
            drop(waits);
            // The receiver is gone if this took too long.
            let _unheard = said.send(stacks);
        };
        if spawn("stoatflow-stacks", asks).is_err() {
            return Err("no thread can be started to ask the interpreter");
        }
        match timeout(STACKS_TIMEOUT, hears).await {
            Ok(Ok(Some(stacks))) => Ok(stacks),
            Ok(_) => Err("the interpreter is shutting down, or failed to say it"),
            Err(_) => Err(HELD),
        }
    }
}

struct EndsWaiting(Arc<AtomicBool>);

impl Drop for EndsWaiting {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

/// The stacks as JSON, with the lanes of the threads.
pub(super) fn shown(stacks: &Stacks, status: &Status) -> Value {
    let stacks = match stacks {
        Ok(stacks) => stacks,
        Err(why) => return json!({ "available": false, "reason": why, "threads": [] }),
    };
    let lane_of = |id: u64| {
        let is = |lane: &LaneStatus| lane.current_call.thread() == Some(id);
        status.lanes.iter().position(is)
    };
    let threads = stacks.iter().map(|thread| {
        json!({
            "id": thread.id,
            "name": thread.name,
            "lane": lane_of(thread.id),
            "stack": frames(&thread.frames),
        })
    });
    json!({ "available": true, "threads": threads.collect::<Vec<_>>() })
}

/// The stack of one thread; null if it isn't known.
pub(super) fn of_thread(stacks: &Stacks, id: Option<u64>) -> Value {
    let (Ok(stacks), Some(id)) = (stacks, id) else {
        return Value::Null;
    };
    let found = stacks.iter().find(|thread| thread.id == id);
    found.map_or(Value::Null, |thread| frames(&thread.frames))
}

fn frames(frames: &[StackFrame]) -> Value {
    let rows = frames.iter().map(|frame| {
        json!({
            "file": frame.file,
            "line": frame.line,
            "function": frame.function,
            "code": frame.code,
        })
    });
    rows.collect()
}
