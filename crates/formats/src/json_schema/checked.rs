//! The JSON Schema serde: a schema, and the optional header before the text of a value.
//!
//! Takes datums, returns text that fits the schema; takes bytes, returns JSON. Plain, or with
//! Confluent's header: a zero and the id of the writer's schema. The writer doesn't matter: every value
//! must fit this schema. Values from a store were validated when they were written.

use crate::avro::Decode;
use crate::framing;
use crate::registered::Registered;
use bytes::Bytes;
use jsonschema::{Draft, Registry, ValidationError, Validator};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::serde::json_bytes;
use stoatflow_core::{CustomSerde, Datum, Error, PlainJson, Result, SchemaPlace, SchemaRegistry};

/// Limit of characters of the validator's message, which quotes values.
const MAX_MESSAGE_CHARS: usize = 300;

/// The header before a text.
#[derive(Clone, Debug)]
enum Header {
    Plain,
    Given { own: u32, others: Vec<u32> },
    Registered(Arc<Registered<()>>),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Checked {
    title: String,
    /// `None`: nothing is validated.
    validator: Option<Arc<Validator>>,
    header: Header,
    decode: Decode,
}

impl Checked {
    /// Prepares a serde; `references` are texts of schemas by the names that this one uses for them.
    ///
    /// # Errors
    /// `Topology` for an invalid schema, and for one with an unresolved reference.
    pub fn new(
        schema: &str,
        references: &BTreeMap<String, String>,
        ids: Option<(u32, &[u32])>,
    ) -> Result<Self> {
        let parsed: Value = parse(schema)?;
        let title = match parsed.get("title").and_then(Value::as_str) {
            Some(title) => format!("the JSON Schema '{title}'"),
            None => "the JSON Schema".to_owned(),
        };
        let validator = validator(&parsed, references)?;
        Ok(Self {
            title,
            validator: Some(Arc::new(validator)),
            header: match ids {
                None => Header::Plain,
                Some((own, others)) => Header::Given {
                    own,
                    others: others.to_vec(),
                },
            },
            decode: Decode::Lazy,
        })
    }

    /// The same serde with a registry: every value begins with a schema id, which the registry resolves.
    #[must_use]
    pub fn registered(&self, registry: Arc<dyn SchemaRegistry>, place: SchemaPlace) -> Self {
        Self {
            header: Header::Registered(Arc::new(Registered::new(registry, place))),
            ..self.clone()
        }
    }

    /// The same serde, accepting any JSON.
    #[must_use]
    pub fn unchecked(mut self) -> Self {
        self.validator = None;
        self
    }

    /// Sets how values are passed to functions.
    #[must_use]
    pub const fn decoding(mut self, decode: Decode) -> Self {
        self.decode = decode;
        self
    }

    /// Requests the id that is written from the registry, if there is one.
    ///
    /// # Errors
    /// Those of the registry.
    pub fn prepare(&self) -> Result<()> {
        self.written_id().map(|_| ())
    }

    fn written_id(&self) -> Result<Option<u32>> {
        match &self.header {
            Header::Plain => Ok(None),
            Header::Given { own, .. } => Ok(Some(*own)),
            Header::Registered(ids) => ids.own().map(Some),
        }
    }

    /// The text of a value, without its header.
    fn open(&self, bytes: &Bytes) -> Result<Bytes> {
        let (own, others) = match &self.header {
            Header::Plain => return Ok(bytes.clone()),
            Header::Given { own, others } => (own, others),
            Header::Registered(ids) => {
                let (id, body) = framing::open(bytes, "JSON")?;
                // The registry client refuses ids of other schema types; the text of the schema isn't
                // needed here.
                ids.writer(id, |_| Ok(()))?;
                return Ok(body);
            }
        };
        let (id, body) = framing::open(bytes, "JSON")?;
        if id == *own || others.contains(&id) {
            return Ok(body);
        }
        Err(Error::serde(format!(
            "the record was written with the schema id {id}, which the serde for {} doesn't know",
            self.title
        ))
        .hint(format!(
            "add the id: schema_ids=[{id}], or let a registry be asked: registry=sf.SchemaRegistry(...)"
        )))
    }

    fn check(&self, text: &[u8], hint: &'static str) -> Result<()> {
        let Some(validator) = &self.validator else {
            return Ok(());
        };
        let value: Value = serde_json::from_slice(text).map_err(|e| {
            Error::serde(format!("the bytes are no JSON: {e}"))
                .hint("read the topic with the serde it was written with")
        })?;
        validator.validate(&value).map_err(|wrong| {
            let place = match wrong.instance_path().as_str() {
                "" => String::new(),
                place => format!(" at {place}"),
            };
            Error::serde(format!(
                "the value doesn't fit {}{place}: {}",
                self.title,
                said(&wrong)
            ))
            .hint(hint)
        })
    }

    fn shown(&self, text: Bytes) -> Datum {
        match self.decode {
            Decode::Lazy => Datum::Json(text),
            Decode::Dict => PlainJson::datum(text),
        }
    }
}

fn said(wrong: &ValidationError<'_>) -> String {
    let said = wrong.to_string();
    match said.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}...", &said[..end]),
        None => said,
    }
}

fn parse(schema: &str) -> Result<Value> {
    serde_json::from_str(schema).map_err(|e| {
        Error::topology(format!("this is no JSON Schema: {e}"))
            .hint("give the JSON text of a schema, or a dict of it")
    })
}

/// Draft 7 unless the schema names another one, and without validating `format` and encoded content,
/// like Confluent's serializers.
fn validator(schema: &Value, references: &BTreeMap<String, String>) -> Result<Validator> {
    let refused = |e: &dyn std::fmt::Display| {
        Error::topology(format!("this is no JSON Schema that can be used: {e}")).hint(
            "correct it there; what it refers to must be in it ($defs), or in the registry among its references",
        )
    };
    let mut registry = Registry::new().draft(Draft::Draft7);
    for (name, text) in references {
        registry = registry.add(name, parse(text)?).map_err(|e| refused(&e))?;
    }
    let registry = registry.prepare().map_err(|e| refused(&e))?;
    let mut options = jsonschema::options()
        .with_registry(&registry)
        .should_validate_formats(false)
        .without_content_media_type_support("application/json");
    for encoding in ["base64", "base64url", "base32", "base32hex", "base16"] {
        options = options.without_content_encoding_support(encoding);
    }
    if schema.get("$schema").is_none() {
        options = options.with_draft(Draft::Draft7);
    }
    options.build(schema).map_err(|e| refused(&said(&e)))
}

impl CustomSerde for Checked {
    fn name(&self) -> &str {
        // State that was written with another schema can still be read: only the header matters.
        match self.header {
            Header::Plain => "json_schema(plain)",
            _ => "json_schema",
        }
    }

    fn is_native(&self) -> bool {
        true
    }

    fn encode(&self, datum: &Datum) -> Result<Bytes> {
        let text = json_bytes(datum)?;
        self.check(
            &text,
            "write what the schema allows, or change the schema; validate=False checks nothing",
        )?;
        let Some(id) = self.written_id()? else {
            return Ok(text);
        };
        let mut out = Vec::with_capacity(framing::HEADER + text.len());
        out.extend_from_slice(&framing::header(id));
        out.extend_from_slice(&text);
        Ok(out.into())
    }

    fn decode(&self, bytes: &Bytes) -> Result<Datum> {
        self.open(bytes).map(|text| self.shown(text))
    }

    fn read(&self, bytes: &Bytes) -> Result<Datum> {
        let text = self.open(bytes)?;
        self.check(
            &text,
            "check what the producer writes, or read with a schema that allows it; validate=False checks nothing",
        )?;
        Ok(self.shown(text))
    }
}
