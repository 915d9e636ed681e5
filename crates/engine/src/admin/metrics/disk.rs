//! Free space on the disk that holds the state. Looked up at each scrape.

use super::cached_probe::CachedProbe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Size and free space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskSpace {
    pub(super) size: u64,
    /// Available to this user, without the space reserved for root.
    pub(super) free: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct StateDisk {
    dir: PathBuf,
    found: Arc<CachedProbe<DiskSpace>>,
}

impl StateDisk {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            found: Arc::default(),
        }
    }

    /// The last values; `None` before the first look-up.
    pub(super) fn last(&self) -> Option<DiskSpace> {
        self.found.last()
    }

    /// Looks it up again.
    pub(super) async fn refresh(&self) {
        let dir = self.dir.clone();
        self.found.refresh(move || space(&dir)).await;
    }
}

/// The space of the nearest directory that exists: the application creates its own at the start.
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
