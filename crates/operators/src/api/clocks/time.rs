//! A time by clock and task, and how the times of two lanes are merged.
//!
//! Plain numbers, written with a commit. Time never goes back: the later of two values counts.

/// The times of one clock in one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// The highest timestamp seen; -1: none yet.
    pub stream: i64,
    /// The time up to which the operator has done one-time work, such as emitting closed windows.
    pub mark: i64,
    /// Where records don't move the time: the highest timestamp among them. For the application's clock:
    /// the requested watermark. -1: none.
    pub newest: i64,
}

impl Time {
    /// Nothing seen.
    pub const NONE: Self = Self {
        stream: -1,
        mark: -1,
        newest: -1,
    };

    /// The later value of each field.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self {
            stream: self.stream.max(other.stream),
            mark: self.mark.max(other.mark),
            newest: self.newest.max(other.newest),
        }
    }
}

/// Times at a record of a batch.
#[derive(Clone, Copy, Debug)]
pub struct RecordTimes {
    /// Its place in the order.
    pub place: (u64, u64),
    /// The stream time of its task; -1: none.
    pub stream: i64,
    /// The highest timestamp of its source's records with a key, in its partition, before it; -1: none.
    pub keyed_before: i64,
}

/// Times by clock, then by task.
pub type Times = Vec<Vec<Time>>;

/// Merges `other` into `into`: the later value of each field.
pub fn merge_times(into: &mut Times, other: &Times) {
    if into.len() < other.len() {
        into.resize(other.len(), Vec::new());
    }
    for (own, other) in into.iter_mut().zip(other) {
        if own.len() < other.len() {
            own.resize(other.len(), Time::NONE);
        }
        for (own, other) in own.iter_mut().zip(other) {
            *own = own.merge(*other);
        }
    }
}
