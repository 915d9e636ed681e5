//! The rooms a record walks through.
//!
//! ```text
//! Kafka ──► ingest ──► dispatch ──► lane: [fused chain] ─► store overlay ─► outbox ──► commit ──► RocksDB
//!             ▲           │ hash(key)   │ re-keyed record                         (one transaction)
//!             │           │             └────► another lane, next stage (in memory)
//!             └─ credit ──┘        barrier(epoch, cut) travels in the same queues as data
//! ```
//!
//! Every room is a plain struct with a synchronous `step`. Two hosts give them life: [`runtime::threads`] (the
//! product: one thread for intake, one for commit, lanes as tokio tasks or, where they call foreign
//! functions, threads) and [`runtime::inline`] (one thread, one room at a time: the test driver and the
//! simulator). Decisions come from `stoatflow-protocol`; only `outbox`/`commit` produce; only
//! `commit` ends a transaction. Never knows Python, rdkafka or RocksDB.

pub mod admin;
pub mod commit;
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
