//! Runs the parts of an engine: on threads in the product, step by step in tests and the simulator.
//!
//! [`threads`] has the public handle [`threads::Engine`]; [`inline`] steps the same parts on the
//! caller's thread; [`shared`] is the state that the parts of a run share.

pub mod failpoint;
pub mod inline;
mod live_threads;
mod malloc;
pub mod shared;
pub mod signal;
pub mod threads;
