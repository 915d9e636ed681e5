//! Room on the disk that holds the state.
//!
//! Asked at each scrape, on a thread beside: a disk that does not answer holds up neither the scrape nor the port.

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How long a scrape waits for the disk. After that it gives what was last known.
const PATIENCE: Duration = Duration::from_millis(100);

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
    /// Does a thread wait for the disk? Then no other one is sent.
    asking: AtomicBool,
    last: Mutex<Option<DiskSpace>>,
}

impl StateDisk {
    pub(super) const fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            asking: AtomicBool::new(false),
            last: Mutex::new(None),
        }
    }

    /// What was last found; `None`: nothing yet.
    pub(super) fn last(&self) -> Option<DiskSpace> {
        *self.last.lock()
    }

    /// Asks again.
    pub(super) async fn look(self: &Arc<Self>) {
        if self.asking.swap(true, Relaxed) {
            return;
        }
        let this = Arc::clone(self);
        let asked = tokio::task::spawn_blocking(move || {
            let found = space(&this.dir);
            *this.last.lock() = found;
            this.asking.store(false, Relaxed);
        });
        let _in_time = tokio::time::timeout(PATIENCE, asked).await;
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
