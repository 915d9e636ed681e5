//! Formats with a schema: Avro and Protobuf, which are binary, and JSON that is validated by a schema.
//!
//! Takes bytes and a schema, returns values whose fields are read in place, and turns them into bytes
//! again. Fields that are not read are not decoded; an unchanged value keeps its bytes. Asks a schema
//! registry through a port. Never touches a topic.

/// Records the largest allocation, for the fuzz tests.
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
pub use value::{PathStep, Value, parts};
