//! Protobuf: values with a message type that stay encoded until they are read.
//!
//! Takes descriptors (the crate `protox` compiles .proto files, `prost-reflect` knows types, presence
//! and defaults), returns [`Format`], a serde, and [`ProtobufValue`], the type of a value within a
//! record. A value is validated completely when it is read; its fields are found by their numbers when
//! they are accessed. Fields that the type doesn't know stay in the bytes, and are passed on with them.

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
