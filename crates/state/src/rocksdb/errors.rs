//! Turns RocksDB's errors into ours, with the path and the next step.
//!
//! RocksDB distinguishes a full disk and a held lock from other I/O errors only by the text.

use ::rocksdb::ErrorKind as Kind;
use std::path::PathBuf;
use stoatflow_core::{Error, ErrorKind};

/// The directory that an error is about.
#[derive(Clone, Debug)]
pub(super) struct DatabaseDir {
    pub dir: PathBuf,
    /// Whether the database is open, so that damage must be recorded for the next start.
    pub open: bool,
}

impl DatabaseDir {
    pub const fn new(dir: PathBuf) -> Self {
        Self { dir, open: false }
    }

    pub fn error(&self, cause: &::rocksdb::Error) -> Error {
        let text = cause.to_string();
        let kind = classify(&cause.kind(), &text);
        if kind == ErrorKind::StateCorrupt && self.open {
            super::damage::remember(&self.dir, &text);
        }
        self.say(kind, &text)
    }

    pub fn io(&self, cause: &std::io::Error) -> Error {
        let text = cause.to_string();
        let kind = match cause.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                ErrorKind::DiskFull
            }
            _ => ErrorKind::Config,
        };
        self.say(kind, &text)
    }

    pub fn corrupt(&self, what: &str) -> Error {
        self.say(ErrorKind::StateCorrupt, what)
    }

    fn say(&self, kind: ErrorKind, cause: &str) -> Error {
        let dir = self.dir.display();
        let (message, hint) = match kind {
            ErrorKind::StateLocked => (
                format!("the local state in {dir} is in use by another process"),
                "stop the other process, or give this one another state.dir".to_owned(),
            ),
            ErrorKind::StateCorrupt => (
                format!("the local state in {dir} is damaged"),
                format!("stop the application, delete {dir} and start again: it is rebuilt from the \
                    changelog topics (state.damaged = rebuild does that by itself)"),
            ),
            ErrorKind::DiskFull => (
                format!("the disk of the local state in {dir} is full"),
                "free space on that disk (or move state.dir), then start again; what is committed is \
                    safe in the changelog topics".to_owned(),
            ),
            ErrorKind::Config => (
                format!("the directory {dir} of the local state can't be used"),
                "check the path and the permissions of state.dir".to_owned(),
            ),
            _ => (format!("the local state in {dir} failed"), "report it with this message; what is \
                committed is safe in the changelog topics".to_owned()),
        };
        Error::new(kind, message)
            .hint(hint)
            .caused_by(cause.to_owned())
    }
}

fn classify(kind: &Kind, text: &str) -> ErrorKind {
    let lower = text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|w| lower.contains(w));
    match kind {
        _ if says(&["no space left", "disk quota exceeded"]) => ErrorKind::DiskFull,
        Kind::Corruption => ErrorKind::StateCorrupt,
        Kind::IOError if says(&["lock hold by current process", "while lock file"]) => {
            ErrorKind::StateLocked
        }
        Kind::IOError
            if says(&[
                "permission denied",
                "read-only file system",
                "not a directory",
            ]) =>
        {
            ErrorKind::Config
        }
        // A file of the manifest is missing, or the manifest is cut off.
        Kind::IOError | Kind::NotFound if says(&["no such file"]) => ErrorKind::StateCorrupt,
        Kind::InvalidArgument if says(&["does not match", "unknown", "comparator"]) => {
            ErrorKind::Incompatible
        }
        _ => ErrorKind::Internal,
    }
}

#[cfg(test)]
mod tests;
