//! What the admin port needs of the engine besides its counters.

use crate::query::{CommittedSnapshot, FollowSpec, Follower};
use std::fmt::Debug;
use std::sync::Arc;
use stoatflow_core::{Offset, Result, TopicPartition};
use stoatflow_log::ClientCounts;
use stoatflow_operators::ForeignCode;
use stoatflow_plan::Store;
use stoatflow_state::{DatabaseFigures, StoreSize};

/// See the module.
pub trait AdminTarget: Send + Sync + Debug {
    /// A snapshot of a store, or of all stores, as of the last commit.
    ///
    /// # Errors
    /// `Config` if nothing runs; errors of the state.
    fn snapshot(&self, store: Option<&str>) -> Result<CommittedSnapshot>;

    /// The snapshot of a store that readers share, if there is one. Never waits.
    fn shared_snapshot(&self, _store: &Store) -> Option<CommittedSnapshot> {
        None
    }

    /// Follows a store of the plan, whose serdes may have been replaced.
    ///
    /// # Errors
    /// `Config` if nothing runs, or if the store can't be followed; `Serde` for keys that it can't
    /// encode.
    fn follow(&self, store: &Store, spec: &FollowSpec) -> Result<Follower>;

    /// Whether the input before these positions is committed. Never waits: false if that can't be
    /// checked at once.
    ///
    /// # Errors
    /// `Config` if nothing runs, or for a partition that isn't read.
    fn is_committed(&self, wanted: &[(TopicPartition, Offset)]) -> Result<bool>;

    /// Stops or continues reading.
    ///
    /// # Errors
    /// `Config` if the application is gone.
    fn set_paused(&self, paused: bool) -> Result<()>;

    /// Whether reading is paused, or about to be: what the last [`Self::set_paused`] asked for.
    ///
    /// # Errors
    /// `Config` if the application is gone.
    fn is_paused(&self) -> Result<bool>;

    /// What the Kafka clients have done, by role. Never waits.
    ///
    /// # Errors
    /// `Config` if the application is gone.
    fn client_counts(&self) -> Result<Vec<ClientCounts>>;

    /// The size of each store; indexes are stores of their own.
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
    fn foreign(&self) -> Result<Arc<ForeignCode>>;
}
