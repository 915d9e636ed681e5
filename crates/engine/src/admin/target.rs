//! What the admin port asks of the engine beside its counters.

use crate::query::{CommittedSnapshot, FollowSpec, Follower};
use std::fmt::Debug;
use std::sync::Arc;
use stoatflow_core::{Offset, Result, TopicPartition};
use stoatflow_operators::Foreign;
use stoatflow_plan::Store;
use stoatflow_state::{DatabaseFigures, StoreSize};

/// See the module.
pub trait AdminTarget: Send + Sync + Debug {
    /// One committed epoch of a store, or of all.
    ///
    /// # Errors
    /// `Config` if nothing runs; what the state fails with.
    fn snapshot(&self, store: Option<&str>) -> Result<CommittedSnapshot>;

    /// Follows a store of the plan whose serdes may be others.
    ///
    /// # Errors
    /// `Config` if nothing runs, or if the store can't be followed; `Serde` for keys that it can't have.
    fn follow(&self, store: &Store, spec: &FollowSpec) -> Result<Follower>;

    /// Is input before these positions committed? Never waits: false where it can't be seen at once.
    ///
    /// # Errors
    /// `Config` if nothing runs, or for a partition that isn't read.
    fn is_committed(&self, wanted: &[(TopicPartition, Offset)]) -> Result<bool>;

    /// Stops reading, or goes on.
    ///
    /// # Errors
    /// `Config` if the application is gone.
    fn set_paused(&self, paused: bool) -> Result<()>;

    /// What each store takes up; indexes are stores of their own.
    ///
    /// # Errors
    /// `Config` if nothing runs.
    fn store_sizes(&self) -> Result<Vec<(String, StoreSize)>>;

    /// Figures of the database on disk, if there is one.
    ///
    /// # Errors
    /// `Config` if nothing runs.
    fn database(&self) -> Result<Option<DatabaseFigures>>;

    /// The user's serdes.
    ///
    /// # Errors
    /// `Config` if the application is gone.
    fn foreign(&self) -> Result<Arc<Foreign>>;
}
