//! The temporary directory of a broker without a path.
//!
//! Removed on drop, but only by the process that created it: a forked child that exits drops it too,
//! while its parent still uses it.

use std::io;
use std::path::Path;
use std::process;
use tempfile::TempDir;

#[derive(Debug)]
pub(super) struct TemporaryDirectory {
    directory: TempDir,
    owner: u32,
}

impl TemporaryDirectory {
    pub(super) fn new() -> io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("stoatflow-embedded-")
            .tempdir()?;
        Ok(Self {
            directory,
            owner: process::id(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        self.directory.disable_cleanup(process::id() != self.owner);
    }
}
