//! Store contents for tests: committed rows, decoded by the store's layout.
//!
//! Takes a store's name, returns bytes. Hides expired windows and sessions, as reads do. Never shows
//! uncommitted rows.

use super::state::DriverState;
use stoatflow_core::{Bytes, Error, Headers, Result, headers_from_bytes, take_headers};
use stoatflow_plan::{Store, StoreKind};
use stoatflow_state::{KeyRange, split_session, split_timer, split_versioned, split_window};

/// Replaces the timestamp of a version that is a tombstone.
const DELETED: i64 = i64::MIN;

/// A row of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    pub key: Bytes,
    /// Start and end.
    pub window: Option<(i64, i64)>,
    pub value: Bytes,
    pub timestamp: i64,
}

impl DriverState {
    fn store(&self, name: &str) -> Result<Store> {
        let stores = &self.spec.plan.stores;
        stores
            .iter()
            .find(|s| s.name == name)
            .cloned()
            .ok_or_else(|| {
                let names: Vec<_> = stores.iter().map(|s| s.name.as_str()).collect();
                Error::config(format!("there is no store '{name}'"))
                    .hint(format!("the topology has: {}", names.join(", ")))
            })
    }

    /// Entries in the store's own key and value bytes, both bounds included.
    pub fn scan(
        &mut self,
        name: &str,
        from: Option<Bytes>,
        to: Option<Bytes>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes, i64)>> {
        let store = self.store(name)?;
        let id = store.id;
        // The range's end is exclusive; the smallest key after `to` is `to` with a zero byte.
        let to = to.map(|t| Bytes::from([t.as_ref(), &[0]].concat()));
        let range = KeyRange {
            from,
            to,
            reverse: false,
        };
        let entries = self.engine()?.parts().backend.scan(id, &range, limit)?;
        let split = |(key, stored): (Bytes, Bytes)| {
            let (time, value) = stored.split_first_chunk::<8>()?;
            let value = stored.slice_ref(value);
            Some((key, value, i64::from_be_bytes(*time)))
        };
        let entries = entries.into_iter().filter_map(split);
        if !store.headers {
            return Ok(entries.collect());
        }
        entries
            .map(|(key, value, time)| Ok((key, take_headers(value)?.1, time)))
            .collect()
    }

    /// The headers that a key-value store keeps with the value of a key; `None` without a value.
    pub fn headers(&mut self, name: &str, key: &[u8]) -> Result<Option<Headers>> {
        let store = self.store(name)?;
        if !store.headers || store.kind != StoreKind::TimestampedKeyValue {
            return Err(
                Error::config(format!("the store '{name}' keeps no headers of keys"))
                    .hint("declare it with headers=True"),
            );
        }
        let row = self.engine()?.parts().backend.get(store.id, key)?;
        let headers = |row: Bytes| headers_from_bytes(take_headers(row.slice(8..))?.0);
        row.map(headers).transpose()
    }

    /// The highest stream time that a store has seen; -1 if none.
    fn observed(&mut self, store: &Store) -> Result<i64> {
        let Some(clock) = store.clock else {
            return Ok(-1);
        };
        let lanes = &self.engine()?.parts().lanes;
        let times = lanes.first().map_or(&[][..], |lane| lane.times());
        let times = times.get(usize::from(clock.0)).into_iter().flatten();
        Ok(times.map(|time| time.stream).max().unwrap_or(-1))
    }

    /// The rows that reads of the store would return.
    pub fn rows(&mut self, name: &str) -> Result<Vec<Row>> {
        let store = self.store(name)?;
        let observed = self.observed(&store)?;
        let entries = self.scan(name, None, None, usize::MAX)?;
        let mut rows: Vec<Row> = Vec::with_capacity(entries.len());
        for (key, value, timestamp) in entries {
            let row = |of: &[u8], window| Row {
                key: key.slice_ref(of),
                window,
                value: value.clone(),
                timestamp,
            };
            match store.kind {
                StoreKind::Window {
                    retention_ms,
                    size_ms,
                    ..
                } => {
                    if let Some(parts) = split_window(&key)
                        && parts.start > observed.saturating_sub(retention_ms)
                    {
                        let end = parts.start.saturating_add(size_ms);
                        rows.push(row(parts.key, Some((parts.start, end))));
                    }
                }
                StoreKind::Session { retention_ms } => {
                    if let Some(parts) = split_session(&key)
                        && parts.end > observed.saturating_sub(retention_ms)
                    {
                        rows.push(row(parts.key, Some((parts.start, parts.end))));
                    }
                }
                StoreKind::Versioned { .. } => {
                    if let Some((of, since)) = split_versioned(&key) {
                        let version = Row {
                            timestamp: if timestamp == DELETED { DELETED } else { since },
                            ..row(of, None)
                        };
                        // Versions of a key are adjacent; the last one is the latest.
                        match rows.last_mut().filter(|last| last.key == version.key) {
                            Some(last) => *last = version,
                            None => rows.push(version),
                        }
                    }
                }
                // A timer's row has its domain as value and its due time as timestamp.
                StoreKind::Timers => {
                    if let Some(timer) = split_timer(&key) {
                        rows.push(Row {
                            value: Bytes::from_static(timer.domain.name().as_bytes()),
                            timestamp: timer.at,
                            ..row(timer.key, None)
                        });
                    }
                }
                _ => rows.push(row(&key, None)),
            }
        }
        if matches!(store.kind, StoreKind::Versioned { .. }) {
            rows.retain(|row| row.timestamp != DELETED);
        }
        // Key bytes of windows and sessions begin with the segment. A stable sort keeps duplicates in
        // order.
        rows.sort_by(|a, b| (&a.key, a.window).cmp(&(&b.key, b.window)));
        Ok(rows)
    }

    /// The version of a key that is valid now or was valid at `as_of`.
    pub fn version(
        &mut self,
        name: &str,
        key: &[u8],
        as_of: Option<i64>,
    ) -> Result<Option<(Bytes, i64)>> {
        let store = self.store(name)?;
        let StoreKind::Versioned { history_ms } = store.kind else {
            return Err(
                Error::config(format!("the store '{name}' keeps no versions"))
                    .hint("ask it for get(key)"),
            );
        };
        let oldest = self.observed(&store)?.saturating_sub(history_ms);
        let entries = self.scan(name, None, None, usize::MAX)?;
        let versions = entries.into_iter().filter_map(|(row, value, timestamp)| {
            let (of, since) = split_versioned(&row)?;
            (of == key).then(|| ((timestamp != DELETED).then_some(value), since))
        });
        let versions: Vec<_> = versions.collect();
        let until = as_of.unwrap_or(i64::MAX);
        let held = versions.iter().rposition(|(_, since)| *since <= until);
        Ok(held.and_then(|at| {
            // Before the retained history only the latest version is known.
            if until < oldest && at + 1 < versions.len() {
                return None;
            }
            let (value, since) = &versions[at];
            value.clone().map(|value| (value, *since))
        }))
    }
}
