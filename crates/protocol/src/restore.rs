//! Decides how a store catches up with its changelog partition.
//!
//! Takes the offset that the local data reaches and the range that the broker still has; returns what to
//! read, or why to refuse. Also decides whether unusable local data is discarded.

use std::time::Duration;
use stoatflow_core::{Error, Offset, Result, Timestamp};

/// The facts about one store and changelog partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreFacts {
    /// The next offset that the local data lacks; `None` if there is no local data.
    pub stored: Option<Offset>,
    /// The first offset that the changelog has.
    pub begin: Offset,
    /// One past the last committed offset.
    pub stable_end: Offset,
    /// How many offsets a commit takes after its last record (the commit marker).
    pub markers: i64,
    /// Whether deletions in between may have been compacted away.
    pub age: Age,
}

/// How old local data is, compared with how long its changelog keeps tombstones.
///
/// Compaction removes a tombstone `delete.retention.ms` after it has first passed it. A reader that
/// arrives later with older rows never learns that they were deleted (KIP-1259).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// When the local data was last known to be complete; `None` if unknown.
    pub current_at: Option<Timestamp>,
    /// The current time by the same clock; `None` if tombstones are kept forever.
    pub now: Option<Timestamp>,
    /// How long a tombstone is kept; `None` if the topic is not compacted.
    pub kept: Option<Duration>,
}

impl Age {
    /// Tombstones are never removed.
    pub const NEVER: Self = Self {
        current_at: None,
        now: None,
        kept: None,
    };

    /// True if a tombstone that the local data lacks may be gone, with a margin of a tenth of the time.
    #[must_use]
    pub fn exceeds(self) -> bool {
        let (Some(now), Some(kept)) = (self.now, self.kept) else {
            return false;
        };
        let Some(then) = self.current_at else {
            return true;
        };
        // A clock that went backwards proves nothing.
        let Ok(age) = u64::try_from(now.0.saturating_sub(then.0)) else {
            return true;
        };
        Duration::from_millis(age) >= kept - kept / 10
    }
}

/// How a store is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePlan {
    /// The local data is current.
    Nothing,
    /// Read from here to the stable end, on top of the local data.
    Delta(Offset),
    /// Read everything into an empty store.
    Cold(Offset),
    /// The changelog no longer has the records in between: wipe the store and read everything.
    WipeThenCold(Offset, WipeReason),
}

/// Why local data can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WipeReason {
    /// The changelog begins after it.
    Truncated,
    /// Tombstones that it lacks may have been compacted away.
    TooOld,
    /// It was restored from another topic: `topology.optimization` has changed.
    OtherTopic,
}

impl RestoreFacts {
    /// Decides how to restore the store.
    ///
    /// # Errors
    /// `Incompatible` if the local data is ahead of the changelog: the changelog was deleted or
    /// truncated, and continuing silently could lose or duplicate results.
    pub fn decide(self, store: &str) -> Result<RestorePlan> {
        match self.stored {
            None if self.begin >= self.stable_end => Ok(RestorePlan::Nothing),
            None => Ok(RestorePlan::Cold(self.begin)),
            Some(at) if at > self.stable_end => Err(Error::incompatible(format!(
                "the local store '{store}' stands for changelog offset {at}, but the changelog ends at {}",
                self.stable_end
            ))
            .hint("the changelog topic was deleted or truncated: if that was on purpose, delete the \
                state directory too and start again")),
            Some(at) if at == self.stable_end => Ok(RestorePlan::Nothing),
            // Only a commit marker is missing in between.
            Some(at) if at < self.begin && self.lacks_no_row(at) => Ok(RestorePlan::Nothing),
            Some(at) if at < self.begin => {
                Ok(RestorePlan::WipeThenCold(self.begin, WipeReason::Truncated))
            }
            Some(at) if !self.lacks_no_row(at) && self.age.exceeds() => {
                Ok(RestorePlan::WipeThenCold(self.begin, WipeReason::TooOld))
            }
            Some(at) => Ok(RestorePlan::Delta(at)),
        }
    }

    /// True if at most a commit marker follows from this offset on.
    const fn lacks_no_row(self, at: Offset) -> bool {
        self.stable_end.0 - at.0 <= self.markers
    }
}

/// Decides about local data that is damaged or has another format.
///
/// Takes the declared policy, the stores that no changelog can restore, and the error that was found.
///
/// # Errors
/// The error that was found, unless the data may be discarded and restored.
pub fn on_damage(rebuild: bool, unlogged: &[&str], found: Error) -> Result<()> {
    if !rebuild {
        return Err(found);
    }
    if unlogged.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        found.kind(),
        format!(
            "{}; it is not rebuilt, because no changelog has the stores {}",
            found.message(),
            unlogged.join(", ")
        ),
    )
    .hint("restore the directory from a copy, or delete it and start again without what these stores held")
    .caused_by(found.to_string()))
}

#[cfg(test)]
mod tests;
