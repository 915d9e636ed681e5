//! Clock and randomness, which a deterministic engine must not read from the machine.
//!
//! The simulator and the test driver have their own. `clippy.toml` bans the direct calls.

use crate::Timestamp;
use std::fmt::Debug;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time.
pub trait Clock: Send + Sync + Debug {
    /// Wall time.
    fn now(&self) -> Timestamp;
    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
    /// Waits this long. Does nothing for the machine's clock, which moves by itself; a manual clock is
    /// advanced.
    fn skip(&self, _by: Duration) {}
}

/// Source of randomness.
pub trait Rng: Send + Debug {
    /// The next 64 random bits.
    fn next_u64(&mut self) -> u64;
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock that starts now.
    #[must_use]
    #[allow(clippy::disallowed_methods)] // the one place that may ask the machine
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that only moves when it is advanced: for the test driver and the simulator.
#[derive(Debug)]
pub struct ManualClock {
    now_ms: std::sync::atomic::AtomicI64,
    start_ms: i64,
}

impl ManualClock {
    /// A clock that shows `start`.
    #[must_use]
    pub const fn new(start: Timestamp) -> Self {
        Self {
            now_ms: std::sync::atomic::AtomicI64::new(start.0),
            start_ms: start.0,
        }
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.now_ms
            .fetch_add(ms, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now_ms.load(std::sync::atomic::Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis((self.now().0 - self.start_ms).unsigned_abs())
    }

    fn skip(&self, by: Duration) {
        self.advance(by);
    }
}
