//! What runs the rooms: threads in the product, one caller at a time in tests and the simulator.
//!
//! [`threads`] has the public handle [`threads::Engine`]; [`inline`] steps the same rooms by hand;
//! [`shared`] is what the rooms of one run have in common.

pub mod failpoint;
pub mod inline;
mod live_threads;
mod malloc;
pub mod shared;
pub mod signal;
pub mod threads;
