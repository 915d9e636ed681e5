//! Runs the whole engine from a seed: simulated broker, clock, disk and crashes, and checkers of the
//! results.
//!
//! ```text
//! seed ─► workload ─► feeder ─► broker ◄─► faults ◄─► engine (real intake, lanes and commit, step by step)
//!   ├─► worker (offloads) ────────┤                     ▲
//!   ├─► schedule (next step, advance of the clock) ─────┘
//!   └─► simulation (phase one: faults; phase two: healed) ─► checkers (model, disk, offsets)
//! ```
//!
//! Takes a seed; returns a report or the first violated guarantee, always the same one. Never uses the
//! machine's clock, randomness or threads.

mod async_service;
mod broker;
mod checkers;
mod consumer;
mod faults;
mod feeder;
mod mutation;
mod process;
mod producer;
mod rng;
mod schedule;
mod simulation;
mod topic;
mod trace;
mod transaction;
mod worker;
mod workload;
mod world;

pub use broker::SimBroker;
pub use faults::PHASES;
pub use mutation::Mutation;
pub use rng::SimRng;
pub use simulation::{Detector, Failure, Report, simulate};
pub use trace::Statistics;
