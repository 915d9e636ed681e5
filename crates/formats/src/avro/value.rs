//! An Avro value that stays encoded: the type of a value within a record.
//!
//! Takes the bytes of a validated value, returns its fields, elements and entries one by one: skips what
//! is before them, and decodes nothing else. Text, bytes and inner values share the buffer. It never
//! changes, but `changes` returns true: a store with another serde must return the value as decoded from
//! its bytes, not this object.

mod changed;
mod open;

pub use changed::ChangedRecord;

use super::decimal;
use super::json;
use super::scan::Cursor;
use super::schema::{self, Node, NodeId, Schema};
use crate::value::PathStep;
use bytes::Bytes;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Fields, Opaque, Open, Result, Text};

/// See the module.
#[derive(Clone, Debug)]
pub struct AvroValue {
    schema: Arc<Schema>,
    node: NodeId,
    bytes: Bytes,
    /// The same bytes with their header, as they were read.
    framed: Option<Bytes>,
    /// Whether functions get it as dicts and lists of their own.
    for_change: bool,
}

impl AvroValue {
    /// The value in a datum.
    #[must_use]
    pub fn of(datum: &Datum) -> Option<&Self> {
        datum.opaque()
    }

    /// The datum of a whole value: a scalar as itself, everything else as an `AvroValue`.
    pub(super) fn read(
        schema: &Arc<Schema>,
        bytes: Bytes,
        framed: Option<Bytes>,
        for_change: bool,
    ) -> Result<Datum> {
        let whole = Self {
            schema: Arc::clone(schema),
            node: schema.root(),
            bytes,
            framed,
            for_change,
        };
        let mut cursor = Cursor::new(&whole.bytes);
        let node = whole.resolve(&mut cursor, whole.node)?;
        match schema.node(node) {
            Node::Record(_) | Node::Map(_) | Node::Array(_) => Ok(Datum::Opaque(Arc::new(whole))),
            _ => whole.datum(&mut cursor, node),
        }
    }

    /// The schema.
    #[must_use]
    pub const fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Its type in the schema (of a union: one of the branches).
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// The bytes, without a header.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(super) const fn framed(&self) -> Option<&Bytes> {
        self.framed.as_ref()
    }

    /// Replaces a union by the branch at this position.
    fn resolve(&self, cursor: &mut Cursor<'_>, mut node: NodeId) -> Result<NodeId> {
        while let Node::Union(branches) = self.schema.node(node) {
            node = branches[cursor.choice(branches.len(), &self.schema)?];
        }
        Ok(node)
    }

    /// Follows a path; null where nothing is found.
    ///
    /// # Errors
    /// `User` for a member of a value without members, `Serde` for damaged bytes.
    pub fn walk<'p>(&self, path: impl IntoIterator<Item = PathStep<'p>>) -> Result<Datum> {
        let schema = &*self.schema;
        let mut cursor = Cursor::new(&self.bytes);
        let mut node = self.node;
        for step in path {
            node = self.resolve(&mut cursor, node)?;
            let found = match (schema.node(node), step) {
                (Node::Null, _) => return Ok(Datum::Null),
                (Node::Record(fields), PathStep::Member(name)) => {
                    let field = self.find_field(&mut cursor, fields, name)?;
                    field.map(|(_, node)| node)
                }
                (Node::Map(of), PathStep::Member(name)) => {
                    self.find_entry(&mut cursor, *of, name)?.then_some(*of)
                }
                (Node::Array(of), PathStep::Element(at)) => {
                    self.find_element(&mut cursor, *of, at)?.then_some(*of)
                }
                (_, step) => return Err(self.no_such(node, step)),
            };
            match found {
                Some(inner) => node = inner,
                None => return Ok(Datum::Null),
            }
        }
        node = self.resolve(&mut cursor, node)?;
        self.datum(&mut cursor, node)
    }

    /// Moves to the field of a record.
    fn find_field(
        &self,
        cursor: &mut Cursor<'_>,
        fields: &schema::RecordFields,
        name: &str,
    ) -> Result<Option<(usize, NodeId)>> {
        let Some(at) = fields.place(name) else {
            return Ok(None);
        };
        for field in &fields.all()[..at] {
            cursor.skip(&self.schema, field.node, 0)?;
        }
        Ok(Some((at, fields.all()[at].node)))
    }

    /// Moves to the entry of a map.
    fn find_entry(&self, cursor: &mut Cursor<'_>, of: NodeId, name: &str) -> Result<bool> {
        while let Some(block) = cursor.block(&self.schema)? {
            for _ in 0..block.count {
                if cursor.text(&self.schema)? == name {
                    return Ok(true);
                }
                cursor.skip(&self.schema, of, 0)?;
            }
        }
        Ok(false)
    }

    /// Moves to an element of an array.
    fn find_element(&self, cursor: &mut Cursor<'_>, of: NodeId, at: usize) -> Result<bool> {
        let mut left = at;
        while let Some(block) = cursor.block(&self.schema)? {
            let count = usize::try_from(block.count).unwrap_or(usize::MAX);
            if left >= count
                && let Some(size) = block.size
            {
                cursor.take(size, &self.schema)?;
                left -= count;
                continue;
            }
            for _ in 0..count {
                if left == 0 {
                    return Ok(true);
                }
                cursor.skip(&self.schema, of, 0)?;
                left -= 1;
            }
        }
        Ok(false)
    }

    /// The datum at this position; the type is not a union.
    fn datum(&self, cursor: &mut Cursor<'_>, node: NodeId) -> Result<Datum> {
        let schema = &*self.schema;
        let slice = |part: &[u8]| self.bytes.slice_ref(part);
        Ok(match schema.node(node) {
            Node::Null => Datum::Null,
            Node::Boolean => Datum::Bool(cursor.boolean(schema)?),
            Node::Int => Datum::Int(cursor.int(schema)?),
            Node::Long => Datum::Int(cursor.long(schema)?),
            Node::Float => {
                let x = f32::from_le_bytes(cursor.array(schema)?);
                Datum::Float(f64::from(x))
            }
            Node::Double => Datum::Float(f64::from_le_bytes(cursor.array(schema)?)),
            Node::Bytes => Datum::Bytes(slice(cursor.sized(schema)?)),
            Node::Fixed(size) => Datum::Bytes(slice(cursor.take(*size, schema)?)),
            Node::String => Datum::Str(Text::from_utf8(slice(cursor.sized(schema)?))?),
            Node::Enum(symbols) => {
                Datum::Str(symbols[cursor.choice(symbols.len(), schema)?].clone())
            }
            Node::Uuid => Datum::text(decimal::uuid(cursor.array(schema)?)),
            Node::Decimal { scale, size, .. } => {
                let bytes = match size {
                    Some(size) => cursor.take(*size, schema)?,
                    None => cursor.sized(schema)?,
                };
                Datum::text(decimal::text(bytes, *scale))
            }
            Node::Union(_) => {
                let node = self.resolve(cursor, node)?;
                return self.datum(cursor, node);
            }
            Node::Record(_) | Node::Map(_) | Node::Array(_) => {
                let began = cursor.at;
                cursor.skip(schema, node, 0)?;
                self.part(node, began..cursor.at)
            }
        })
    }

    /// A part as a value of its own, not decoded.
    fn part(&self, node: NodeId, place: Range<usize>) -> Datum {
        Datum::Opaque(Arc::new(Self {
            schema: Arc::clone(&self.schema),
            node,
            bytes: self.bytes.slice(place),
            framed: None,
            for_change: self.for_change,
        }))
    }

    /// The type with unions resolved, and the position of the value.
    fn opened(&self) -> Result<(Cursor<'_>, NodeId)> {
        let mut cursor = Cursor::new(&self.bytes);
        let node = self.resolve(&mut cursor, self.node)?;
        Ok((cursor, node))
    }

    /// The elements of an array; `None` for other types.
    ///
    /// # Errors
    /// `Serde` for damaged bytes.
    pub fn elements(&self) -> Result<Option<Vec<Datum>>> {
        let (mut cursor, node) = self.opened()?;
        let Node::Array(of) = self.schema.node(node) else {
            return Ok(None);
        };
        let mut found = Vec::new();
        cursor.elements(&self.schema, 0, |cursor| {
            found.push(self.datum(cursor, *of)?);
            Ok(())
        })?;
        Ok(Some(found))
    }

    /// Its parts, each as if it were read: a list, or the members of an object. A scalar is returned
    /// itself.
    pub(super) fn split(&self) -> Result<Datum> {
        if let Some(elements) = self.elements()? {
            return Ok(Datum::List(elements.into()));
        }
        let schema = &*self.schema;
        let (mut cursor, node) = self.opened()?;
        let mut members = Vec::new();
        match schema.node(node) {
            Node::Record(fields) => {
                members.reserve_exact(fields.all().len());
                for field in fields.all() {
                    members.push((field.name.clone(), self.datum(&mut cursor, field.node)?));
                }
            }
            Node::Map(of) => cursor.elements(schema, 0, |cursor| {
                let name = Text::from(cursor.text(schema)?);
                members.push((name, self.datum(cursor, *of)?));
                Ok(())
            })?,
            _ => return self.datum(&mut cursor, node),
        }
        Ok(Fields(members).datum())
    }

    /// True for an object or a list, false for a scalar.
    pub(super) fn has_parts(&self) -> bool {
        let node = self.opened().map(|(_, node)| self.schema.node(node));
        matches!(node, Ok(Node::Record(_) | Node::Map(_) | Node::Array(_)))
    }

    /// True for an object, false for a list.
    ///
    /// # Errors
    /// `Serde` for damaged bytes.
    pub fn is_object(&self) -> Result<bool> {
        let (_, node) = self.opened()?;
        Ok(!matches!(self.schema.node(node), Node::Array(_)))
    }

    /// The number of elements of an array, or of members of an object.
    ///
    /// # Errors
    /// `Serde` for damaged bytes.
    pub fn length(&self) -> Result<usize> {
        let (mut cursor, node) = self.opened()?;
        let mut count = 0;
        match self.schema.node(node) {
            Node::Record(fields) => return Ok(fields.all().len()),
            Node::Map(of) => cursor.elements(&self.schema, 0, |cursor| {
                count += 1;
                cursor.text(&self.schema)?;
                cursor.skip(&self.schema, *of, 0)
            })?,
            Node::Array(of) => cursor.elements(&self.schema, 0, |cursor| {
                count += 1;
                cursor.skip(&self.schema, *of, 0)
            })?,
            _ => {}
        }
        Ok(count)
    }

    #[cold]
    fn no_such(&self, node: NodeId, step: PathStep<'_>) -> Error {
        let (what, hint) = match step {
            PathStep::Member(name) => (
                format!("member '{name}'"),
                "take members of records and maps",
            ),
            PathStep::Element(_) => ("elements".to_owned(), "take elements of arrays"),
        };
        let word = self.schema.word(node);
        Error::user(format!("a value of the Avro type {word} has no {what}"))
            .hint(format!("{hint} only"))
    }
}

impl Opaque for AvroValue {
    fn parts(&self) -> Result<Option<Datum>> {
        self.split().map(Some)
    }

    fn open(&self) -> Option<&dyn Open> {
        Some(self)
    }

    fn to_json(&self) -> Result<Bytes> {
        let mut out = Vec::with_capacity(2 * self.bytes.len() + 16);
        let mut cursor = Cursor::new(&self.bytes);
        json::write(&self.schema, self.node, &mut cursor, &mut out)?;
        Ok(out.into())
    }

    fn type_name(&self) -> String {
        match self.is_object() {
            Ok(false) => "list".into(),
            _ => "object".into(),
        }
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
        let framed = self
            .framed
            .as_ref()
            .map(|framed| Bytes::copy_from_slice(framed));
        let bytes = match &framed {
            Some(framed) => framed.slice(framed.len() - self.bytes.len()..),
            None => Bytes::copy_from_slice(&self.bytes),
        };
        Some(Datum::Opaque(Arc::new(Self {
            schema: Arc::clone(&self.schema),
            node: self.node,
            bytes,
            framed,
            for_change: self.for_change,
        })))
    }
}
