//! Joins of tables by a foreign key: four operators that exchange messages.
//!
//! [`subscribe`] (at the left key's lane) sends subscriptions to the foreign key's lane; [`answer`]
//! (there) stores them and answers with the right value; [`notify`] (there) sends a changed right value
//! to all its subscribers; [`join`] (back at the left key's lane) joins an answer with the left value.
//! As in Kafka Streams, but without topics in between: [`message`]s move in memory. A message is
//! processed with the tables as they were at its place in the order ([`epoch_rows`]), so the rows are
//! those of a Kafka Streams in which every answer arrives at once. With record caching it is processed
//! with the current rows.

pub(crate) mod answer;
pub mod epoch_rows;
pub(crate) mod join;
pub(crate) mod message;
pub(crate) mod notify;
pub(crate) mod subscribe;
pub(crate) mod subscriptions;

#[cfg(test)]
mod tests;
