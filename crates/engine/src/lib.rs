//! The rooms a record walks through.
//!
//! ```text
//! Kafka ──► ingest ──► dispatch ──► lane: [fused chain] ─► store overlay ─► outbox ──► commit ──► RocksDB
//!             ▲           │ hash(key)   │ re-keyed record                         (one transaction)
//!             │           │             └────► another lane, next stage (in memory)
//!             └─ credit ──┘        barrier(epoch, cut) travels in the same queues as data
//! ```
//!
//! Every room is a plain struct with a synchronous `step`. Two hosts give them life: [`threads`] (the
//! product: one thread for intake, one for commit, lanes as tokio tasks or, where they call foreign
//! functions, threads) and [`inline`] (one thread, one room at a time: the test driver and the
//! simulator). Decisions come from `stoatflow-protocol`; only `outbox`/`commit` produce; only
//! `commit` ends a transaction. Never knows Python, rdkafka or RocksDB.

pub mod admin;
mod at_work;
pub mod calls;
pub mod commit;
pub mod components;
pub mod dispatch;
pub mod evidence;
pub mod extract;
pub mod failpoint;
pub mod furnish;
pub mod gate;
pub mod guard;
mod heap;
pub mod inline;
pub mod intake;
pub mod lane;
mod living;
mod observe;
pub mod offsets;
pub mod open_transactions;
pub mod outbox;
pub mod partition_counts;
pub mod query;
pub mod queue;
pub mod recover;
pub mod refused;
mod reread;
pub mod reset;
pub mod shared;
pub mod slots;
mod split_backend;
pub mod status;
pub mod threads;
pub mod timing;
pub mod watermarks;

pub use components::Components;
pub use inline::Inline;
pub use status::Status;
pub use threads::Engine;
