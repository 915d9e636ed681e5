//! Room on the disk that holds the state. Asked at each scrape.

use super::background::Background;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskSpace {
    pub(super) size: u64,
    /// For this user, without what is reserved for the administrator.
    pub(super) free: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct StateDisk {
    dir: PathBuf,
    found: Arc<Background<DiskSpace>>,
}

impl StateDisk {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            found: Arc::default(),
        }
    }

    /// What was last found; `None`: nothing yet.
    pub(super) fn last(&self) -> Option<DiskSpace> {
        self.found.last()
    }

    /// Asks again.
    pub(super) async fn look(&self) {
        let dir = self.dir.clone();
        self.found.ask(move || space(&dir)).await;
    }
}

/// Of the nearest directory that exists: that of the application is made when it starts.
fn space(dir: &Path) -> Option<DiskSpace> {
    let found = dir
        .ancestors()
        .find_map(|dir| rustix::fs::statvfs(dir).ok())?;
    Some(DiskSpace {
        size: found.f_blocks.saturating_mul(found.f_frsize),
        free: found.f_bavail.saturating_mul(found.f_frsize),
    })
}

#[cfg(test)]
mod tests;
