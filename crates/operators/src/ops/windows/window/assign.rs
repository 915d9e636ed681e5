//! Which windows a timestamp is in.
//!
//! Takes a timestamp, returns the bounds of its windows, the earliest first, like Kafka Streams'
//! `windowsFor`. Never checks whether a window is still open.

#[cfg(test)]
mod tests;

use stoatflow_core::{Error, Result};
use stoatflow_plan::Window;

/// Windows that depend on the timestamp alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assign {
    /// Windows of one size; each starts `advance` after the one before.
    Aligned { size: i64, advance: i64 },
    /// One window that starts at a time and never ends.
    Unlimited { start: i64 },
}

impl Assign {
    pub fn new(window: &Window) -> Result<Self> {
        match *window {
            Window::Tumbling { size_ms, .. } => Ok(Self::Aligned {
                size: size_ms,
                advance: size_ms,
            }),
            Window::Hopping {
                size_ms,
                advance_ms,
                ..
            } => Ok(Self::Aligned {
                size: size_ms,
                advance: advance_ms,
            }),
            Window::Unlimited { start_ms } => Ok(Self::Unlimited { start: start_ms }),
            Window::Count { .. } | Window::Sliding { .. } | Window::Session { .. } => Err(
                Error::internal("windows that don't depend on the time alone"),
            ),
        }
    }

    /// Start and end (exclusive) of the windows of a timestamp.
    pub fn windows(self, time: i64) -> impl Iterator<Item = (i64, i64)> {
        let (first, step, size) = match self {
            Self::Aligned { size, advance } => {
                let earliest = time.saturating_sub(size).saturating_add(advance).max(0);
                (earliest / advance * advance, advance, size)
            }
            Self::Unlimited { start } => (start, i64::MAX, i64::MAX),
        };
        let starts = std::iter::successors(Some(first), move |start| start.checked_add(step));
        starts
            .take_while(move |start| *start <= time)
            .map(move |start| (start, start.saturating_add(size)))
    }

    /// The start of the newest window of a timestamp; -1: there is none.
    pub const fn newest(self, time: i64) -> i64 {
        match self {
            _ if time < 0 => -1,
            Self::Aligned { advance, .. } => time / advance * advance,
            Self::Unlimited { start } if start <= time => start,
            Self::Unlimited { .. } => -1,
        }
    }

    /// Size of a window.
    pub const fn size(self) -> i64 {
        match self {
            Self::Aligned { size, .. } => size,
            Self::Unlimited { .. } => i64::MAX,
        }
    }
}
