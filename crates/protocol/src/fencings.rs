//! How long a fenced instance waits before it takes over again.
//!
//! Takes the times at which instances on this machine were fenced. A single fencing is a takeover: the
//! next start doesn't wait. Several within minutes mean that two supervisors keep starting the same
//! application: each start waits twice as long as the one before.

use std::time::Duration;

/// Older fencings don't count.
pub const WINDOW: Duration = Duration::from_secs(600);
/// The first pause.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);

/// The fencings that count now, in milliseconds of the wall clock. One in the future comes from a clock
/// that was set back, and doesn't count.
#[must_use]
pub fn recent(fenced_at: &[i64], now: i64) -> Vec<i64> {
    let window = i64::try_from(WINDOW.as_millis()).unwrap_or(i64::MAX);
    let counts = |at: &i64| *at <= now && now.saturating_sub(*at) <= window;
    fenced_at.iter().copied().filter(counts).collect()
}

/// The pause before a start after this many recent fencings.
#[must_use]
pub fn pause(fencings: usize) -> Duration {
    let Some(doublings) = fencings.checked_sub(2) else {
        return Duration::ZERO;
    };
    let factor = u32::try_from(doublings)
        .ok()
        .and_then(|doublings| 1u32.checked_shl(doublings));
    FIRST
        .saturating_mul(factor.unwrap_or(u32::MAX))
        .min(LONGEST)
}

#[cfg(test)]
mod tests;
