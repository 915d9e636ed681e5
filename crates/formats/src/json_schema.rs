//! JSON with a schema: text that is checked where it comes in and where it goes out.
//!
//! Takes a JSON Schema (the crate `jsonschema` validates), gives [`Checked`], which is a serde. Its
//! values are those of JSON: text whose fields are parsed when they are read. Nothing is fetched: a
//! schema has all that it refers to with it.

mod checked;
mod spec;

pub use checked::Checked;
pub use spec::JsonSchemaSpec;

#[cfg(test)]
mod tests;
