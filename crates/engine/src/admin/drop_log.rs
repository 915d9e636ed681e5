//! Limits how often dropped records are logged.
//!
//! Counts dropped records by cause. Returns how many a log line should report, if one is due: the first
//! of a cause at once, then at most one line in ten seconds, and at most `MAX_LINES_PER_INTERVAL` for all
//! causes together. Records that no line has reported yet are reported later, by a line of their own.
//! Counters of the metrics are kept elsewhere.

#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// Minimum time between two lines of one cause.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of lines of all causes in that time.
const MAX_LINES_PER_INTERVAL: u32 = 20;
/// Maximum number of causes that are tracked separately.
const MAX_CAUSES: usize = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub struct DropLog {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    causes: HashMap<String, Cause>,
    /// When the current ten seconds began, and the lines logged since.
    since: Duration,
    lines: u32,
}

#[derive(Debug)]
struct Cause {
    node: String,
    reason: &'static str,
    logged_at: Option<Duration>,
    unlogged: u64,
}

/// Dropped records that no line has reported yet.
#[derive(Debug, PartialEq, Eq)]
pub struct UnloggedDrops {
    /// The node.
    pub node: String,
    /// The reason.
    pub reason: &'static str,
    /// Number of records.
    pub records: u64,
}

impl State {
    /// Counts a line, if the limit for all causes permits one.
    fn has_line_budget(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.since) >= LOG_INTERVAL {
            (self.since, self.lines) = (now, 0);
        }
        let has_budget = self.lines < MAX_LINES_PER_INTERVAL;
        self.lines += u32::from(has_budget);
        has_budget
    }
}

impl Cause {
    fn is_due(&self, now: Duration) -> bool {
        self.logged_at
            .is_none_or(|logged| now.saturating_sub(logged) >= LOG_INTERVAL)
    }
}

impl DropLog {
    /// Counts dropped records. Returns how many to report, if a line is due.
    pub fn count(
        &self,
        cause: &str,
        (node, reason): (&str, &'static str),
        records: u64,
        now: Duration,
    ) -> Option<u64> {
        let mut state = self.state.lock();
        if !state.causes.contains_key(cause) {
            if state.causes.len() >= MAX_CAUSES {
                state
                    .causes
                    .retain(|_, cause| cause.unlogged > 0 || !cause.is_due(now));
            }
            // Too many causes to tell apart: the causes of a node and reason become one.
            let name = match state.causes.len() >= MAX_CAUSES {
                true => format!("{node}|{reason}"),
                false => cause.to_owned(),
            };
            state.causes.entry(name).or_insert_with(|| Cause {
                node: node.to_owned(),
                reason,
                logged_at: None,
                unlogged: 0,
            });
        }
        let together = format!("{node}|{reason}");
        let known = match state.causes.contains_key(cause) {
            true => cause,
            false => &together,
        };
        let entry = state.causes.get_mut(known)?;
        entry.unlogged += records;
        if !entry.is_due(now) || !state.has_line_budget(now) {
            return None;
        }
        let entry = state.causes.get_mut(known)?;
        entry.logged_at = Some(now);
        Some(std::mem::take(&mut entry.unlogged))
    }

    /// Returns the counts that are due to be reported although no more records were dropped; at the end,
    /// all that are left.
    pub fn unlogged(&self, now: Duration, is_end: bool) -> Vec<UnloggedDrops> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut found: HashMap<(&str, &'static str), u64> = HashMap::new();
        for cause in state.causes.values_mut() {
            if cause.unlogged > 0 && (is_end || cause.is_due(now)) {
                cause.logged_at = Some(now);
                let records = std::mem::take(&mut cause.unlogged);
                *found.entry((&cause.node, cause.reason)).or_default() += records;
            }
        }
        let mut found: Vec<UnloggedDrops> = found
            .into_iter()
            .map(|((node, reason), records)| UnloggedDrops {
                node: node.to_owned(),
                reason,
                records,
            })
            .collect();
        found.sort_by(|a, b| (&a.node, a.reason).cmp(&(&b.node, b.reason)));
        found
    }
}
