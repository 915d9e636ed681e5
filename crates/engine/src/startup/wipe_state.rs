//! Furnishing the other way round: the local state goes.
//!
//! Takes the settings; removes the data that [`super::stores`] opens and the directories that it leaves empty. Never
//! touches a broker, and never what somebody has open.

use super::{EngineSpec, LOCK_PATIENCE};
use crate::runtime::shared::Shared;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Result};
use stoatflow_plan::Store;
use stoatflow_state::rocksdb::RocksBackend;

/// How soon the lock is tried again.
const STEP: Duration = Duration::from_millis(200);

impl EngineSpec {
    /// Where the local state is.
    #[must_use]
    pub fn state_directory(&self) -> PathBuf {
        self.settings.state_dir.join("rocksdb")
    }

    /// Removes the local state; without any, does nothing.
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
        // An empty directory goes with its database.
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
        // Only if nothing else is in it: a user may keep more there than we do.
        let home = &self.settings.state_dir;
        let emptied = std::fs::remove_dir(home).is_ok();
        settle(if emptied { home.parent() } else { Some(home) });
        Ok(())
    }

    /// The same beside an older instance that is fenced and has not noticed yet.
    pub(crate) fn wipe_state_when_unlocked(&self, shared: &Shared, specs: &[Store]) -> Result<()> {
        let clock = &self.components.clock;
        let began = clock.monotonic();
        loop {
            match self.wipe_state(specs) {
                Err(error)
                    if error.kind() == ErrorKind::StateLocked
                        && clock.monotonic().saturating_sub(began) < LOCK_PATIENCE =>
                {
                    tracing::warn!(%error, "waiting for the older instance to let go of the state directory");
                    clock.skip(STEP);
                    shared.wait_for_credit(STEP);
                }
                other => return other,
            }
        }
    }
}

/// A power loss must not bring back what is gone. Where directories can't be synced there is no more to do.
fn settle(dir: Option<&Path>) {
    if let Some(Ok(dir)) = dir.map(std::fs::File::open) {
        let _ = dir.sync_all();
    }
}
