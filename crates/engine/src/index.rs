//! Secondary indexes of stores.
//!
//! An index is a store of its own beside the store that it indexes, without a changelog. Its keys are
//! the bytes of the fields, followed by the row's key; its values are timestamps, and what a covering
//! index keeps. Lanes compute its changes when they seal an epoch, from the rows before and after it, so
//! both go into the same write batch. Missing entries are built from the rows ([`build`]): see
//! `docs/adr/0024-indexes-are-made-at-the-seal.md`.

pub mod build;
pub mod build_at_start;
mod restored;
pub mod state;
#[cfg(test)]
mod tests;
mod unique;

use crate::lane::stream_time::Timing;
use bytes::Bytes;
use state::IndexStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Epoch, Record, Result, RocksDbConfig, StoreId, Timestamp};
use stoatflow_operators::ForeignCode;
use stoatflow_operators::indexing::{Entries, IndexFields, RowReader, fingerprint};
use stoatflow_plan::{IndexSpec, PhysicalPlan, SerdeSpec, Store, StoreKind};
use stoatflow_state::{KeyValueStore, Sealed};
pub use unique::UniqueGuard;

/// One index of a store.
#[derive(Debug)]
pub struct Index {
    /// The store that holds its entries.
    pub id: StoreId,
    /// Its declaration.
    pub spec: IndexSpec,
    /// Progress and counts, for people.
    pub status: Arc<IndexStatus>,
    fields: IndexFields,
    fingerprint: u64,
}

/// The indexes of one store.
#[derive(Debug)]
pub struct StoreIndexes {
    /// The store.
    pub store: StoreId,
    /// Its indexes, in the order of their declaration.
    pub indexes: Vec<Index>,
    name: String,
    rows: RowReader,
    /// True if the restore emptied one of them.
    emptied: AtomicBool,
}

/// The stores of all indexes of a plan: numbered after the plan's own stores and the store of stream
/// times.
#[must_use]
pub fn index_stores(plan: &PhysicalPlan) -> Vec<(StoreId, &Store, &IndexSpec)> {
    if plan.stores.iter().all(|store| store.indexes.is_empty()) {
        // Every read of a store asks, and the timing of a plan takes longer than a read.
        return Vec::new();
    }
    let times = usize::from(Timing::new(plan).store.is_some());
    let first = plan.stores.len() + times;
    let all = plan
        .stores
        .iter()
        .flat_map(|store| store.indexes.iter().map(move |index| (store, index)));
    let numbered = (first..).zip(all);
    let with_id = numbered.map(|(at, (store, index))| {
        let id = StoreId(u16::try_from(at).expect("a plan has fewer than 65536 stores"));
        (id, store, index)
    });
    with_id.collect()
}

/// The store that holds the entries of an index.
#[must_use]
pub fn entry_store(id: StoreId, of: &Store, index: &IndexSpec) -> Store {
    let raw = || SerdeSpec::Builtin("bytes".into());
    Store {
        id,
        named: of.named,
        logged: false,
        in_memory: of.in_memory,
        rocksdb: of.rocksdb.map(RocksDbConfig::without_cache),
        ordered: false,
        ..Store::new(
            &format!("{}/{}", of.name, index.name),
            StoreKind::TimestampedKeyValue,
            raw(),
            raw(),
        )
    }
}

impl StoreIndexes {
    /// The indexes of all stores that have some.
    ///
    /// # Errors
    /// `Topology` for an expression or serde that can never work.
    pub fn all(plan: &PhysicalPlan, foreign: &ForeignCode) -> Result<Vec<Arc<Self>>> {
        let known = index_stores(plan);
        let of = |store: &Store| {
            let own = known.iter().filter(|(_, of, _)| of.id == store.id);
            let indexes = own.map(|(id, _, spec)| {
                Ok(Index {
                    id: *id,
                    status: Arc::new(IndexStatus::new(&store.name, &spec.name)),
                    fields: IndexFields::new(spec)?,
                    fingerprint: fingerprint(spec, store),
                    spec: (*spec).clone(),
                })
            });
            Ok(Arc::new(Self {
                store: store.id,
                name: store.name.clone(),
                indexes: indexes.collect::<Result<_>>()?,
                rows: RowReader::new(store, foreign)?,
                emptied: AtomicBool::new(false),
            }))
        };
        let with = plan.stores.iter().filter(|s| !s.indexes.is_empty());
        with.map(of).collect()
    }

    /// True if the restore of the store emptied an index, which is then built before anything else runs.
    #[must_use]
    pub fn is_emptied(&self) -> bool {
        self.emptied.load(Relaxed)
    }

    /// What an epoch changes in the indexes of a store, once all lanes have finished it.
    ///
    /// # Errors
    /// Errors of reading the store.
    pub fn changes(
        &self,
        store: &KeyValueStore,
        epoch: Epoch,
        sealed: &[Sealed],
    ) -> Result<Vec<(StoreId, Vec<Sealed>)>> {
        let before = Epoch(epoch.0.saturating_sub(1));
        let mut changes = self.nothing();
        for write in sealed {
            let old = store.get(before, &write.key)?;
            let old = old.map(|old| self.rows.held(&write.key, &old.value, old.timestamp));
            let new = write.value.as_ref();
            let new = new.map(|v| self.rows.record(&write.key, v.clone(), write.timestamp));
            self.change((&write.key, write.timestamp), (old, new), &mut changes);
        }
        Ok(self.by_store(changes))
    }

    fn nothing(&self) -> Vec<Vec<Sealed>> {
        self.indexes.iter().map(|_| Vec::new()).collect()
    }

    fn by_store(&self, changes: Vec<Vec<Sealed>>) -> Vec<(StoreId, Vec<Sealed>)> {
        let by_store = self.indexes.iter().map(|index| index.id).zip(changes);
        by_store
            .filter(|(_, changes)| !changes.is_empty())
            .collect()
    }

    /// Adds what the change of a row changes in each index.
    fn change(
        &self,
        (key, timestamp): (&Bytes, Timestamp),
        (old, new): (Option<Result<Record>>, Option<Result<Record>>),
        changes: &mut [Vec<Sealed>],
    ) {
        for (index, changes) in self.indexes.iter().zip(changes) {
            let old = index.entries(old.as_ref(), false);
            let new = index.entries(new.as_ref(), true);
            let write = |entry: &Vec<u8>, value: Option<Bytes>| Sealed {
                key: entry_key(entry, key),
                value,
                timestamp,
                changelog: false,
            };
            let removed = old.keys().filter(|entry| !new.contains_key(*entry));
            changes.extend(removed.map(|entry| write(entry, None)));
            let added = new
                .iter()
                .filter(|(entry, kept)| old.get(*entry) != Some(kept));
            changes.extend(added.map(|(entry, kept)| write(entry, Some(kept.clone()))));
        }
    }
}

impl Index {
    /// The entries of a row; `new` rows count as unreadable if entries can't be computed.
    fn entries(&self, row: Option<&Result<Record>>, new: bool) -> Entries {
        let Some(row) = row else {
            return Entries::new();
        };
        let (entries, whole) = self.fields.entries(row);
        if new && !whole {
            self.status.unreadable.fetch_add(1, Relaxed);
        }
        entries
    }
}

/// The key of an entry: its fields, then the row's key.
fn entry_key(entry: &[u8], key: &[u8]) -> Bytes {
    [entry, key].concat().into()
}
