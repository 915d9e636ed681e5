//! Encodes values by a schema.
//!
//! Takes a datum of any origin, returns bytes: a value that was read with the same schema is copied,
//! everything else is written field by field. A union takes the branch that fits best; among equally
//! good ones the first in the schema. A missing field gets its default. A field that the schema doesn't
//! have is an error, because nothing is dropped silently. Never rounds, and never turns a number into
//! text or text into a number.

use super::decimal;
use super::scan::Cursor;
use super::schema::{self, Node, NodeId, Schema};
use super::value::{AvroValue, ChangedRecord};
use crate::json::{large, unlatin as bytes_of};
use crate::misfit::{AS_INT, AS_TEXT, MAX_DEPTH, Misfit, Put};
use crate::near::near;
use crate::tree::tree;
use bytes::Bytes;
use stoatflow_core::{Datum, Fields, Result, Text};

/// The bytes of a datum.
pub(super) fn encode(schema: &Schema, datum: &Datum, out: Vec<u8>) -> Result<Vec<u8>> {
    let mut encoder = Encoder {
        schema,
        out,
        json: false,
        fallback: false,
        depth: 0,
    };
    match encoder.put(schema.root(), datum) {
        Ok(()) => Ok(encoder.out),
        Err(misfit) => Err(misfit.error(&whose(schema))),
    }
}

/// The bytes of a field's default, which a schema contains as JSON.
pub(super) fn default(schema: &Schema, node: NodeId, value: &serde_json::Value) -> Result<Bytes> {
    let mut encoder = Encoder {
        schema,
        out: Vec::new(),
        json: true,
        fallback: true,
        depth: 0,
    };
    let value = tree(value.to_string().as_bytes())?;
    match encoder.put(node, &value) {
        Ok(()) => Ok(encoder.out.into()),
        Err(misfit) => Err(misfit.error(&whose(schema))),
    }
}

struct Encoder<'a> {
    schema: &'a Schema,
    out: Vec<u8>,
    /// Within JSON text, bytes are written as text with one character per byte.
    json: bool,
    /// In the default of a schema, decimals and UUIDs are written that way too.
    fallback: bool,
    depth: usize,
}

/// Writes a zigzag varint.
#[allow(clippy::cast_sign_loss)]
pub(super) fn put_long(out: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn whose(schema: &Schema) -> String {
    format!("the Avro schema '{}'", schema.title())
}

impl Encoder<'_> {
    fn long(&mut self, number: i64) {
        put_long(&mut self.out, number);
    }

    fn size(&mut self, size: usize) {
        self.long(i64::try_from(size).unwrap_or(i64::MAX));
    }

    fn sized(&mut self, bytes: &[u8]) {
        self.size(bytes.len());
        self.out.extend_from_slice(bytes);
    }

    fn put(&mut self, node: NodeId, datum: &Datum) -> Put {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Misfit::new("it is nested too deeply").hint("does it contain itself?"));
        }
        let done = match datum {
            Datum::Json(text) => {
                let value = tree(text)?;
                let before = std::mem::replace(&mut self.json, true);
                let done = self.value(node, &value);
                self.json = before;
                done
            }
            Datum::Opaque(_) if ChangedRecord::of(datum).is_some() => self.changed(node, datum),
            Datum::Opaque(object)
                if AvroValue::of(datum).is_none() && Fields::of(datum).is_none() =>
            {
                match object.parts()? {
                    // The parts may contain a view with changes.
                    Some(parts) => self.put(node, &parts),
                    None => self.put(node, &Datum::Json(object.to_json()?)),
                }
            }
            _ => self.value(node, datum),
        };
        self.depth -= 1;
        done
    }

    fn value(&mut self, node: NodeId, datum: &Datum) -> Put {
        let Some(value) = AvroValue::of(datum) else {
            return match self.schema.node(node) {
                Node::Union(branches) => self.union(node, branches, datum),
                _ => self.plain(node, datum),
            };
        };
        if value.schema().is(self.schema) && value.node() == node {
            self.out.extend_from_slice(value.bytes());
            return Ok(());
        }
        // Bytes inside it are real bytes, even if it is part of a JSON value.
        let before = std::mem::replace(&mut self.json, false);
        let done = match self.schema.node(node) {
            // The branch that it was read with may be the better choice.
            Node::Union(branches) if value.has_parts() => self.union(node, branches, datum),
            _ => value
                .split()
                .map_err(Misfit::from)
                .and_then(|parts| self.value(node, &parts)),
        };
        self.json = before;
        done
    }

    /// A changed record of this schema: copies the fields that were not changed.
    fn changed(&mut self, node: NodeId, datum: &Datum) -> Put {
        let Some(ChangedRecord { record, changes }) = ChangedRecord::of(datum) else {
            return Ok(());
        };
        let of = record.node();
        let is_same = record.schema().is(self.schema);
        let (Node::Record(fields), true) = (self.schema.node(of), is_same) else {
            return self.changed_elsewhere(node, datum);
        };
        match self.schema.node(node) {
            Node::Union(branches) => match branches.iter().position(|branch| *branch == of) {
                Some(at) => self.size(at),
                None => return self.changed_elsewhere(node, datum),
            },
            _ if node == of => {}
            _ => return self.changed_elsewhere(node, datum),
        }
        Self::known(fields, &changes.0)?;
        let mut cursor = Cursor::new(record.bytes());
        let mut copied = 0;
        for field in fields.all() {
            let Some((_, value)) = changes.last(field.name.as_str()) else {
                cursor.skip(self.schema, field.node, 0)?;
                continue;
            };
            self.out
                .extend_from_slice(&record.bytes()[copied..cursor.at]);
            cursor.skip(self.schema, field.node, 0)?;
            copied = cursor.at;
            let step = || format!(".{}", field.name.as_str());
            self.put(field.node, &value).map_err(|m| m.within(step))?;
        }
        self.out.extend_from_slice(&record.bytes()[copied..]);
        Ok(())
    }

    fn changed_elsewhere(&mut self, node: NodeId, datum: &Datum) -> Put {
        match ChangedRecord::of(datum) {
            Some(changed) => self.value(node, &changed.members()?.datum()),
            None => Ok(()),
        }
    }

    fn plain(&mut self, node: NodeId, datum: &Datum) -> Put {
        match (self.schema.node(node), datum) {
            (Node::Null, Datum::Null) => {}
            (Node::Boolean, Datum::Bool(truth)) => self.out.push(u8::from(*truth)),
            (Node::Int, Datum::Int(number)) => {
                if i32::try_from(*number).is_err() {
                    return Err(Misfit::new(format!("{number} does not fit into an int"))
                        .hint("use a long in the schema for numbers beyond 2147483647"));
                }
                self.long(*number);
            }
            (Node::Long, Datum::Int(number)) => self.long(*number),
            #[allow(clippy::cast_precision_loss)] // as wherever integers become doubles
            (Node::Double, Datum::Int(number)) => {
                self.out.extend_from_slice(&(*number as f64).to_le_bytes());
            }
            (Node::Double, Datum::Float(number)) => {
                self.out.extend_from_slice(&number.to_le_bytes());
            }
            #[allow(clippy::cast_precision_loss)]
            (Node::Float, Datum::Int(number)) => {
                self.out.extend_from_slice(&(*number as f32).to_le_bytes());
            }
            #[allow(clippy::cast_possible_truncation)] // the schema says float
            (Node::Float, Datum::Float(number)) => {
                let short = *number as f32;
                if short.is_infinite() && number.is_finite() {
                    return Err(Misfit::new(format!("{number} does not fit into a float"))
                        .hint("use a double in the schema"));
                }
                self.out.extend_from_slice(&short.to_le_bytes());
            }
            (Node::String, Datum::Str(text)) => self.sized(text.as_bytes()),
            (Node::Enum(symbols), Datum::Str(text)) => {
                let Some(at) = symbols.iter().position(|symbol| symbol == text) else {
                    let near = near(text.as_str(), symbols.iter().map(Text::as_str));
                    return Err(Misfit::new(format!(
                        "the enum has no '{}', {near}",
                        text.as_str()
                    )));
                };
                self.size(at);
            }
            (Node::Bytes, Datum::Bytes(bytes)) => self.sized(bytes),
            (Node::Fixed(size), Datum::Bytes(bytes)) => self.fixed(*size, bytes)?,
            (Node::Bytes, Datum::Str(text)) if self.json => self.sized(&unlatin(text)?),
            (Node::Fixed(size), Datum::Str(text)) if self.json => {
                self.fixed(*size, &unlatin(text)?)?;
            }
            (Node::Uuid, Datum::Str(text)) if self.fallback => self.fixed(16, &unlatin(text)?)?,
            (Node::Decimal { size, .. }, Datum::Str(text)) if self.fallback => {
                let bytes = unlatin(text)?;
                match size {
                    Some(size) => self.fixed(*size, &bytes)?,
                    None => self.sized(&bytes),
                }
            }
            (Node::Uuid, Datum::Bytes(bytes)) => self.fixed(16, bytes)?,
            (Node::Uuid, Datum::Str(text)) => match decimal::uuid_bytes(text.as_str()) {
                Some(bytes) => self.out.extend_from_slice(&bytes),
                None => return Err(Misfit::new(format!("{:?} is no UUID", text.as_str()))),
            },
            (Node::Decimal { .. }, Datum::Str(text)) => self.decimal(node, text.as_str())?,
            (Node::Decimal { .. }, Datum::Int(number)) => {
                self.decimal(node, &number.to_string())?
            }
            (Node::Decimal { .. }, Datum::Float(number)) => {
                return Err(Misfit::new(format!("the float {number} is no exact decimal"))
                    .hint("give a decimal as text (\"12.50\"), as decimal.Decimal or as a whole number"));
            }
            (Node::Array(of), Datum::List(items)) => self.array(*of, items)?,
            (Node::Map(of), Datum::Opaque(_)) => {
                let Some(Fields(members)) = Fields::of(datum) else {
                    return Err(self.other(node, datum));
                };
                self.map(*of, members)?;
            }
            (Node::Record(_), Datum::Opaque(_)) => match Fields::of(datum) {
                Some(Fields(members)) => self.record(node, members)?,
                None => return Err(self.other(node, datum)),
            },
            (_, datum) => return Err(self.other(node, datum)),
        }
        Ok(())
    }

    fn array(&mut self, of: NodeId, items: &[Datum]) -> Put {
        if !items.is_empty() {
            self.size(items.len());
            for (at, item) in items.iter().enumerate() {
                self.put(of, item)
                    .map_err(|m| m.within(|| format!("[{at}]")))?;
            }
        }
        self.out.push(0);
        Ok(())
    }

    fn map(&mut self, of: NodeId, members: &[(Text, Datum)]) -> Put {
        if !members.is_empty() {
            self.size(members.len());
            for (name, value) in members {
                self.sized(name.as_bytes());
                let step = || format!("[{:?}]", name.as_str());
                self.put(of, value).map_err(|m| m.within(step))?;
            }
        }
        self.out.push(0);
        Ok(())
    }

    fn record(&mut self, node: NodeId, members: &[(Text, Datum)]) -> Put {
        let schema = self.schema;
        let Node::Record(fields) = schema.node(node) else {
            return Ok(());
        };
        Self::known(fields, members)?;
        for (at, field) in fields.all().iter().enumerate() {
            // Most values list their fields in the order of the schema.
            let given = match members.get(at) {
                Some((name, value)) if *name == field.name => Some(value),
                _ => members
                    .iter()
                    .find(|(name, _)| *name == field.name)
                    .map(|(_, value)| value),
            };
            match (given, &field.default) {
                (Some(value), _) => {
                    let step = || format!(".{}", field.name.as_str());
                    self.put(field.node, value).map_err(|m| m.within(step))?;
                }
                (None, Some(default)) => self.out.extend_from_slice(default),
                (None, None) => {
                    let name = field.name.as_str();
                    return Err(Misfit::new(format!("the field '{name}' is missing")).hint(
                        format!("give the field '{name}', or a default for it in the schema"),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Refuses fields that the schema doesn't have: nothing is dropped silently.
    fn known(fields: &schema::RecordFields, members: &[(Text, Datum)]) -> Put {
        for (name, _) in members {
            if fields.place(name.as_str()).is_none() {
                let (name, near) = (name.as_str(), fields.meant(name.as_str()));
                return Err(Misfit::new(format!("{} has no field '{name}', {near}", fields.name))
                    .hint("give only fields that the schema has: build the value with sf.obj(...), or leave the field out with .without_fields(...)"));
            }
        }
        Ok(())
    }

    fn union(&mut self, node: NodeId, branches: &[NodeId], datum: &Datum) -> Put {
        let mut ranked: Vec<(u8, usize)> = (0..)
            .zip(branches)
            .filter_map(|(at, branch)| Some((self.rank(*branch, datum)?, at)))
            .collect();
        ranked.sort_unstable();
        let mut first = None;
        let (began, depth) = (self.out.len(), self.depth);
        for (_, at) in ranked {
            self.size(at);
            match self.put(branches[at], datum) {
                Ok(()) => return Ok(()),
                Err(misfit) => {
                    self.out.truncate(began);
                    self.depth = depth;
                    first.get_or_insert(misfit);
                }
            }
        }
        Err(first.unwrap_or_else(|| self.other(node, datum)))
    }

    /// How well a value fits a branch (0 is best); `None` if it doesn't fit.
    fn rank(&self, branch: NodeId, datum: &Datum) -> Option<u8> {
        if let Some(value) = AvroValue::of(datum) {
            if value.schema().is(self.schema) && value.node() == branch {
                return Some(0);
            }
            let is_object = value.is_object().ok()?;
            return match self.schema.node(branch) {
                Node::Record(_) if is_object => Some(1),
                Node::Map(_) if is_object => Some(2),
                Node::Array(_) if !is_object => Some(1),
                _ => None,
            };
        }
        let has_members = Fields::of(datum).is_some();
        Some(match (self.schema.node(branch), datum) {
            (Node::Null, Datum::Null) | (Node::Boolean, Datum::Bool(_)) => 0,
            (Node::Int, Datum::Int(number)) if i32::try_from(*number).is_ok() => 0,
            (Node::Long, Datum::Int(_)) => 1,
            (Node::Decimal { .. }, Datum::Int(_)) => 2,
            (Node::Double, Datum::Int(_)) => 3,
            (Node::Float, Datum::Int(_)) => 4,
            (Node::Double, Datum::Float(_)) => 0,
            (Node::Float, Datum::Float(_)) => 1,
            (Node::Enum(symbols), Datum::Str(text)) if symbols.contains(text) => 0,
            (Node::String, Datum::Str(_)) => 1,
            (Node::Enum(_) | Node::Uuid | Node::Decimal { .. }, Datum::Str(_)) => 2,
            (Node::Bytes | Node::Fixed(_), Datum::Str(_)) if self.json => 3,
            (Node::Fixed(size), Datum::Bytes(bytes)) if *size == bytes.len() => 0,
            (Node::Bytes, Datum::Bytes(_)) => 1,
            (Node::Uuid, Datum::Bytes(bytes)) if bytes.len() == 16 => 2,
            (Node::Array(_), Datum::List(_)) => 0,
            (Node::Record(_), _) if has_members => 0,
            (Node::Map(_), _) if has_members => 1,
            _ => return None,
        })
    }

    fn fixed(&mut self, size: usize, bytes: &[u8]) -> Put {
        if bytes.len() != size {
            return Err(Misfit::new(format!(
                "{} bytes were given, {size} are wanted",
                bytes.len()
            )));
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn decimal(&mut self, node: NodeId, text: &str) -> Put {
        let Node::Decimal {
            precision,
            scale,
            size,
        } = self.schema.node(node)
        else {
            return Ok(());
        };
        let bytes = decimal::bytes(text, *precision, *scale).map_err(Misfit::new)?;
        match size {
            Some(size) => {
                let bytes = decimal::sized(bytes, *size).map_err(Misfit::new)?;
                self.out.extend_from_slice(&bytes);
            }
            None => self.sized(&bytes),
        }
        Ok(())
    }

    #[cold]
    fn other(&self, node: NodeId, datum: &Datum) -> Misfit {
        let misfit = Misfit::wanted(&self.schema.word(node), datum);
        match (self.schema.node(node), datum) {
            (Node::Int | Node::Long, Datum::Str(text))
                if self.json && large(text.as_str()).is_some() =>
            {
                Misfit::new(format!(
                    "{} is wanted, but the whole number {} is longer than 64 bits",
                    self.schema.word(node),
                    text.as_str()
                ))
                .hint("give a decimal as decimal.Decimal or as text")
            }
            (Node::Int | Node::Long, Datum::Float(_)) => misfit.hint(AS_INT),
            (Node::String, Datum::Int(_) | Datum::Float(_) | Datum::Bool(_)) => {
                misfit.hint(AS_TEXT)
            }
            (Node::Bytes | Node::Fixed(_), Datum::Str(_)) => misfit.hint("give bytes"),
            _ => misfit,
        }
    }
}

fn unlatin(text: &Text) -> std::result::Result<Vec<u8>, Misfit> {
    bytes_of(text.as_str()).ok_or_else(|| {
        Misfit::new("the text holds characters that stand for no byte").hint("give bytes")
    })
}
