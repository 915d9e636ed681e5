//! What every lane, thread and barrier is doing.
//!
//! Read from counters and, for threads, from `/proc`; stacks are those that the interpreter tells within a
//! moment. Fields that the system doesn't provide (other than
//! Linux) are left out.

pub(super) mod stacks;

use super::{Shared, answer, millis};
use crate::admin::status::{LaneStatus, Status};
use crate::admin::thread_activity::{INTAKE, ThreadActivity};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::Lane;

/// The kernel counts processor time for user space in hundredths of a second on every platform that
/// Rust's standard library supports under Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// `/debug/threads`: lanes and threads.
pub(super) async fn threads(State(shared): State<Arc<Shared>>) -> Response {
    let runtime = (shared.target.foreign().ok()).and_then(|foreign| foreign.runtime.clone());
    let stacks = shared.stacks.read(runtime).await;
    let now = millis(shared.clock.monotonic());
    let lanes: Vec<_> = shared
        .status
        .lanes
        .iter()
        .enumerate()
        .map(|(n, l)| {
            let mut row = lane(n, l, &shared.status, now);
            row["stack"] = stacks::of_thread(&stacks, l.current_call.thread());
            row
        })
        .collect();
    let body = json!({
        "monotonic_ms": now,
        "lanes": lanes,
        "intake": json!({ "call": call(&shared.status.thread_activity(INTAKE, now)) }),
        "threads": os_threads(Path::new("/proc/self/task")),
        "python": stacks::shown(&stacks, &shared.status),
    });
    answer(StatusCode::OK, &body)
}

/// `/debug/barriers`: the open barrier, and recent commits by step and lane.
pub(super) async fn barriers(State(shared): State<Arc<Shared>>) -> Response {
    let status = &shared.status;
    let barrier = status.barrier();
    let body = json!({
        "open_epoch": barrier.open_epoch,
        "in_flight": barrier.in_flight,
        "step": barrier.step,
        "committed": barrier.committed,
        "arrivals": barrier.arrivals,
        "lanes": status.lanes.len(),
        "commits": status.commits.load(Relaxed),
        "quantiles_us": {
            "p50": status.commit_quantile_us(0.5),
            "p90": status.commit_quantile_us(0.9),
            "p99": status.commit_quantile_us(0.99),
            "max": status.commit_quantile_us(1.0),
        },
        "recent": status.recent_commits(),
        "failed": status.commit_failure(),
        "at_ms": shared.clock.now().0,
    });
    answer(StatusCode::OK, &body)
}

/// The user function that a thread is running, and its record.
fn call(at: &ThreadActivity) -> Value {
    if !at.is_in_function() {
        return Value::Null;
    }
    let mut call = json!(at);
    call["for_ms"] = json!(at.for_ms);
    call
}

fn lane(number: usize, lane: &LaneStatus, status: &Status, now: u64) -> Value {
    let id = Lane(u32::try_from(number).unwrap_or(u32::MAX));
    let since = lane.busy_since_ms.load(Relaxed);
    let working = since != 0;
    let current = if working {
        now.saturating_sub(since)
    } else {
        0
    };
    // The current batch counts too: a function that never returns must not look idle.
    let busy = lane.busy_ns.load(Relaxed) / 1_000_000 + current;
    json!({
        "lane": number,
        "state": if working { "working" } else { "idle" },
        "since_ms": working.then_some(since),
        "for_ms": working.then_some(current),
        "stage": lane.stage_plus_one.load(Relaxed).checked_sub(1),
        "call": call(&status.lane_activity(id, now)),
        "epoch": lane.epoch.load(Relaxed),
        "records": lane.records.load(Relaxed),
        "busy_ms": busy,
        "queued_items": lane.queued_items.load(Relaxed).max(0),
        "queued_bytes": lane.queued_bytes.load(Relaxed).max(0),
    })
}

/// The threads of this process; empty without `/proc`.
fn os_threads(tasks: &Path) -> Vec<Value> {
    let Ok(entries) = std::fs::read_dir(tasks) else {
        return Vec::new();
    };
    let mut threads: Vec<(u64, Value)> = entries
        .flatten()
        // A thread may end between the listing and the reading.
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let stat = ProcStat::read(&entry.path().join("stat"))?;
            let row = json!({
                "id": id,
                "name": stat.name,
                "state": stat.state_word(),
                "cpu_seconds": stat.cpu_seconds,
            });
            Some((id, row))
        })
        .collect();
    threads.sort_by_key(|(id, _)| *id);
    threads.into_iter().map(|(_, row)| row).collect()
}

/// The `/proc/…/stat` of a process or thread.
#[derive(Debug)]
pub(super) struct ProcStat {
    name: String,
    state: char,
    /// User and system time.
    pub(super) cpu_seconds: f64,
    /// Start time, in seconds after boot.
    pub(super) started_seconds: f64,
}

impl ProcStat {
    /// `None` if the file doesn't exist or has another format.
    pub(super) fn read(path: &Path) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(path).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name in brackets may contain any byte, even brackets: the last bracket ends it.
        let (head, tail) = text.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = tail.split_whitespace().collect();
        let state = fields.first()?.chars().next()?;
        let ticks: f64 =
            fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
        let started: f64 = fields.get(19)?.parse().ok()?;
        Some(Self {
            name,
            state,
            cpu_seconds: ticks / TICKS_PER_SECOND,
            started_seconds: started / TICKS_PER_SECOND,
        })
    }

    const fn state_word(&self) -> &'static str {
        match self.state {
            'R' => "running",
            'S' => "sleeping",
            'D' => "waiting for disk",
            'T' | 't' => "stopped",
            'Z' | 'X' => "ended",
            'I' => "idle",
            _ => "unknown",
        }
    }
}
