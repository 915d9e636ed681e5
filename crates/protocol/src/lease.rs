//! How instances exclude each other if the broker doesn't fence a producer: how long a proof is valid,
//! and how long a new instance waits.
//!
//! Not needed if the broker refuses the records of a fenced producer. If it accepts them (at-least-once
//! on Kafka: outputs go through an unfenced producer), time keeps instances apart. Each uses its own
//! monotonic clock; clocks need not agree:
//!
//! ```text
//! older  asks ──► proven ──── sends for `trust` ────► must ask again ──► Fenced: sends nothing more
//! newer            └─ fences ───────────── waits `wait` ──────────────► reads changelog ends and input
//! ```
//!
//! The newer instance fences after the older one's last successful request, and `wait` is longer than
//! `trust`: the rest is time for sent records to arrive. It waits only if a mark beside the committed
//! offsets says that an instance may be running. The mark is written before the first record is sent and
//! removed by a clean end.

use std::time::Duration;

/// The times of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// How long an instance may send after a proof, counted from the request.
    pub trust: Duration,
    /// How long a new instance waits, counted from fencing the older one.
    pub wait: Duration,
}

impl Lease {
    /// The product's values. A commit is a proof too, so a busy engine needs no extra requests.
    pub const STANDARD: Self = Self {
        trust: Duration::from_secs(1),
        wait: Duration::from_secs(2),
    };

    /// How long a new instance waits, given these marks.
    #[must_use]
    pub fn patience(self, mut marks: impl Iterator<Item = bool>) -> Duration {
        if marks.any(|held| held) {
            self.wait
        } else {
            Duration::ZERO
        }
    }
}

/// The older instance's side: decides whether it may send.
#[derive(Clone, Copy, Debug)]
pub struct LeaseHolder {
    lease: Lease,
    proven: Option<Duration>,
}

impl LeaseHolder {
    /// Starts without a proof.
    #[must_use]
    pub const fn new(lease: Lease) -> Self {
        Self {
            lease,
            proven: None,
        }
    }

    /// True if a new proof is needed before anything is sent.
    #[must_use]
    pub fn needs_proof(&self, now: Duration) -> bool {
        self.proven
            .is_none_or(|at| now.saturating_sub(at) >= self.lease.trust)
    }

    /// Call when a request made at `asked` has succeeded.
    pub fn proven(&mut self, asked: Duration) {
        self.proven = self.proven.max(Some(asked));
    }
}

#[cfg(test)]
mod tests;
