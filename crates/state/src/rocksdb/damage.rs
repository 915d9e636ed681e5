//! Damage: what must never be used, and how it is thrown away.
//!
//! Takes a directory; tells whether an earlier process found it damaged, or whether the file is gone that
//! makes a database of its files; remembers damage that shows only while it is read; empties the directory when
//! the engine says so. Never decides whether that is right.

use super::RocksBackend;
use super::errors::Place;
use ::rocksdb::{DB, Options};
use std::path::Path;
use stoatflow_core::{Error, Result};

/// Holds what an earlier process found: opening again would not show it.
const MARK: &str = "DAMAGED";

/// What is in a directory.
#[derive(Debug)]
pub enum Opened {
    /// Nothing wrong was seen.
    Whole(Box<RocksBackend>),
    /// It can't be used: damaged, or in a format that this version and this topology don't read. It
    /// may be thrown away ([`RocksBackend::discard`]) if the changelogs have everything.
    Damaged(Error),
}

/// A reason not to open.
pub(super) enum Refusal {
    /// See [`Opened::Damaged`].
    Damaged(Error),
    /// Everything else: throwing the data away would not help, or is not ours to do.
    Other(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        if error.kind() == stoatflow_core::ErrorKind::StateCorrupt {
            Self::Damaged(error)
        } else {
            Self::Other(error)
        }
    }
}

/// What can be seen without opening.
pub(super) fn look(place: &Place) -> Result<()> {
    match std::fs::read_to_string(place.dir.join(MARK)) {
        Ok(text) => {
            return Err(place.corrupt(&format!("an earlier run found it damaged: {}", text.trim())));
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(place.io(&e)),
    }
    if place.dir.join("CURRENT").exists() {
        return Ok(());
    }
    // RocksDB would make an empty database and delete these. (A manifest alone is one that was about
    // to be made: tables and logs come after CURRENT.)
    let orphaned = std::fs::read_dir(&place.dir)
        .map_err(|e| place.io(&e))?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .find(|name| has_ending(name, "sst") || has_ending(name, "log"));
    orphaned.map_or(Ok(()), |name| {
        Err(place.corrupt(&format!("the file CURRENT is missing beside {name}")))
    })
}

fn has_ending(name: &str, ending: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| e == ending)
}

/// Notes damage that was met while the state was used, so that the next start doesn't use it.
pub(super) fn remember(dir: &Path, what: &str) {
    // A disk that can't be written to: the next start meets the damage again, or this one.
    let _ = std::fs::write(dir.join(MARK), what);
}

impl RocksBackend {
    /// Throws away everything in `dir`.
    ///
    /// # Errors
    /// `StateLocked` if a process has it open; `Config` if files can't be removed.
    pub fn discard(dir: &Path) -> Result<()> {
        let place = Place::new(dir.to_path_buf());
        // It takes the lock first, and leaves files alone that are none of RocksDB's.
        DB::destroy(&Options::default(), dir).map_err(|e| place.error(&e))?;
        let gone = |outcome: std::io::Result<()>| match outcome {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(place.io(&e)),
            _ => Ok(()),
        };
        gone(std::fs::remove_dir_all(dir.join("ingest")))?;
        gone(std::fs::remove_file(dir.join(MARK)))
    }
}
