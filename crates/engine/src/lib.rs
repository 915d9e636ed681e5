//! The engine: everything between a fetched record and a committed epoch.
//!
//! ```text
//! Kafka ──► intake ──► dispatch ──► lane: [fused chain] ─► store overlay ─► outbox ──► commit ──► RocksDB
//!             ▲           │ hash(key)   │ re-keyed record                         (one transaction)
//!             │           │             └────► another lane, next stage (in memory)
//!             └─ credit ──┘        barrier(epoch, cut) travels in the same queues as data
//! ```
//!
//! One folder per part of this pipeline: [`intake`], [`lane`], [`commit`]. [`startup`] builds them from
//! a plan and settings, [`restore`] brings local state up to its changelogs first, and [`admin`] exposes
//! what runs. [`reset`] deletes an application's state, [`query`] reads committed state from outside.
//!
//! Each part is a plain struct with a synchronous `step`. [`runtime`] calls it in one of two ways:
//! [`runtime::threads`] (the product: a thread for intake, one for commit, lanes as tokio tasks or,
//! where they call foreign functions, threads) and [`runtime::inline`] (one thread, one step at a
//! time: the test driver and the simulator). Decisions come from `stoatflow-protocol`. Only
//! `commit` sends records and ends transactions. This crate uses no Python, rdkafka or RocksDB directly.

pub mod admin;
pub mod commit;
pub mod doctor;
pub mod index;
pub mod intake;
pub mod lane;
pub mod query;
pub mod reset;
pub mod restore;
pub mod runtime;
pub mod startup;

pub use admin::status::Status;
pub use runtime::inline::Inline;
pub use runtime::threads::Engine;
pub use startup::components::Components;
