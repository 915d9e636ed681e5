//! The whole engine under a seed: simulated broker, clock, disk and crashes, and the checkers that
//! judge what came out.
//!
//! ```text
//! seed ─► workload ─► feeder ─► broker ◄─► faults ◄─► engine (the real rooms, one turn at a time)
//!   ├─► worker (offloads) ────────┤                     ▲
//!   ├─► schedule (whose turn, how far the clock) ───────┘
//!   └─► simulation (phase one: trouble; phase two: healed) ─► checkers (model, disk, offsets)
//! ```
//!
//! Takes a seed, gives a report or the first broken promise, and the same for ever. Never asks the
//! machine for time, chance or threads.

mod broker;
mod caller;
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
pub use simulation::{Failure, Report, Witness, simulate};
pub use trace::Statistics;
