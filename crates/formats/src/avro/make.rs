//! Converts a whole value for another language.
//!
//! Takes an [`AvroValue`] and a [`Maker`], returns what the maker builds, from the inside out. Decodes
//! everything, once.

use super::decimal;
use super::scan::Cursor;
use super::schema::{Node, NodeId, Schema};
use super::value::AvroValue;
use crate::make::{Leaf, Maker};
use stoatflow_core::Result;

/// Converts a whole value.
///
/// # Errors
/// `Serde` for damaged bytes, and those of the maker.
pub fn make<M: Maker>(value: &AvroValue, maker: &mut M) -> Result<M::Made, M::Trouble> {
    let mut cursor = Cursor::new(value.bytes());
    each(value.schema(), value.node(), &mut cursor, maker, 0)
}

fn each<M: Maker>(
    schema: &Schema,
    node: NodeId,
    cursor: &mut Cursor<'_>,
    maker: &mut M,
    depth: usize,
) -> Result<M::Made, M::Trouble> {
    let leaf = match schema.node(node) {
        Node::Null => Leaf::Null,
        Node::Boolean => Leaf::Bool(cursor.boolean(schema)?),
        Node::Int => Leaf::Int(cursor.int(schema)?),
        Node::Long => Leaf::Int(cursor.long(schema)?),
        Node::Float => Leaf::Float(f64::from(f32::from_le_bytes(cursor.array(schema)?))),
        Node::Double => Leaf::Float(f64::from_le_bytes(cursor.array(schema)?)),
        Node::Bytes => Leaf::Bytes(cursor.sized(schema)?),
        Node::Fixed(size) => Leaf::Bytes(cursor.take(*size, schema)?),
        Node::String => Leaf::Text(cursor.text(schema)?),
        Node::Enum(symbols) => Leaf::Text(symbols[cursor.choice(symbols.len(), schema)?].as_str()),
        Node::Uuid => {
            let text = decimal::uuid(cursor.array(schema)?);
            return maker.leaf(Leaf::Text(&text));
        }
        Node::Decimal { scale, size, .. } => {
            let bytes = match size {
                Some(size) => cursor.take(*size, schema)?,
                None => cursor.sized(schema)?,
            };
            return maker.leaf(Leaf::Text(&decimal::text(bytes, *scale)));
        }
        Node::Union(branches) => {
            cursor.deeper(schema, depth)?;
            let at = cursor.choice(branches.len(), schema)?;
            return each(schema, branches[at], cursor, maker, depth + 1);
        }
        Node::Record(fields) => {
            cursor.deeper(schema, depth)?;
            let mut object = maker.object();
            for field in fields.all() {
                let value = each(schema, field.node, cursor, maker, depth + 1)?;
                maker.member(&mut object, field.name.as_str(), value)?;
            }
            return Ok(maker.done(object));
        }
        Node::Array(of) => {
            cursor.deeper(schema, depth)?;
            let mut items = Vec::new();
            while let Some(block) = cursor.block(schema)? {
                for _ in 0..block.count {
                    items.push(each(schema, *of, cursor, maker, depth + 1)?);
                }
            }
            return maker.list(items);
        }
        Node::Map(of) => {
            cursor.deeper(schema, depth)?;
            let mut object = maker.object();
            while let Some(block) = cursor.block(schema)? {
                for _ in 0..block.count {
                    let name = cursor.text(schema)?;
                    let value = each(schema, *of, cursor, maker, depth + 1)?;
                    maker.member(&mut object, name, value)?;
                }
            }
            return Ok(maker.done(object));
        }
    };
    maker.leaf(leaf)
}
