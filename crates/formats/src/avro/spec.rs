//! An Avro format in the plan: text and numbers.
//!
//! Takes the JSON
//! `{"schema": "...", "schema_id": 7, "writer_schemas": {"3": "..."}, "registry": 0, "decode": "dict"}`,
//! returns a [`Format`] that is built once and shared.

use super::format::Format;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};
use stoatflow_core::{Error, Result};

/// How a value is passed to functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decode {
    /// As a view, which decodes only what is read.
    #[default]
    Lazy,
    /// As a dict or a list of their own.
    Dict,
}

impl Decode {
    pub(crate) const fn is_lazy(&self) -> bool {
        matches!(self, Self::Lazy)
    }
}

/// See the module.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The text of the schema of the values.
    pub schema: String,
    /// The schema id in Confluent's header; `None`: values have no header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_id: Option<u32>,
    /// Schemas of other writers, by the ids in their records.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub writer_schemas: BTreeMap<String, String>,
    /// The index of the custom serde that asks a registry for ids and schemas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<u32>,
    /// How a value is passed to functions.
    #[serde(default, skip_serializing_if = "Decode::is_lazy")]
    pub decode: Decode,
    #[serde(skip)]
    made: OnceLock<std::result::Result<Arc<Format>, String>>,
}

impl Spec {
    /// Creates a spec from its parts.
    #[must_use]
    pub fn new(
        schema: String,
        schema_id: Option<u32>,
        writer_schemas: BTreeMap<String, String>,
    ) -> Self {
        Self {
            schema,
            schema_id,
            writer_schemas,
            registry: None,
            decode: Decode::Lazy,
            made: OnceLock::new(),
        }
    }

    /// Whether both have the same schemas and ids, and so write the same bytes. Equality also compares
    /// `decode`.
    #[must_use]
    pub fn writes_as(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }

    fn identity(&self) -> (&str, Option<u32>, &BTreeMap<String, String>, Option<u32>) {
        let (schema, writers) = (&self.schema, &self.writer_schemas);
        (schema, self.schema_id, writers, self.registry)
    }

    /// Whether values begin with the id of their schema.
    #[must_use]
    pub const fn is_framed(&self) -> bool {
        self.schema_id.is_some() || self.registry.is_some()
    }

    /// The format.
    ///
    /// # Errors
    /// `Topology` for schemas that can't be used.
    pub fn format(&self) -> Result<Arc<Format>> {
        let made = self
            .made
            .get_or_init(|| self.make().map(Arc::new).map_err(|e| e.brief().to_string()));
        made.clone().map_err(|what| {
            Error::topology(what).hint("correct the schema that is given to Serdes.avro(...)")
        })
    }

    /// Like [`Self::format`], but not cached: the error keeps its cause.
    ///
    /// # Errors
    /// Those of [`Self::format`].
    pub fn make(&self) -> Result<Format> {
        let ids = self
            .writer_schemas
            .iter()
            .map(|(id, schema)| match id.parse() {
                Ok(id) => Ok((id, schema.clone())),
                Err(_) => Err(Error::topology(format!("'{id}' is no schema id"))
                    .hint("give whole numbers as the keys of writer_schemas=")),
            });
        let format = Format::new(&self.schema, self.schema_id, &ids.collect::<Result<_>>()?)?;
        Ok(format.decoding(self.decode))
    }
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.writes_as(other) && self.decode == other.decode
    }
}

impl Eq for Spec {}

impl Hash for Spec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}
