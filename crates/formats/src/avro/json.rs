//! A value as JSON text, for functions that take objects and for the JSON serde.
//!
//! Takes bytes, returns text. Bytes become text as in Avro's own JSON: one character per byte. Never
//! reads JSON.

use super::decimal;
use super::scan::Cursor;
use super::schema::{Node, NodeId, Schema};
use crate::json::{close, latin, text};
use stoatflow_core::serde::write_json;
use stoatflow_core::{Datum, Result};

pub(super) fn write(
    schema: &Schema,
    node: NodeId,
    cursor: &mut Cursor<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    match schema.node(node) {
        Node::Null => out.extend_from_slice(b"null"),
        Node::Boolean => {
            let truth = cursor.boolean(schema)?;
            out.extend_from_slice(if truth { b"true" } else { b"false" });
        }
        Node::Int => write_json(&Datum::Int(cursor.int(schema)?), out)?,
        Node::Long => write_json(&Datum::Int(cursor.long(schema)?), out)?,
        Node::Float => {
            let x = f32::from_le_bytes(cursor.array(schema)?);
            write_json(&Datum::Float(f64::from(x)), out)?;
        }
        Node::Double => {
            let x = f64::from_le_bytes(cursor.array(schema)?);
            write_json(&Datum::Float(x), out)?;
        }
        Node::Bytes => text(&latin(cursor.sized(schema)?), out)?,
        Node::Fixed(size) => text(&latin(cursor.take(*size, schema)?), out)?,
        Node::String => text(cursor.text(schema)?, out)?,
        Node::Enum(symbols) => {
            let at = cursor.choice(symbols.len(), schema)?;
            text(symbols[at].as_str(), out)?;
        }
        Node::Uuid => text(&decimal::uuid(cursor.array(schema)?), out)?,
        Node::Decimal { scale, size, .. } => {
            let bytes = match size {
                Some(size) => cursor.take(*size, schema)?,
                None => cursor.sized(schema)?,
            };
            text(&decimal::text(bytes, *scale), out)?;
        }
        Node::Union(branches) => {
            let at = cursor.choice(branches.len(), schema)?;
            write(schema, branches[at], cursor, out)?;
        }
        Node::Record(fields) => {
            let mut sign = b'{';
            for field in fields.all() {
                out.push(sign);
                sign = b',';
                text(field.name.as_str(), out)?;
                out.push(b':');
                write(schema, field.node, cursor, out)?;
            }
            close(sign, b'{', b'}', out);
        }
        Node::Array(of) => {
            let mut sign = b'[';
            cursor.elements(schema, 0, |cursor| {
                out.push(sign);
                sign = b',';
                write(schema, *of, cursor, out)
            })?;
            close(sign, b'[', b']', out);
        }
        Node::Map(of) => {
            let mut sign = b'{';
            cursor.elements(schema, 0, |cursor| {
                out.push(sign);
                sign = b',';
                text(cursor.text(schema)?, out)?;
                out.push(b':');
                write(schema, *of, cursor, out)
            })?;
            close(sign, b'{', b'}', out);
        }
    }
    Ok(())
}
