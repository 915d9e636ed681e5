//! Compiles descriptors into nodes.
//!
//! Takes a `FileDescriptorSet`, returns the nodes that a message needs. Recursive types end here: a node
//! gets its index before its parts are compiled.

use super::scalar::{Scalar, whole};
use super::schema::{Default, Enum, Field, List, Map, Message, Node, NodeId};
use crate::make::Leaf;
use crate::near::near;
use bytes::Bytes;
use indexmap::IndexSet;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::FileDescriptorSet;
use prost_reflect::{
    DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, Syntax, Value,
};
use std::collections::HashMap;
use std::fmt::Write;
use stoatflow_core::{Error, Result, Text};
use xxhash_rust::xxh3::xxh3_128;

/// The parts of a schema.
pub(super) struct Compiled {
    pub nodes: Vec<Node>,
    pub root: NodeId,
    pub indexes: Vec<i32>,
    pub has_required: bool,
}

/// See the module.
pub(super) fn compile(descriptors: &[u8], message: &str) -> Result<Compiled> {
    let pool = pool(descriptors)?;
    let found = find(&pool, message)?;
    let mut compiler = Compiler::default();
    let root = compiler.message(&found)?;
    compiler.forms();
    // A descriptor path alternates the field number (message or nested message) and the index; only the
    // indexes are kept.
    let indexes = found.path().iter().skip(1).step_by(2).copied().collect();
    Ok(Compiled {
        nodes: compiler.nodes,
        root,
        indexes,
        has_required: compiler.has_required,
    })
}

/// The hint for a file that uses an edition.
pub(super) const EDITIONS: &str = "proto2 and proto3 can be read, editions can't yet: begin the file with syntax = \"proto3\"; (fields of edition 2023 that are not repeated are `optional` ones there)";

/// The pool of the files in a `FileDescriptorSet`.
pub(super) fn pool(descriptors: &[u8]) -> Result<DescriptorPool> {
    let none = |e: &dyn std::fmt::Display| {
        Error::topology(format!("these are no descriptors of Protobuf messages: {e}")).hint("give a serialized FileDescriptorSet with all imports (protoc --include_imports --descriptor_set_out=...)")
    };
    // The pool refuses an unknown syntax too, but panics if the first file has it.
    let set = FileDescriptorSet::decode(descriptors).map_err(|e| none(&e))?;
    let known = |syntax: &str| matches!(syntax, "" | "proto2" | "proto3");
    if let Some(file) = set.file.iter().find(|file| !known(file.syntax())) {
        return Err(Error::topology(format!(
            "the Protobuf file '{}' is written in {}, which can't be read",
            file.name(),
            file.syntax()
        ))
        .hint(EDITIONS));
    }
    DescriptorPool::decode(descriptors).map_err(|e| none(&e))
}

/// A message by its full name.
pub(super) fn find(pool: &DescriptorPool, message: &str) -> Result<MessageDescriptor> {
    pool.get_message_by_name(message)
        .ok_or_else(|| none_such(pool, message))
}

fn none_such(pool: &DescriptorPool, message: &str) -> Error {
    let names: Vec<String> = pool
        .all_messages()
        .filter(|m| !m.is_map_entry())
        .map(|m| m.full_name().to_owned())
        .collect();
    let own: Vec<&str> = names.iter().map(String::as_str).collect();
    let named = own
        .iter()
        .copied()
        .filter(|name| !name.starts_with("google.protobuf."));
    // A name without its package still means the message.
    let near = match own
        .iter()
        .find(|name| name.rsplit('.').next() == Some(message))
    {
        Some(full) => format!("did you mean '{full}'?"),
        None if named.clone().next().is_none() => "there are none".into(),
        None => near(message, named),
    };
    Error::topology(format!("there is no Protobuf message '{message}', {near}"))
        .hint("write message= with the message's full name: its package, a point, its name")
}

#[derive(std::default::Default)]
struct Compiler {
    nodes: Vec<Node>,
    named: HashMap<String, NodeId>,
    has_required: bool,
}

impl Compiler {
    fn put(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        id
    }

    fn message(&mut self, message: &MessageDescriptor) -> Result<NodeId> {
        let name = message.full_name();
        if let Some(known) = self.named.get(name) {
            return Ok(*known);
        }
        if let Some(of) = wrapped(name) {
            let name = name.to_owned();
            let id = self.put(Node::Wrapper {
                name: name.clone(),
                of,
            });
            self.named.insert(name, id);
            return Ok(id);
        }
        let id = self.put(Node::Scalar(Scalar::Bool)); // reserved
        self.named.insert(name.to_owned(), id);
        let mut described: Vec<FieldDescriptor> = message.fields().collect();
        described.sort_by_key(FieldDescriptor::number);
        let oneofs: Vec<String> = message.oneofs().map(|o| o.name().to_owned()).collect();
        let mut fields = Vec::with_capacity(described.len());
        for field in &described {
            fields.push(self.field(field, &oneofs)?);
        }
        let by_name = (0..).zip(&fields);
        let by_name = by_name.map(|(at, field)| (field.name.as_str().to_owned(), at));
        self.nodes[id.0 as usize] = Node::Message(Message {
            name: name.to_owned(),
            form: 0,
            by_name: by_name.collect(),
            fields,
            oneofs,
        });
        Ok(id)
    }

    fn field(&mut self, field: &FieldDescriptor, oneofs: &[String]) -> Result<Field> {
        let number = field.number();
        let repeated = field.is_list() || field.is_map();
        let node = if field.is_map() {
            let entry = field.kind();
            let entry = entry.as_message().ok_or_else(|| odd(field))?;
            let of = self.value(&entry.map_entry_value_field())?;
            let key = scalar(&entry.map_entry_key_field()).ok_or_else(|| odd(field))?;
            self.put(Node::Map(Map { of, number, key }))
        } else {
            let of = self.value(field)?;
            if field.is_list() {
                self.put(Node::List(List {
                    of,
                    number,
                    packed: field.is_packed(),
                    group: field.is_group(),
                }))
            } else {
                of
            }
        };
        self.has_required |= field.is_required();
        let said = field.field_descriptor_proto().default_value.is_some();
        let default = if repeated || field.supports_presence() && !said {
            Default::Leaf(Leaf::Null)
        } else {
            default_of(field)
        };
        let oneof = field.containing_oneof();
        let oneof = oneof.and_then(|of| oneofs.iter().position(|name| name == of.name()));
        Ok(Field {
            name: Text::from(field.name()),
            node,
            required: field.is_required(),
            number,
            default,
            presence: field.supports_presence(),
            group: field.is_group() && !repeated,
            oneof: oneof.and_then(|at| u32::try_from(at).ok()),
        })
    }

    /// The node of a field's value; of a repeated field, of one element.
    fn value(&mut self, field: &FieldDescriptor) -> Result<NodeId> {
        match field.kind() {
            Kind::Message(message) => self.message(&message),
            Kind::Enum(of) => Ok(self.word(&of)),
            _ => {
                let scalar = scalar(field).ok_or_else(|| odd(field))?;
                Ok(self.put(Node::Scalar(scalar)))
            }
        }
    }

    fn word(&mut self, of: &EnumDescriptor) -> NodeId {
        if let Some(known) = self.named.get(of.full_name()) {
            return *known;
        }
        let mut by_number = HashMap::new();
        let mut values: Vec<_> = of.values().collect();
        // In the order of the file: the first value is the default, and of two names for one number the
        // first one counts.
        values.sort_by_key(|value| value.path().last().copied());
        for value in &values {
            by_number
                .entry(value.number())
                .or_insert_with(|| Text::from(value.name()));
        }
        let by_word = values.iter().map(|v| (v.name().to_owned(), v.number()));
        let node = Node::Enum(Enum {
            name: of.full_name().to_owned(),
            by_number,
            by_word: by_word.collect(),
            words: values.iter().map(|v| Text::from(v.name())).collect(),
        });
        let id = self.put(node);
        self.named.insert(of.full_name().to_owned(), id);
        id
    }

    /// Gives each message the hash of everything reachable from it.
    fn forms(&mut self) {
        let ids = (0..).map(NodeId).take(self.nodes.len());
        let forms: Vec<u128> = ids.map(|id| self.form(id)).collect();
        for (node, of) in self.nodes.iter_mut().zip(forms) {
            if let Node::Message(message) = node {
                message.form = of;
            }
        }
    }

    fn form(&self, root: NodeId) -> u128 {
        let mut text = String::new();
        // Messages are numbered in the order of discovery, so that their names don't count.
        let mut met = IndexSet::from([root]);
        let mut at = 0;
        while let Some(id) = met.get_index(at).copied() {
            at += 1;
            let Node::Message(message) = &self.nodes[id.0 as usize] else {
                continue;
            };
            for field in &message.fields {
                let _always_fits = write!(text, "{} {}", field.number, group(field.group));
                if let Some(within) = self.shape(field.node, &mut text) {
                    let _always_fits = write!(text, " {}", met.insert_full(within).0);
                }
                text.push(';');
            }
            text.push('}');
        }
        xxh3_128(text.as_bytes())
    }

    /// Appends what decides the bytes of a node; returns the message that it contains, whose shape the
    /// caller appends separately.
    fn shape(&self, id: NodeId, text: &mut String) -> Option<NodeId> {
        match &self.nodes[id.0 as usize] {
            Node::Scalar(scalar) => text.push_str(scalar.word()),
            Node::Enum(_) => text.push_str("enum"),
            Node::Wrapper { of, .. } => {
                text.push('?');
                text.push_str(of.word());
            }
            Node::Message(_) => {
                text.push_str("message");
                return Some(id);
            }
            Node::List(list) => {
                text.push_str("list ");
                text.push_str(group(list.group));
                return self.shape(list.of, text);
            }
            Node::Map(map) => {
                let _always_fits = write!(text, "map {} ", map.key.word());
                return self.shape(map.of, text);
            }
        }
        None
    }
}

const fn group(is_one: bool) -> &'static str {
    if is_one { "group " } else { "" }
}

#[cold]
fn odd(field: &FieldDescriptor) -> Error {
    Error::topology(format!(
        "the Protobuf field '{}' has a type that can't be read",
        field.full_name()
    ))
    .hint("give descriptors that protoc has made")
}

/// The type inside one of the wrappers of `google.protobuf`.
fn wrapped(name: &str) -> Option<Scalar> {
    Some(match name.strip_prefix("google.protobuf.")? {
        "DoubleValue" => Scalar::Double,
        "FloatValue" => Scalar::Float,
        "Int64Value" => Scalar::Int64,
        "UInt64Value" => Scalar::Uint64,
        "Int32Value" => Scalar::Int32,
        "UInt32Value" => Scalar::Uint32,
        "BoolValue" => Scalar::Bool,
        "StringValue" => Scalar::String { checked: true },
        "BytesValue" => Scalar::Bytes,
        _ => return None,
    })
}

fn scalar(field: &FieldDescriptor) -> Option<Scalar> {
    Some(match field.kind() {
        Kind::Double => Scalar::Double,
        Kind::Float => Scalar::Float,
        Kind::Int32 => Scalar::Int32,
        Kind::Int64 => Scalar::Int64,
        Kind::Uint32 => Scalar::Uint32,
        Kind::Uint64 => Scalar::Uint64,
        Kind::Sint32 => Scalar::Sint32,
        Kind::Sint64 => Scalar::Sint64,
        Kind::Fixed32 => Scalar::Fixed32,
        Kind::Fixed64 => Scalar::Fixed64,
        Kind::Sfixed32 => Scalar::Sfixed32,
        Kind::Sfixed64 => Scalar::Sfixed64,
        Kind::Bool => Scalar::Bool,
        Kind::String => Scalar::String {
            checked: field.parent_file().syntax() == Syntax::Proto3,
        },
        Kind::Bytes => Scalar::Bytes,
        Kind::Message(_) | Kind::Enum(_) => return None,
    })
}

fn default_of(field: &FieldDescriptor) -> Default {
    Default::Leaf(match field.default_value() {
        Value::Bool(truth) => Leaf::Bool(truth),
        Value::I32(number) => Leaf::Int(i64::from(number)),
        Value::I64(number) => Leaf::Int(number),
        Value::U32(number) => Leaf::Int(i64::from(number)),
        Value::U64(number) => whole(number),
        Value::F32(number) => Leaf::Float(f64::from(number)),
        Value::F64(number) => Leaf::Float(number),
        Value::String(text) => return Default::Text(Text::from(text)),
        Value::Bytes(bytes) => return Default::Bytes(Bytes::copy_from_slice(&bytes)),
        Value::EnumNumber(number) => match field.kind() {
            Kind::Enum(of) => match of.get_value(number) {
                Some(word) => return Default::Text(Text::from(word.name())),
                None => Leaf::Int(i64::from(number)),
            },
            _ => Leaf::Null,
        },
        _ => Leaf::Null,
    })
}
