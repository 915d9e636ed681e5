//! Parts of a value, for code that reads them one by one.
//!
//! Takes names and indexes, returns datums; skips what is before a part. Decodes only the requested
//! part.

use super::changed::ChangedRecord;
use super::{AvroValue, Cursor, Node, NodeId};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Fields, Open, Result, Text};

impl AvroValue {
    /// True if its bytes hold more than its datum: the branch of a union, or bytes, which are text in
    /// JSON.
    fn says_more(&self, node: NodeId) -> bool {
        match self.schema.node(node) {
            Node::Bytes | Node::Fixed(_) => true,
            Node::Union(branches) => {
                let types = branches.iter();
                let mut types = types.filter(|at| !matches!(self.schema.node(**at), Node::Null));
                match (types.next(), types.next()) {
                    (Some(only), None) => self.says_more(*only),
                    (_, another) => another.is_some(),
                }
            }
            _ => false,
        }
    }

    /// The part at this position, for a writer: keeps the encoded bytes where they hold more than the
    /// datum.
    fn as_it_came(&self, cursor: &mut Cursor<'_>, node: NodeId) -> Result<Datum> {
        if !self.says_more(node) {
            return self.datum(cursor, node);
        }
        let began = cursor.at;
        cursor.skip(&self.schema, node, 0)?;
        Ok(self.part(node, began..cursor.at))
    }
}

impl Open for AvroValue {
    fn is_list(&self) -> bool {
        matches!(self.is_object(), Ok(false))
    }

    fn member(&self, name: &str) -> Result<Option<(usize, Datum)>> {
        let (mut cursor, node) = self.opened()?;
        match self.schema.node(node) {
            Node::Record(fields) => match self.find_field(&mut cursor, fields, name)? {
                Some((at, node)) => Ok(Some((at, self.datum(&mut cursor, node)?))),
                None => Ok(None),
            },
            Node::Map(of) => {
                let (mut found, mut at) = (None, 0);
                cursor.elements(&self.schema, 0, |cursor| {
                    if cursor.text(&self.schema)? == name {
                        found = Some((at, self.datum(cursor, *of)?));
                    } else {
                        cursor.skip(&self.schema, *of, 0)?;
                    }
                    at += 1;
                    Ok(())
                })?;
                Ok(found)
            }
            _ => Ok(None),
        }
    }

    fn element(&self, at: usize) -> Result<Option<Datum>> {
        let (mut cursor, node) = self.opened()?;
        let Node::Array(of) = self.schema.node(node) else {
            return Ok(None);
        };
        if !self.find_element(&mut cursor, *of, at)? {
            return Ok(None);
        }
        self.datum(&mut cursor, *of).map(Some)
    }

    fn parts(&self) -> Result<Datum> {
        self.split()
    }

    fn as_written(&self) -> Result<Fields> {
        let (mut cursor, node) = self.opened()?;
        let schema = &*self.schema;
        let mut members = Vec::new();
        match schema.node(node) {
            Node::Record(fields) => {
                members.reserve_exact(fields.all().len());
                for field in fields.all() {
                    let value = self.as_it_came(&mut cursor, field.node)?;
                    members.push((field.name.clone(), value));
                }
            }
            Node::Map(of) => cursor.elements(schema, 0, |cursor| {
                let name = Text::from(cursor.text(schema)?);
                members.push((name, self.as_it_came(cursor, *of)?));
                Ok(())
            })?,
            _ => return Err(Error::internal("a list was taken for an object")),
        }
        Ok(Fields(members))
    }

    fn with_members(&self, changes: Fields) -> Result<Datum> {
        if let Node::Record(_) = self.schema.node(self.node) {
            let record = self.clone();
            return Ok(Datum::Opaque(Arc::new(ChangedRecord { record, changes })));
        }
        let mut members = self.as_written()?;
        members.set(&changes);
        Ok(members.datum())
    }

    fn is_for_change(&self) -> bool {
        self.for_change
    }
}
