//! Stores: keyed values, staged per epoch and made durable together with their changelog offsets.
//!
//! [`Backend`] is the contract for committed data ([`memory`], [`rocksdb`]). [`KeyValueStore`] is
//! what operators use: an overlay of uncommitted values and a cache over a back end. [`Layout`] defines
//! how keys are encoded, and [`WindowView`], [`SessionView`], [`VersionedView`] and [`TimerView`] read a
//! store as windows, sessions, versions or timers. Law 6: nothing reaches a back end before its
//! transaction is committed.

mod backend;
pub mod contract;
mod key_range;
mod key_value;
mod layout;
pub mod memory;
mod restore_run;
pub mod rocksdb;
mod session;
mod snapshot;
mod timer;
mod versioned;
mod window;

pub use backend::*;
pub use key_range::*;
pub use key_value::*;
pub use layout::*;
pub use restore_run::*;
pub use session::*;
pub use snapshot::*;
pub use timer::*;
pub use versioned::*;
pub use window::*;
