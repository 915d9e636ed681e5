//! Opening the directory: every store finds its column family, or says why it can't be used.

use super::errors::located;
use super::options::Budget;
use super::{Family, META, RocksBackend};
use crate::StoreLayout;
use rocksdb::{ColumnFamilyDescriptor, DB, Options};
use std::path::Path;
use stoatflow_core::{Error, Result};

/// The version of this directory's layout.
const LAYOUT: &[u8] = b"1";
const LAYOUT_KEY: &[u8] = b"layout";

impl RocksBackend {
    /// Opens or makes the directory with these stores.
    ///
    /// # Errors
    /// `StateLocked` if another process has it, `Incompatible` if it was written in another format,
    /// `StateCorrupt` if it is damaged, `DiskFull`.
    pub fn open(dir: &Path, layouts: &[StoreLayout], memory_max_bytes: usize) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(|e| {
            let error = if e.kind() == std::io::ErrorKind::StorageFull {
                Error::disk_full(format!("the disk of the state directory {} is full", dir.display()))
            } else {
                Error::config(format!("the state directory {} can't be made", dir.display()))
                    .hint("set state.dir to a directory that this user may write to")
            };
            error.caused_by(e)
        })?;
        let budget = Budget::new(memory_max_bytes);
        let known = if dir.join("CURRENT").exists() {
            DB::list_cf(&Options::default(), dir).map_err(|e| located(&e, dir))?
        } else {
            Vec::new()
        };
        let wanted = layouts.iter().map(|l| l.name.clone()).chain([META.to_owned(), "default".to_owned()]);
        let mut names: Vec<String> = known.iter().cloned().chain(wanted).collect();
        names.sort();
        names.dedup();
        let descriptors = names.iter().map(|n| ColumnFamilyDescriptor::new(n.clone(), budget.family()));
        let db = DB::open_cf_descriptors(&budget.database(), dir, descriptors).map_err(|e| located(&e, dir))?;
        let orphans = known
            .into_iter()
            .filter(|n| n != META && n != "default" && !layouts.iter().any(|l| l.name == *n))
            .collect();
        let families = layouts.iter().map(|l| Family { id: l.id, name: l.name.clone() }).collect();
        let backend = Self { db, dir: dir.to_owned(), families, orphans, budget };
        backend.check_layout()?;
        for layout in layouts {
            backend.check_format(layout)?;
        }
        Ok(backend)
    }

    fn check_layout(&self) -> Result<()> {
        self.check_word(LAYOUT_KEY, LAYOUT, || "the state directory".to_owned())
    }

    fn check_format(&self, layout: &StoreLayout) -> Result<()> {
        let key = [b"format\0", layout.name.as_bytes()].concat();
        self.check_word(&key, layout.format.as_bytes(), || format!("the store '{}'", layout.name))
    }

    /// Writes a word of the format the first time, compares it ever after.
    fn check_word(&self, key: &[u8], word: &[u8], what: impl Fn() -> String) -> Result<()> {
        let meta = self.meta()?;
        let found = self.db.get_cf(&meta, key).map_err(|e| located(&e, &self.dir))?;
        match found {
            None => self.db.put_cf(&meta, key, word).map_err(|e| located(&e, &self.dir)),
            Some(found) if found == word => Ok(()),
            Some(found) => Err(Error::incompatible(format!(
                "{} in {} has the format '{}', this topology needs '{}'",
                what(),
                self.dir.display(),
                String::from_utf8_lossy(&found),
                String::from_utf8_lossy(word)
            ))
            .hint("if the serdes were changed on purpose, give the store a new name or delete the state directory and its changelog topic; otherwise restore the old serdes")),
        }
    }
}
