//! The whole engine under a seed: simulated broker, clock, disk and crashes, and the checkers that
//! judge what came out.

mod broker;
mod consumer;
mod producer;
mod rng;
mod topic;
mod transaction;

pub use broker::SimBroker;
pub use rng::SimRng;
