//! Keyed values: staged per epoch, made durable with the changelog position they stand for.
//!
//! [`Backend`] is the contract of what keeps committed data ([`memory`], [`rocksdb`]); [`KeyValueStore`]
//! is what operators use: an overlay of slots over a back end; [`Layout`] says how its keys are made,
//! and [`WindowView`], [`SessionView`], [`VersionedView`] and [`TimerView`] read it as what it is. Law 6: nothing
//! reaches a back end before its transaction is committed.

mod backend;
pub mod contract;
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
pub use key_value::*;
pub use layout::*;
pub use restore_run::*;
pub use session::*;
pub use snapshot::*;
pub use timer::*;
pub use versioned::*;
pub use window::*;
