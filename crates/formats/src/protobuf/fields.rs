//! The value of a message's field, from all pieces that were written for it.
//!
//! Takes the bytes of a message, returns each field's [`Slot`]: for values without parts the last one
//! counts, the pieces of a message are merged, a member of a oneof replaces the others, elements and
//! entries are found between the first and the last of them. A slot is decoded to [`Seen`] by the
//! field's type.

use super::scalar::Scalar;
use super::scan::{Cursor, Fault, Piece, Raw, Scanned};
use super::schema::{Field, List, Map, Message, Node, NodeId, Schema};
use crate::make::Leaf;
use indexmap::IndexMap;
use std::borrow::Cow;
use stoatflow_core::{Error, Result};

/// The collected pieces of a field.
#[derive(Clone, Debug, Default)]
pub(super) enum Slot<'a> {
    #[default]
    Absent,
    /// The last value without parts that was written.
    Raw(Raw<'a>),
    /// The value inside a wrapper, if it isn't the default.
    Wrapped(Option<Raw<'a>>),
    /// The bytes of a message. Several pieces are concatenated, which merges them.
    Message(Cow<'a, [u8]>),
    /// The range from the first to the last piece of a repeated field.
    Many(&'a [u8]),
}

/// A field's value, decoded by its type.
#[derive(Clone, Debug)]
pub(super) enum Seen<'a> {
    Leaf(Leaf<'a>),
    /// The bytes of a message.
    Message(NodeId, Cow<'a, [u8]>),
    /// The bytes that contain the elements or entries, among other fields.
    Many(NodeId, &'a [u8]),
}

impl<'a> Slot<'a> {
    /// Adds a piece; returns false if its wire type doesn't match the field. Not for repeated fields.
    fn add(&mut self, node: &Node, group: bool, raw: Raw<'a>) -> Scanned<bool> {
        match node {
            Node::Scalar(scalar) if scalar.fits(raw) => *self = Self::Raw(raw),
            Node::Enum(_) if Scalar::Int32.fits(raw) => *self = Self::Raw(raw),
            Node::Message(_) => match (raw.body(group), &mut *self) {
                (None, _) => return Ok(false),
                (Some(more), Self::Message(body)) => body.to_mut().extend_from_slice(more),
                (Some(body), _) => *self = Self::Message(Cow::Borrowed(body)),
            },
            Node::Wrapper { of, .. } => {
                let Some(body) = raw.body(group) else {
                    return Ok(false);
                };
                let before = match self {
                    Self::Wrapped(before) => *before,
                    _ => None,
                };
                *self = Self::Wrapped(unwrapped(*of, body)?.or(before));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn add_piece(
        &mut self,
        schema: &Schema,
        field: &Field,
        whole: &'a [u8],
        piece: &Piece<'a>,
    ) -> Scanned<bool> {
        let node = schema.node(field.node);
        if !matches!(node, Node::List(_) | Node::Map(_)) {
            return self.add(node, field.group, piece.raw);
        }
        let began = match self {
            // It is a slice of `whole`.
            Self::Many(before) => before.as_ptr() as usize - whole.as_ptr() as usize,
            _ => piece.began,
        };
        *self = Self::Many(&whole[began..piece.ended]);
        Ok(true)
    }

    /// The slot decoded by its type; `empty` if nothing was written.
    fn seen(self, schema: &'a Schema, node: NodeId, empty: Seen<'a>) -> Result<Seen<'a>> {
        let leaf = match (schema.node(node), self) {
            (_, Self::Absent) => return Ok(empty),
            (_, Self::Message(body)) => return Ok(Seen::Message(node, body)),
            (_, Self::Many(range)) => return Ok(Seen::Many(node, range)),
            (Node::Wrapper { of, .. }, Self::Wrapped(raw)) => match raw {
                Some(raw) => of.leaf(raw, schema)?,
                None => of.zero(),
            },
            (node, Self::Raw(raw)) => leaf(schema, node, raw)?,
            (_, Self::Wrapped(_)) => Leaf::Null,
        };
        Ok(Seen::Leaf(leaf))
    }
}

fn leaf<'a>(schema: &Schema, node: &'a Node, raw: Raw<'a>) -> Result<Leaf<'a>> {
    match node {
        Node::Scalar(scalar) => scalar.leaf(raw, schema),
        Node::Enum(of) => Ok(of.leaf(raw.number())),
        _ => Ok(Leaf::Null),
    }
}

/// The value inside a wrapper.
pub(super) fn unwrapped(of: Scalar, body: &[u8]) -> Scanned<Option<Raw<'_>>> {
    let (mut found, mut cursor) = (None, Cursor::new(body));
    while let Some(piece) = cursor.piece()? {
        if piece.number == 1 && of.fits(piece.raw) {
            found = Some(piece.raw);
        }
    }
    Ok(found)
}

/// Reads one field.
pub(super) fn one<'a>(
    schema: &'a Schema,
    message: &'a Message,
    at: usize,
    body: &'a [u8],
) -> Result<Seen<'a>> {
    let field = &message.fields[at];
    let slot = slot(schema, message, field, body).map_err(|e| schema.fault(&e, body.len()))?;
    slot.seen(schema, field.node, field.absent(schema))
}

fn slot<'a>(
    schema: &Schema,
    message: &Message,
    wanted: &Field,
    body: &'a [u8],
) -> Scanned<Slot<'a>> {
    let (mut slot, mut cursor) = (Slot::Absent, Cursor::new(body));
    while let Some(piece) = cursor.piece()? {
        if piece.number == wanted.number {
            slot.add_piece(schema, wanted, body, &piece)?;
        } else if wanted.oneof.is_some()
            && let Some(other) = message.numbered(piece.number).map(|at| &message.fields[at])
            && other.oneof == wanted.oneof
            && Slot::Absent.add_piece(schema, other, body, &piece)?
        {
            slot = Slot::Absent;
        }
    }
    Ok(slot)
}

/// Reads all fields, in order.
pub(super) fn all<'a>(
    schema: &'a Schema,
    message: &'a Message,
    body: &'a [u8],
) -> Result<impl Iterator<Item = (&'a Field, Result<Seen<'a>>)>> {
    let slots = slots(schema, message, body).map_err(|e| schema.fault(&e, body.len()))?;
    Ok(message.fields.iter().zip(slots).map(|(field, slot)| {
        let seen = slot.seen(schema, field.node, field.absent(schema));
        (field, seen)
    }))
}

fn slots<'a>(schema: &Schema, message: &Message, body: &'a [u8]) -> Scanned<Vec<Slot<'a>>> {
    let mut slots = vec![Slot::Absent; message.fields.len()];
    let mut cursor = Cursor::new(body);
    while let Some(piece) = cursor.piece()? {
        let Some(at) = message.numbered(piece.number) else {
            continue;
        };
        let field = &message.fields[at];
        if slots[at].add_piece(schema, field, body, &piece)? && field.oneof.is_some() {
            for (other, slot) in message.fields.iter().zip(&mut slots) {
                if other.oneof == field.oneof && other.number != field.number {
                    *slot = Slot::Absent;
                }
            }
        }
    }
    Ok(slots)
}

/// Calls `take` with each element, in order, until it returns false.
pub(super) fn elements<'a>(
    schema: &'a Schema,
    list: &List,
    range: &'a [u8],
    mut take: impl FnMut(Seen<'a>) -> Result<bool>,
) -> Result<()> {
    let fault = |fault: Fault| schema.fault(&fault, range.len());
    let node = schema.node(list.of);
    let packs = node.packs();
    let mut cursor = Cursor::new(range);
    while let Some(piece) = cursor.piece().map_err(fault)? {
        if piece.number != list.number {
            continue;
        }
        if let (Some(scalar), Raw::Sized(run)) = (packs, piece.raw) {
            let mut cursor = Cursor::new(run);
            while cursor.at < run.len() {
                let raw = scalar.next(&mut cursor).map_err(fault)?;
                if !take(Seen::Leaf(leaf(schema, node, raw)?))? {
                    return Ok(());
                }
            }
            continue;
        }
        let mut slot = Slot::Absent;
        if slot.add(node, list.group, piece.raw).map_err(fault)? {
            let seen = slot.seen(schema, list.of, Seen::Leaf(Leaf::Null))?;
            if !take(seen)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The entries of a map; if a key repeats, the last entry counts.
pub(super) fn entries<'a>(
    schema: &'a Schema,
    map: &Map,
    range: &'a [u8],
) -> Result<IndexMap<Cow<'a, str>, Seen<'a>>> {
    let fault = |fault: Fault| schema.fault(&fault, range.len());
    let node = schema.node(map.of);
    let mut found = IndexMap::new();
    let mut cursor = Cursor::new(range);
    while let Some(piece) = cursor.piece().map_err(fault)? {
        let (true, Raw::Sized(entry)) = (piece.number == map.number, piece.raw) else {
            continue;
        };
        let (mut name, mut value) = (map.key.zero(), Slot::Absent);
        let mut cursor = Cursor::new(entry);
        while let Some(part) = cursor.piece().map_err(fault)? {
            match part.number {
                1 if map.key.fits(part.raw) => name = map.key.leaf(part.raw, schema)?,
                2 => {
                    value.add(node, false, part.raw).map_err(fault)?;
                }
                _ => {}
            }
        }
        let name = match name {
            Leaf::Text(text) => Cow::Borrowed(text),
            Leaf::Int(number) => Cow::Owned(number.to_string()),
            Leaf::Large(number) => Cow::Owned(number.to_string()),
            Leaf::Bool(truth) => Cow::Borrowed(if truth { "true" } else { "false" }),
            _ => continue,
        };
        found.insert(name, value.seen(schema, map.of, schema.empty(map.of))?);
    }
    Ok(found)
}

/// Finds required fields that are missing.
pub(super) fn required(schema: &Schema, node: NodeId, body: &[u8]) -> Result<()> {
    let Node::Message(message) = schema.node(node) else {
        return Ok(());
    };
    let slots = slots(schema, message, body).map_err(|e| schema.fault(&e, body.len()))?;
    for (field, slot) in message.fields.iter().zip(slots) {
        if field.required && matches!(slot, Slot::Absent) {
            return Err(Error::serde(format!(
                "the bytes are no value of the Protobuf message '{}': the required field '{}' of '{}' is missing",
                schema.title(),
                field.name.as_str(),
                message.name
            ))
            .hint("read the topic with the message it was written with"));
        }
        match slot.seen(schema, field.node, Seen::Leaf(Leaf::Null))? {
            Seen::Message(node, body) => required(schema, node, &body)?,
            Seen::Many(node, range) => match schema.node(node) {
                Node::List(list) => elements(schema, list, range, |seen| {
                    if let Seen::Message(node, body) = seen {
                        required(schema, node, &body)?;
                    }
                    Ok(true)
                })?,
                Node::Map(map) => {
                    for seen in entries(schema, map, range)?.into_values() {
                        if let Seen::Message(node, body) = seen {
                            required(schema, node, &body)?;
                        }
                    }
                }
                _ => {}
            },
            Seen::Leaf(_) => {}
        }
    }
    Ok(())
}
