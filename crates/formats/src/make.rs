//! Builds whole values for another language.
//!
//! Takes a value's parts, from the inside out; the maker decides what to build from them.

use stoatflow_core::{Error, Result};

/// A value without parts.
#[derive(Clone, Copy, Debug)]
pub enum Leaf<'a> {
    /// Null.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer that fits `i64`.
    Int(i64),
    /// An integer that only fits `u64`.
    Large(u64),
    /// A number.
    Float(f64),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// Builds values of another language.
pub trait Maker {
    /// The type of a built value.
    type Made;
    /// An object under construction.
    type Object;
    /// The error type.
    type Trouble: From<Error>;

    /// Builds a value without parts.
    ///
    /// # Errors
    /// Those of the maker.
    fn leaf(&mut self, leaf: Leaf<'_>) -> Result<Self::Made, Self::Trouble>;
    /// Builds a list.
    ///
    /// # Errors
    /// Those of the maker.
    fn list(&mut self, items: Vec<Self::Made>) -> Result<Self::Made, Self::Trouble>;
    /// Starts an object without members.
    fn object(&mut self) -> Self::Object;
    /// Adds a member to an object.
    ///
    /// # Errors
    /// Those of the maker.
    fn member(
        &mut self,
        object: &mut Self::Object,
        name: &str,
        value: Self::Made,
    ) -> Result<(), Self::Trouble>;
    /// Finishes an object.
    fn done(&mut self, object: Self::Object) -> Self::Made;
}
