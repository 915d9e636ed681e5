//! A value as JSON text, for functions that take objects and for the JSON serde. Never reads JSON.

use super::fields::{self, Seen};
use super::schema::{Node, NodeId, Schema};
use crate::json::{close, latin, text};
use crate::make::Leaf;
use stoatflow_core::serde::write_json;
use stoatflow_core::{Datum, Result};

fn each(schema: &Schema, seen: Seen<'_>, out: &mut Vec<u8>) -> Result<()> {
    match seen {
        Seen::Message(node, body) => write(schema, node, &body, out),
        Seen::Many(node, range) => write(schema, node, range, out),
        Seen::Leaf(leaf) => match leaf {
            Leaf::Null => write_json(&Datum::Null, out),
            Leaf::Bool(truth) => write_json(&Datum::Bool(truth), out),
            Leaf::Int(number) => write_json(&Datum::Int(number), out),
            Leaf::Large(number) => {
                out.extend_from_slice(number.to_string().as_bytes());
                Ok(())
            }
            Leaf::Float(number) => write_json(&Datum::Float(number), out),
            Leaf::Text(said) => text(said, out),
            Leaf::Bytes(bytes) => text(&latin(bytes), out),
        },
    }
}

/// Writes a value with parts.
pub(super) fn write(schema: &Schema, node: NodeId, body: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let member = |sign: &mut u8, name: &str, seen: Seen<'_>, out: &mut Vec<u8>| {
        out.push(*sign);
        *sign = b',';
        text(name, out)?;
        out.push(b':');
        each(schema, seen, out)
    };
    match schema.node(node) {
        Node::Message(message) => {
            let mut sign = b'{';
            for (field, seen) in fields::all(schema, message, body)? {
                member(&mut sign, field.name.as_str(), seen?, out)?;
            }
            close(sign, b'{', b'}', out);
        }
        Node::Map(map) => {
            let mut sign = b'{';
            for (name, seen) in fields::entries(schema, map, body)? {
                member(&mut sign, &name, seen, out)?;
            }
            close(sign, b'{', b'}', out);
        }
        Node::List(list) => {
            let mut sign = b'[';
            fields::elements(schema, list, body, |seen| {
                out.push(sign);
                sign = b',';
                each(schema, seen, out)?;
                Ok(true)
            })?;
            close(sign, b'[', b']', out);
        }
        // Bytes kept for a writer: no other value without parts becomes a `ProtobufValue`.
        _ => text(&latin(body), out)?,
    }
    Ok(())
}
