//! Kafka through librdkafka: the second implementation of the port, for what the native client doesn't
//! support.
//!
//! Calls librdkafka's own functions where the Rust crate waits in steps of 100 ms (a commit takes 3 to 8
//! ms this way, 100 ms with the crate) and where it allocates an object per record.

pub(super) mod admin;
pub(super) mod client;
pub(super) mod consumer;
mod delivery_reports;
mod group;
pub(super) mod outgoing;
pub(super) mod producer;
mod queues;
mod unanswered_ends;
