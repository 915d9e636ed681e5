//! Avro: values with a schema that stay encoded until they are read.
//!
//! Takes schemas as text (the crate `apache-avro` parses them, checks names, and decides which schemas
//! can be read as which), returns [`Format`], a serde, and [`AvroValue`], the type of a value within a
//! record. A value is validated completely when it is read, so that bytes of another schema fail there;
//! its fields are decoded one by one, when they are accessed. Dates and times stay the numbers that Avro
//! writes, decimals and UUIDs become text.

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
pub use schema::{Field, Node, NodeId, RecordFields, Schema};
pub use spec::{Decode, Spec};
pub use value::{AvroValue, ChangedRecord};

#[cfg(test)]
mod tests;
