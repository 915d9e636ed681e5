//! When the instance on this machine was fenced, kept beside the local state.
//!
//! Owns a file of times. A file that can't be read or written counts as missing: a start must not fail
//! because of it.

use std::path::{Path, PathBuf};
use stoatflow_core::Timestamp;
use stoatflow_protocol::fencings;

fn file(state_dir: &Path) -> PathBuf {
    state_dir.join("fenced-at")
}

/// The times that are recent enough to count.
pub(super) fn recent(state_dir: &Path, now: Timestamp) -> Vec<i64> {
    let text = std::fs::read_to_string(file(state_dir)).unwrap_or_default();
    let times: Vec<i64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    fencings::recent(&times, now.0)
}

/// Adds the current time.
pub(super) fn remember(state_dir: &Path, now: Timestamp) {
    let mut times = recent(state_dir, now);
    times.push(now.0);
    let text: String = times.iter().map(|at| format!("{at}\n")).collect();
    let written =
        std::fs::create_dir_all(state_dir).and_then(|()| std::fs::write(file(state_dir), text));
    if let Err(error) = written {
        tracing::debug!(%error, "having been fenced can't be noted");
    }
}
