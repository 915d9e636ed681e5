//! The engine's decisions: alignment, commit, restore, schedule, watermarks, reset.
//!
//! Pure: no I/O, no threads, no clock. The engine collects facts, passes them to this crate, and follows
//! its decisions; the simulator drives the same decisions with a seed.

pub mod admission;
pub mod alignment;
pub mod commit;
pub mod fencings;
pub mod lease;
pub mod lifecycle;
pub mod rendezvous;
pub mod reset;
pub mod restarts;
pub mod restore;
pub mod schedule;
pub mod watermark;

pub use admission::Admission;
pub use alignment::Alignment;
pub use commit::{CommitMachine, CommitOrder, CommitStep, Decision, StopReason};
pub use lease::{Lease, LeaseHolder};
pub use lifecycle::Lifecycle;
pub use rendezvous::Rendezvous;
pub use restarts::Restarts;
pub use restore::{Age, RestoreFacts, RestorePlan, WipeReason, on_damage};
pub use schedule::{Fetch, Schedule, ScheduleFacts};
pub use watermark::{AlignmentGroup, Rule, Strategy, Watermarks};
