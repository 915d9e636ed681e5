//! Detects a watermark that doesn't advance although records arrive.
//!
//! Measures only for how long and how many records; [`stoatflow_protocol::Watermarks`] knows which
//! partition holds it back.

use std::time::Duration;

/// First warning after this time.
const WARN_AFTER: Duration = Duration::from_secs(60);
/// Interval of further warnings.
const WARN_INTERVAL: Duration = Duration::from_secs(600);

/// See the module.
#[derive(Debug)]
pub struct StalledWatermark {
    watermark: i64,
    /// When it last advanced, and how many records have arrived since.
    since: Duration,
    records: u64,
    warned_at: Option<Duration>,
}

impl StalledWatermark {
    pub const fn new(watermark: i64, now: Duration) -> Self {
        Self {
            watermark,
            since: now,
            records: 0,
            warned_at: None,
        }
    }

    /// Call at a barrier, with the number of records since the last one. If a warning is due, returns
    /// for how long and how many records the watermark has stalled.
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
        let due = (self.warned_at).map_or(stood >= WARN_AFTER, |at| {
            now.saturating_sub(at) >= WARN_INTERVAL
        });
        // Without records nothing is held back.
        if !due || records == 0 {
            return None;
        }
        self.warned_at = Some(now);
        Some((stood, self.records))
    }
}

#[cfg(test)]
mod tests;
