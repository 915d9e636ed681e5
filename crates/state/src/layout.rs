//! How a store's keys are encoded, and how they become the changelog records of Kafka Streams.
//!
//! Internal keys of windows and sessions begin with a segment (a slice of time), so that expired
//! ones can be dropped as one range. Changelog keys have no segment, because other tools read them.
//! Values are not touched beyond the 8 bytes of the timestamp in front of them.
//!
//! All numbers are big-endian, so that the order of bytes is the order of numbers. Window and
//! session times are never negative; version timestamps may be, so their sign bit is inverted.

use crate::{KeyRange, RestoreRun, Sealed, Write};
use bytes::Bytes;
use stoatflow_core::{Error, Headers, Result, Timestamp};

mod parts;
#[cfg(test)]
mod tests;

pub use parts::*;

/// The shortest segment length, as in Kafka Streams.
const MIN_SEGMENT_MS: i64 = 60_000;

/// Marks a version as a deletion, in place of the stored value's timestamp. (A version's time is in its
/// key.)
pub(crate) const TOMBSTONE: Timestamp = Timestamp(i64::MIN);

/// How the keys of a store are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// The record's key; one value per key.
    #[default]
    KeyValue,
    /// `segment of start | key | start (8) | sequence number (4)`; in the changelog without the segment.
    Window {
        /// How much time a segment covers.
        segment_ms: i64,
        /// Windows that start this long before the highest start are expired.
        retention_ms: i64,
    },
    /// `segment of end | key | end (8) | start (8)`; in the changelog without the segment.
    Session {
        /// How much time a segment covers.
        segment_ms: i64,
        /// Sessions that end this long before the highest end are expired.
        retention_ms: i64,
    },
    /// `key | timestamp (8)`; in the changelog one record per version, with the key and that timestamp.
    Versioned {
        /// How far back reads and writes may go from the highest timestamp.
        history_ms: i64,
    },
    /// An 8-byte time, then arbitrary bytes: for scans by time (pending joins, suppressed results).
    TimeKey,
    /// `domain (1) | time (8) | key`: see [`crate::TimerView`].
    Timers,
}

/// A record of a changelog topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangelogRecord {
    /// The key, as Kafka Streams writes it.
    pub key: Bytes,
    /// The value; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// The record's timestamp.
    pub timestamp: Timestamp,
    /// The headers that the store keeps with the value.
    pub headers: Headers,
}

impl Layout {
    /// Windows kept for `retention_ms`, in segments as long as Kafka Streams makes them.
    #[must_use]
    pub const fn window(retention_ms: i64) -> Self {
        Self::Window {
            segment_ms: segment_ms(retention_ms),
            retention_ms,
        }
    }

    /// Sessions kept for `retention_ms`, in segments as long as Kafka Streams makes them.
    #[must_use]
    pub const fn session(retention_ms: i64) -> Self {
        Self::Session {
            segment_ms: segment_ms(retention_ms),
            retention_ms,
        }
    }

    /// The name of this layout.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::KeyValue => "key-value-timestamped-1",
            Self::Window { .. } => "window-1",
            Self::Session { .. } => "session-1",
            Self::Versioned { .. } => "versioned-1",
            Self::TimeKey => "time-key-1",
            Self::Timers => "timers-1",
        }
    }

    /// The text in [`crate::StoreLayout::format`]: the name, and the segment length if keys depend
    /// on it.
    #[must_use]
    pub fn format(&self) -> String {
        match self {
            Self::Window { segment_ms, .. } | Self::Session { segment_ms, .. } => {
                format!("{}({segment_ms})", self.name())
            }
            _ => self.name().to_owned(),
        }
    }

    /// The changelog record of a sealed write; `None` if the write is not for the changelog.
    #[must_use]
    pub fn to_changelog(&self, sealed: &Sealed) -> Option<ChangelogRecord> {
        if !sealed.changelog {
            return None;
        }
        let whole = || ChangelogRecord {
            key: sealed.key.clone(),
            value: sealed.value.clone(),
            timestamp: sealed.timestamp,
            headers: None,
        };
        Some(match self {
            Self::KeyValue | Self::TimeKey | Self::Timers => whole(),
            Self::Window { .. } | Self::Session { .. } => ChangelogRecord {
                key: sealed.key.slice(sealed.key.len().min(8)..),
                ..whole()
            },
            Self::Versioned { .. } => match split_versioned(&sealed.key) {
                Some((key, ts)) => ChangelogRecord {
                    key: sealed.key.slice(..key.len()),
                    value: sealed
                        .value
                        .clone()
                        .filter(|_| sealed.timestamp != TOMBSTONE),
                    timestamp: Timestamp(ts),
                    headers: None,
                },
                None => whole(),
            },
        })
    }

    /// What the back end stores for a changelog record.
    ///
    /// # Errors
    /// As [`Self::restore_into`].
    pub fn from_changelog(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: Timestamp,
    ) -> Result<Write> {
        let mut run = RestoreRun::default();
        self.restore_into(&mut run, key, value, timestamp)?;
        Ok(run.into_writes().remove(0))
    }

    /// Adds to a run what the back end stores for a changelog record.
    ///
    /// # Errors
    /// `StateCorrupt` if the record's key is too short for the layout.
    pub fn restore_into(
        &self,
        run: &mut RestoreRun,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: Timestamp,
    ) -> Result<()> {
        let short = |least: usize| {
            Error::state_corrupt(format!(
                "a changelog key of {} bytes is too short: the key of a {} store has at least {least}",
                key.len(),
                self.name()
            ))
            .hint("check that nothing else writes to this changelog topic")
        };
        let stored = timestamp.0.to_be_bytes();
        let stored = value.map(|value| [&stored[..], value]);
        let stored = stored.as_ref().map(|parts| &parts[..]);
        match *self {
            Self::KeyValue | Self::TimeKey | Self::Timers => run.push(&[key], stored),
            Self::Window { segment_ms, .. } => {
                let (_, start, _) = split_window_changelog(key).ok_or_else(|| short(12))?;
                run.push(&[&segment(segment_ms, start).to_be_bytes(), key], stored);
            }
            Self::Session { segment_ms, .. } => {
                let (_, _, end) = split_session_changelog(key).ok_or_else(|| short(16))?;
                run.push(&[&segment(segment_ms, end).to_be_bytes(), key], stored);
            }
            Self::Versioned { .. } => {
                let deleted = TOMBSTONE.0.to_be_bytes();
                let deleted = [&deleted[..]];
                run.push(
                    &[key, &version(timestamp.0)],
                    Some(stored.unwrap_or(&deleted)),
                );
            }
        }
        Ok(())
    }

    /// The key range of segments that lie wholly before `before_ms`; `None` if there are none, or
    /// the layout has no segments.
    #[must_use]
    pub fn expired(&self, before_ms: i64) -> Option<KeyRange> {
        let (Self::Window { segment_ms, .. } | Self::Session { segment_ms, .. }) = *self else {
            return None;
        };
        if before_ms < segment_ms {
            return None;
        }
        let first_kept = segment(segment_ms, before_ms);
        Some(KeyRange {
            from: None,
            to: Some(Bytes::copy_from_slice(&first_kept.to_be_bytes())),
            reverse: false,
        })
    }

    /// The range of everything that reads no longer return when the store's highest time is `observed`.
    #[must_use]
    pub fn expired_at(&self, observed: i64) -> Option<KeyRange> {
        let (Self::Window { retention_ms, .. } | Self::Session { retention_ms, .. }) = *self else {
            return None;
        };
        self.expired(observed.saturating_sub(retention_ms).saturating_add(1))
    }

    /// Length of the key prefix (with the segment) that all entries of one row share; `None` if the
    /// layout has no rows.
    pub(crate) const fn row_len(&self, key_len: usize) -> Option<usize> {
        match self.suffix_len() {
            Some(suffix) if key_len >= self.segment_len() + suffix => Some(key_len - suffix),
            _ => None,
        }
    }

    /// Bytes after that prefix.
    pub(crate) const fn suffix_len(&self) -> Option<usize> {
        match self {
            Self::KeyValue | Self::TimeKey | Self::Timers => None,
            Self::Window { .. } => Some(12),
            Self::Session { .. } => Some(16),
            Self::Versioned { .. } => Some(8),
        }
    }

    /// Bytes before the record's key.
    #[inline]
    pub(crate) const fn segment_len(&self) -> usize {
        match self {
            Self::Window { .. } | Self::Session { .. } => 8,
            _ => 0,
        }
    }

    /// The part of an internal key that selects the shard: all segments of a record's key are in
    /// one shard.
    pub(crate) fn placement<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        self.row_len(key.len())
            .map_or(key, |end| &key[self.segment_len()..end])
    }
}

const fn segment_ms(retention_ms: i64) -> i64 {
    let half = retention_ms / 2;
    if half > MIN_SEGMENT_MS {
        half
    } else {
        MIN_SEGMENT_MS
    }
}
