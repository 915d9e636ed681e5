//! Damaged databases: how damage is detected, recorded, and discarded.
//!
//! Detects damage that an earlier process recorded, and a missing file `CURRENT`, without which the
//! other files are no database. Damage found while reading is recorded for the next start. The engine
//! decides whether the data is discarded.

use super::RocksBackend;
use super::errors::DatabaseDir;
use ::rocksdb::{DB, Options};
use std::path::Path;
use stoatflow_core::{Error, Result};

/// File with the damage that an earlier process found, since opening the database might not detect it
/// again.
const MARK: &str = "DAMAGED";

/// The result of opening a directory.
#[derive(Debug)]
pub enum Opened {
    /// No damage was found.
    Whole(Box<RocksBackend>),
    /// Unusable: damaged, or in a format that this version and topology can't read. It may be
    /// discarded ([`RocksBackend::discard`]) if the changelogs have everything.
    Damaged(Error),
}

/// A reason not to open.
pub(super) enum Refusal {
    /// See [`Opened::Damaged`].
    Damaged(Error),
    /// Anything else: discarding the data would not help, or is not ours to do.
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

/// Checks for damage that is visible without opening the database.
pub(super) fn check_files(place: &DatabaseDir) -> Result<()> {
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
    // Without `CURRENT`, RocksDB would create an empty database and delete these files. (A manifest
    // alone is no damage: the database was about to be created, and tables and logs come after
    // `CURRENT`.)
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

/// Records damage found while the state was in use, so that the next start doesn't use it.
pub(super) fn remember(dir: &Path, what: &str) {
    // Best effort: if the file can't be written, the next start has to find the damage again.
    let _ = std::fs::write(dir.join(MARK), what);
}

impl RocksBackend {
    /// Deletes everything in `dir`.
    ///
    /// # Errors
    /// `StateLocked` if a process has it open; `Config` if files can't be removed.
    pub fn discard(dir: &Path) -> Result<()> {
        let place = DatabaseDir::new(dir.to_path_buf());
        // `destroy` takes the lock first, and leaves files that aren't RocksDB's.
        DB::destroy(&Options::default(), dir).map_err(|e| place.error(&e))?;
        let gone = |outcome: std::io::Result<()>| match outcome {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(place.io(&e)),
            _ => Ok(()),
        };
        gone(std::fs::remove_dir_all(dir.join("ingest")))?;
        gone(std::fs::remove_file(dir.join(MARK)))
    }
}
