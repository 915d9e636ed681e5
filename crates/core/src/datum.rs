//! A key or value while the engine processes it.
//!
//! Decoded and foreign values share one type, which native operators and user functions both accept.
//! Cloning is cheap (reference counts); a `Str` that was cut out of a line shares the line's bytes.
//! [`crate::Serde`] does the encoding.

use crate::{Error, Open, Result};
use bytes::Bytes;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// UTF-8 text that shares its buffer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Bytes);

impl Text {
    /// Wraps bytes, if they are UTF-8.
    ///
    /// # Errors
    /// `Serde` with the position of the first bad byte.
    pub fn from_utf8(bytes: Bytes) -> Result<Self> {
        if crate::json::is_utf8(&bytes) {
            return Ok(Self(bytes));
        }
        match std::str::from_utf8(&bytes) {
            Ok(_) => Ok(Self(bytes)),
            Err(e) => Err(Error::serde(format!("the bytes are not UTF-8 text: {e}"))
                .hint("read the topic with Serdes.bytes(), or fix the producer's encoding")),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // SAFETY: every constructor checks UTF-8 or cuts an existing `Text` on char boundaries.
        unsafe { std::str::from_utf8_unchecked(&self.0) }
    }

    /// The bytes of the text, shared.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// The bytes of the text.
    #[must_use]
    pub const fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// A part of this text that shares its buffer. `part` must be a slice of `self.as_str()`.
    #[must_use]
    pub fn cut(&self, part: &str) -> Self {
        Self(self.0.slice_ref(part.as_bytes()))
    }
}

impl From<String> for Text {
    fn from(s: String) -> Self {
        Self(Bytes::from(s.into_bytes()))
    }
}

impl From<&str> for Text {
    fn from(s: &str) -> Self {
        Self(Bytes::copy_from_slice(s.as_bytes()))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// A value that only a foreign runtime understands (a Python object).
pub trait Opaque: Send + Sync + fmt::Debug {
    /// The value as compact JSON text, for stores and sinks with the JSON serde.
    ///
    /// # Errors
    /// `Serde` if the value has no JSON form.
    fn to_json(&self) -> Result<Bytes>;
    /// The value as lists, [`crate::Fields`], scalars and values with parts of their own, for formats
    /// that can hold more than JSON; `None` if the JSON text holds everything.
    ///
    /// # Errors
    /// `Serde` if a part has no form.
    fn parts(&self) -> Result<Option<Datum>> {
        Ok(None)
    }
    /// The value as an [`Open`], if its parts can be read in place.
    fn open(&self) -> Option<&dyn Open> {
        None
    }
    /// A copy with buffers of its own, if it shares a buffer with other values.
    fn unshared(&self) -> Option<Datum> {
        None
    }
    /// The name of the type, for error messages (`dict`, `Order`).
    fn type_name(&self) -> String;
    /// The concrete object, for the crate that created it.
    fn as_any(&self) -> &dyn Any;
    /// Whether a user function that holds it can change it in place. A value that can't change is
    /// shared, never copied.
    fn changes(&self) -> bool {
        true
    }
    /// About how many bytes it keeps alive; a Python object's size is unknown without its interpreter,
    /// so a small dict is assumed.
    fn weight(&self) -> usize {
        256
    }
    /// Enters the runtime of the value and runs `body`, so that calls inside don't enter it one by one.
    fn scope(&self, body: &mut dyn FnMut()) {
        body();
    }
}

/// JSON text that every function call gets as a new object of its own, which it may change.
#[derive(Debug)]
pub struct PlainJson(pub Bytes);

impl PlainJson {
    /// The datum of a JSON text: only objects and arrays can be changed, other text becomes `Json`.
    #[must_use]
    pub fn datum(text: Bytes) -> Datum {
        match text.trim_ascii_start().first() {
            Some(b'{' | b'[') => Datum::Opaque(Arc::new(Self(text))),
            _ => Datum::Json(text),
        }
    }
}

impl Opaque for PlainJson {
    fn to_json(&self) -> Result<Bytes> {
        Ok(self.0.clone())
    }

    fn type_name(&self) -> String {
        let is_list = self.0.trim_ascii_start().starts_with(b"[");
        if is_list { "list" } else { "dict" }.to_owned()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn weight(&self) -> usize {
        self.0.len()
    }
}

/// An update of a table: the old and the new value.
#[derive(Clone, Debug)]
pub struct Change {
    /// The value before, `Null` if there was none.
    pub old: Datum,
    /// The value now, `Null` if the key was deleted.
    pub new: Datum,
    /// True if this is the newest update of its key. False for an out-of-order update of a versioned
    /// table: it is forwarded, but joins and aggregations ignore it.
    pub latest: bool,
}

/// A key within a window. Tumbling, hopping, sliding and unlimited windows end exclusively, session
/// windows end with their last record.
#[derive(Clone, Debug, PartialEq)]
pub struct Windowed {
    /// The key.
    pub key: Datum,
    /// Start, milliseconds.
    pub start: i64,
    /// End, milliseconds.
    pub end: i64,
}

/// A key or a value.
#[derive(Clone, Debug, Default)]
pub enum Datum {
    /// Kafka's null: no key, or a tombstone.
    #[default]
    Null,
    /// True or false (from JSON, expressions and Python).
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A double.
    Float(f64),
    /// Raw bytes.
    Bytes(Bytes),
    /// Text.
    Str(Text),
    /// JSON text, not parsed yet (object, array, or any JSON value).
    Json(Bytes),
    /// A sequence.
    List(Arc<[Datum]>),
    /// A table update; only between table operators that need the old value.
    Change(Box<Change>),
    /// A key within a window.
    Windowed(Arc<Windowed>),
    /// A foreign object.
    Opaque(Arc<dyn Opaque>),
}

impl Datum {
    /// The foreign object, if it is one of this type.
    #[must_use]
    pub fn opaque<T: 'static>(&self) -> Option<&T> {
        match self {
            Self::Opaque(object) => object.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// Text from a Rust string.
    #[must_use]
    pub fn text(s: impl Into<Text>) -> Self {
        Self::Str(s.into())
    }

    /// An update of a table with the value before it.
    #[must_use]
    pub fn change(old: Self, new: Self, latest: bool) -> Self {
        Self::Change(Box::new(Change { old, new, latest }))
    }

    /// A key within a window.
    #[must_use]
    pub fn windowed(key: Self, start: i64, end: i64) -> Self {
        Self::Windowed(Arc::new(Windowed { key, start, end }))
    }

    /// Whether this is Kafka's null.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The name of the type, for error messages.
    #[must_use]
    pub fn type_name(&self) -> String {
        match self {
            Self::Null => "null".into(),
            Self::Bool(_) => "bool".into(),
            Self::Int(_) => "int".into(),
            Self::Float(_) => "float".into(),
            Self::Bytes(_) => "bytes".into(),
            Self::Str(_) => "str".into(),
            Self::Json(_) => "json".into(),
            Self::List(_) => "list".into(),
            Self::Change(_) => "change".into(),
            Self::Windowed(_) => "windowed".into(),
            Self::Opaque(o) => o.type_name(),
        }
    }

    /// True if any part of it lies in a buffer that other values share.
    fn is_shared(&self) -> bool {
        match self {
            Self::Bytes(b) | Self::Json(b) => !b.is_unique(),
            Self::Str(t) => !t.0.is_unique(),
            Self::List(items) => items.iter().any(Self::is_shared),
            // Only the object itself knows.
            Self::Opaque(_) => true,
            _ => false,
        }
    }

    /// Copies bytes that share a buffer, so that keeping them doesn't keep the whole buffer alive.
    pub fn unshare(&mut self) {
        if let Self::Opaque(object) = self {
            if let Some(own) = object.unshared() {
                *self = own;
            }
            return;
        }
        if !self.is_shared() {
            return;
        }
        match self {
            Self::Bytes(b) | Self::Json(b) => *b = Bytes::copy_from_slice(b),
            Self::Str(t) => *t = Text::from(t.as_str()),
            Self::List(items) => *items = items.iter().map(Self::unshared).collect(),
            _ => {}
        }
    }

    /// A copy in buffers of its own.
    #[must_use]
    pub fn unshared(&self) -> Self {
        let mut own = self.clone();
        own.unshare();
        own
    }

    /// About how many bytes this datum keeps alive; used to account memory, not to allocate.
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Self::Bytes(b) | Self::Json(b) => b.len(),
            Self::Str(t) => t.as_bytes().len(),
            Self::List(items) => items.iter().map(Self::weight).sum::<usize>() + 16 * items.len(),
            Self::Change(c) => c.old.weight() + c.new.weight(),
            Self::Windowed(w) => 24 + w.key.weight(),
            Self::Opaque(o) => o.weight(),
            _ => 8,
        }
    }
}

impl PartialEq for Datum {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) | (Self::Json(a), Self::Json(b)) => a == b,
            (Self::Str(a), Self::Str(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Change(a), Self::Change(b)) => {
                a.old == b.old && a.new == b.new && a.latest == b.latest
            }
            (Self::Windowed(a), Self::Windowed(b)) => a == b,
            (Self::Opaque(a), Self::Opaque(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}
