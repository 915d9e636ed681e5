//! Windows, emit strategies and suppression as the plan describes them.
//!
//! Plain data; durations are in milliseconds, checked in the DSL and again in
//! [`compile`](fn@crate::compile). The operators compute which window a record belongs to.

use crate::Expression;
use serde::{Deserialize, Serialize};

/// How the records of a key are assigned to windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)] // durations in milliseconds, named as in the DSL
pub enum Window {
    /// Adjacent, aligned to 1970.
    Tumbling { size_ms: i64, grace_ms: i64 },
    /// Overlapping.
    Hopping {
        size_ms: i64,
        advance_ms: i64,
        grace_ms: i64,
    },
    /// Around each record; both ends inclusive.
    Sliding { difference_ms: i64, grace_ms: i64 },
    /// A session lasts while records follow within the gap.
    Session { gap_ms: i64, grace_ms: i64 },
    /// A single window that starts at `start_ms` and never closes.
    Unlimited { start_ms: i64 },
    /// A fixed number of records per key; start and end are counts of the key's records.
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

    /// Duration of a window, passed to the key serde of its results; `None` for sessions.
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

    /// The default retention of its store.
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

/// When a windowed aggregation emits results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Emit {
    /// After each record.
    #[default]
    OnWindowUpdate,
    /// Once, when the window closes.
    OnWindowClose,
}

/// How long `suppress` holds updates back.
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

/// What happens when the buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// Emits the oldest row early.
    #[default]
    EmitEarly,
    /// Stops the engine.
    Shutdown,
}

/// The layout of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)] // milliseconds
pub enum StoreKind {
    /// A value per key.
    KeyValue,
    /// A value and its timestamp per key.
    TimestampedKeyValue,
    /// A value per key and window start.
    Window {
        retention_ms: i64,
        size_ms: i64,
        /// Whether a key and start may have several values.
        #[serde(default)]
        duplicates: bool,
        /// Whether each value has a timestamp. (True in the DSL.)
        #[serde(default)]
        timestamped: bool,
    },
    /// A value per key, start and end.
    Session { retention_ms: i64 },
    /// All values of a key with the times from which they are valid.
    Versioned { history_ms: i64 },
    /// Ordered by a time at the front of the key (rows that wait for a time).
    TimeOrdered,
    /// Timers of one processor: a key and a time, in event time or wall-clock time.
    Timers,
}

/// How the timestamp of a record is determined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimestampExtractor {
    /// A function `(record, partition_time)`: index into the table of callables.
    Udf(u32),
    /// The result of an expression over the record, in milliseconds.
    Expr(Expression),
    /// The record's timestamp; a negative one is an error (the default).
    FailOnInvalid,
    /// The record's timestamp; a record with a negative one is dropped and counted.
    LogAndSkip,
    /// The record's timestamp; a negative one is replaced by the highest one of the partition so far.
    UsePartitionTime,
    /// The time when the record was read.
    Wallclock,
}

/// How the watermark of a source's partitions is derived from their records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatermarkStrategy {
    /// The highest timestamp: timestamps never decrease.
    Monotonic,
    /// The highest timestamp minus this many milliseconds.
    Bounded(i64),
    /// A function `(record, current)`: index into the table of callables.
    Udf(u32),
    /// No watermark.
    None,
}

/// The watermark settings of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watermark {
    /// See [`WatermarkStrategy`].
    pub strategy: WatermarkStrategy,
    /// A partition without records for this long no longer holds back the watermark.
    #[serde(default)]
    pub idle_ms: Option<i64>,
    /// Its partitions are paused for others of this group ...
    #[serde(default)]
    pub group: Option<String>,
    /// ... when they are this far ahead of them.
    #[serde(default)]
    pub max_drift_ms: i64,
}

impl Watermark {
    /// No watermark: the source takes no part in the application's watermark.
    pub const NONE: Self = Self {
        strategy: WatermarkStrategy::None,
        idle_ms: None,
        group: None,
        max_drift_ms: 0,
    };
}
