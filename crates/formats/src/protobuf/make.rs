//! Converts a whole value for another language. Decodes everything, once.

use super::fields::{self, Seen};
use super::schema::{Node, NodeId, Schema};
use super::value::ProtobufValue;
use crate::make::{Leaf, Maker};
use stoatflow_core::Result;

/// Converts a whole value.
///
/// # Errors
/// `Serde` for damaged bytes, and those of the maker.
pub fn make<M: Maker>(value: &ProtobufValue, maker: &mut M) -> Result<M::Made, M::Trouble> {
    parts(value.schema(), value.node(), value.bytes(), maker)
}

fn each<M: Maker>(schema: &Schema, seen: Seen<'_>, maker: &mut M) -> Result<M::Made, M::Trouble> {
    match seen {
        Seen::Leaf(leaf) => maker.leaf(leaf),
        Seen::Message(node, body) => parts(schema, node, &body, maker),
        Seen::Many(node, range) => parts(schema, node, range, maker),
    }
}

fn parts<M: Maker>(
    schema: &Schema,
    node: NodeId,
    body: &[u8],
    maker: &mut M,
) -> Result<M::Made, M::Trouble> {
    match schema.node(node) {
        Node::Message(message) => {
            let mut object = maker.object();
            for (field, seen) in fields::all(schema, message, body)? {
                let value = each(schema, seen?, maker)?;
                maker.member(&mut object, field.name.as_str(), value)?;
            }
            Ok(maker.done(object))
        }
        Node::Map(map) => {
            let mut object = maker.object();
            for (name, seen) in fields::entries(schema, map, body)? {
                let value = each(schema, seen, maker)?;
                maker.member(&mut object, &name, value)?;
            }
            Ok(maker.done(object))
        }
        Node::List(list) => {
            let (mut items, mut trouble) = (Vec::new(), None);
            fields::elements(schema, list, body, |seen| {
                match each(schema, seen, maker) {
                    Ok(item) => items.push(item),
                    Err(e) => trouble = Some(e),
                }
                Ok(trouble.is_none())
            })?;
            match trouble {
                Some(trouble) => Err(trouble),
                None => maker.list(items),
            }
        }
        // Values without parts never become a `ProtobufValue`.
        _ => maker.leaf(Leaf::Null),
    }
}
