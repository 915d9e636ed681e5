//! A message type in the form that reading needs: nodes in one list, fields by number and by name.
//!
//! Takes descriptors, returns [`Schema`]. Defaults are already decoded. Never reads a value.

use super::compile::compile;
use super::fields::Seen;
use super::scalar::Scalar;
use crate::make::Leaf;
use crate::near::near;
use bytes::Bytes;
use std::borrow::Cow;
use std::collections::HashMap;
use stoatflow_core::{Result, Text};
use xxhash_rust::xxh3::xxh3_128;

/// The index of a node in its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId(pub(super) u32);

/// The type of a value.
#[derive(Debug)]
pub enum Node {
    /// A value without parts.
    Scalar(Scalar),
    /// An enum: names for numbers.
    Enum(Enum),
    /// A message with fields.
    Message(Message),
    /// A wrapper of `google.protobuf`: null, or the wrapped value.
    Wrapper {
        /// Its full name.
        name: String,
        /// The type inside.
        of: Scalar,
    },
    /// A repeated field.
    List(List),
    /// A map.
    Map(Map),
}

/// An enum.
#[derive(Debug)]
pub struct Enum {
    /// Its full name.
    pub name: String,
    pub(super) by_number: HashMap<i32, Text>,
    pub(super) by_word: HashMap<String, i32>,
    /// Names in the order of the file.
    pub(super) words: Vec<Text>,
}

impl Enum {
    /// The names of its values, in order.
    pub fn words(&self) -> impl Iterator<Item = &str> + Clone {
        self.words.iter().map(Text::as_str)
    }
}

/// The elements of a repeated field, which lie among the other fields of their message.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// The type of an element.
    pub of: NodeId,
    pub(super) number: u32,
    pub(super) packed: bool,
    pub(super) group: bool,
}

/// The entries of a map, which lie among the other fields too.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    /// The type of a value.
    pub of: NodeId,
    pub(super) number: u32,
    pub(super) key: Scalar,
}

/// The value of a field that is not written.
#[derive(Debug)]
pub(super) enum Default {
    Leaf(Leaf<'static>),
    Text(Text),
    Bytes(Bytes),
}

impl Default {
    fn leaf(&self) -> Leaf<'_> {
        match self {
            Self::Leaf(leaf) => *leaf,
            Self::Text(text) => Leaf::Text(text.as_str()),
            Self::Bytes(bytes) => Leaf::Bytes(bytes),
        }
    }
}

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: Text,
    /// Its type.
    pub node: NodeId,
    /// Whether it is required (proto2).
    pub required: bool,
    pub(super) number: u32,
    /// Its value where it is not written: null if it has presence.
    pub(super) default: Default,
    /// Whether it has presence: being absent differs from having the default value.
    pub(super) presence: bool,
    pub(super) group: bool,
    /// Fields with the same number exclude each other.
    pub(super) oneof: Option<u32>,
}

impl Field {
    /// Its value where nothing is written for it.
    pub(super) fn absent(&self, schema: &Schema) -> Seen<'_> {
        match schema.node(self.node) {
            Node::List(_) | Node::Map(_) => Seen::Many(self.node, &[]),
            _ => Seen::Leaf(self.default.leaf()),
        }
    }
}

/// The fields of a message.
#[derive(Debug)]
pub struct Message {
    /// Its full name.
    pub name: String,
    /// A hash of everything that affects its bytes and those of its parts: numbers and types.
    pub(super) form: u128,
    /// Sorted by number.
    pub(super) fields: Vec<Field>,
    pub(super) by_name: HashMap<String, usize>,
    /// Names of the oneofs, for messages.
    pub(super) oneofs: Vec<String>,
}

impl Message {
    /// The fields, sorted by number.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The index of a field.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        // For a few fields a linear search is cheaper than a hash.
        if self.fields.len() <= 8 {
            return self.fields.iter().position(|f| f.name.as_str() == name);
        }
        self.by_name.get(name).copied()
    }

    /// A field by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Field> {
        self.place(name).map(|at| &self.fields[at])
    }

    /// The index of the field with a number.
    #[inline]
    pub(super) fn numbered(&self, number: u32) -> Option<usize> {
        // Most messages number their fields from 1 without gaps.
        let near = (number as usize).wrapping_sub(1);
        if self.fields.get(near).is_some_and(|f| f.number == number) {
            return Some(near);
        }
        self.fields.binary_search_by_key(&number, |f| f.number).ok()
    }

    /// A suggestion for a user who mistyped a field's name.
    #[must_use]
    pub fn meant(&self, name: &str) -> String {
        if self.fields.is_empty() {
            return "it has none".into();
        }
        near(name, self.fields.iter().map(|f| f.name.as_str()))
    }
}

/// A message type, ready for reading.
pub struct Schema {
    pub(super) nodes: Vec<Node>,
    pub(super) root: NodeId,
    /// The position of the message in its file.
    pub(super) indexes: Vec<i32>,
    pub(super) has_required: bool,
    fingerprint: u128,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Schema").field(&self.title()).finish()
    }
}

impl Schema {
    /// Reads a `FileDescriptorSet`; `message` is a full name.
    ///
    /// # Errors
    /// `Topology` for bytes that are not such a set, and for a message that isn't in it.
    pub fn parse(descriptors: &[u8], message: &str) -> Result<Self> {
        let compiled = compile(descriptors, message)?;
        let mut identity = xxh3_128(descriptors).to_le_bytes().to_vec();
        identity.extend_from_slice(message.as_bytes());
        Ok(Self {
            nodes: compiled.nodes,
            root: compiled.root,
            indexes: compiled.indexes,
            has_required: compiled.has_required,
            fingerprint: xxh3_128(&identity),
        })
    }

    /// The node at an index.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The type of a whole value.
    #[must_use]
    pub const fn root(&self) -> NodeId {
        self.root
    }

    /// A hash of everything that affects the encoding; names and comments don't.
    #[must_use]
    pub fn form(&self) -> u128 {
        match self.node(self.root) {
            Node::Message(message) => message.form,
            _ => xxh3_128(self.title().as_bytes()),
        }
    }

    /// Whether values, and their position in Confluent's header, are encoded as by another schema.
    #[must_use]
    pub fn writes_as(&self, other: &Self) -> bool {
        self.form() == other.form() && self.indexes == other.indexes
    }

    /// Whether both were parsed from the same descriptors and message name.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.fingerprint == other.fingerprint
    }

    /// Whether the bytes of a node mean the same as those of a node of another schema.
    pub(super) fn same(&self, node: NodeId, other: &Self, of_other: NodeId) -> bool {
        if self.is(other) {
            return node == of_other;
        }
        match (self.node(node), other.node(of_other)) {
            (Node::Message(a), Node::Message(b)) => a.name == b.name && a.form == b.form,
            _ => false,
        }
    }

    /// The value of a node for which nothing is written.
    pub(super) fn empty(&self, node: NodeId) -> Seen<'_> {
        match self.node(node) {
            Node::Scalar(scalar) | Node::Wrapper { of: scalar, .. } => Seen::Leaf(scalar.zero()),
            Node::Enum(of) => Seen::Leaf(
                of.words
                    .first()
                    .map_or(Leaf::Null, |w| Leaf::Text(w.as_str())),
            ),
            Node::Message(_) => Seen::Message(node, Cow::Borrowed(&[])),
            Node::List(_) | Node::Map(_) => Seen::Many(node, &[]),
        }
    }

    /// Its name in messages.
    #[must_use]
    pub fn title(&self) -> String {
        self.word(self.root)
    }

    /// A node's name in messages.
    #[must_use]
    pub fn word(&self, id: NodeId) -> String {
        match self.node(id) {
            Node::Scalar(scalar) => scalar.word().into(),
            Node::Enum(of) => format!("enum {}", of.name),
            Node::Message(of) => of.name.clone(),
            Node::Wrapper { name, .. } => name.clone(),
            Node::List(list) => format!("repeated {}", self.word(list.of)),
            Node::Map(map) => format!("map<{}, {}>", map.key.word(), self.word(map.of)),
        }
    }
}
