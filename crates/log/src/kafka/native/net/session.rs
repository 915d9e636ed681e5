//! How long a login lasts (KIP-368), and what follows it.

use std::time::Duration;

#[cfg(test)]
mod tests;

/// For how long the broker serves this client (KIP-368).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Session {
    /// As long as the connection stands.
    #[default]
    Endless,
    /// From then on this client authenticates again.
    Renewed(Duration),
    /// From then on there must be another connection.
    Replaced(Duration),
}

impl Session {
    /// A broker takes a second authentication of a connection only after this time.
    const LEAST: Duration = Duration::from_millis(1100);

    /// A session that begins now, of so many milliseconds.
    pub(super) fn new(lifetime_ms: i64, now: Duration) -> Self {
        // As Java's client: between 85 and 95 % of the session's lifetime.
        let used = Duration::from_millis(u64::try_from(lifetime_ms).unwrap_or(0)) * 9 / 10;
        if used.is_zero() {
            Self::Endless
        } else if used < Self::LEAST {
            Self::Replaced(now + used)
        } else {
            Self::Renewed(now + used)
        }
    }
}
