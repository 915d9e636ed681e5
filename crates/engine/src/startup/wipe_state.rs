//! Removes the local state.
//!
//! Deletes what [`super::stores`] opens, and the directories that are empty afterwards. Never touches
//! the broker, nor a state that a process has open.

use super::stores::warn_locked;
use super::{EngineSpec, LOCK_TIMEOUT};
use crate::runtime::shared::Shared;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Result};
use stoatflow_plan::Store;
use stoatflow_state::rocksdb::RocksBackend;

/// How often the lock is tried.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(200);

impl EngineSpec {
    /// The directory of the local state.
    #[must_use]
    pub fn state_directory(&self) -> PathBuf {
        self.settings.state_dir.join("rocksdb")
    }

    /// Removes the local state, if there is any.
    ///
    /// # Errors
    /// `StateLocked` if a process has it open, `Config` if it can't be removed.
    pub fn wipe_state(&self, specs: &[Store]) -> Result<()> {
        if let Some(backend) = &self.components.backend {
            return specs.iter().try_for_each(|spec| backend.wipe(spec.id));
        }
        let place = self.state_directory();
        if !place.exists() {
            return Ok(());
        }
        RocksBackend::discard(&place)?;
        // An empty directory is removed together with its database.
        match std::fs::remove_dir_all(&place) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                let shown = place.display();
                return Err(
                    Error::config(format!("the local state in {shown} can't be removed"))
                        .hint("check the permissions of state.dir")
                        .caused_by(e),
                );
            }
            _ => {}
        }
        // Not `remove_dir_all`: the user may keep other files there.
        let home = &self.settings.state_dir;
        let emptied = std::fs::remove_dir(home).is_ok();
        sync_dir(if emptied { home.parent() } else { Some(home) });
        Ok(())
    }

    /// As [`Self::wipe_state`], but waits for an older instance that doesn't know yet that it is fenced.
    pub(crate) fn wipe_state_when_unlocked(&self, shared: &Shared, specs: &[Store]) -> Result<()> {
        self.when_unlocked(shared, || self.wipe_state(specs))
    }

    /// Runs `act` as soon as no process has the local state open.
    ///
    /// # Errors
    /// `StateLocked` if a process keeps it open; errors of `act`.
    pub(crate) fn when_unlocked(
        &self,
        shared: &Shared,
        act: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let clock = &self.components.clock;
        let (began, mut reported) = (clock.monotonic(), false);
        loop {
            match act() {
                Err(error)
                    if error.kind() == ErrorKind::StateLocked
                        && clock.monotonic().saturating_sub(began) < LOCK_TIMEOUT =>
                {
                    if !std::mem::replace(&mut reported, true) {
                        warn_locked(&error);
                    }
                    clock.skip(LOCK_RETRY_INTERVAL);
                    shared.pause(LOCK_RETRY_INTERVAL);
                }
                other => return other,
            }
        }
    }
}

/// Syncs the directory, so that a power loss doesn't bring deleted files back. Does nothing on systems
/// that can't sync directories.
fn sync_dir(dir: Option<&Path>) {
    if let Some(Ok(dir)) = dir.map(std::fs::File::open) {
        let _ = dir.sync_all();
    }
}
