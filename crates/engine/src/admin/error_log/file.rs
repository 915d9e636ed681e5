//! Keeps the last errors in a file beside the local state, so that they survive a restart.
//!
//! Failures to read or write the file are only logged, so they never fail a start or a stop.

use super::{ErrorEntry, ErrorLog};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Minimum time between two writes.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Deserialize, Serialize)]
struct Saved {
    cause: String,
    #[serde(flatten)]
    entry: ErrorEntry,
}

fn file(state_dir: &Path) -> PathBuf {
    state_dir.join("errors.json")
}

impl ErrorLog {
    /// Loads what an earlier run has saved.
    pub(crate) fn load(&self, state_dir: &Path) {
        let Ok(text) = std::fs::read(file(state_dir)) else {
            return;
        };
        match serde_json::from_slice::<Vec<Saved>>(&text) {
            Ok(saved) => {
                let saved = saved
                    .into_iter()
                    .map(|Saved { cause, entry }| ErrorEntry { cause, ..entry });
                self.entries.lock().splice(0..0, saved);
            }
            Err(error) => tracing::debug!(%error, "the errors of earlier runs can't be read"),
        }
    }

    /// Saves the errors if there are new ones, at most once a second. Without local state there is no
    /// directory to save them in.
    pub(crate) fn save(&self, state_dir: &Path, now: Duration, is_end: bool) {
        if !self.is_changed.load(Relaxed) {
            return;
        }
        let mut saved_at = self.saved_at.lock();
        let is_due = saved_at.is_none_or(|at| now.saturating_sub(at) >= WRITE_INTERVAL);
        if !(is_due || is_end) {
            return;
        }
        *saved_at = Some(now);
        self.is_changed.store(false, Relaxed);
        let entries = self.entries.lock().clone();
        let saved: Vec<Saved> = entries
            .into_iter()
            .map(|entry| Saved {
                cause: entry.cause.clone(),
                entry,
            })
            .collect();
        let Ok(text) = serde_json::to_vec(&saved) else {
            return;
        };
        // Renamed once it is complete: a crash leaves the previous file.
        let whole = file(state_dir);
        let part = whole.with_extension("json.part");
        let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &whole));
        match written {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::debug!(%error, "errors can't be saved beside the state");
            }
            _ => {}
        }
    }
}
