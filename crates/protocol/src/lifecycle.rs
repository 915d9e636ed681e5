//! The states of an application, and which may follow which.
//!
//! ```text
//! CREATED ─► STARTING ─► RESTORING ─► RUNNING ─► STOPPING ─► STOPPED
//!    │        │  ▲           │         ▲ │           │
//!    │        │  │           │         ▼ │           │
//!    │        │  │           │       PAUSED          │   then as from RUNNING
//!    │        │  └───────────┴───────────┘           │   the broker was away: restart
//!    │        └──────────────┴───────────┴───────────┴─────► ERROR
//!    └► STOPPED (closed before it was started)
//! ```

/// The state of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lifecycle {
    /// Created, not started.
    Created,
    /// Connecting to the broker, taking over from an older instance.
    Starting,
    /// Restoring state from changelogs; no input is read yet.
    Restoring,
    /// Processing.
    Running,
    /// Reading is paused, and everything read is committed.
    Paused,
    /// Draining, with a final barrier.
    Stopping,
    /// Ended without an error.
    Stopped,
    /// Ended with an error.
    Failed,
}

impl Lifecycle {
    /// All states, in order.
    pub const ALL: [Self; 8] = [
        Self::Created,
        Self::Starting,
        Self::Restoring,
        Self::Running,
        Self::Paused,
        Self::Stopping,
        Self::Stopped,
        Self::Failed,
    ];

    /// True if `next` may follow.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        use Lifecycle::{Created, Failed, Paused, Restoring, Running, Starting, Stopped, Stopping};
        matches!(
            (self, next),
            (Created, Starting | Stopped)
                | (Starting, Restoring | Stopping | Failed)
                | (Restoring, Running | Starting | Stopping | Failed)
                | (Running, Starting | Paused | Stopping | Failed)
                | (Paused, Starting | Running | Stopping | Failed)
                | (Stopping, Stopped | Failed)
        )
    }

    /// True if no state may follow.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed)
    }

    /// The name shown to users.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Starting => "STARTING",
            Self::Restoring => "RESTORING",
            Self::Running => "RUNNING",
            Self::Paused => "PAUSED",
            Self::Stopping => "STOPPING",
            Self::Stopped => "STOPPED",
            Self::Failed => "ERROR",
        }
    }
}

#[cfg(test)]
mod tests;
