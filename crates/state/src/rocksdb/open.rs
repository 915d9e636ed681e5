//! Opens the state: lock, format, stores.
//!
//! Owns the layout of the meta column family. State with another version's layout or another topology's
//! formats is refused before anything is changed.

use super::damage::{self, Refusal};
use super::errors::DatabaseDir;
use super::options::Budget;
use super::{META, RocksBackend};
use crate::{Layout, StoreLayout};
use ::rocksdb::{ColumnFamilyDescriptor, DB, DEFAULT_COLUMN_FAMILY_NAME, IteratorMode};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use stoatflow_core::{Error, Result};

/// The layout of this directory; any other is refused.
const VERSION: &str = "stoatflow-state-1";
const VERSION_KEY: &[u8] = b"version";

/// If there are more new stores than this, opening the database again creates them.
const MAX_STORES_ADDED_OPEN: usize = 4;

pub(super) fn format_key(store: &str) -> Vec<u8> {
    [b"format:", store.as_bytes()].concat()
}

pub(super) fn position_prefix(store: &str) -> Vec<u8> {
    // The zero byte ends the name, so that "orders" isn't a prefix of "orders-by-day".
    [b"position:", store.as_bytes(), b"\0"].concat()
}

pub(super) fn current_key(store: &str) -> Vec<u8> {
    [b"current:", store.as_bytes()].concat()
}

pub(super) fn source_topic_key(store: &str) -> Vec<u8> {
    [b"source-topic:", store.as_bytes()].concat()
}

pub(super) fn open(
    dir: PathBuf,
    layouts: &[StoreLayout],
    memory_max_bytes: usize,
) -> Result<RocksBackend, Refusal> {
    let place = DatabaseDir::new(dir);
    let names = names(layouts)?;
    std::fs::create_dir_all(&place.dir).map_err(|e| place.io(&e))?;
    damage::check_files(&place)?;
    let budget = Budget::new(memory_max_bytes, layouts);
    let database = budget.database();
    let exists = place.dir.join("CURRENT").exists();
    let mut families = if exists {
        DB::list_cf(&database, &place.dir).map_err(|e| place.error(&e))?
    } else {
        Vec::new()
    };
    let foreign = families
        .iter()
        .any(|f| f != META && f != DEFAULT_COLUMN_FAMILY_NAME)
        && !families.iter().any(|f| f == META);
    if foreign {
        return Err(Error::incompatible(format!(
            "{} holds a RocksDB that StoatFlow didn't write",
            place.dir.display()
        ))
        .hint("give the application another state.dir")
        .into());
    }
    if !families.iter().any(|f| f == DEFAULT_COLUMN_FAMILY_NAME) {
        families.push(DEFAULT_COLUMN_FAMILY_NAME.to_owned());
    }
    let wanted = layouts.iter().map(|layout| layout.name.clone());
    if !exists {
        // The meta family is created first: without it, the database would look like a foreign one.
        families.push(META.to_owned());
        families.extend(wanted.clone());
    }
    let db = open_families(&budget, &place, families.iter().map(String::as_str))?;
    let mut backend = assemble(db, place, budget, names);
    backend.check_version(families.iter().any(|f| f == META))?;
    backend.check_formats(layouts)?;
    let new: Vec<String> = wanted.filter(|name| !families.contains(name)).collect();
    if new.len() > MAX_STORES_ADDED_OPEN {
        let RocksBackend {
            db,
            place,
            budget,
            names,
            ..
        } = backend;
        drop(db);
        let with_meta = families.iter().map(String::as_str).chain([META]);
        let all: BTreeSet<&str> = with_meta.chain(new.iter().map(String::as_str)).collect();
        let db = open_families(&budget, &place, all)?;
        backend = assemble(db, place, budget, names);
    }
    backend.add_stores(layouts)?;
    backend.orphans = families
        .into_iter()
        .filter(|f| {
            f != META && f != DEFAULT_COLUMN_FAMILY_NAME && !layouts.iter().any(|l| l.name == *f)
        })
        .collect();
    backend.drop_indexes()?;
    // Files that an earlier process wrote but didn't ingest.
    match std::fs::remove_dir_all(&backend.ingest) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(backend.place.io(&e).into());
        }
        _ => {}
    }
    backend.place.open = true;
    Ok(backend)
}

fn assemble(
    db: DB,
    place: DatabaseDir,
    budget: Budget,
    names: Vec<Option<String>>,
) -> RocksBackend {
    RocksBackend {
        db: Arc::new(db),
        ingest: place.dir.join("ingest"),
        place,
        budget,
        names,
        orphans: Vec::new(),
        next_file: AtomicU64::new(0),
        loaded: Mutex::default(),
    }
}

/// Opens the database; missing families are created, in this order.
///
/// Each time RocksDB creates a single family, it rewrites its options of all families, so each new store
/// would cost more than the one before. Opening the database writes the options once.
pub(super) fn open_families<'n>(
    budget: &Budget,
    place: &DatabaseDir,
    names: impl IntoIterator<Item = &'n str>,
) -> Result<DB> {
    let mut database = budget.database();
    database.create_missing_column_families(true);
    let names = names.into_iter();
    let descriptors = names.map(|name| ColumnFamilyDescriptor::new(name, budget.store(name)));
    DB::open_cf_descriptors(&database, &place.dir, descriptors).map_err(|e| place.error(&e))
}

/// True for the store of an index: no other store has a slash in its name.
pub(super) fn is_index(name: &str) -> bool {
    name.contains('/')
}

/// The parts of a format that the rows in the changelog depend on: their kind (a versioned store's rows
/// are those of a table), and the serdes of key and value. The lengths of segments and of the history
/// only affect the disk.
fn rows(format: &str) -> Option<(&str, &str)> {
    let (layout, serdes) = format.split_once(':')?;
    let kind = layout.split('(').next()?;
    let (table, history) = (Layout::KeyValue, Layout::Versioned { history_ms: 0 });
    Some((
        if kind == history.name() {
            table.name()
        } else {
            kind
        },
        serdes,
    ))
}

fn names(layouts: &[StoreLayout]) -> Result<Vec<Option<String>>> {
    let mut names: Vec<Option<String>> = Vec::new();
    for layout in layouts {
        let at = usize::from(layout.id.0);
        if names.len() <= at {
            names.resize(at + 1, None);
        }
        if names.iter().flatten().any(|n| *n == layout.name) || names[at].is_some() {
            return Err(Error::internal(format!(
                "the store {} was declared twice",
                layout.name
            )));
        }
        if layout.name == META || layout.name == DEFAULT_COLUMN_FAMILY_NAME {
            return Err(Error::topology(format!(
                "a store can't be named '{}' on disk",
                layout.name
            ))
            .hint("give the store another name"));
        }
        names[at] = Some(layout.name.clone());
    }
    Ok(names)
}

impl RocksBackend {
    fn check_version(&self, has_meta: bool) -> Result<(), Refusal> {
        if !has_meta {
            self.create(META)?;
        }
        let meta = self.family(META)?;
        let found = self
            .db
            .get_cf(&meta, VERSION_KEY)
            .map_err(|e| self.place.error(&e))?;
        match found {
            Some(version) if version == VERSION.as_bytes() => Ok(()),
            Some(version) => Err(Refusal::Damaged(Error::incompatible(format!(
                "the local state in {} has the layout '{}', this version of StoatFlow reads '{VERSION}'",
                self.place.dir.display(),
                String::from_utf8_lossy(&version)
            ))
            .hint(format!("start the version that wrote it, or delete {} and start again: it is rebuilt \
                from the changelog topics (state.damaged = rebuild does that by itself)", self.place.dir.display())))),
            None => Ok(self.db.put_cf(&meta, VERSION_KEY, VERSION).map_err(|e| self.place.error(&e))?),
        }
    }

    /// All stores are checked before the first one is created.
    fn check_formats(&self, layouts: &[StoreLayout]) -> Result<(), Refusal> {
        let meta = self.family(META)?;
        for layout in layouts {
            let Some(family) = self.db.cf_handle(&layout.name) else {
                continue;
            };
            let found = self
                .db
                .get_cf(&meta, format_key(&layout.name))
                .map_err(|e| self.place.error(&e))?;
            let found = match found {
                Some(word) => String::from_utf8_lossy(&word).into_owned(),
                // The process ended between creating the family and recording its format.
                None if self
                    .db
                    .iterator_cf(&family, IteratorMode::Start)
                    .next()
                    .is_none() =>
                {
                    continue;
                }
                None => "unknown".to_owned(),
            };
            if found != layout.format {
                let dir = self.place.dir.display();
                let error = Error::incompatible(format!(
                    "the store '{}' on disk has the format '{found}', the topology asks for '{}' (in {dir})",
                    layout.name, layout.format
                ))
                .at(|w| w.store = Some(layout.name.clone()));
                return Err(if rows(&found) == rows(&layout.format) {
                    Refusal::Damaged(error.hint(format!(
                        "delete {dir} and start again: it is rebuilt from the changelog topics \
                            (state.damaged = rebuild does that by itself)"
                    )))
                } else {
                    // The changelog has such rows too, so a restore would not help.
                    Refusal::Other(error.hint(format!(
                        "go back to the kind of store and the serdes that wrote it, or give the store another name; if its \
                            changelog topic holds the new format, delete {dir} and start again"
                    )))
                });
            }
        }
        Ok(())
    }

    fn add_stores(&self, layouts: &[StoreLayout]) -> Result<()> {
        let meta = self.family(META)?;
        for layout in layouts {
            if self.db.cf_handle(&layout.name).is_none() {
                self.create(&layout.name)?;
            }
            self.db
                .put_cf(&meta, format_key(&layout.name), &layout.format)
                .map_err(|e| self.place.error(&e))?;
        }
        Ok(())
    }

    /// Drops indexes that are no longer declared, because nothing updates them any more. An index that
    /// is declared again is rebuilt.
    fn drop_indexes(&mut self) -> Result<()> {
        let orphans = std::mem::take(&mut self.orphans);
        let (indexes, orphans) = orphans.into_iter().partition(|name| is_index(name));
        self.orphans = orphans;
        let meta = self.family(META)?;
        for name in &indexes {
            let gone = self.db.drop_cf(name);
            gone.and_then(|()| self.db.delete_cf(&meta, format_key(name)))
                .map_err(|e| self.place.error(&e))?;
        }
        Ok(())
    }

    fn create(&self, name: &str) -> Result<()> {
        self.db
            .create_cf(name, &self.budget.store(name))
            .map_err(|e| self.place.error(&e))
    }
}
