//! Positions in an Avro schema: several types may be possible at one position.

use super::{Field, Record, Shape, Typed, lacks};
use crate::expression::kinds::Kinds;
use std::sync::Arc;
use stoatflow_formats::avro::{Node, NodeId, Schema};

/// The types that are possible here, besides null.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    schema: Arc<Schema>,
    nodes: Vec<NodeId>,
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.schema.is(&other.schema) && self.nodes == other.nodes
    }
}

impl Place {
    pub fn whole(schema: &Arc<Schema>) -> Self {
        Self::of(schema, [schema.root()])
    }

    fn of(schema: &Arc<Schema>, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let mut found = Vec::new();
        for node in nodes {
            branches(schema, node, &mut found);
        }
        Self {
            schema: Arc::clone(schema),
            nodes: found,
        }
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().map(|id| self.schema.node(*id))
    }

    pub fn word(&self) -> String {
        let words: Vec<String> = self.nodes.iter().map(|id| self.schema.word(*id)).collect();
        if words.is_empty() {
            return "null".into();
        }
        words.join(" or ")
    }

    pub fn kinds(&self) -> Kinds {
        self.nodes().map(kinds).fold(Kinds::NULL, Kinds::or)
    }

    pub fn takes(&self, within: bool) -> Kinds {
        let each = self.nodes().map(|node| match node {
            Node::Float | Node::Double => Kinds::INT.or(Kinds::FLOAT),
            Node::Bytes | Node::Fixed(_) if within => Kinds::BYTES.or(Kinds::STR),
            Node::Uuid => Kinds::STR.or(Kinds::BYTES),
            Node::Decimal { .. } => Kinds::STR.or(Kinds::INT),
            node => kinds(node),
        });
        each.fold(Kinds::NULL, Kinds::or)
    }

    pub fn member(&self, name: &str) -> Result<Self, String> {
        let (mut found, mut without) = (Vec::new(), None);
        for node in self.nodes() {
            match node {
                Node::Map(of) => found.push(*of),
                Node::Record(fields) => match fields.get(name) {
                    Some(field) => found.push(field.node),
                    None => without = without.or(Some(fields)),
                },
                _ => {}
            }
        }
        match without {
            Some(fields) if found.is_empty() => {
                let title = format!("the Avro record '{}'", fields.name);
                let names = fields.all().iter().map(|field| field.name.as_str());
                Err(lacks(&title, name, names))
            }
            _ => Ok(Self::of(&self.schema, found)),
        }
    }

    pub fn element(&self) -> Self {
        let of = self.nodes().filter_map(|node| match node {
            Node::Array(of) => Some(*of),
            _ => None,
        });
        Self::of(&self.schema, of)
    }

    pub fn shape(&self) -> Shape {
        let mut objects = self
            .nodes()
            .filter(|node| matches!(node, Node::Record(_) | Node::Map(_)));
        match (objects.next(), objects.next()) {
            (Some(Node::Record(fields)), None) => {
                let each = fields.all().iter().map(|field| Field {
                    name: field.name.as_str().to_owned(),
                    of: Typed::Avro(Self::of(&self.schema, [field.node])),
                    needed: field.default.is_none().then_some("which has no default"),
                });
                Shape::Record(Record {
                    title: format!("the Avro record '{}'", fields.name),
                    fields: each.collect(),
                })
            }
            (Some(Node::Map(of)), None) => Shape::Map(Typed::Avro(Self::of(&self.schema, [*of]))),
            (Some(_), _) => Shape::Several,
            (None, _) => Shape::Other,
        }
    }

    pub fn words(&self) -> Option<Vec<&str>> {
        let mut words = Vec::new();
        for node in self.nodes() {
            let Node::Enum(symbols) = node else {
                return None;
            };
            words.extend(symbols.iter().map(|symbol| symbol.as_str()));
        }
        (!words.is_empty()).then_some(words)
    }
}

fn branches(schema: &Schema, node: NodeId, found: &mut Vec<NodeId>) {
    match schema.node(node) {
        Node::Null => {}
        Node::Union(of) => of.iter().for_each(|node| branches(schema, *node, found)),
        _ if found.contains(&node) => {}
        _ => found.push(node),
    }
}

fn kinds(node: &Node) -> Kinds {
    match node {
        Node::Null | Node::Union(_) => Kinds::NULL,
        Node::Boolean => Kinds::BOOL,
        Node::Int | Node::Long => Kinds::INT,
        Node::Float | Node::Double => Kinds::FLOAT,
        Node::Bytes | Node::Fixed(_) => Kinds::BYTES,
        Node::String | Node::Enum(_) | Node::Uuid | Node::Decimal { .. } => Kinds::STR,
        Node::Array(_) => Kinds::LIST,
        Node::Map(_) | Node::Record(_) => Kinds::OBJECT,
    }
}
