//! JSON with a schema: text that is validated when it is read from a topic and when it is written.
//!
//! Takes a JSON Schema (the crate `jsonschema` validates), returns [`Checked`], a serde. Its values are
//! JSON values: text whose fields are parsed when they are read. Nothing is fetched: a schema must come
//! with everything it refers to.

mod checked;
mod spec;

pub use checked::Checked;
pub use spec::JsonSchemaSpec;

#[cfg(test)]
mod tests;
