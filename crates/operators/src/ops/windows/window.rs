//! Shared code of windowed aggregations: which windows a timestamp is in, how values are folded, where
//! they are stored, and when closed windows are emitted.
//!
//! Used by the operators `window_aggregate`, `sliding_aggregate` and `session_aggregate`. A batch is
//! processed in three phases: read the windows that it touches from the store, compute with the
//! interpreter attached once, write what changed. So no lane waits for a disk or a lock while it holds
//! the interpreter.

mod assign;
mod cache;
mod closing;
mod folder;
mod rows;
mod windowed_store;

pub(crate) use assign::Assign;
pub(crate) use cache::WindowCache;
pub(crate) use closing::{Closing, Due, Trigger};
pub(crate) use folder::Folder;
pub(crate) use rows::{Cell, Row, Rows};
pub(crate) use windowed_store::{
    Outcome, WindowedStore, session_key_in, session_place, split_session_place,
};
