//! Formats with a schema: Avro and Protobuf, which are binary, and JSON that a schema checks.
//!
//! Takes bytes and a schema, gives values whose fields are read where they lie, and bytes again.
//! Fields that are not read are not decoded; a value that is not changed keeps its bytes. Asks a
//! schema registry through a port. Never touches a topic.

/// Fuzzing looks at what is asked of it.
#[cfg(test)]
#[global_allocator]
static MEMORY: stoatflow_fuzz::Watched = stoatflow_fuzz::Watched;

pub mod avro;
pub mod json_schema;
pub mod protobuf;

mod framing;
mod json;
mod make;
mod misfit;
mod near;
mod registered;
mod tree;
mod value;

pub use json::latin;
pub use make::{Leaf, Maker};
pub use near::near;
pub use value::{Step, Value, parts};
