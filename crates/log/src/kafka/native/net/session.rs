//! How long an authentication lasts (KIP-368), and what to do at its end.

use std::time::Duration;

#[cfg(test)]
mod tests;

/// For how long the broker serves this client (KIP-368).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Session {
    /// As long as the connection is open.
    #[default]
    Endless,
    /// Authenticate again from this time on.
    Renewed(Duration),
    /// Open another connection from this time on.
    Replaced(Duration),
}

impl Session {
    /// A broker accepts a second authentication on a connection only after this time.
    const MIN_REAUTHENTICATION_INTERVAL: Duration = Duration::from_millis(1100);

    /// A session that starts now, with a lifetime in milliseconds.
    pub(super) fn new(lifetime_ms: i64, now: Duration) -> Self {
        // Like Java's client: between 85 and 95 % of the session's lifetime.
        let used = Duration::from_millis(u64::try_from(lifetime_ms).unwrap_or(0)) * 9 / 10;
        if used.is_zero() {
            Self::Endless
        } else if used < Self::MIN_REAUTHENTICATION_INTERVAL {
            Self::Replaced(now + used)
        } else {
            Self::Renewed(now + used)
        }
    }
}
