//! The Avro serde: a schema, and the optional header before the bytes of a value.
//!
//! Takes the parts of a [`Spec`](super::Spec), converts bytes to datums and datums to bytes. Plain Avro,
//! or with Confluent's header: a zero and the id of the writer's schema. A value with another known
//! schema is resolved by Avro's rules, and is a value of this schema from then on. A value that was read
//! with this schema is written with the bytes it was read from. Bytes given for a whole record, map or
//! array count as an encoded one. Schemas are configured, or looked up by their ids in a registry
//! (`Registered`).

use super::encode;
use super::resolve;
use super::scan;
use super::schema::{Node, Schema};
use super::spec::Decode;
use super::value::AvroValue;
use crate::framing;
use crate::registered::Registered;
use apache_avro::schema_compatibility::SchemaCompatibility;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::{CustomSerde, Datum, Error, Result, SchemaPlace, SchemaRegistry};

/// See the module.
#[derive(Debug)]
pub struct Format {
    schema: Arc<Schema>,
    name: String,
    /// The id that is written; `None`: values have no header.
    id: Option<u32>,
    /// Schemas of other writers by id; `None` if the writer's encoding is the same.
    writers: BTreeMap<u32, Option<Arc<Schema>>>,
    /// The registry that resolves ids; then none are configured.
    registered: Option<Registered<Option<Arc<Schema>>>>,
    decode: Decode,
}

impl Format {
    /// Prepares a format.
    ///
    /// # Errors
    /// `Topology` for an invalid schema, and for a writer's schema that this one can't read.
    pub fn new(schema: &str, id: Option<u32>, writers: &BTreeMap<u32, String>) -> Result<Self> {
        let schema = Arc::new(Schema::parse(schema)?);
        let mut known = BTreeMap::new();
        for (id, text) in writers {
            let of = |e: Error| {
                Error::topology(format!(
                    "the writer's schema with the id {id} can't be used"
                ))
                .caused_by(e)
                .hint("correct it in writer_schemas=")
            };
            let writer = Schema::parse(text).map_err(of)?;
            SchemaCompatibility::can_read(writer.parsed(), schema.parsed()).map_err(|e| {
                Error::topology(format!(
                    "what the schema with the id {id} wrote can't be read as '{}'",
                    schema.title()
                ))
                .caused_by(e)
                .hint("give the fields that are new a default, or leave the id out of writer_schemas=")
            })?;
            let same = writer.form() == schema.form();
            known.insert(*id, (!same).then(|| Arc::new(writer)));
        }
        // State written with another schema can't be read with this one, unless each value carries its
        // schema id.
        let name = match id {
            None => format!("avro({}, {:08x})", schema.title(), schema.form() >> 32),
            Some(_) => format!("avro({})", schema.title()),
        };
        Ok(Self {
            schema,
            name,
            id,
            writers: known,
            registered: None,
            decode: Decode::Lazy,
        })
    }

    /// The same format with a registry: every value begins with a schema id, which the registry
    /// resolves.
    #[must_use]
    pub fn registered(&self, registry: Arc<dyn SchemaRegistry>, place: SchemaPlace) -> Self {
        Self {
            schema: Arc::clone(&self.schema),
            name: format!("avro({})", self.schema.title()),
            id: None,
            writers: BTreeMap::new(),
            registered: Some(Registered::new(registry, place)),
            decode: self.decode,
        }
    }

    /// Requests the id that is written from the registry, if there is one.
    ///
    /// # Errors
    /// Those of the registry.
    pub fn prepare(&self) -> Result<()> {
        self.written_id().map(|_| ())
    }

    fn written_id(&self) -> Result<Option<u32>> {
        self.registered
            .as_ref()
            .map_or(Ok(self.id), |registered| registered.own().map(Some))
    }

    const fn is_framed(&self) -> bool {
        self.id.is_some() || self.registered.is_some()
    }

    /// Sets how values are passed to functions.
    #[must_use]
    pub const fn decoding(mut self, decode: Decode) -> Self {
        self.decode = decode;
        self
    }

    /// The schema of the values.
    #[must_use]
    pub const fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The body of a value, and the writer's schema if it differs from this one.
    fn open(&self, bytes: &Bytes) -> Result<(Bytes, Option<Arc<Schema>>)> {
        if let Some(registered) = &self.registered {
            let (id, body) = framing::open(bytes, "Avro")?;
            let writer = registered.writer(id, |text| self.writer(text))?;
            return Ok((body, writer));
        }
        let Some(own) = self.id else {
            return Ok((bytes.clone(), None));
        };
        let (id, body) = framing::open(bytes, "Avro")?;
        if id == own {
            return Ok((body, None));
        }
        match self.writers.get(&id) {
            Some(writer) => Ok((body, writer.clone())),
            None => Err(Error::serde(format!(
                "the record was written with the schema id {id}, which the serde {} doesn't know",
                self.name
            ))
            .hint(format!(
                "give the schema with that id: writer_schemas={{{id}: ...}} or let a registry be asked: registry=sf.SchemaRegistry(...)"
            ))),
        }
    }

    /// A writer's schema; `None` if its encoding equals this one's.
    fn writer(&self, text: &str) -> Result<Option<Arc<Schema>>> {
        let writer = Schema::parse(text)?;
        SchemaCompatibility::can_read(writer.parsed(), self.schema.parsed()).map_err(|e| {
            Error::serde(format!(
                "'{}' can't be read as '{}'",
                writer.title(),
                self.schema.title()
            ))
            .caused_by(e)
            .hint("give the fields that are new a default in the schema that reads, or leave the topic's other types to another source")
        })?;
        let same = writer.form() == self.schema.form();
        Ok((!same).then(|| Arc::new(writer)))
    }

    /// A value of another schema, as bytes of this one.
    fn resolved(&self, body: &Bytes, writer: &Schema) -> Result<Bytes> {
        scan::check(writer, body)?;
        resolve::resolve(writer, &self.schema, body).map_err(|e| {
            Error::serde(format!(
                "a value of the schema '{}' can't be read as '{}'",
                writer.title(),
                self.schema.title()
            ))
            .caused_by(e)
            .hint("check that the schema can read what the writer's schema allows")
        })
    }
}

impl CustomSerde for Format {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_native(&self) -> bool {
        true
    }

    fn encode(&self, datum: &Datum) -> Result<Bytes> {
        let header = self.written_id()?.map(framing::header);
        if let Some(value) = AvroValue::of(datum)
            && value.schema().is(&self.schema)
            && value.node() == self.schema.root()
        {
            match (header, value.framed()) {
                (None, _) => return Ok(value.bytes().clone()),
                (Some(header), Some(framed)) if framed.starts_with(&header) => {
                    return Ok(framed.clone());
                }
                _ => {}
            }
        }
        let mut out = Vec::with_capacity(framing::HEADER + datum.weight());
        out.extend_from_slice(header.as_ref().map_or(&[], |header| header.as_slice()));
        if let (Datum::Bytes(body), Node::Record(_) | Node::Map(_) | Node::Array(_)) =
            (datum, self.schema.node(self.schema.root()))
        {
            let whose = || format!("the Avro schema '{}'", self.schema.title());
            scan::check(&self.schema, body).map_err(|e| framing::unencoded(&whose(), e))?;
            out.extend_from_slice(body);
            return Ok(out.into());
        }
        encode::encode(&self.schema, datum, out).map(Bytes::from)
    }

    fn decode(&self, bytes: &Bytes) -> Result<Datum> {
        let (body, writer) = self.open(bytes)?;
        let for_change = self.decode == Decode::Dict;
        match writer {
            None => {
                scan::check(&self.schema, &body)?;
                let framed = self.is_framed().then(|| bytes.clone());
                AvroValue::read(&self.schema, body, framed, for_change)
            }
            Some(writer) => {
                let body = self.resolved(&body, &writer)?;
                AvroValue::read(&self.schema, body, None, for_change)
            }
        }
    }
}
