//! Avro: values of a schema that stay bytes until somebody reads them.
//!
//! Takes schemas as text (the crate `apache-avro` parses them, checks names, and says which can be read as
//! which), gives [`Format`], which is a serde, and [`AvroValue`], which is what a record carries. A record is
//! checked from end to end where it is read, so that bytes of another schema fail there; its fields are
//! decoded one by one, when they are asked for. Numbers of dates and times stay the numbers that Avro writes,
//! decimals and UUIDs are texts.

mod decimal;
mod encode;
mod format;
mod json;
mod make;
mod resolve;
mod scan;
mod schema;
mod spec;
mod value;

pub use format::Format;
pub use make::make;
pub use schema::{Field, Fields, Node, NodeId, Schema};
pub use spec::{Decode, Spec};
pub use value::{AvroValue, ChangedRecord};

#[cfg(test)]
mod tests;
