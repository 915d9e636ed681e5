//! Durations, counted in buckets: what a scraper makes quantiles of, for any span of time.

#[cfg(test)]
mod tests;

/// Upper bounds, in microseconds. What takes longer is in one bucket more.
const BOUNDS_US: [u64; 14] = [
    2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct DurationBuckets {
    counts: [u64; BOUNDS_US.len() + 1],
    sum_us: u64,
}

impl DurationBuckets {
    /// It took so many microseconds.
    pub fn record(&mut self, us: u64) {
        self.counts[BOUNDS_US.partition_point(|bound| *bound < us)] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// Of all together, in microseconds.
    #[must_use]
    pub const fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// Of each bucket the upper bound in microseconds (`None`: infinite), and how many are in it
    /// and in none before.
    pub fn buckets(self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bounds = BOUNDS_US.into_iter().map(Some).chain([None]);
        bounds.zip(self.counts)
    }
}
