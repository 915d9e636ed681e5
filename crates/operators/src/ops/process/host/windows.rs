//! Windows and sessions of a processor's stores.
//!
//! Takes keys and times, returns the rows of the store. A window or session older than the store's
//! retention is neither written nor found, as in Kafka Streams.

use super::ranges::ends;
use super::{Host, given, taken};
use crate::Keys;
use stoatflow_core::{Datum, Result};
use stoatflow_plan::StoreKind;
use stoatflow_state::{SessionEntry, Stored, WindowEntry};

impl Host<'_, '_> {
    pub(super) fn put_window(
        &mut self,
        store: usize,
        key: &Datum,
        start: i64,
        value: Stored,
    ) -> Result<()> {
        let store = self.connected(store)?;
        store.writable()?;
        let key = store.key_bytes(key)?;
        let value = taken(store, value)?;
        let (mut view, dirty) = self.windows(store, Some(&key))?;
        // A window older than the store's retention is not written, as in Kafka Streams.
        if matches!(
            store.kind,
            StoreKind::Window {
                duplicates: true,
                ..
            }
        ) {
            view.put_duplicate(dirty, &key, start, value)?;
        } else {
            view.put(dirty, &key, start, Some(value))?;
        }
        self.see(store, &key, start)
    }

    pub(super) fn window_at(
        &mut self,
        store: usize,
        key: &Datum,
        start: i64,
    ) -> Result<Option<Stored>> {
        let store = self.connected(store)?;
        let key = store.key_bytes(key)?;
        let found = self.windows(store, Some(&key))?.0.fetch(&key, start)?;
        found.map(|stored| given(store, stored)).transpose()
    }

    pub(super) fn windows_between(
        &mut self,
        store: usize,
        keys: Keys<'_>,
        from: i64,
        to: i64,
        reverse: bool,
    ) -> Result<Vec<(Datum, i64, Stored)>> {
        let store = self.connected(store)?;
        let entries: Vec<WindowEntry> = match keys {
            Keys::One(key) => {
                let key = store.key_bytes(key)?;
                let (view, _) = self.windows(store, Some(&key))?;
                let found = view.fetch_range(&key, from, to, reverse, usize::MAX)?;
                found
                    .into_iter()
                    .map(|(start, stored)| (key.clone(), start, stored))
                    .collect()
            }
            Keys::Between(first, last) => {
                let (first, last) = ends(store, first, last)?;
                let (view, _) = self.windows(store, None)?;
                let mut found =
                    view.fetch_keys(first.as_deref(), last.as_deref(), from, to, reverse)?;
                self.keep_own(store, &mut found, |(key, ..)| key);
                found
            }
        };
        let given = entries
            .into_iter()
            .map(|(key, start, stored)| Ok((store.key_of(key)?, start, given(store, stored)?)));
        given.collect()
    }

    pub(super) fn put_session(
        &mut self,
        store: usize,
        key: &Datum,
        start: i64,
        end: i64,
        value: Stored,
    ) -> Result<()> {
        let store = self.connected(store)?;
        store.writable()?;
        let key = store.key_bytes(key)?;
        let value = taken(store, value)?;
        let (mut view, dirty) = self.sessions(store, Some(&key))?;
        view.put(dirty, &key, start, end, Some(value))?;
        self.see(store, &key, end)
    }

    pub(super) fn session_at(
        &mut self,
        store: usize,
        key: &Datum,
        start: i64,
        end: i64,
    ) -> Result<Option<Datum>> {
        let store = self.connected(store)?;
        let key = store.key_bytes(key)?;
        let (view, _) = self.sessions(store, Some(&key))?;
        let found = view.fetch_session(&key, start, end)?;
        found.map(|stored| store.given(stored.value)).transpose()
    }

    pub(super) fn sessions_between(
        &mut self,
        store: usize,
        keys: Keys<'_>,
        earliest_end: i64,
        latest_start: i64,
        reverse: bool,
    ) -> Result<Vec<(Datum, i64, i64, Datum)>> {
        let store = self.connected(store)?;
        let entries: Vec<SessionEntry> = match keys {
            Keys::One(key) => {
                let key = store.key_bytes(key)?;
                let (view, _) = self.sessions(store, Some(&key))?;
                view.find_sessions(&key, earliest_end, latest_start, reverse)?
            }
            Keys::Between(first, last) => {
                let (first, last) = ends(store, first, last)?;
                let (view, _) = self.sessions(store, None)?;
                let mut found = view.find_keys(
                    first.as_deref(),
                    last.as_deref(),
                    earliest_end,
                    latest_start,
                    reverse,
                )?;
                self.keep_own(store, &mut found, |entry| &entry.key);
                found
            }
        };
        let given = entries.into_iter().map(|e| {
            let key = store.key_of(e.key)?;
            Ok((key, e.start, e.end, store.given(e.value.value)?))
        });
        given.collect()
    }
}
