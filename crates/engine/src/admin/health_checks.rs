//! Health checks of the user's code: their last results, for `/health/ready`.
//!
//! The host language calls each check in a thread of its own and reports when a call begins and ends.
//! Nothing here calls or waits for a check: a call that hangs shows as `timed_out`, with its age.

#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use serde::Serialize;
use std::time::Duration;
use stoatflow_core::{Error, Result};

use super::millis;

/// Maximum number of checks.
const MAX_CHECKS: usize = 100;
/// Maximum length of a name.
const MAX_NAME_BYTES: usize = 100;
/// Maximum length of what a check says.
const MAX_DETAIL_CHARS: usize = 500;
/// A result may be older than interval and timeout by this much: the host language may be busy.
const SLACK: Duration = Duration::from_secs(5);

/// A check and when it is called.
#[derive(Clone, Debug)]
pub struct HealthCheck {
    /// Its name.
    pub name: String,
    /// The pause between two calls.
    pub interval: Duration,
    /// How long a call may take.
    pub timeout: Duration,
    /// Whether the application is ready only if it passes.
    pub is_required: bool,
}

/// The state of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HealthCheckState {
    /// Its name.
    pub name: String,
    /// `passing`, `failing`, `timed_out`, `overdue` or `pending`.
    pub status: &'static str,
    /// Whether the application is ready only if it passes.
    #[serde(rename = "required")]
    pub is_required: bool,
    /// What it said, or what is wrong.
    pub detail: Option<String>,
    /// Age of the last result.
    pub age_ms: Option<u64>,
    /// For how long the current call has run.
    pub running_ms: Option<u64>,
    /// Calls that have returned.
    pub calls: u64,
    /// Calls that failed or took too long.
    pub failures: u64,
}

impl HealthCheckState {
    /// Whether the last result is fresh and good.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.status == "passing"
    }
}

#[derive(Debug)]
struct Entry {
    check: HealthCheck,
    /// When it was added, or its calls began.
    since: Duration,
    /// Begin of the current call.
    began: Option<Duration>,
    last: Option<CheckResult>,
    calls: u64,
    failures: u64,
}

#[derive(Debug)]
struct CheckResult {
    at: Duration,
    passed: bool,
    detail: Option<String>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct HealthChecks(Mutex<Vec<Entry>>);

impl HealthChecks {
    /// Adds a check; returns its number. `now` is monotonic, here and below.
    ///
    /// # Errors
    /// `Config` for a name that is taken or invalid, and for times that make no sense.
    pub fn add(&self, check: HealthCheck, now: Duration) -> Result<usize> {
        let name = &check.name;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(allowed) {
            return Err(
                Error::config(format!("'{name}' is no name of a health check"))
                    .hint("use letters, digits, '-', '_' and '.'"),
            );
        }
        if check.timeout.is_zero() || check.interval.is_zero() {
            return Err(Error::config(format!(
                "the interval and the timeout of the health check '{name}' can't be 0"
            ))
            .hint("leave them out, or give for example timeout=\"1s\", interval=\"10s\""));
        }
        let mut all = self.0.lock();
        if all.iter().any(|entry| entry.check.name == *name) {
            return Err(
                Error::config(format!("there is a health check '{name}' already"))
                    .hint("give each its own name"),
            );
        }
        if all.len() >= MAX_CHECKS {
            return Err(Error::config(format!(
                "'{name}' would be health check number {}: {MAX_CHECKS} are allowed",
                MAX_CHECKS + 1
            ))
            .hint("let one function check several things"));
        }
        all.push(Entry {
            check,
            since: now,
            began: None,
            last: None,
            calls: 0,
            failures: 0,
        });
        Ok(all.len() - 1)
    }

    /// A call begins.
    pub fn begin(&self, number: usize, now: Duration) {
        if let Some(entry) = self.0.lock().get_mut(number) {
            entry.began = Some(now);
        }
    }

    /// A call has returned.
    pub fn end(&self, number: usize, passed: bool, detail: Option<&str>, now: Duration) {
        let mut all = self.0.lock();
        let Some(entry) = all.get_mut(number) else {
            return;
        };
        let took = now.saturating_sub(entry.began.take().unwrap_or(now));
        let mut result = CheckResult {
            at: now,
            passed,
            detail: detail.map(|text| text.chars().take(MAX_DETAIL_CHARS).collect()),
        };
        if passed && took > entry.check.timeout {
            result.passed = false;
            result.detail = Some(format!(
                "it took {}, its timeout is {}",
                shown(took),
                shown(entry.check.timeout)
            ));
        }
        entry.calls += 1;
        entry.failures += u64::from(!result.passed);
        entry.last = Some(result);
    }

    /// All checks, in the order in which they were added.
    #[must_use]
    pub fn states(&self, now: Duration) -> Vec<HealthCheckState> {
        self.0.lock().iter().map(|entry| entry.state(now)).collect()
    }

    /// Why the application isn't ready, as a sentence: its required checks that don't pass.
    #[must_use]
    pub fn failing(&self, now: Duration) -> Option<String> {
        let states = self.states(now);
        let bad = (states.iter()).filter(|state| state.is_required && !state.is_passing());
        let texts: Vec<String> = bad.map(sentence).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

fn sentence(state: &HealthCheckState) -> String {
    let word = match state.status {
        "timed_out" => "timed out",
        "overdue" => "is overdue",
        "pending" => "has no result yet",
        _ => "fails",
    };
    let detail = state.detail.as_deref().unwrap_or_default();
    let colon = if detail.is_empty() { "" } else { ": " };
    format!("the health check '{}' {word}{colon}{detail}", state.name)
}

impl Entry {
    fn state(&self, now: Duration) -> HealthCheckState {
        let HealthCheck {
            interval, timeout, ..
        } = self.check;
        let running = self.began.map(|began| now.saturating_sub(began));
        let age = (self.last.as_ref()).map(|last| now.saturating_sub(last.at));
        // Without a result, as old as the check.
        let waited = age.unwrap_or_else(|| now.saturating_sub(self.since));
        let (status, detail) = match (running, &self.last) {
            (Some(running), _) if running > timeout => (
                "timed_out",
                Some(format!(
                    "it has not returned for {}, its timeout is {}",
                    shown(running),
                    shown(timeout)
                )),
            ),
            (None, _) if waited > interval + timeout + SLACK => (
                "overdue",
                Some(format!(
                    "it was due every {}, and Python has not called it for {}",
                    shown(interval),
                    shown(waited)
                )),
            ),
            (_, None) => ("pending", None),
            (_, Some(last)) if last.passed => ("passing", last.detail.clone()),
            (_, Some(last)) => ("failing", last.detail.clone()),
        };
        HealthCheckState {
            name: self.check.name.clone(),
            status,
            is_required: self.check.is_required,
            detail,
            age_ms: age.map(millis),
            running_ms: running.map(millis),
            calls: self.calls,
            failures: self.failures,
        }
    }
}

fn shown(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
