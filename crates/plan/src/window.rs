//! Windows, emission and suppression as the plan names them.
//!
//! Gives data; durations are milliseconds and were checked in the DSL, again in [`crate::compile`].
//! Never computes which window a record is in: that is the operators' business.

use crate::Expression;
use serde::{Deserialize, Serialize};

/// How records of a key are put into windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)] // durations in milliseconds, named as in the DSL
pub enum Window {
    /// Next to each other, aligned to 1970.
    Tumbling { size_ms: i64, grace_ms: i64 },
    /// Overlapping.
    Hopping {
        size_ms: i64,
        advance_ms: i64,
        grace_ms: i64,
    },
    /// Around each record; both ends inclusive.
    Sliding { difference_ms: i64, grace_ms: i64 },
    /// As long as records follow within the gap.
    Session { gap_ms: i64, grace_ms: i64 },
    /// One from `start_ms` on, never closed.
    Unlimited { start_ms: i64 },
    /// So many records of a key, then the next window; start and end count records of the key.
    Count { records: i64 },
}

impl Window {
    /// How long after its end a window still takes records.
    #[must_use]
    pub const fn grace_ms(&self) -> i64 {
        match self {
            Self::Tumbling { grace_ms, .. }
            | Self::Hopping { grace_ms, .. }
            | Self::Sliding { grace_ms, .. }
            | Self::Session { grace_ms, .. } => *grace_ms,
            Self::Unlimited { .. } | Self::Count { .. } => 0,
        }
    }

    /// How long a window is, for the key serde of its results; `None` for sessions.
    #[must_use]
    pub const fn size_ms(&self) -> Option<i64> {
        match self {
            Self::Tumbling { size_ms, .. } | Self::Hopping { size_ms, .. } => Some(*size_ms),
            Self::Sliding { difference_ms, .. } => Some(*difference_ms),
            Self::Unlimited { .. } => Some(i64::MAX),
            Self::Count { records } => Some(*records),
            Self::Session { .. } => None,
        }
    }

    /// How long its store keeps a window where nothing else is said.
    #[must_use]
    pub const fn retention_ms(&self) -> i64 {
        match self {
            Self::Tumbling { size_ms, grace_ms }
            | Self::Hopping {
                size_ms, grace_ms, ..
            } => size_ms.saturating_add(*grace_ms),
            Self::Sliding {
                difference_ms,
                grace_ms,
            } => difference_ms.saturating_mul(2).saturating_add(*grace_ms),
            Self::Session { gap_ms, grace_ms } => gap_ms.saturating_add(*grace_ms),
            Self::Unlimited { .. } | Self::Count { .. } => i64::MAX,
        }
    }
}

/// The window of a stream-stream join: `left - before <= right <= left + after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // milliseconds
pub struct JoinWindow {
    pub before_ms: i64,
    pub after_ms: i64,
    pub grace_ms: i64,
}

/// When a windowed aggregation gives results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Emit {
    /// After each record.
    #[default]
    OnWindowUpdate,
    /// Once, when the window closes.
    OnWindowClose,
}

/// How long updates are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)]
pub enum Until {
    /// Until the window of the key closes.
    WindowCloses { grace_ms: i64 },
    /// For a time since the first update of the key.
    TimeLimit { limit_ms: i64 },
    /// Until the next commit: one result per key and epoch.
    Barrier,
}

/// What a full buffer does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// Gives the oldest early.
    #[default]
    EmitEarly,
    /// Stops the engine.
    Shutdown,
}

/// What a store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)] // milliseconds
pub enum StoreKind {
    /// A value per key.
    KeyValue,
    /// A value and its time per key.
    TimestampedKeyValue,
    /// A value per key and window start.
    Window {
        retention_ms: i64,
        size_ms: i64,
        /// Several values for one key and start?
        #[serde(default)]
        duplicates: bool,
        /// Does it show a time beside each value? (The DSL's do.)
        #[serde(default)]
        timestamped: bool,
    },
    /// A value per key, start and end.
    Session { retention_ms: i64 },
    /// Values of a key by the time since when they hold.
    Versioned { history_ms: i64 },
    /// Ordered by a time that stands first in the key (what waits for a time).
    TimeOrdered,
    /// Timers of one processor: a key and a time, by event time or the machine's clock.
    Timers,
}

/// How the time of a record is found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimestampExtractor {
    /// A function `(record, partition_time)`: index into the table of callables.
    Udf(u32),
    /// What an expression gives of the record: milliseconds.
    Expr(Expression),
    /// The record's; a negative one fails (the default).
    FailOnInvalid,
    /// The record's; a negative one is dropped and counted.
    LogAndSkip,
    /// The record's; instead of a negative one the partition's highest so far.
    UsePartitionTime,
    /// When it was read.
    Wallclock,
}

/// How the watermark of a source's partitions follows from their records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatermarkStrategy {
    /// The highest timestamp: they never go back.
    Monotonic,
    /// The highest timestamp less so many milliseconds.
    Bounded(i64),
    /// A function `(record, current)`: index into the table of callables.
    Udf(u32),
    /// It has none.
    None,
}

/// What is said about the event time of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watermark {
    /// See [`WatermarkStrategy`].
    pub strategy: WatermarkStrategy,
    /// A partition that is silent for so long holds the watermark back no more.
    #[serde(default)]
    pub idle_ms: Option<i64>,
    /// Its partitions wait for others of this group ...
    #[serde(default)]
    pub group: Option<String>,
    /// ... when they are so far ahead of them.
    #[serde(default)]
    pub max_drift_ms: i64,
}

impl Watermark {
    /// Nothing: its source takes no part in the application's watermark.
    pub const NONE: Self = Self {
        strategy: WatermarkStrategy::None,
        idle_ms: None,
        group: None,
        max_drift_ms: 0,
    };
}
