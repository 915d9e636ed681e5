//! Schema resolution: a value of the writer's schema as bytes of the reader's, by Avro's rules.
//!
//! Takes bytes that were checked with the writer's schema, returns those of the reader's: fields by name
//! or alias, defaults for missing fields, wider numbers, the branch of a union that fits best. A logical
//! type counts as its underlying type, so the two schemas may differ in it; decimals need the same
//! precision and scale. Copies bytes without decoding them.

use super::encode::put_long;
use super::scan::Cursor;
use super::schema::{Node, NodeId, RecordFields, Schema};
use bytes::Bytes;
use stoatflow_core::{Error, Result};

/// Converts a value of the schema `from` into one of the schema `to`.
///
/// # Errors
/// `Serde` for a value that the other schema can't express: an enum symbol, a branch, bytes that are not
/// text.
pub(super) fn resolve(from: &Schema, to: &Schema, bytes: &Bytes) -> Result<Bytes> {
    let mut resolver = Resolver {
        from,
        to,
        out: Vec::with_capacity(bytes.len() + 16),
    };
    resolver.value(&mut Cursor::new(bytes), from.root(), to.root(), 0)?;
    Ok(resolver.out.into())
}

struct Resolver<'a> {
    from: &'a Schema,
    to: &'a Schema,
    out: Vec<u8>,
}

/// How well two types match; smaller is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Same,
    Wider,
}

impl Resolver<'_> {
    fn value(
        &mut self,
        cursor: &mut Cursor<'_>,
        from: NodeId,
        to: NodeId,
        depth: usize,
    ) -> Result<()> {
        // The same limit as in `scan::check`: values without parts may be one level deeper.
        cursor.deeper(self.from, depth.saturating_sub(1))?;
        let (source, target) = (self.from, self.to);
        match (source.node(from), target.node(to)) {
            (Node::Union(branches), _) => {
                let at = cursor.choice(branches.len(), source)?;
                return self.value(cursor, branches[at], to, depth + 1);
            }
            (_, Node::Union(branches)) => {
                let fitting = branches.iter().enumerate();
                let best = fitting
                    .filter_map(|(at, branch)| Some((self.fit(from, *branch)?, at)))
                    .min();
                let Some((_, at)) = best else {
                    return Err(self.other(from, to));
                };
                self.size(at);
                return self.value(cursor, from, branches[at], depth);
            }
            _ => {}
        }
        if self.fit(from, to).is_none() {
            return Err(self.other(from, to));
        }
        match (source.node(from), target.node(to)) {
            (Node::Record(writers), Node::Record(readers)) => {
                self.record(cursor, writers, readers, depth)?;
            }
            (Node::Array(from), Node::Array(to)) => {
                while let Some(block) = cursor.block(source)? {
                    put_long(&mut self.out, block.count);
                    for _ in 0..block.count {
                        self.value(cursor, *from, *to, depth + 1)?;
                    }
                }
                self.out.push(0);
            }
            (Node::Map(from), Node::Map(to)) => {
                while let Some(block) = cursor.block(source)? {
                    put_long(&mut self.out, block.count);
                    for _ in 0..block.count {
                        let name = cursor.sized(source)?;
                        self.sized(name);
                        self.value(cursor, *from, *to, depth + 1)?;
                    }
                }
                self.out.push(0);
            }
            (Node::Enum(words), Node::Enum(known)) => {
                let word = &words[cursor.choice(words.len(), source)?];
                let at = known.iter().position(|one| one == word);
                let Some(at) = at.or_else(|| target.fallback(to)) else {
                    return Err(Error::serde(format!(
                        "the enum {} has no '{}', and no default",
                        target.word(to),
                        word.as_str()
                    )));
                };
                self.size(at);
            }
            #[allow(clippy::cast_precision_loss)] // as Avro promotes
            (Node::Int | Node::Long, Node::Float) => {
                let number = cursor.long(source)? as f32;
                self.out.extend_from_slice(&number.to_le_bytes());
            }
            #[allow(clippy::cast_precision_loss)]
            (Node::Int | Node::Long, Node::Double) => {
                let number = cursor.long(source)? as f64;
                self.out.extend_from_slice(&number.to_le_bytes());
            }
            (Node::Float, Node::Double) => {
                let number = f64::from(f32::from_le_bytes(cursor.array(source)?));
                self.out.extend_from_slice(&number.to_le_bytes());
            }
            (_, Node::String) => {
                // Not all bytes are text.
                let text = cursor.text(source)?;
                self.sized(text.as_bytes());
            }
            // The bytes are the same: an int is written like a long, text like bytes.
            _ => {
                let began = cursor.at;
                cursor.skip(source, from, depth)?;
                self.out.extend_from_slice(&cursor.bytes[began..cursor.at]);
            }
        }
        Ok(())
    }

    fn record(
        &mut self,
        cursor: &mut Cursor<'_>,
        writers: &RecordFields,
        readers: &RecordFields,
        depth: usize,
    ) -> Result<()> {
        let mut places = Vec::with_capacity(writers.all().len());
        for field in writers.all() {
            places.push(cursor.at);
            cursor.skip(self.from, field.node, depth + 1)?;
        }
        for field in readers.all() {
            let mut names = std::iter::once(&field.name).chain(field.aliases.iter());
            match names.find_map(|name| writers.place(name.as_str())) {
                Some(at) => {
                    let mut there = Cursor {
                        bytes: cursor.bytes,
                        at: places[at],
                    };
                    self.value(&mut there, writers.all()[at].node, field.node, depth + 1)?;
                }
                None => match &field.default {
                    Some(default) => self.out.extend_from_slice(default),
                    None => {
                        return Err(Error::serde(format!(
                            "the field '{}' is missing, and has no default",
                            field.name.as_str()
                        )));
                    }
                },
            }
        }
        Ok(())
    }

    /// How well a value of the writer's type fits the reader's; `None` if not at all. The contents of
    /// lists, maps and records are checked when they are resolved.
    fn fit(&self, from: NodeId, to: NodeId) -> Option<Fit> {
        let (writer, reader) = (self.from.node(from), self.to.node(to));
        if let (
            Node::Decimal {
                precision, scale, ..
            },
            Node::Decimal {
                precision: digits,
                scale: behind,
                ..
            },
        ) = (writer, reader)
            && (precision, scale) != (digits, behind)
        {
            return None;
        }
        let same = match (writer, reader) {
            (Node::Null, Node::Null)
            | (Node::Boolean, Node::Boolean)
            | (Node::Int, Node::Int)
            | (Node::Long, Node::Long)
            | (Node::Float, Node::Float)
            | (Node::Double, Node::Double)
            | (Node::String, Node::String)
            | (Node::Array(_), Node::Array(_))
            | (Node::Map(_), Node::Map(_)) => true,
            (Node::Enum(_), Node::Enum(_)) | (Node::Record(_), Node::Record(_)) => {
                self.is_called_alike(from, to)
            }
            _ => match (bytes_of(writer), bytes_of(reader)) {
                (Some(None), Some(None)) => true,
                (Some(Some(one)), Some(Some(other))) => {
                    one == other && self.is_called_alike(from, to)
                }
                _ => false,
            },
        };
        if same {
            return Some(Fit::Same);
        }
        match (writer, reader) {
            (Node::Int, Node::Long | Node::Float | Node::Double)
            | (Node::Long, Node::Float | Node::Double)
            | (Node::Float, Node::Double)
            | (Node::String, Node::Bytes)
            | (Node::Bytes, Node::String) => Some(Fit::Wider),
            _ => None,
        }
    }

    /// Named types match by name; namespaces are ignored.
    fn is_called_alike(&self, from: NodeId, to: NodeId) -> bool {
        short(self.from.name(from)) == short(self.to.name(to))
    }

    fn size(&mut self, size: usize) {
        put_long(&mut self.out, i64::try_from(size).unwrap_or(i64::MAX));
    }

    fn sized(&mut self, bytes: &[u8]) {
        self.size(bytes.len());
        self.out.extend_from_slice(bytes);
    }

    #[cold]
    fn other(&self, from: NodeId, to: NodeId) -> Error {
        Error::serde(format!(
            "{} can't be read as {}",
            self.from.word(from),
            self.to.word(to)
        ))
    }
}

/// A name without its namespace.
fn short(name: Option<&str>) -> Option<&str> {
    name.and_then(|name| name.rsplit('.').next())
}

/// For types that are encoded as bytes: `Some(None)` after a length, `Some(Some(n))` with exactly n
/// bytes.
const fn bytes_of(node: &Node) -> Option<Option<usize>> {
    match node {
        Node::Bytes | Node::Decimal { size: None, .. } => Some(None),
        Node::Fixed(size)
        | Node::Decimal {
            size: Some(size), ..
        } => Some(Some(*size)),
        Node::Uuid => Some(Some(16)),
        _ => None,
    }
}
