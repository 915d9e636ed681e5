//! Enforces unique indexes.
//!
//! Checks each write before it is made. Committed values are looked up in the index. Uncommitted ones
//! are recorded here: which key has claimed or released a value, and in which epoch. A lane that is
//! still in an epoch can't use a value that only the next epoch releases: the commit of its epoch would
//! contain two rows with it.

use super::{StoreIndexes, entry_key};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use stoatflow_core::{Epoch, Error, Result, Serde};
use stoatflow_operators::indexing::{is_kept_apart, split_entry};
use stoatflow_state::{Backend, KeyRange, KeyValueStore, Stored, WriteGuard, after_prefix};

/// The key that claimed or released a value that isn't committed yet.
#[derive(Clone, Debug)]
struct Claim {
    key: Bytes,
    /// False if the key released the value.
    held: bool,
    epoch: Epoch,
}

type Claims = HashMap<(usize, Vec<u8>), Claim>;

/// See the module.
#[derive(Debug)]
pub struct UniqueGuard {
    indexes: Arc<StoreIndexes>,
    backend: Arc<dyn Backend>,
    claims: Mutex<Claims>,
}

impl UniqueGuard {
    /// The guard of a store; `None` if none of its indexes is unique.
    #[must_use]
    pub fn new(indexes: &Arc<StoreIndexes>, backend: &Arc<dyn Backend>) -> Option<Self> {
        indexes.indexes.iter().any(|i| i.spec.unique).then(|| Self {
            indexes: Arc::clone(indexes),
            backend: Arc::clone(backend),
            claims: Mutex::default(),
        })
    }

    /// The values of a row in the unique indexes.
    fn values(&self, key: &Bytes, stored: Option<&Stored>) -> Result<Vec<(usize, Vec<u8>)>> {
        let Some(stored) = stored.filter(|stored| !stored.value.is_null()) else {
            return Ok(Vec::new());
        };
        let row = self.indexes.rows.held(key, &stored.value, stored.timestamp);
        // A field that can't be computed has no value; a row that can't be encoded fails the write.
        let row = Ok(row?);
        let unique = self.indexes.indexes.iter().enumerate();
        let unique = unique.filter(|(_, index)| index.spec.unique);
        let values = unique.flat_map(|(at, index)| {
            let (entries, _) = index.fields.entries(&row);
            entries.into_keys().map(move |entry| (at, entry))
        });
        Ok(values.filter(|(_, entry)| is_kept_apart(entry)).collect())
    }

    /// Another key that has this value in the back end.
    fn committed_owner(&self, index: usize, value: &[u8], key: &[u8]) -> Result<Option<Bytes>> {
        let index = &self.indexes.indexes[index];
        let range = KeyRange {
            from: Some(Bytes::copy_from_slice(value)),
            to: after_prefix(value),
            reverse: false,
        };
        let own = entry_key(value, key);
        let found = self.backend.scan(index.id, &range, 2)?;
        let other = found.into_iter().find(|(entry, _)| *entry != own);
        Ok(other.and_then(|(entry, _)| {
            let (_, of) = split_entry(&entry, index.fields.width())?;
            Some(entry.slice_ref(of))
        }))
    }

    /// The other key that has the value, if any.
    fn owner(
        &self,
        claims: &Claims,
        wanted: &(usize, Vec<u8>),
        (key, epoch): (&Bytes, Epoch),
    ) -> Result<Option<Bytes>> {
        match claims.get(wanted) {
            Some(claim) if claim.key == *key => Ok(None),
            Some(claim) if claim.held || claim.epoch > epoch => Ok(Some(claim.key.clone())),
            Some(_) => Ok(None),
            None => self.committed_owner(wanted.0, &wanted.1, key),
        }
    }

    #[cold]
    fn violation(&self, index: usize, key: &Bytes, owner: &Bytes) -> Error {
        let index = &self.indexes.indexes[index].spec.name;
        let serde = self.indexes.rows.key();
        Error::user(format!(
            "the index '{index}' of the store '{}' is unique, and the key {} has the value that the key {} is to \
             get",
            self.indexes.name,
            key_text(serde, owner),
            key_text(serde, key)
        ))
        .hint(
            "delete or change the other row first, give this one another value, or let on_error= of the node say \
             what becomes of such records",
        )
    }
}

/// A key as text, for an error.
fn key_text(serde: &Serde, key: &Bytes) -> String {
    match serde.decode(Some(key.clone())) {
        Ok(stoatflow_core::Datum::Str(text)) => format!("{:?}", text.as_str()),
        Ok(stoatflow_core::Datum::Int(number)) => number.to_string(),
        _ => format!("{:?}", String::from_utf8_lossy(key)),
    }
}

impl WriteGuard for UniqueGuard {
    fn admit(
        &self,
        store: &KeyValueStore,
        epoch: Epoch,
        key: &[u8],
        value: Option<&Stored>,
    ) -> Result<()> {
        let key = Bytes::copy_from_slice(key);
        let before = self.values(&key, store.get(epoch, &key)?.as_ref())?;
        let now = self.values(&key, value)?;
        let mut claims = self.claims.lock();
        for wanted in now.iter().filter(|value| !before.contains(value)) {
            if let Some(owner) = self.owner(&claims, wanted, (&key, epoch))? {
                drop(claims);
                return Err(self.violation(wanted.0, &key, &owner));
            }
        }
        let mut note = |value: &(usize, Vec<u8>), held| {
            let claim = Claim {
                key: key.clone(),
                held,
                epoch,
            };
            claims.insert(value.clone(), claim);
        };
        for value in now.iter().filter(|value| !before.contains(value)) {
            note(value, true);
        }
        for value in before.iter().filter(|value| !now.contains(value)) {
            note(value, false);
        }
        Ok(())
    }

    fn committed(&self, epoch: Epoch) {
        self.claims.lock().retain(|_, claim| claim.epoch > epoch);
    }
}
