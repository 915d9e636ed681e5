//! Positions in a Protobuf message: each has one type.

use super::{Field, Record, Shape, Typed, lacks};
use crate::expression::kinds::Kinds;
use std::sync::Arc;
use stoatflow_formats::protobuf::{Message, Node, NodeId, Scalar, Schema};

/// The type at a position; the value may be null.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    schema: Arc<Schema>,
    /// `None`: a member of a value without members, which is reported elsewhere.
    node: Option<NodeId>,
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.schema.is(&other.schema) && self.node == other.node
    }
}

impl Place {
    pub fn whole(schema: &Arc<Schema>) -> Self {
        Self {
            schema: Arc::clone(schema),
            node: Some(schema.root()),
        }
    }

    fn at(&self, node: Option<NodeId>) -> Self {
        Self {
            schema: Arc::clone(&self.schema),
            node,
        }
    }

    fn node(&self) -> Option<&Node> {
        self.node.map(|id| self.schema.node(id))
    }

    pub fn word(&self) -> String {
        self.node
            .map_or_else(|| "null".into(), |id| self.schema.word(id))
    }

    pub fn kinds(&self) -> Kinds {
        match self.node() {
            None => Kinds::NULL,
            Some(Node::Scalar(of) | Node::Wrapper { of, .. }) => scalar(*of),
            // A number without a name stays a number.
            Some(Node::Enum(_)) => Kinds::STR.or(Kinds::INT),
            Some(Node::List(_)) => Kinds::LIST,
            Some(Node::Map(_) | Node::Message(_)) => Kinds::OBJECT,
        }
    }

    pub fn takes(&self, within: bool) -> Kinds {
        match self.node() {
            Some(Node::Scalar(of) | Node::Wrapper { of, .. }) => match of {
                Scalar::Float | Scalar::Double => Kinds::INT.or(Kinds::FLOAT),
                Scalar::Bytes if within => Kinds::BYTES.or(Kinds::STR),
                of => scalar(*of),
            },
            _ => self.kinds(),
        }
    }

    pub fn member(&self, name: &str) -> Result<Self, String> {
        match self.node() {
            Some(Node::Message(message)) => match message.get(name) {
                Some(field) => Ok(self.at(Some(field.node))),
                None => {
                    let names = message.fields().iter().map(|field| field.name.as_str());
                    Err(lacks(&title(message), name, names))
                }
            },
            Some(Node::Map(map)) => Ok(self.at(Some(map.of))),
            _ => Ok(self.at(None)),
        }
    }

    pub fn element(&self) -> Self {
        self.at(match self.node() {
            Some(Node::List(list)) => Some(list.of),
            _ => None,
        })
    }

    pub fn shape(&self) -> Shape {
        match self.node() {
            Some(Node::Message(message)) => {
                let each = message.fields().iter().map(|field| Field {
                    name: field.name.as_str().to_owned(),
                    of: Typed::Protobuf(self.at(Some(field.node))),
                    needed: field.required.then_some("which is required"),
                });
                Shape::Record(Record {
                    title: title(message),
                    fields: each.collect(),
                })
            }
            Some(Node::Map(map)) => Shape::Map(Typed::Protobuf(self.at(Some(map.of)))),
            _ => Shape::Other,
        }
    }

    pub fn words(&self) -> Option<Vec<&str>> {
        match self.node() {
            Some(Node::Enum(of)) => Some(of.words().collect()),
            _ => None,
        }
    }
}

fn title(message: &Message) -> String {
    format!("the Protobuf message '{}'", message.name)
}

const fn scalar(of: Scalar) -> Kinds {
    match of {
        Scalar::Bool => Kinds::BOOL,
        Scalar::Float | Scalar::Double => Kinds::FLOAT,
        Scalar::Bytes => Kinds::BYTES,
        Scalar::String { .. } => Kinds::STR,
        _ => Kinds::INT,
    }
}
