//! Finds fields in Protobuf's wire format.
//!
//! Takes bytes, returns pieces: the number of a field, and the value written for it. Validates whole
//! values: truncated bytes, numbers that are too long, groups that aren't closed, text that is not
//! UTF-8. A field that the type doesn't know, or that has another wire type, is not an error: Protobuf
//! keeps it unread. Never copies.

use super::scalar::Scalar;
use super::schema::{List, Map, Message, Node, NodeId, Schema};
use stoatflow_core::{Error, Result};

/// Maximum nesting of values, as in Protobuf's own libraries: recursion must not overflow the stack of a
/// lane.
pub(super) const MAX_DEPTH: usize = 100;

/// A position in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

/// The encoded value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raw<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    /// After its length.
    Sized(&'a [u8]),
    /// Between the start and end tags of a group.
    Group(&'a [u8]),
    Fixed32([u8; 4]),
}

/// An encoded field with its number and position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub number: u32,
    pub raw: Raw<'a>,
    /// Includes the tag.
    pub began: usize,
    pub ended: usize,
}

impl<'a> Raw<'a> {
    /// The bytes of a message, if it has the right wire type.
    pub const fn body(self, group: bool) -> Option<&'a [u8]> {
        match (self, group) {
            (Self::Sized(body), false) | (Self::Group(body), true) => Some(body),
            _ => None,
        }
    }
}

/// What is wrong with bytes; the caller adds the name of the type.
#[derive(Debug)]
pub(super) struct Fault {
    what: &'static str,
    at: usize,
}

pub(super) type Scanned<T> = std::result::Result<T, Fault>;

impl<'a> Cursor<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    #[cold]
    const fn fault(&self, what: &'static str) -> Fault {
        Fault { what, at: self.at }
    }

    #[inline]
    pub fn varint(&mut self) -> Scanned<u64> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Scanned<u64> {
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            let Some(byte) = self.bytes.get(self.at) else {
                return Err(self.fault("they end within a number"));
            };
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            self.at += 1;
            number |= bits << shift;
            if *byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.fault("a number is longer than 64 bits"))
    }

    #[inline]
    fn take(&mut self, size: usize) -> Scanned<&'a [u8]> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..size)) {
            Some(taken) => {
                self.at += size;
                Ok(taken)
            }
            None => Err(self.fault("they end within a field")),
        }
    }

    #[inline]
    fn sized(&mut self) -> Scanned<&'a [u8]> {
        let size = self.varint()?;
        let Ok(size) = usize::try_from(size) else {
            return Err(self.fault("they end within a field"));
        };
        self.take(size)
    }

    pub fn array<const N: usize>(&mut self) -> Scanned<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// The number of a field, and its wire type.
    #[inline]
    fn tag(&mut self) -> Scanned<(u32, u8)> {
        let began = self.at;
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).unwrap_or(u32::MAX);
        if number == 0 || number > 0x1fff_ffff {
            self.at = began;
            return Err(self.fault("a field has no valid number"));
        }
        Ok((number, (tag & 7) as u8))
    }

    /// The next field; `None` at the end.
    #[inline]
    pub fn piece(&mut self) -> Scanned<Option<Piece<'a>>> {
        if self.at >= self.bytes.len() {
            return Ok(None);
        }
        let began = self.at;
        let (number, wire) = self.tag()?;
        let raw = self.raw(number, wire, 0)?;
        Ok(Some(Piece {
            number,
            raw,
            began,
            ended: self.at,
        }))
    }

    #[inline]
    fn raw(&mut self, number: u32, wire: u8, depth: usize) -> Scanned<Raw<'a>> {
        match wire {
            0 => self.varint().map(Raw::Varint),
            1 => self.array().map(Raw::Fixed64),
            2 => self.sized().map(Raw::Sized),
            3 => self.group(number, depth).map(Raw::Group),
            5 => self.array().map(Raw::Fixed32),
            4 => Err(self.fault("a group ends that didn't begin")),
            _ => Err(self.fault("a field is written in no known way")),
        }
    }

    /// Skips past the end tag of a group, returns the bytes before it.
    fn group(&mut self, number: u32, depth: usize) -> Scanned<&'a [u8]> {
        if depth > MAX_DEPTH {
            return Err(self.fault("groups are nested too deeply"));
        }
        let began = self.at;
        loop {
            if self.at >= self.bytes.len() {
                return Err(self.fault("they end within a group"));
            }
            let ended = self.at;
            let (inner, wire) = self.tag()?;
            if wire == 4 {
                if inner != number {
                    return Err(self.fault("another group ends than began"));
                }
                return Ok(&self.bytes[began..ended]);
            }
            self.raw(inner, wire, depth + 1)?;
        }
    }
}

impl Schema {
    /// An error about bytes that should be a value.
    #[cold]
    pub(super) fn fault(&self, fault: &Fault, size: usize) -> Error {
        Error::serde(format!(
            "the bytes are no value of the Protobuf message '{}': {} at byte {} of {size}",
            self.title(),
            fault.what,
            fault.at,
        ))
        .hint("read the topic with the message it was written with; say framing=\"confluent\" if its records begin with a schema id, and leave it out if they don't")
    }
}

/// Checks that all bytes form a value.
pub(super) fn check(schema: &Schema, node: NodeId, bytes: &[u8]) -> Result<()> {
    let checked = match schema.node(node) {
        Node::Wrapper { of, .. } => wrapper(*of, bytes, 0),
        Node::Message(message) => self::message(schema, message, bytes, 0),
        _ => Ok(()),
    };
    checked.map_err(|fault| schema.fault(&fault, bytes.len()))?;
    if schema.has_required {
        super::fields::required(schema, node, bytes)?;
    }
    Ok(())
}

/// Adds the offset of the part to the position of its fault.
fn within(fault: Fault, whole: &[u8], part: &[u8]) -> Fault {
    // The part is a slice of the whole.
    let offset = part.as_ptr() as usize - whole.as_ptr() as usize;
    Fault {
        what: fault.what,
        at: fault.at + offset,
    }
}

fn message(schema: &Schema, message: &Message, bytes: &[u8], depth: usize) -> Scanned<()> {
    let mut cursor = Cursor::new(bytes);
    if depth > MAX_DEPTH {
        return Err(cursor.fault("messages are nested too deeply"));
    }
    while let Some(piece) = cursor.piece()? {
        let Some(at) = message.numbered(piece.number) else {
            continue;
        };
        let field = &message.fields[at];
        match schema.node(field.node) {
            Node::List(list) => self::list(schema, list, piece.raw, bytes, depth)?,
            Node::Map(map) => self::map(schema, map, piece.raw, bytes, depth)?,
            _ => value(schema, field.node, piece.raw, field.group, bytes, depth)?,
        }
    }
    Ok(())
}

/// Checks one value of a field; `whole` contains its bytes.
fn value(
    schema: &Schema,
    node: NodeId,
    raw: Raw<'_>,
    group: bool,
    whole: &[u8],
    depth: usize,
) -> Scanned<()> {
    let checked = match (schema.node(node), raw.body(group)) {
        (Node::Scalar(Scalar::String { checked: true }), Some(text)) => {
            return match std::str::from_utf8(text) {
                Ok(_) => Ok(()),
                Err(e) => Err(within(
                    Fault {
                        what: "a text is not UTF-8",
                        at: e.valid_up_to(),
                    },
                    whole,
                    text,
                )),
            };
        }
        (Node::Message(message), Some(body)) => self::message(schema, message, body, depth + 1),
        (Node::Wrapper { of, .. }, Some(body)) => wrapper(*of, body, depth + 1),
        _ => return Ok(()),
    };
    match raw.body(group) {
        Some(body) => checked.map_err(|fault| within(fault, whole, body)),
        None => checked,
    }
}

fn wrapper(of: Scalar, bytes: &[u8], depth: usize) -> Scanned<()> {
    let mut cursor = Cursor::new(bytes);
    if depth > MAX_DEPTH {
        return Err(cursor.fault("messages are nested too deeply"));
    }
    while let Some(piece) = cursor.piece()? {
        if let (1, Scalar::String { .. }, Raw::Sized(text)) = (piece.number, of, piece.raw)
            && std::str::from_utf8(text).is_err()
        {
            return Err(cursor.fault("a text is not UTF-8 up to here,"));
        }
    }
    Ok(())
}

fn list(schema: &Schema, list: &List, raw: Raw<'_>, whole: &[u8], depth: usize) -> Scanned<()> {
    match (schema.node(list.of).packs(), raw) {
        (Some(scalar), Raw::Sized(run)) => {
            let mut cursor = Cursor::new(run);
            while cursor.at < run.len() {
                scalar
                    .next(&mut cursor)
                    .map_err(|fault| within(fault, whole, run))?;
            }
            Ok(())
        }
        _ => value(schema, list.of, raw, list.group, whole, depth),
    }
}

fn map(schema: &Schema, map: &Map, raw: Raw<'_>, whole: &[u8], depth: usize) -> Scanned<()> {
    let Raw::Sized(entry) = raw else {
        return Ok(());
    };
    let checked = || {
        let mut cursor = Cursor::new(entry);
        while let Some(piece) = cursor.piece()? {
            match (piece.number, piece.raw, map.key) {
                // A key that is not text can't be the name of an object's member.
                (1, Raw::Sized(text), Scalar::String { .. })
                    if std::str::from_utf8(text).is_err() =>
                {
                    return Err(cursor.fault("a text is not UTF-8 up to here,"));
                }
                (2, raw, _) => value(schema, map.of, raw, false, entry, depth + 1)?,
                _ => {}
            }
        }
        Ok(())
    };
    checked().map_err(|fault| within(fault, whole, entry))
}
