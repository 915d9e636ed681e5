//! RocksDB's errors as ours: what to do depends on the kind.

use rocksdb::ErrorKind as Rocks;
use std::path::Path;
use stoatflow_core::Error;

/// An error with the directory it concerns.
pub(super) fn located(error: &rocksdb::Error, dir: &Path) -> Error {
    let text = error.to_string();
    let place = dir.display();
    if text.contains("No space left") || text.contains("NoSpace") {
        return Error::disk_full(format!("the disk of the state directory {place} is full")).caused_by(error.clone());
    }
    if is_lock(&text) {
        return Error::state_locked(format!("the state directory {place} is in use by another process"))
            .hint("stop the other instance of this application, or set another state.dir")
            .caused_by(error.clone());
    }
    match error.kind() {
        Rocks::Corruption => Error::state_corrupt(format!("the local state in {place} is damaged")).caused_by(error.clone()),
        Rocks::IOError => Error::internal(format!("the state directory {place} can't be read or written"))
            .hint("check that the directory exists on a working disk and that this user may write to it")
            .caused_by(error.clone()),
        _ => Error::internal(format!("RocksDB failed in {place}")).caused_by(error.clone()),
    }
}

fn is_lock(text: &str) -> bool {
    // RocksDB gives a held lock no kind of its own.
    text.contains("LOCK") && (text.contains("lock hold by current process") || text.contains("Resource temporarily unavailable") || text.contains("lock file"))
}
