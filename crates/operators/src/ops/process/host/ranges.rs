//! Ranges of keys of a processor's key-value stores.
//!
//! Takes the bounds of a range, or a prefix; returns keys and values in byte order. A missing or null
//! bound means no bound.

use super::{Host, given};
use crate::ops::process::processor_env::Connected;
use bytes::Bytes;
use stoatflow_core::{Datum, Result};
use stoatflow_state::{KeyRange, Stored, after, after_prefix};

impl Host<'_, '_> {
    pub(super) fn keys_between(
        &mut self,
        store: usize,
        from: Option<&Datum>,
        to: Option<&Datum>,
        reverse: bool,
    ) -> Result<Vec<(Datum, Stored)>> {
        let (at, store) = (store, self.connected(store)?);
        let (from, to) = ends(store, from, to)?;
        let to = to.as_ref().map(|key| after(key));
        self.scan(at, &KeyRange { from, to, reverse })
    }

    pub(super) fn keys_with_prefix(
        &mut self,
        store: usize,
        prefix: &Datum,
    ) -> Result<Vec<(Datum, Stored)>> {
        let (at, store) = (store, self.connected(store)?);
        let from = match prefix {
            Datum::Bytes(bytes) => bytes.clone(),
            key => store.key_bytes(key)?,
        };
        let range = KeyRange {
            to: after_prefix(&from),
            from: Some(from),
            reverse: false,
        };
        self.scan(at, &range)
    }

    fn scan(&mut self, at: usize, range: &KeyRange) -> Result<Vec<(Datum, Stored)>> {
        let store = self.connected(at)?;
        let empty = matches!((&range.from, &range.to), (Some(from), Some(to)) if from >= to);
        if empty {
            return Ok(Vec::new());
        }
        let found = self.rows(at, store, range)?;
        let found = self.keep_alive(store, found)?;
        self.decoded(store, found)
    }

    fn decoded(
        &self,
        store: &Connected,
        found: Vec<(Bytes, Stored)>,
    ) -> Result<Vec<(Datum, Stored)>> {
        found
            .into_iter()
            .map(|(key, stored)| Ok((store.key_of(key)?, given(store, stored)?)))
            .collect()
    }
}

/// A range of keys as bytes, both ends included.
pub(super) fn ends(
    store: &Connected,
    from: Option<&Datum>,
    to: Option<&Datum>,
) -> Result<(Option<Bytes>, Option<Bytes>)> {
    let bytes = |key: Option<&Datum>| {
        key.filter(|key| !key.is_null())
            .map(|key| store.key_bytes(key))
            .transpose()
    };
    Ok((bytes(from)?, bytes(to)?))
}
