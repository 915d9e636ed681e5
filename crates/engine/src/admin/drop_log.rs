//! How often the log says that records are left out.
//!
//! Takes each time that records were left out, by cause. Gives how many a line is to speak of, if
//! one is due: the first of a cause at once, then at most one in ten seconds, and so many for all
//! causes together. What no line has told yet is told later, by a line of its own. Counts in
//! metrics are not its matter.

#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// Between two lines of one cause.
const EVERY: Duration = Duration::from_secs(10);
/// Lines of all causes in that time.
const LINES: u32 = 20;
/// Causes that are told apart.
const CAUSES: usize = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub struct DropLog {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    causes: HashMap<String, Cause>,
    /// When the current ten seconds began, and lines since.
    since: Duration,
    lines: u32,
}

#[derive(Debug)]
struct Cause {
    node: String,
    reason: &'static str,
    told_at: Option<Duration>,
    untold: u64,
}

/// What no line has told yet.
#[derive(Debug, PartialEq, Eq)]
pub struct Untold {
    /// The node.
    pub node: String,
    /// Why.
    pub reason: &'static str,
    /// How many.
    pub records: u64,
}

impl State {
    /// Is there room for a line?
    fn takes_line(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.since) >= EVERY {
            (self.since, self.lines) = (now, 0);
        }
        let takes = self.lines < LINES;
        self.lines += u32::from(takes);
        takes
    }
}

impl Cause {
    fn is_due(&self, now: Duration) -> bool {
        self.told_at
            .is_none_or(|told| now.saturating_sub(told) >= EVERY)
    }
}

impl DropLog {
    /// Records are left out. Gives how many to tell of, if a line is due.
    pub fn count(
        &self,
        cause: &str,
        (node, reason): (&str, &'static str),
        records: u64,
        now: Duration,
    ) -> Option<u64> {
        let mut state = self.state.lock();
        if !state.causes.contains_key(cause) {
            if state.causes.len() >= CAUSES {
                state
                    .causes
                    .retain(|_, cause| cause.untold > 0 || !cause.is_due(now));
            }
            // Too many to tell apart: those of a node are one.
            let name = match state.causes.len() >= CAUSES {
                true => format!("{node}|{reason}"),
                false => cause.to_owned(),
            };
            state.causes.entry(name).or_insert_with(|| Cause {
                node: node.to_owned(),
                reason,
                told_at: None,
                untold: 0,
            });
        }
        let together = format!("{node}|{reason}");
        let known = match state.causes.contains_key(cause) {
            true => cause,
            false => &together,
        };
        let entry = state.causes.get_mut(known)?;
        entry.untold += records;
        if !entry.is_due(now) || !state.takes_line(now) {
            return None;
        }
        let entry = state.causes.get_mut(known)?;
        entry.told_at = Some(now);
        Some(std::mem::take(&mut entry.untold))
    }

    /// What is due to be told although nothing more was left out; at the end all of it.
    pub fn untold(&self, now: Duration, is_end: bool) -> Vec<Untold> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut found: HashMap<(&str, &'static str), u64> = HashMap::new();
        for cause in state.causes.values_mut() {
            if cause.untold > 0 && (is_end || cause.is_due(now)) {
                cause.told_at = Some(now);
                let records = std::mem::take(&mut cause.untold);
                *found.entry((&cause.node, cause.reason)).or_default() += records;
            }
        }
        let mut found: Vec<Untold> = found
            .into_iter()
            .map(|((node, reason), records)| Untold {
                node: node.to_owned(),
                reason,
                records,
            })
            .collect();
        found.sort_by(|a, b| (&a.node, a.reason).cmp(&(&b.node, b.reason)));
        found
    }
}
