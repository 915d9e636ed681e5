//! Versions of a processor's versioned stores.
//!
//! Takes a key and a time, returns the version valid at that time; writes a version, or ends it. The
//! store's history retention decides what is too old.

use super::Host;
use crate::Version;
use crate::ops::process::processor_env::Connected;
use stoatflow_core::{Datum, Result};
use stoatflow_state::VersionedRecord;

impl Host<'_, '_> {
    pub(super) fn put_version(
        &mut self,
        store: usize,
        key: &Datum,
        value: Datum,
        timestamp: i64,
    ) -> Result<i64> {
        let store = self.connected(store)?;
        store.writable()?;
        let key = store.key_bytes(key)?;
        let value = store.taken(value)?;
        let (mut view, dirty) = self.versions(store, Some(&key))?;
        let code = view
            .put(dirty, &key, Some(value).filter(|v| !v.is_null()), timestamp)?
            .code();
        self.see(store, &key, timestamp)?;
        Ok(code)
    }

    pub(super) fn end_version(
        &mut self,
        store: usize,
        key: &Datum,
        timestamp: i64,
    ) -> Result<Option<Version>> {
        let store = self.connected(store)?;
        store.writable()?;
        let key = store.key_bytes(key)?;
        let (mut view, dirty) = self.versions(store, Some(&key))?;
        let ended = view.delete(dirty, &key, timestamp)?;
        self.see(store, &key, timestamp)?;
        ended.map(|record| version(store, record)).transpose()
    }

    pub(super) fn version_as_of(
        &mut self,
        store: usize,
        key: &Datum,
        as_of: Option<i64>,
    ) -> Result<Option<Version>> {
        let store = self.connected(store)?;
        let key = store.key_bytes(key)?;
        let (view, _) = self.versions(store, Some(&key))?;
        let found = match as_of {
            Some(time) => view.get_as_of(&key, time)?,
            None => view.get(&key)?,
        };
        found.map(|record| version(store, record)).transpose()
    }
}

fn version(store: &Connected, record: VersionedRecord) -> Result<Version> {
    let value = store.given(record.value)?;
    Ok((value, record.timestamp, record.valid_to))
}
