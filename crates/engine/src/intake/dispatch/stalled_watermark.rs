//! A watermark that stands still while records come: since when, and whether the log is to hear of it.
//!
//! Takes the watermark of each barrier and how many records came before it. Never says who holds it: that is known to
//! [`stoatflow_protocol::Watermarks`].

use std::time::Duration;

/// So long it stands still before anybody is told.
const LONG: Duration = Duration::from_secs(60);
/// And then again.
const AGAIN: Duration = Duration::from_secs(600);

/// See the module.
#[derive(Debug)]
pub struct StalledWatermark {
    watermark: i64,
    /// Since when, and how many records have come since then.
    since: Duration,
    records: u64,
    told: Option<Duration>,
}

impl StalledWatermark {
    pub const fn new(watermark: i64, now: Duration) -> Self {
        Self {
            watermark,
            since: now,
            records: 0,
            told: None,
        }
    }

    /// A barrier, and how many records came before it since the last one. Gives for how long the watermark has
    /// stood still and how many records came meanwhile, if that is to be told.
    pub fn barrier(
        &mut self,
        watermark: i64,
        records: u64,
        now: Duration,
    ) -> Option<(Duration, u64)> {
        if watermark != self.watermark {
            *self = Self::new(watermark, now);
            return None;
        }
        self.records += records;
        let stood = now.saturating_sub(self.since);
        let due = (self.told).map_or(stood >= LONG, |told| now.saturating_sub(told) >= AGAIN);
        // While nothing comes, nothing is held back.
        if !due || records == 0 {
            return None;
        }
        self.told = Some(now);
        Some((stood, self.records))
    }
}

#[cfg(test)]
mod tests;
