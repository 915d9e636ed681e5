//! Keyed values: staged per epoch, made durable with the changelog position they stand for.
//!
//! [`Backend`] is the contract of what keeps committed data ([`memory`], [`rocksdb`]); [`KeyValueStore`]
//! is what operators use: an overlay of slots over a back end. Law 6: nothing reaches a back end
//! before its transaction is committed.

mod backend;
pub mod contract;
mod key_value;
pub mod memory;
pub mod rocksdb;

pub use backend::*;
pub use key_value::*;
