//! Joins of tables by a foreign key: four operators that talk to each other.
//!
//! [`subscribe`] (at the left key's lane) tells the foreign key's lane who wants what; [`answer`] (there)
//! keeps that and answers with the right value; [`notify`] (there) tells all subscribers of a right value
//! that changed; [`join`] (back at the left key's lane) joins an answer with the left value. As in Kafka
//! Streams, but for the topics between them: [`message`]s walk in memory. A message meets the tables as they
//! were at its place in the order ([`epoch_rows`]), so the rows are those of a Kafka Streams where every
//! answer comes at once. With record caching it meets what they hold when it arrives.

pub(crate) mod answer;
pub mod epoch_rows;
pub(crate) mod join;
pub(crate) mod message;
pub(crate) mod notify;
pub(crate) mod subscribe;
pub(crate) mod subscriptions;

#[cfg(test)]
mod tests;
