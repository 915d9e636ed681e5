//! Encodes values by a message type.
//!
//! Takes a datum of any origin, returns bytes: a value that was read with the same type is copied,
//! including fields that the type doesn't know; everything else is written field by field, by number. A
//! field that is null or missing is not written, and neither is the default of a field without presence
//! (proto3). A member that the message doesn't have is an error, because nothing is dropped silently.
//! Never rounds, and never turns a number into text or text into a number.

mod scalars;

use super::scalar::Scalar;
use super::scan::{self, Cursor, MAX_DEPTH};
use super::schema::{Field, List, Map, Message, Node, NodeId, Schema};
use super::serialized::Serialized;
use super::value::{ChangedMessage, ProtobufValue};
use crate::json::large;
use crate::misfit::{Misfit, Put};
use crate::tree::tree;
use std::borrow::Cow;
use stoatflow_core::{Datum, Fields, Open, Result, Text};

/// Appends the bytes of a datum to `out`.
pub(super) fn encode(schema: &Schema, datum: &Datum, out: Vec<u8>) -> Result<Vec<u8>> {
    let mut encoder = Encoder {
        schema,
        out,
        json: false,
        depth: 0,
    };
    match encoder.body(schema.root(), datum) {
        Ok(()) => Ok(encoder.out),
        Err(misfit) => Err(misfit.error(&format!("the Protobuf message '{}'", schema.title()))),
    }
}

struct Encoder<'a> {
    schema: &'a Schema,
    out: Vec<u8>,
    /// Within JSON text, bytes are written as text with one character per byte.
    json: bool,
    depth: usize,
}

/// Wire types: the low bits of a tag.
const SIZED: u8 = 2;
const GROUP: u8 = 3;
const GROUP_END: u8 = 4;

impl<'s> Encoder<'s> {
    fn varint(&mut self, mut rest: u64) {
        while rest >= 0x80 {
            self.out.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        self.out.push(rest as u8);
    }

    fn tag(&mut self, number: u32, wire: u8) {
        self.varint(u64::from(number) << 3 | u64::from(wire));
    }

    /// Writes the output of `write`, prefixed with its length.
    fn sized(&mut self, write: impl FnOnce(&mut Self) -> Put) -> Put {
        let began = self.out.len();
        // Most lengths are short: reserve one byte.
        self.out.push(0);
        write(self)?;
        let size = self.out.len() - began - 1;
        if size < 0x80 {
            self.out[began] = size as u8;
            return Ok(());
        }
        let end = self.out.len();
        self.varint(size as u64);
        let length: Vec<u8> = self.out.drain(end..).collect();
        self.out.splice(began..=began, length);
        Ok(())
    }

    /// Passes the resolved datum to `write`: JSON and foreign objects as their parts.
    fn opened<T>(
        &mut self,
        datum: &Datum,
        write: impl FnOnce(&mut Self, &Datum) -> Put<T>,
    ) -> Put<T> {
        let mut json = self.json;
        let parts = resolved(datum, &mut json)?;
        let before = std::mem::replace(&mut self.json, json);
        let done = write(self, &parts);
        self.json = before;
        done
    }

    /// A message or a wrapper, without its length.
    fn body(&mut self, node: NodeId, datum: &Datum) -> Put {
        self.depth += 1;
        if self.depth > MAX_DEPTH + 1 {
            return Err(Misfit::new("it is nested too deeply").hint("does it contain itself?"));
        }
        let schema = self.schema;
        self.opened(datum, |me, datum| match schema.node(node) {
            Node::Message(message) => me.message(node, message, datum),
            Node::Wrapper { of, .. } => {
                let began = me.out.len();
                me.tag(1, of.wire());
                if me.scalar(*of, datum)? {
                    me.out.truncate(began);
                }
                Ok(())
            }
            _ => Err(me.other(node, datum)),
        })?;
        self.depth -= 1;
        Ok(())
    }

    fn message(&mut self, node: NodeId, message: &'s Message, datum: &Datum) -> Put {
        if let Some(value) = ProtobufValue::of(datum) {
            if self.schema.same(node, value.schema(), value.node()) {
                self.out.extend_from_slice(value.bytes());
                return Ok(());
            }
            // Bytes inside it are real bytes, even if it is part of a JSON value.
            let before = std::mem::replace(&mut self.json, false);
            let parts = Open::parts(value)?;
            self.members(node, message, &parts)?;
            self.json = before;
            return Ok(());
        }
        if let Some(changed) = ChangedMessage::of(datum) {
            let value = &changed.message;
            if self.schema.same(node, value.schema(), value.node()) {
                return self.changed(message, changed);
            }
            return self.members(node, message, &changed.members()?.datum());
        }
        if let Some(of_class) = Serialized::of(datum) {
            if of_class.name != message.name {
                return Err(Misfit::new(format!(
                    "a message of the type {} is wanted, but this is one of the type {}",
                    message.name, of_class.name
                ))
                .hint("make an object of the class that the sink or the store was given"));
            }
            scan::check(self.schema, node, &of_class.bytes)?;
            self.out.extend_from_slice(&of_class.bytes);
            return Ok(());
        }
        self.members(node, message, datum)
    }

    fn members(&mut self, node: NodeId, message: &'s Message, datum: &Datum) -> Put {
        let Some(Fields(members)) = Fields::of(datum) else {
            return Err(self.other(node, datum));
        };
        Self::known(message, members)?;
        for (at, field) in message.fields.iter().enumerate() {
            // Most values list their fields in the order of their numbers.
            let given = match members.get(at) {
                Some((name, value)) if *name == field.name => Some(value),
                _ => members
                    .iter()
                    .find(|(name, _)| *name == field.name)
                    .map(|(_, value)| value),
            };
            self.member(field, given.unwrap_or(&Datum::Null))?;
        }
        Ok(())
    }

    /// Refuses members that the message doesn't have, and those that exclude each other; returns the
    /// oneofs that are set.
    fn known(message: &Message, members: &[(Text, Datum)]) -> Put<Vec<bool>> {
        let mut chosen: Vec<Option<&str>> = vec![None; message.oneofs.len()];
        for (name, value) in members {
            let name = name.as_str();
            let Some(field) = message.get(name) else {
                let near = message.meant(name);
                return Err(Misfit::new(format!("{} has no field '{name}', {near}", message.name))
                    .hint("give only fields that the message has: build the value with sf.obj(...), or leave the field out with .without_fields(...)"));
            };
            if let (Some(oneof), false) = (field.oneof, value.is_null())
                && let Some(other) = chosen[oneof as usize].replace(name)
                && other != name
            {
                return Err(Misfit::new(format!(
                    "'{other}' and '{name}' exclude each other (oneof {})",
                    message.oneofs[oneof as usize]
                ))
                .hint("give one of them, and None for the others"));
            }
        }
        Ok(chosen.iter().map(Option::is_some).collect())
    }

    /// A message of this type with some changed fields: copies the other fields as they were read.
    fn changed(&mut self, message: &'s Message, changed: &ChangedMessage) -> Put {
        let Fields(changes) = &changed.changes;
        let is_set = Self::known(message, changes)?;
        let mut waiting: Vec<(&Field, &Datum)> = changes
            .iter()
            .filter_map(|(name, value)| Some((message.get(name.as_str())?, value)))
            .collect();
        waiting.sort_by_key(|(field, _)| field.number);
        let mut waiting = waiting.into_iter().peekable();
        let value = &changed.message;
        let fault = |fault| value.schema().fault(&fault, value.bytes().len());
        let mut cursor = Cursor::new(value.bytes());
        while let Some(piece) = cursor.piece().map_err(fault)? {
            while let Some((field, value)) = waiting.next_if(|(f, _)| f.number < piece.number) {
                self.member(field, value)?;
            }
            let field = message.numbered(piece.number).map(|at| &message.fields[at]);
            let is_replaced = field.is_some_and(|field| {
                changes.iter().any(|(name, _)| *name == field.name)
                    || field.oneof.is_some_and(|oneof| is_set[oneof as usize])
            });
            if !is_replaced {
                let copied = &value.bytes()[piece.began..piece.ended];
                self.out.extend_from_slice(copied);
            }
        }
        waiting.try_for_each(|(field, value)| self.member(field, value))
    }

    /// Writes a field, if it isn't null.
    fn member(&mut self, field: &Field, value: &Datum) -> Put {
        let name = field.name.as_str();
        if !value.is_null() && !is_null(value) {
            return self
                .field(field, value)
                .map_err(|m| m.within(|| format!(".{name}")));
        }
        if field.required {
            return Err(Misfit::new(format!("the field '{name}' is missing"))
                .hint(format!("give the field '{name}', which is required")));
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, datum: &Datum) -> Put {
        let schema = self.schema;
        match schema.node(field.node) {
            Node::List(list) => self.opened(datum, |me, datum| me.list(field.node, list, datum)),
            Node::Map(map) => self.opened(datum, |me, datum| me.map(field.node, map, datum)),
            _ => {
                let began = self.out.len();
                let is_zero = self.tagged(field.number, field.node, field.group, datum)?;
                if is_zero && !field.presence {
                    self.out.truncate(began);
                }
                Ok(())
            }
        }
    }

    /// Writes a tag and its value; returns whether the value is the type's default.
    fn tagged(&mut self, number: u32, node: NodeId, group: bool, datum: &Datum) -> Put<bool> {
        if let Some(wire) = self.schema.node(node).wire() {
            self.tag(number, wire);
            return self.single(node, datum);
        }
        if group {
            self.tag(number, GROUP);
            self.body(node, datum)?;
            self.tag(number, GROUP_END);
        } else {
            self.tag(number, SIZED);
            self.sized(|me| me.body(node, datum))?;
        }
        Ok(false)
    }

    /// Writes a value without parts; returns whether it is zero.
    fn single(&mut self, node: NodeId, datum: &Datum) -> Put<bool> {
        let schema = self.schema;
        self.opened(datum, |me, datum| match schema.node(node) {
            Node::Scalar(scalar) => me.scalar(*scalar, datum),
            Node::Enum(of) => me.word(of, datum),
            _ => Err(me.other(node, datum)),
        })
    }

    fn list(&mut self, node: NodeId, list: &List, datum: &Datum) -> Put {
        if let Some(value) = ProtobufValue::of(datum) {
            if self.schema.same(node, value.schema(), value.node()) {
                return self.copied(list.number, value);
            }
            if let Some(elements) = value.elements()? {
                return self.items(list, &elements);
            }
        }
        match datum {
            Datum::List(items) => self.items(list, items),
            _ => Err(self.other(node, datum)),
        }
    }

    /// Copies the pieces of this field only: others may lie between them.
    fn copied(&mut self, number: u32, value: &ProtobufValue) -> Put {
        let fault = |fault| value.schema().fault(&fault, value.bytes().len());
        let mut cursor = Cursor::new(value.bytes());
        while let Some(piece) = cursor.piece().map_err(fault)? {
            if piece.number == number {
                let copied = &value.bytes()[piece.began..piece.ended];
                self.out.extend_from_slice(copied);
            }
        }
        Ok(())
    }

    fn items(&mut self, list: &List, items: &[Datum]) -> Put {
        let within = |at: usize| move |m: Misfit| m.within(|| format!("[{at}]"));
        let items = items.iter().enumerate();
        if list.packed {
            if items.len() == 0 {
                return Ok(());
            }
            self.tag(list.number, SIZED);
            return self.sized(|me| {
                for (at, item) in items {
                    me.single(list.of, item).map_err(within(at))?;
                }
                Ok(())
            });
        }
        for (at, item) in items {
            self.tagged(list.number, list.of, list.group, item)
                .map_err(within(at))?;
        }
        Ok(())
    }

    fn map(&mut self, node: NodeId, map: &Map, datum: &Datum) -> Put {
        let parts = match ProtobufValue::of(datum) {
            Some(value) if self.schema.same(node, value.schema(), value.node()) => {
                return self.copied(map.number, value);
            }
            Some(value) => Cow::Owned(Open::parts(value)?),
            None => Cow::Borrowed(datum),
        };
        let Some(Fields(members)) = Fields::of(&parts) else {
            return Err(self.other(node, datum));
        };
        // An entry is a message too.
        self.depth += 1;
        for (name, value) in members {
            let step = || format!("[{:?}]", name.as_str());
            self.tag(map.number, SIZED);
            self.sized(|me| {
                me.tag(1, map.key.wire());
                me.key(map.key, name)?;
                me.tagged(2, map.of, false, value).map(drop)
            })
            .map_err(|m| m.within(step))?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn key(&mut self, key: Scalar, name: &Text) -> Put {
        let datum = match key {
            Scalar::String { .. } => Some(Datum::Str(name.clone())),
            Scalar::Bool => name.as_str().parse().ok().map(Datum::Bool),
            _ => match name.as_str().parse::<i64>() {
                Ok(number) => Some(Datum::Int(number)),
                Err(_) => large(name.as_str()).map(|n| Datum::Json(n.to_string().into())),
            },
        };
        let Some(datum) = datum else {
            return Err(Misfit::new(format!(
                "the key {:?} is no {}",
                name.as_str(),
                key.word()
            )));
        };
        self.opened(&datum, |me, datum| me.scalar(key, datum))
            .map(drop)
    }

    #[cold]
    fn other(&self, node: NodeId, datum: &Datum) -> Misfit {
        Misfit::wanted(&self.schema.word(node), datum)
    }
}

/// Resolves a datum: JSON and foreign objects become their parts; `json` is set if they were JSON text.
fn resolved<'d>(datum: &'d Datum, json: &mut bool) -> Put<Cow<'d, Datum>> {
    match datum {
        Datum::Json(text) => {
            *json = true;
            Ok(Cow::Owned(tree(text)?))
        }
        Datum::Opaque(object) if !is_known(datum) => {
            let parts = match object.parts()? {
                Some(parts) => parts,
                None => Datum::Json(object.to_json()?),
            };
            // The parts may contain a view with changes.
            resolved(&parts, json).map(|parts| Cow::Owned(parts.into_owned()))
        }
        _ => Ok(Cow::Borrowed(datum)),
    }
}

/// Whether the encoder handles this type of object itself.
fn is_known(datum: &Datum) -> bool {
    ProtobufValue::of(datum).is_some()
        || ChangedMessage::of(datum).is_some()
        || Fields::of(datum).is_some()
        || Serialized::of(datum).is_some()
}

/// Whether it is JSON's null, which a function may have put into an object.
fn is_null(datum: &Datum) -> bool {
    matches!(datum, Datum::Json(text) if text.trim_ascii() == b"null")
}
