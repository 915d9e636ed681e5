//! Durations, counted in buckets, from which a scraper computes quantiles of any period.

#[cfg(test)]
mod tests;

/// Upper bounds, in microseconds. One more bucket counts anything longer.
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
    /// Adds a duration, in microseconds.
    pub fn record(&mut self, us: u64) {
        self.counts[BOUNDS_US.partition_point(|bound| *bound < us)] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// The sum of all durations, in microseconds.
    #[must_use]
    pub const fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// The upper bound of each bucket in microseconds (`None`: infinite), and the number of durations in
    /// it. Not cumulative.
    pub fn buckets(self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bounds = BOUNDS_US.into_iter().map(Some).chain([None]);
        bounds.zip(self.counts)
    }
}
