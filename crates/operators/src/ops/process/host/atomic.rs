//! Atomic reads and writes of a key, across all lanes.
//!
//! No store lock is held while the user's function runs: if another lane writes the key meanwhile, the
//! function runs again. Lanes of a stage with such stores finish an epoch together
//! (`engine::lane::barrier`), so an update never builds on a value written in a later epoch, and no
//! later epoch misses it.

use super::{Connected, Host, LaneStore, UpdateFn, given, taken};
use bytes::Bytes;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Result, Timestamp};
use stoatflow_state::{Dirty, Stored};

impl Host<'_, '_> {
    /// Fails if the function of `update` writes its own key: it would be repeated forever.
    pub(super) fn not_updating(&self, at: usize, store: &Connected, key: &Bytes) -> Result<()> {
        match &self.updating {
            Some((of, updated)) if *of == at && updated == key => Err(store.named(
                Error::user("a function that gives a new value wrote the key itself")
                    .hint("return the value instead"),
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn update_key(
        &mut self,
        store: usize,
        key: &Datum,
        f: &mut UpdateFn<'_>,
    ) -> Result<()> {
        let (at, store) = (store, self.connected(store)?);
        store.writable()?;
        store.one_step()?;
        let key = store.key_bytes(key)?;
        if self.updating.is_some() {
            return Err(Error::user("a function that gives a new value updated another key").hint(
                "take the locks of all keys first: with context.locks(...), then get() and put()",
            ));
        }
        self.watch_key(store, &key)?;
        self.wrote(at, store, &key);
        self.updating = Some((at, key.clone()));
        let kept = Arc::clone(&self.lane_store(store).store);
        let (epoch, mut dirty) = (self.context.epoch, Dirty::default());
        let done = kept.update_unlocked(epoch, &mut dirty, &key, |current| {
            let current = self.alive(store, &key, current.cloned())?;
            let now = current.map(|stored| given(store, stored));
            let next = taken(store, f(self, now.transpose()?)?)?;
            let expiry = Self::expiry(store, &key, &next)?;
            kept.admit(epoch, &key, Some(&next))?;
            Ok((Some(next), expiry))
        });
        self.updating = None;
        self.lane_store(store).dirty.append(dirty);
        self.expect((at, store), &key, done?)
    }

    pub(super) fn put_missing(
        &mut self,
        store: usize,
        key: &Datum,
        value: Stored,
    ) -> Result<Option<Stored>> {
        let (at, store) = (store, self.connected(store)?);
        store.writable()?;
        let key = store.key_bytes(key)?;
        self.not_updating(at, store, &key)?;
        let value = taken(store, value)?;
        if store.ttl.is_some() {
            return self.put_missing_or_due((at, store), &key, value);
        }
        self.watch_key(store, &key)?;
        self.wrote(at, store, &key);
        let epoch = self.context.epoch;
        let LaneStore { store: kept, dirty } = self.lane_store(store);
        let found = match kept.get(epoch, &key)? {
            Some(found) => Some(found),
            // Another lane may have written it first. Then its value is written again, unchanged.
            None => {
                kept.admit(epoch, &key, Some(&value))?;
                kept.update(epoch, dirty, &key, |current| match current {
                    Some(found) => Ok((Some(found.clone()), Some(found.clone()))),
                    None => Ok((Some(value), None)),
                })?
            }
        };
        found.map(|stored| given(store, stored)).transpose()
    }

    /// For a store with a ttl: a row that is due counts as missing. Whether it is due may need the
    /// interpreter, so no lock is held.
    fn put_missing_or_due(
        &mut self,
        (at, store): (usize, &Connected),
        key: &Bytes,
        value: Stored,
    ) -> Result<Option<Stored>> {
        let epoch = self.context.epoch;
        let kept = Arc::clone(&self.lane_store(store).store);
        let found = kept.get(epoch, key)?;
        if let Some(found) = self.alive(store, key, found)? {
            return given(store, found).map(Some);
        }
        let expiry = Self::expiry(store, key, &value)?;
        self.watch_key(store, key)?;
        self.wrote(at, store, key);
        kept.admit(epoch, key, Some(&value))?;
        let mut dirty = Dirty::default();
        let found = kept.update_unlocked(epoch, &mut dirty, key, |current| {
            // Another lane may have written it first. Then its value is written again, unchanged.
            let found = self.alive(store, key, current.cloned())?;
            Ok((found.clone().or_else(|| Some(value.clone())), found))
        })?;
        self.lane_store(store).dirty.append(dirty);
        match found {
            Some(found) => given(store, found).map(Some),
            None => self.expect((at, store), key, expiry).map(|()| None),
        }
    }

    pub(super) fn take_out(
        &mut self,
        store: usize,
        key: &Datum,
        time: i64,
    ) -> Result<Option<Stored>> {
        let (at, store) = (store, self.connected(store)?);
        store.writable()?;
        let key = store.key_bytes(key)?;
        self.not_updating(at, store, &key)?;
        self.wrote(at, store, &key);
        let gone = Stored {
            value: Datum::Null,
            timestamp: Timestamp(time),
        };
        let epoch = self.context.epoch;
        let LaneStore { store: kept, dirty } = self.lane_store(store);
        kept.admit(epoch, &key, None)?;
        let had = |current: Option<&Stored>| Ok((Some(gone), current.cloned()));
        let found = kept.update(epoch, dirty, &key, had)?;
        let found = self.alive(store, &key, found)?;
        found.map(|stored| given(store, stored)).transpose()
    }
}
