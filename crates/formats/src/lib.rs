//! Binary formats with a schema: Avro and Protobuf.
//!
//! Takes bytes and a schema, gives values whose fields are read where they lie, and bytes again. What nobody
//! reads is never decoded; what nobody changes goes on as the bytes it came in. Never asks a registry, never
//! touches a topic.

pub mod avro;
pub mod protobuf;

mod framing;
mod json;
mod make;
mod misfit;
mod near;
mod tree;
mod value;

pub use json::latin;
pub use make::{Leaf, Maker};
pub use near::near;
pub use value::{Step, Value, parts};
