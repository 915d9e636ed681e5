//! When a failed application restarts by itself, and how long it waits first.
//!
//! Only an unreachable broker is worth another try in the same process. Other failures would recur,
//! or need another process's decision (another instance, a full disk, an unknown outcome, for which
//! a fresh process is the simplest proof). The number of restarts is limited, so that a supervisor
//! eventually notices.

use std::collections::VecDeque;
use std::time::Duration;
use stoatflow_core::ErrorKind;

/// The first pause; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub struct Restarts {
    most: u32,
    within: Duration,
    /// The restarts that count.
    at: VecDeque<Duration>,
}

impl Restarts {
    /// At most `most` restarts within `within`.
    #[must_use]
    pub const fn new(most: u32, within: Duration) -> Self {
        Self {
            most,
            within,
            at: VecDeque::new(),
        }
    }

    /// Call when a run that had worked has failed. Returns how long to wait before an automatic restart,
    /// if there is to be one.
    pub fn next(&mut self, kind: ErrorKind, now: Duration) -> Option<Duration> {
        if kind == ErrorKind::Unavailable {
            self.again(now)
        } else {
            None
        }
    }

    /// Call when the user asks for another run. Returns how long to wait before it, unless there were
    /// too many.
    pub fn again(&mut self, now: Duration) -> Option<Duration> {
        while self
            .at
            .front()
            .is_some_and(|at| now.saturating_sub(*at) > self.within)
        {
            self.at.pop_front();
        }
        let so_far = u32::try_from(self.at.len()).unwrap_or(u32::MAX);
        if so_far >= self.most {
            return None;
        }
        self.at.push_back(now);
        let doubled = FIRST_PAUSE.saturating_mul(1u32.checked_shl(so_far).unwrap_or(u32::MAX));
        Some(doubled.min(LONGEST_PAUSE))
    }
}

/// True if a run that failed with this kind of error may be followed by another one in the same process,
/// if the user asks for it.
///
/// Not if another instance is running, if the outcome of a commit is unknown or a thread was left behind
/// (only a new process is sure), or if the same error would occur again at once.
#[must_use]
pub const fn may_replace(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::User
            | ErrorKind::Serde
            | ErrorKind::Unavailable
            | ErrorKind::MissingTopic
            | ErrorKind::Unauthorized
            | ErrorKind::DiskFull
    )
}

#[cfg(test)]
mod tests;
