//! A Protobuf value that stays encoded: the type of a value within a record.
//!
//! Takes the bytes of a validated value, returns its fields, elements and entries one by one: skips the
//! others, and decodes nothing else. Text, bytes and inner values share the buffer. The elements of a
//! repeated field lie among the other fields of their message, so a list holds the range from its first
//! to its last element. It never changes, but `changes` returns true: a store with another serde must
//! return the value as decoded from its bytes, not this object.

mod changed;
mod open;

pub use changed::ChangedMessage;

use super::fields::{self, Seen};
use super::json;
use super::scalar::Scalar;
use super::schema::{Node, NodeId, Schema};
use crate::make::Leaf;
use crate::value::PathStep;
use bytes::Bytes;
use std::any::Any;
use std::sync::Arc;
use stoatflow_core::{CustomSerde, Datum, Error, Opaque, Open, Result, Text};

/// How a whole value is passed to functions.
#[derive(Clone, Debug, Default)]
pub(super) enum Shown {
    /// As a view.
    #[default]
    Lazy,
    /// As a dict of their own.
    Dict,
    /// As the result of this serde for the value's bytes.
    By(Arc<dyn CustomSerde>),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ProtobufValue {
    schema: Arc<Schema>,
    node: NodeId,
    bytes: Bytes,
    /// The same bytes with their header, as they were read.
    framed: Option<Bytes>,
    shown: Shown,
}

impl ProtobufValue {
    /// The value in a datum.
    #[must_use]
    pub fn of(datum: &Datum) -> Option<&Self> {
        datum.opaque()
    }

    /// The datum of a whole value: of a wrapper its content, everything else as a `ProtobufValue`.
    pub(super) fn read(
        schema: &Arc<Schema>,
        bytes: Bytes,
        framed: Option<Bytes>,
        shown: Shown,
    ) -> Result<Datum> {
        let whole = Self {
            schema: Arc::clone(schema),
            node: schema.root(),
            bytes,
            framed,
            shown,
        };
        match schema.node(whole.node) {
            Node::Wrapper { of, .. } => {
                let raw = fields::unwrapped(*of, &whole.bytes)
                    .map_err(|fault| schema.fault(&fault, whole.bytes.len()))?;
                let leaf = match raw {
                    Some(raw) => of.leaf(raw, schema)?,
                    None => of.zero(),
                };
                Ok(whole.own(leaf))
            }
            _ => Ok(Datum::Opaque(Arc::new(whole))),
        }
    }

    /// The schema.
    #[must_use]
    pub const fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Its type in the schema.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// The bytes of a message, without a header; of a list or a map the bytes that contain it.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(super) const fn framed(&self) -> Option<&Bytes> {
        self.framed.as_ref()
    }

    /// The value as functions get it if a serde decides that: an object of the user's own class.
    ///
    /// # Errors
    /// Those of the serde.
    pub fn shown(&self) -> Result<Option<Datum>> {
        match &self.shown {
            Shown::By(serde) => {
                let bytes = self.framed.as_ref().unwrap_or(&self.bytes);
                serde.decode(bytes).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Follows a path; null where nothing is found.
    ///
    /// # Errors
    /// `User` for a member of a value without members, `Serde` for damaged bytes.
    pub fn walk<'p>(&self, path: impl IntoIterator<Item = PathStep<'p>>) -> Result<Datum> {
        let mut path = path.into_iter();
        self.follow(self.node, &self.bytes, &mut path)
    }

    /// Follows a path from a node in these bytes.
    fn follow<'p>(
        &self,
        node: NodeId,
        body: &[u8],
        path: &mut impl Iterator<Item = PathStep<'p>>,
    ) -> Result<Datum> {
        let Some(step) = path.next() else {
            return Ok(self.part(node, body));
        };
        let Some(seen) = self.enter(node, body, step)? else {
            return Ok(Datum::Null);
        };
        match seen {
            Seen::Message(node, body) => self.follow(node, &body, path),
            Seen::Many(node, range) => self.follow(node, range, path),
            Seen::Leaf(leaf) => match path.next() {
                Some(step) if !matches!(leaf, Leaf::Null) => Err(no_such(word_of(leaf), step)),
                _ => Ok(self.own(leaf)),
            },
        }
    }

    /// One step into a node; `None` if nothing is found.
    fn enter<'a>(
        &'a self,
        node: NodeId,
        body: &'a [u8],
        step: PathStep<'_>,
    ) -> Result<Option<Seen<'a>>> {
        let schema = &*self.schema;
        match (schema.node(node), step) {
            (Node::Message(message), PathStep::Member(name)) => message
                .place(name)
                .map(|at| fields::one(schema, message, at, body))
                .transpose(),
            (Node::Map(map), PathStep::Member(name)) => {
                Ok(fields::entries(schema, map, body)?.swap_remove(name))
            }
            (Node::List(list), PathStep::Element(at)) => {
                let (mut left, mut found) = (at, None);
                fields::elements(schema, list, body, |seen| {
                    if left == 0 {
                        found = Some(seen);
                        return Ok(false);
                    }
                    left -= 1;
                    Ok(true)
                })?;
                Ok(found)
            }
            (_, step) => Err(no_such(&schema.word(node), step)),
        }
    }

    /// The datum of a decoded field.
    fn datum(&self, seen: Seen<'_>) -> Datum {
        match seen {
            Seen::Leaf(leaf) => self.own(leaf),
            Seen::Message(node, body) => self.part(node, &body),
            Seen::Many(node, range) => self.part(node, range),
        }
    }

    fn part(&self, node: NodeId, body: &[u8]) -> Datum {
        Datum::Opaque(Arc::new(Self {
            schema: Arc::clone(&self.schema),
            node,
            bytes: self.keep(body),
            framed: None,
            shown: match &self.shown {
                // The user's class applies to the whole value only.
                Shown::By(_) => Shown::Lazy,
                other => other.clone(),
            },
        }))
    }

    /// Bytes that usually lie in this value's buffer; those of a merged message don't, and are copied.
    fn keep(&self, part: &[u8]) -> Bytes {
        let (own, range) = (self.bytes.as_ptr_range(), part.as_ptr_range());
        if own.start <= range.start && range.end <= own.end {
            return self.bytes.slice_ref(part);
        }
        Bytes::copy_from_slice(part)
    }

    fn own(&self, leaf: Leaf<'_>) -> Datum {
        match leaf {
            Leaf::Null => Datum::Null,
            Leaf::Bool(truth) => Datum::Bool(truth),
            Leaf::Int(number) => Datum::Int(number),
            // As everywhere, an integer beyond 64 bits keeps its digits.
            Leaf::Large(number) => Datum::Json(number.to_string().into()),
            Leaf::Float(number) => Datum::Float(number),
            Leaf::Bytes(bytes) => Datum::Bytes(self.keep(bytes)),
            // The bytes were checked to be text.
            Leaf::Text(text) => {
                Text::from_utf8(self.keep(text.as_bytes())).map_or(Datum::Null, Datum::Str)
            }
        }
    }

    /// The elements of a list; `None` for other types.
    ///
    /// # Errors
    /// `Serde` for damaged bytes.
    pub fn elements(&self) -> Result<Option<Vec<Datum>>> {
        let Node::List(list) = self.schema.node(self.node) else {
            return Ok(None);
        };
        let mut found = Vec::new();
        fields::elements(&self.schema, list, &self.bytes, |seen| {
            found.push(self.datum(seen));
            Ok(true)
        })?;
        Ok(Some(found))
    }

    /// Whether it holds bytes. They are a value of their own only where they are kept for a writer.
    pub(super) fn is_bytes(&self) -> bool {
        matches!(
            self.schema.node(self.node),
            Node::Scalar(Scalar::Bytes)
                | Node::Wrapper {
                    of: Scalar::Bytes,
                    ..
                }
        )
    }

    /// Its members, each converted by `made`.
    fn members(&self, made: impl Fn(NodeId, Seen<'_>) -> Datum) -> Result<Vec<(Text, Datum)>> {
        let schema = &*self.schema;
        let mut members = Vec::new();
        match schema.node(self.node) {
            Node::Message(message) => {
                members.reserve(message.fields.len());
                for (field, seen) in fields::all(schema, message, &self.bytes)? {
                    members.push((field.name.clone(), made(field.node, seen?)));
                }
            }
            Node::Map(map) => {
                for (name, seen) in fields::entries(schema, map, &self.bytes)? {
                    members.push((Text::from(name.as_ref()), made(map.of, seen)));
                }
            }
            _ => {}
        }
        Ok(members)
    }

    /// True for an object, false for a list.
    #[must_use]
    pub fn is_object(&self) -> bool {
        !matches!(self.schema.node(self.node), Node::List(_))
    }

    /// The number of elements of a list, or of members of an object.
    ///
    /// # Errors
    /// `Serde` for damaged bytes.
    pub fn length(&self) -> Result<usize> {
        let schema = &*self.schema;
        match schema.node(self.node) {
            Node::Message(message) => Ok(message.fields.len()),
            Node::Map(map) => Ok(fields::entries(schema, map, &self.bytes)?.len()),
            Node::List(list) => {
                let mut count = 0;
                fields::elements(schema, list, &self.bytes, |_| {
                    count += 1;
                    Ok(true)
                })?;
                Ok(count)
            }
            _ => Ok(0),
        }
    }
}

fn word_of(leaf: Leaf<'_>) -> &'static str {
    match leaf {
        Leaf::Null => "null",
        Leaf::Bool(_) => "bool",
        Leaf::Int(_) | Leaf::Large(_) => "int",
        Leaf::Float(_) => "float",
        Leaf::Text(_) => "string",
        Leaf::Bytes(_) => "bytes",
    }
}

#[cold]
fn no_such(word: &str, step: PathStep<'_>) -> Error {
    let (what, hint) = match step {
        PathStep::Member(name) => (
            format!("member '{name}'"),
            "take members of messages and maps",
        ),
        PathStep::Element(_) => ("elements".to_owned(), "take elements of repeated fields"),
    };
    Error::user(format!("a value of the Protobuf type {word} has no {what}"))
        .hint(format!("{hint} only"))
}

impl Opaque for ProtobufValue {
    fn to_json(&self) -> Result<Bytes> {
        let mut out = Vec::with_capacity(2 * self.bytes.len() + 16);
        json::write(&self.schema, self.node, &self.bytes, &mut out)?;
        Ok(out.into())
    }

    fn parts(&self) -> Result<Option<Datum>> {
        Open::parts(self).map(Some)
    }

    fn open(&self) -> Option<&dyn Open> {
        Some(self)
    }

    fn type_name(&self) -> String {
        match (self.is_bytes(), self.is_object()) {
            (true, _) => "bytes",
            (_, true) => "object",
            _ => "list",
        }
        .into()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn weight(&self) -> usize {
        self.bytes.len() + size_of::<Self>()
    }

    fn unshared(&self) -> Option<Datum> {
        if self.bytes.is_unique() {
            return None;
        }
        let framed = self.framed.as_deref().map(Bytes::copy_from_slice);
        let bytes = match &framed {
            Some(framed) => framed.slice(framed.len() - self.bytes.len()..),
            None => Bytes::copy_from_slice(&self.bytes),
        };
        Some(Datum::Opaque(Arc::new(Self {
            bytes,
            framed,
            ..self.clone()
        })))
    }
}
