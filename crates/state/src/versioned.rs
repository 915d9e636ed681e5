//! Reads a store as versions: the values of each key, and since when each is valid.
//!
//! Follows Kafka Streams' rules of history: writes older than `observed - history` are refused; a read
//! as of an older time returns a version only if it is still the latest; a deletion is a version.
//! Versions that no read can see are pruned when their key is written, in the store but not in the
//! changelog. The caller keeps `observed` (the highest timestamp that the store has seen).

use crate::key_value::after;
use crate::layout::TOMBSTONE;
use crate::window::short_key;
use crate::{Dirty, KeyRange, KeyValueStore, Layout, Stored, split_versioned, versioned_key};
use bytes::Bytes;
use stoatflow_core::{Datum, Epoch, Error, Result, Timestamp};

#[cfg(test)]
mod tests;

/// A versioned store as a lane in one epoch sees it.
#[derive(Clone, Copy, Debug)]
pub struct VersionedView<'a> {
    store: &'a KeyValueStore,
    epoch: Epoch,
    observed: i64,
    history_ms: i64,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutResult {
    /// Written; a later version exists and ends this one's validity at this time.
    ValidTo(i64),
    /// Written; it is the latest version.
    Undefined,
    /// Too old: nothing was written.
    NotPut,
}

impl PutResult {
    /// As Kafka Streams' `put` returns it: the time, -1, or `Long.MIN_VALUE`.
    #[must_use]
    pub const fn code(self) -> i64 {
        match self {
            Self::ValidTo(ts) => ts,
            Self::Undefined => -1,
            Self::NotPut => i64::MIN,
        }
    }
}

/// A version that is not a deletion.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionedRecord {
    /// Its value.
    pub value: Datum,
    /// Since when it is valid.
    pub timestamp: i64,
    /// When the next version (or deletion) began; `None` if it is the latest. Kafka Streams' typed
    /// stores never set it.
    pub valid_to: Option<i64>,
}

/// A version of a key: its time, and its value (`None`: deletion).
type Version = (i64, Option<Datum>);

impl<'a> VersionedView<'a> {
    /// `observed` is the highest timestamp that the store has seen; negative if none.
    ///
    /// # Errors
    /// `Internal` if the store has another layout.
    pub fn new(store: &'a KeyValueStore, epoch: Epoch, observed: i64) -> Result<Self> {
        let Layout::Versioned { history_ms } = store.layout() else {
            return Err(Error::internal(format!(
                "store {} keeps no versions but {}",
                store.name(),
                store.layout().name()
            )));
        };
        Ok(Self {
            store,
            epoch,
            observed,
            history_ms,
        })
    }

    /// The highest timestamp; refused writes don't raise it.
    #[must_use]
    pub const fn observed(&self) -> i64 {
        self.observed
    }

    /// The oldest time that writes and reads may refer to.
    const fn oldest(&self) -> i64 {
        self.observed.saturating_sub(self.history_ms)
    }

    /// Writes the version that is valid from `ts`; `None` or null is a deletion.
    ///
    /// # Errors
    /// As the store's `put` and `scan`.
    pub fn put(
        &mut self,
        dirty: &mut Dirty,
        key: &[u8],
        value: Option<Datum>,
        ts: i64,
    ) -> Result<PutResult> {
        if ts < self.oldest() {
            return Ok(PutResult::NotPut);
        }
        self.observed = self.observed.max(ts);
        let stored = match value {
            Some(value) if !value.is_null() => Stored {
                value,
                timestamp: Timestamp(ts),
            },
            _ => Stored {
                value: Datum::Bool(false),
                timestamp: TOMBSTONE,
            },
        };
        let internal = versioned_key(key, ts);
        let next = self.next_after(&internal)?;
        self.store.put(self.epoch, dirty, &internal, Some(stored))?;
        if next.is_some() {
            self.log_latest_again(dirty, key)?;
        }
        self.prune(dirty, key)?;
        Ok(next.map_or(PutResult::Undefined, PutResult::ValidTo))
    }

    /// Writes a deletion at `ts`; returns the version that was valid at that time before.
    ///
    /// # Errors
    /// As `put`.
    pub fn delete(
        &mut self,
        dirty: &mut Dirty,
        key: &[u8],
        ts: i64,
    ) -> Result<Option<VersionedRecord>> {
        if ts < self.oldest() {
            return Ok(None);
        }
        self.observed = self.observed.max(ts);
        let before = self.get_as_of(key, ts)?;
        self.put(dirty, key, None, ts)?;
        Ok(before)
    }

    /// The latest version; it never expires.
    ///
    /// # Errors
    /// As the store's `scan`.
    pub fn get(&self, key: &[u8]) -> Result<Option<VersionedRecord>> {
        Ok(self
            .last_until(key, i64::MAX)?
            .and_then(|v| record(v, None)))
    }

    /// The version that was valid at `ts`.
    ///
    /// # Errors
    /// As the store's `scan`.
    pub fn get_as_of(&self, key: &[u8], ts: i64) -> Result<Option<VersionedRecord>> {
        let Some(version) = self.last_until(key, ts)? else {
            return Ok(None);
        };
        let next = self.next_after(&versioned_key(key, version.0))?;
        if ts < self.oldest() && next.is_some() {
            return Ok(None);
        }
        Ok(record(version, next))
    }

    /// The versions that were valid at some time in `from..=to`, ascending; deletions only end them.
    ///
    /// # Errors
    /// As the store's `scan`.
    pub fn history(&self, key: &[u8], from: i64, to: i64) -> Result<Vec<VersionedRecord>> {
        let from = from.max(self.oldest());
        let versions = self.versions(key, i64::MIN, i64::MAX, false, usize::MAX)?;
        let mut ends = versions
            .iter()
            .skip(1)
            .map(|v| v.0)
            .collect::<Vec<_>>()
            .into_iter();
        let found = versions.into_iter().filter_map(|version| {
            let valid_to = ends.next();
            let held = version.0 <= to && valid_to.is_none_or(|end| end > from);
            if held {
                record(version, valid_to)
            } else {
                None
            }
        });
        Ok(found.collect())
    }

    /// Writes the latest version again. A compacted changelog keeps the record written last, which must
    /// not be a version that came late. (If a lane still in the previous epoch writes the latest version
    /// later, the copy keeps the old value; key affinity prevents that for the DSL's operators.)
    fn log_latest_again(&self, dirty: &mut Dirty, key: &[u8]) -> Result<()> {
        if let Some((ts, _)) = self.last_until(key, i64::MAX)? {
            self.store
                .update(self.epoch, dirty, &versioned_key(key, ts), |latest| {
                    Ok((latest.cloned(), ()))
                })?;
        }
        Ok(())
    }

    /// Deletes versions that no read can see any more.
    fn prune(&self, dirty: &mut Dirty, key: &[u8]) -> Result<()> {
        let hidden = self.versions(key, i64::MIN, self.oldest(), true, usize::MAX)?;
        let mut versions = hidden.into_iter();
        let newest = versions.next();
        let mut alone = true;
        for (ts, _) in versions {
            let key = versioned_key(key, ts);
            alone &= self.store.prune(self.epoch, dirty, &key)?;
        }
        // The newest of them is valid at the oldest readable time. A deletion must stay while it hides a
        // version that could not be pruned yet, and while a lane of the previous epoch may still replace
        // it with a value, which would be invisible in this epoch if the deletion were pruned.
        if let Some((ts, None)) = newest
            && ts < self.oldest()
            && alone
            && self.hides_nothing(key, ts)?
        {
            self.store
                .prune(self.epoch, dirty, &versioned_key(key, ts))?;
        }
        Ok(())
    }

    /// Whether this oldest deletion hides no version, as seen by a lane of a later epoch.
    fn hides_nothing(&self, key: &[u8], ts: i64) -> Result<bool> {
        let latest = Self {
            epoch: Epoch(u64::MAX),
            ..*self
        };
        let seen = latest.versions(key, i64::MIN, ts, true, 2)?;
        Ok(seen.len() < 2)
    }

    /// When the version after this one begins.
    fn next_after(&self, internal: &Bytes) -> Result<Option<i64>> {
        let row = internal.slice(..internal.len() - 8);
        let range = KeyRange {
            from: Some(after(internal)),
            to: Some(after(&versioned_key(&row, i64::MAX))),
            reverse: false,
        };
        let found = self.store.scan_row(self.epoch, &row, &range, 1)?;
        found.first().map(|(k, _)| self.time(k)).transpose()
    }

    fn last_until(&self, key: &[u8], ts: i64) -> Result<Option<Version>> {
        Ok(self.versions(key, i64::MIN, ts, true, 1)?.pop())
    }

    fn versions(
        &self,
        key: &[u8],
        from: i64,
        to: i64,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<Version>> {
        let first = versioned_key(key, from);
        let row = first.slice(..key.len());
        let range = KeyRange {
            from: Some(first),
            to: Some(after(&versioned_key(key, to))),
            reverse,
        };
        let found = self.store.scan_row(self.epoch, &row, &range, limit)?;
        found
            .into_iter()
            .map(|(internal, stored)| {
                let value = (stored.timestamp != TOMBSTONE).then_some(stored.value);
                Ok((self.time(&internal)?, value))
            })
            .collect()
    }

    fn time(&self, internal: &[u8]) -> Result<i64> {
        split_versioned(internal)
            .map(|(_, ts)| ts)
            .ok_or_else(|| short_key(self.store, internal))
    }
}

fn record((timestamp, value): Version, valid_to: Option<i64>) -> Option<VersionedRecord> {
    Some(VersionedRecord {
        value: value?,
        timestamp,
        valid_to,
    })
}
