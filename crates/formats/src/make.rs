//! Whole values in the terms of another language.
//!
//! Takes a value's parts, from the inside out; what is made of them is the maker's business.

use stoatflow_core::{Error, Result};

/// A value without parts.
#[derive(Clone, Copy, Debug)]
pub enum Leaf<'a> {
    /// Null.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number beyond those.
    Large(u64),
    /// A number.
    Float(f64),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// Who makes values.
pub trait Maker {
    /// What is made.
    type Made;
    /// An object that grows.
    type Object;
    /// What can go wrong.
    type Trouble: From<Error>;

    /// Of a value without parts.
    ///
    /// # Errors
    /// The maker's own.
    fn leaf(&mut self, leaf: Leaf<'_>) -> Result<Self::Made, Self::Trouble>;
    /// Of a list.
    ///
    /// # Errors
    /// The maker's own.
    fn list(&mut self, items: Vec<Self::Made>) -> Result<Self::Made, Self::Trouble>;
    /// An object without members.
    fn object(&mut self) -> Self::Object;
    /// One more member of it.
    ///
    /// # Errors
    /// The maker's own.
    fn member(
        &mut self,
        object: &mut Self::Object,
        name: &str,
        value: Self::Made,
    ) -> Result<(), Self::Trouble>;
    /// The object with all its members.
    fn done(&mut self, object: Self::Object) -> Self::Made;
}
