//! Protobuf: values of a message type that stay bytes until somebody reads them.
//!
//! Takes descriptors (the crate `protox` compiles .proto files, `prost-reflect` knows types, presence and
//! defaults), gives [`Format`], which is a serde, and [`ProtobufValue`], which is what a record carries. A
//! record is checked from end to end where it is read; its fields are found by their numbers when they are
//! asked for. What the type doesn't know stays in the bytes, and goes on with them.

mod compile;
mod encode;
mod fields;
mod format;
mod json;
mod make;
mod places;
mod scalar;
mod scan;
mod schema;
mod serialized;
mod sources;
mod spec;
mod value;

pub use format::Format;
pub use make::make;
pub use scalar::Scalar;
pub use schema::{Enum, Field, List, Map, Message, Node, NodeId, Schema};
pub use serialized::Serialized;
pub use sources::{ProtoFile, files, needed, of_file, of_registered, of_text};
pub use spec::{Decode, Spec};
pub use value::{ChangedMessage, ProtobufValue};

#[cfg(test)]
mod tests;
