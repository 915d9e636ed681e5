//! Parts of a value, for code that reads them one by one. Decodes only the requested part.

use super::changed::ChangedMessage;
use super::{ProtobufValue, Shown};
use crate::make::Leaf;
use crate::protobuf::fields::{self, Seen};
use crate::protobuf::schema::{Node, NodeId};
use crate::value::PathStep;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Fields, Open, Result, Text};

impl ProtobufValue {
    /// A part for a writer: bytes stay a `ProtobufValue`, because as JSON they would become text.
    fn as_it_came(&self, node: NodeId, seen: Seen<'_>) -> Datum {
        match seen {
            Seen::Leaf(Leaf::Bytes(bytes)) => self.part(node, bytes),
            seen => self.datum(seen),
        }
    }
}

impl Open for ProtobufValue {
    fn is_list(&self) -> bool {
        !self.is_object()
    }

    fn parts(&self) -> Result<Datum> {
        if self.is_bytes() {
            return Ok(Datum::Bytes(self.bytes.clone()));
        }
        match self.elements()? {
            Some(elements) => Ok(Datum::List(elements.into())),
            None => Ok(Fields(self.members(|_, seen| self.datum(seen))?).datum()),
        }
    }

    fn member(&self, name: &str) -> Result<Option<(usize, Datum)>> {
        let schema = &*self.schema;
        match schema.node(self.node) {
            Node::Message(message) => {
                let Some(at) = message.place(name) else {
                    return Ok(None);
                };
                let seen = fields::one(schema, message, at, &self.bytes)?;
                Ok(Some((at, self.datum(seen))))
            }
            Node::Map(map) => {
                let mut entries = fields::entries(schema, map, &self.bytes)?;
                let found = entries.swap_remove_full(name);
                Ok(found.map(|(at, _, seen)| (at, self.datum(seen))))
            }
            _ => Ok(None),
        }
    }

    fn element(&self, at: usize) -> Result<Option<Datum>> {
        if self.is_object() {
            return Ok(None);
        }
        let found = self.enter(self.node, &self.bytes, PathStep::Element(at))?;
        Ok(found.map(|seen| self.datum(seen)))
    }

    fn as_written(&self) -> Result<Fields> {
        if !self.is_object() {
            return Err(Error::internal("a list was taken for an object"));
        }
        let members: Vec<(Text, Datum)> = self.members(|node, seen| self.as_it_came(node, seen))?;
        Ok(Fields(members))
    }

    fn with_members(&self, changes: Fields) -> Result<Datum> {
        if let Node::Message(_) = self.schema.node(self.node) {
            let message = self.clone();
            return Ok(Datum::Opaque(Arc::new(ChangedMessage { message, changes })));
        }
        let mut members = self.as_written()?;
        members.set(&changes);
        Ok(members.datum())
    }

    fn is_for_change(&self) -> bool {
        !matches!(self.shown, Shown::Lazy)
    }
}
