//! The Protobuf serde: a message type, and the optional header before the bytes of a value.
//!
//! Takes descriptors, converts bytes to datums and datums to bytes. Plain Protobuf, or with Confluent's
//! header: a zero, the id of the writer's schema, and the position of the message in its file. Protobuf
//! identifies fields by number, so a value with another known id needs no schema resolution. A value
//! that was read with this type is written with the bytes it was read from. Ids are configured, or
//! looked up in a registry ([`Registered`]): then the writer's file decides which message a value is.

use super::encode;
use super::places::Places;
use super::scan::{self, Cursor};
use super::schema::{Node, Schema};
use super::value::{ProtobufValue, Shown};
use crate::framing;
use crate::registered::Registered;
use bytes::Bytes;
use std::sync::{Arc, OnceLock};
use stoatflow_core::{CustomSerde, Datum, Error, Result, SchemaPlace, SchemaRegistry};

/// The ids that Confluent's header may contain.
#[derive(Clone, Debug)]
struct Ids {
    /// The id that is written.
    own: u32,
    /// Other ids that are accepted.
    others: Vec<u32>,
    /// The whole header that is written.
    header: Vec<u8>,
}

/// Answers of a registry so far.
#[derive(Debug)]
struct Registration {
    ids: Registered<Arc<Places>>,
    /// The whole header that is written, once the id is known.
    header: OnceLock<Vec<u8>>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Format {
    schema: Arc<Schema>,
    name: String,
    ids: Option<Ids>,
    /// The registry that resolves ids; then none are configured.
    registration: Option<Arc<Registration>>,
    shown: Shown,
}

impl Format {
    /// Prepares a format.
    ///
    /// # Errors
    /// `Topology` for invalid descriptors, and for a message that they don't contain.
    pub fn new(descriptors: &[u8], message: &str, id: Option<u32>, others: &[u32]) -> Result<Self> {
        let schema = Arc::new(Schema::parse(descriptors, message)?);
        // State written with another type may mean something else with this one, unless each value
        // carries its schema id.
        let name = match id {
            None => format!("protobuf({}, {:08x})", schema.title(), schema.form() >> 96),
            Some(_) => format!("protobuf({})", schema.title()),
        };
        let ids = id.map(|own| Ids {
            own,
            others: others.to_vec(),
            header: header(own, &schema),
        });
        Ok(Self {
            schema,
            name,
            ids,
            registration: None,
            shown: Shown::Lazy,
        })
    }

    /// The same format with a registry: every value begins with a schema id, which the registry
    /// resolves.
    #[must_use]
    pub fn registered(&self, registry: Arc<dyn SchemaRegistry>, place: SchemaPlace) -> Self {
        Self {
            name: format!("protobuf({})", self.schema.title()),
            ids: None,
            registration: Some(Arc::new(Registration {
                ids: Registered::new(registry, place),
                header: OnceLock::new(),
            })),
            ..self.clone()
        }
    }

    /// Requests the id that is written from the registry, if there is one.
    ///
    /// # Errors
    /// Those of the registry.
    pub fn prepare(&self) -> Result<()> {
        self.header().map(|_| ())
    }

    /// The header before each value.
    fn header(&self) -> Result<&[u8]> {
        let Some(registration) = &self.registration else {
            return Ok(self.ids.as_ref().map_or(&[], |ids| &ids.header));
        };
        if let Some(known) = registration.header.get() {
            return Ok(known);
        }
        let made = header(registration.ids.own()?, &self.schema);
        Ok(registration.header.get_or_init(|| made))
    }

    const fn is_framed(&self) -> bool {
        self.ids.is_some() || self.registration.is_some()
    }

    /// The same format, but functions get values as dicts of their own.
    #[must_use]
    pub fn as_dicts(mut self) -> Self {
        self.shown = Shown::Dict;
        self
    }

    /// The same format, but functions get values as decoded by this serde.
    #[must_use]
    pub fn shown_by(&self, serde: Arc<dyn CustomSerde>) -> Self {
        Self {
            shown: Shown::By(serde),
            ..self.clone()
        }
    }

    /// The type of the values.
    #[must_use]
    pub const fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// A value without its header.
    ///
    /// # Errors
    /// `Serde` for a value without a header, or with an unknown id.
    pub fn body(&self, bytes: &Bytes) -> Result<Bytes> {
        if let Some(registration) = &self.registration {
            return self.of_writer(&registration.ids, bytes);
        }
        let Some(ids) = &self.ids else {
            return Ok(bytes.clone());
        };
        let (id, rest) = framing::open(bytes, "Protobuf")?;
        let is_own = id == ids.own;
        if !is_own && !ids.others.contains(&id) {
            return Err(Error::serde(format!(
                "the record was written with the schema id {id}, which the serde {} doesn't know",
                self.name
            ))
            .hint(format!(
                "add the id if its schema has the same message: schema_ids=[{id}] (nothing is fetched from a registry)"
            )));
        }
        let (found, body) = place_of(&rest)?;
        // In another schema the message may have another position.
        if is_own && found != self.schema.indexes {
            return Err(Error::serde(format!(
                "the record is another message of the schema {id}: the one at {found:?}, where '{}' is at {:?}",
                self.schema.title(),
                self.schema.indexes
            ))
            .hint("read the topic with the message it was written with"));
        }
        Ok(body)
    }

    /// As [`Self::body`], where the writer's file decides which message it is.
    fn of_writer(&self, ids: &Registered<Arc<Places>>, bytes: &Bytes) -> Result<Bytes> {
        let (id, rest) = framing::open(bytes, "Protobuf")?;
        let wanted = self.schema.title();
        let places = ids.writer(id, |file| Places::of(file, &wanted).map(Arc::new))?;
        let (found, body) = place_of(&rest)?;
        if places.has(&found) {
            return Ok(body);
        }
        let other = match places.name(&found) {
            Some(other) => format!("the message '{other}' of the schema {id}"),
            None => format!("at {found:?} in the schema {id}, which has no message there"),
        };
        Err(
            Error::serde(format!("the record is {other}, and '{wanted}' is wanted"))
                .hint("read the topic with the message it was written with, or its messages as Serdes.bytes()"),
        )
    }
}

/// The whole header before a value.
fn header(id: u32, schema: &Schema) -> Vec<u8> {
    let mut header = framing::header(id).to_vec();
    indexes(&schema.indexes, &mut header);
    header
}

/// The position of a value's message in its file, and the rest.
fn place_of(rest: &Bytes) -> Result<(Vec<i32>, Bytes)> {
    let mut cursor = Cursor::new(rest);
    let Some(found) = indexes_of(&mut cursor) else {
        return Err(Error::serde(
            "the record doesn't say behind its schema id which message of the schema it is",
        )
        .hint("leave framing=\"confluent\" or registry= out if the producer writes no message indexes"));
    };
    Ok((found, rest.slice(cursor.at..)))
}

/// Writes the position of a message in its file: indexes of nested messages. The first message is a
/// single zero.
fn indexes(places: &[i32], out: &mut Vec<u8>) {
    if places == [0] {
        return out.push(0);
    }
    let count = i32::try_from(places.len()).unwrap_or(i32::MAX);
    for number in std::iter::once(&count).chain(places) {
        // Neither is negative: the sign bit is 0.
        let mut rest = number.unsigned_abs() << 1;
        while rest >= 0x80 {
            out.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
}

fn indexes_of(cursor: &mut Cursor<'_>) -> Option<Vec<i32>> {
    let mut next = || {
        let number = cursor.varint().ok()?;
        let is_place = number & 1 == 0;
        is_place.then(|| i32::try_from(number >> 1).ok()).flatten()
    };
    match next()? {
        0 => Some(vec![0]),
        // No file nests messages a hundred levels deep.
        count @ 1..=100 => (0..count).map(|_| next()).collect(),
        _ => None,
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
        let header = self.header()?;
        if let Some(value) = ProtobufValue::of(datum) {
            let is_same =
                |schema: &Schema| schema.same(schema.root(), value.schema(), value.node());
            match (self.is_framed(), value.framed()) {
                (false, _) if is_same(&self.schema) => return Ok(value.bytes().clone()),
                (true, Some(framed))
                    if framed.len() == header.len() + value.bytes().len()
                        && framed.starts_with(header)
                        && is_same(&self.schema) =>
                {
                    return Ok(framed.clone());
                }
                _ => {}
            }
        }
        let mut out = Vec::with_capacity(header.len() + datum.weight());
        out.extend_from_slice(header);
        let (schema, root) = (&self.schema, self.schema.root());
        // A wrapper is represented by its content, which may be bytes.
        if let (Datum::Bytes(body), Node::Message(_)) = (datum, schema.node(root)) {
            let whose = || format!("the Protobuf message '{}'", schema.title());
            scan::check(schema, root, body).map_err(|e| framing::unencoded(&whose(), e))?;
            out.extend_from_slice(body);
            return Ok(out.into());
        }
        encode::encode(&self.schema, datum, out).map(Bytes::from)
    }

    fn decode(&self, bytes: &Bytes) -> Result<Datum> {
        let body = self.body(bytes)?;
        scan::check(&self.schema, self.schema.root(), &body)?;
        let framed = self.is_framed().then(|| bytes.clone());
        ProtobufValue::read(&self.schema, body, framed, self.shown.clone())
    }
}
