//! RocksDB's errors as StoatFlow's.
//!
//! Takes RocksDB's errors, returns error kinds with a next step. Never decides what to do.

use rocksdb::ErrorKind as Rocks;
use std::path::Path;
use stoatflow_core::Error;

const RESTORE: &str =
    "move the directory away and load the topics again, or restore it from a copy";

/// Bytes on disk that no build of StoatFlow writes.
pub(super) fn corrupt(what: &str) -> Error {
    Error::state_corrupt(format!("the embedded broker's files are damaged: {what}")).hint(RESTORE)
}

/// Maps an error of the database at `path`.
pub(super) fn storage(error: rocksdb::Error, path: &Path) -> Error {
    let text = error.to_string();
    let shown = path.display();
    let mapped = match error.kind() {
        Rocks::IOError | Rocks::Busy if text.contains("lock file") || text.contains("/LOCK") => {
            Error::state_locked(format!(
                "the embedded broker at {shown} is in use by another process"
            ))
            .hint(format!(
                "stop the other process that uses {shown}, or choose another path"
            ))
        }
        _ if text.contains("No space left") => {
            Error::disk_full(format!("no space left for the embedded broker at {shown}")).hint(
                format!("free space on the disk of {shown}, then start again"),
            )
        }
        Rocks::Corruption => Error::state_corrupt(format!(
            "the embedded broker's files at {shown} are damaged"
        ))
        .hint(RESTORE),
        Rocks::InvalidArgument
            if text.contains("does not exist") || text.contains("column famil") =>
        {
            Error::incompatible(format!(
                "{shown} holds a RocksDB that is not an embedded broker"
            ))
            .hint("choose an empty directory for the embedded broker")
        }
        _ => Error::unavailable(format!(
            "the embedded broker at {shown} can't read or write its files"
        ))
        .hint(format!(
            "check the disk and the permissions of {shown}, then start again"
        )),
    };
    mapped.caused_by(error)
}
