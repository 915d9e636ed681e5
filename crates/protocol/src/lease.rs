//! How long an instance may send on its last proof that it is the one, and how long a newcomer waits.
//!
//! Where the broker refuses the records of a fenced producer, none of this is needed. Where it takes them
//! (at-least-once on Kafka: outputs go through a producer that nothing fences) the instances keep apart by
//! time. Each counts on a clock of its own that never goes back; clocks need not agree:
//!
//! ```text
//! older     asks ──► "you are the one" ──── sends for `trust` ────► must ask again ──► Fenced: nothing more is sent
//! newcomer         └─ fences ─────────────────── waits `wait` ───────────────────────► reads changelog ends and input
//! ```
//!
//! The fence comes after the question that was answered well, and `wait` is longer than `trust`: what is left
//! is time for what was sent to arrive. The newcomer waits only if a mark beside the committed offsets says
//! that somebody may be at work: it is written before the first record is sent and taken away by a clean end.

use std::time::Duration;

/// The two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// How long a proof allows to send, counted from when the broker was asked.
    pub trust: Duration,
    /// How long a newcomer waits, counted from when it had fenced the older one.
    pub wait: Duration,
}

impl Lease {
    /// What the product uses. A commit is a proof too, so a busy engine never asks beside its commits.
    pub const STANDARD: Self = Self {
        trust: Duration::from_secs(1),
        wait: Duration::from_secs(2),
    };

    /// How long a newcomer waits, if such marks are there.
    #[must_use]
    pub fn patience(self, mut marks: impl Iterator<Item = bool>) -> Duration {
        if marks.any(|held| held) {
            self.wait
        } else {
            Duration::ZERO
        }
    }
}

/// The older one's side: may it send?
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    lease: Lease,
    proven: Option<Duration>,
}

impl Hold {
    /// Nothing is proven yet.
    #[must_use]
    pub const fn new(lease: Lease) -> Self {
        Self {
            lease,
            proven: None,
        }
    }

    /// Must the broker be asked before anything is sent now?
    #[must_use]
    pub fn must_ask(&self, now: Duration) -> bool {
        self.proven
            .is_none_or(|at| now.saturating_sub(at) >= self.lease.trust)
    }

    /// The broker answered well to a question asked at this time.
    pub fn proven(&mut self, asked: Duration) {
        self.proven = self.proven.max(Some(asked));
    }
}

#[cfg(test)]
mod tests;
