//! A JSON Schema in the plan.
//!
//! Takes the JSON
//! `{"schema": "...", "references": {"a.json": "..."}, "schema_id": 7, "schema_ids": [3], "registry": 0,
//! "validate": false, "decode": "dict"}`,
//! returns a [`Checked`] that is built once and shared.

use super::checked::Checked;
use crate::avro::Decode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};
use stoatflow_core::{Error, Result};

/// See the module.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonSchemaSpec {
    /// The text of the schema that values must fit.
    pub schema: String,
    /// Texts of the schemas that it refers to, by the names it uses for them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub references: BTreeMap<String, String>,
    /// The schema id in Confluent's header; `None`: values have no header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_id: Option<u32>,
    /// Ids of other writers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schema_ids: Vec<u32>,
    /// The index of the custom serde that asks a registry for ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<u32>,
    /// Whether values are validated.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub validate: bool,
    /// How a value is passed to functions.
    #[serde(default, skip_serializing_if = "Decode::is_lazy")]
    pub decode: Decode,
    #[serde(skip)]
    made: OnceLock<std::result::Result<Arc<Checked>, String>>,
}

const fn yes() -> bool {
    true
}

impl JsonSchemaSpec {
    /// Creates a spec from its parts.
    #[must_use]
    pub fn new(
        schema: String,
        references: BTreeMap<String, String>,
        schema_id: Option<u32>,
        schema_ids: Vec<u32>,
        validate: bool,
    ) -> Self {
        Self {
            schema,
            references,
            schema_id,
            schema_ids,
            registry: None,
            validate,
            decode: Decode::Lazy,
            made: OnceLock::new(),
        }
    }

    /// Whether both write the same bytes. Ignores `validate` and `decode`.
    #[must_use]
    pub fn writes_as(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }

    fn identity(&self) -> (&str, Option<u32>, Option<u32>) {
        (&self.schema, self.schema_id, self.registry)
    }

    /// Whether values begin with the id of their schema.
    #[must_use]
    pub const fn is_framed(&self) -> bool {
        self.schema_id.is_some() || self.registry.is_some()
    }

    /// The serde.
    ///
    /// # Errors
    /// `Topology` for schemas that can't be used.
    pub fn format(&self) -> Result<Arc<Checked>> {
        let made = self
            .made
            .get_or_init(|| self.make().map(Arc::new).map_err(|e| e.brief().to_string()));
        made.clone().map_err(|what| {
            Error::topology(what)
                .hint("correct the schema that is given to Serdes.json_schema(...)")
        })
    }

    /// Like [`Self::format`], but not cached: the error keeps its next step.
    ///
    /// # Errors
    /// Those of [`Self::format`].
    pub fn make(&self) -> Result<Checked> {
        let ids = self.schema_id.map(|own| (own, &*self.schema_ids));
        let made = Checked::new(&self.schema, &self.references, ids)?.decoding(self.decode);
        Ok(if self.validate {
            made
        } else {
            made.unchecked()
        })
    }
}

impl PartialEq for JsonSchemaSpec {
    fn eq(&self, other: &Self) -> bool {
        self.writes_as(other)
            && self.decode == other.decode
            && self.validate == other.validate
            && self.schema_ids == other.schema_ids
    }
}

impl Eq for JsonSchemaSpec {}

impl Hash for JsonSchemaSpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}
