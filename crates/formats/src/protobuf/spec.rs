//! A Protobuf format in the plan: text and numbers.
//!
//! Takes the JSON
//! `{"descriptors": "<base64>", "message": "shop.Order", "schema_id": 7, "schema_ids": [3],
//! "registry": 0, "decode": "dict"}`,
//! returns a [`Format`] that is built once and shared.

use super::format::Format;
use base64::prelude::{BASE64_STANDARD, Engine};
use serde::{Deserialize, Serialize};
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
    /// As a dict of their own.
    Dict,
    /// As a message of the user's class, created by the custom serde with this index.
    Message(u32),
}

impl Decode {
    const fn is_lazy(&self) -> bool {
        matches!(self, Self::Lazy)
    }
}

/// See the module.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// A `FileDescriptorSet`, in base64.
    pub descriptors: String,
    /// The full name of the values' message type.
    pub message: String,
    /// The schema id in Confluent's header; `None`: values have no header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_id: Option<u32>,
    /// Ids of other writers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schema_ids: Vec<u32>,
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
        descriptors: &[u8],
        message: String,
        schema_id: Option<u32>,
        schema_ids: Vec<u32>,
    ) -> Self {
        Self {
            descriptors: BASE64_STANDARD.encode(descriptors),
            message,
            schema_id,
            schema_ids,
            registry: None,
            decode: Decode::Lazy,
            made: OnceLock::new(),
        }
    }

    /// The format. If values are shown as a class of the user, [`Format::shown_by`] adds its serde
    /// later.
    ///
    /// # Errors
    /// `Topology` for descriptors that can't be used.
    pub fn format(&self) -> Result<Arc<Format>> {
        let made = self
            .made
            .get_or_init(|| self.make().map(Arc::new).map_err(|e| e.brief().to_string()));
        made.clone().map_err(|what| {
            Error::topology(what).hint("correct what is given to Serdes.protobuf(...)")
        })
    }

    fn make(&self) -> Result<Format> {
        let descriptors = BASE64_STANDARD.decode(&self.descriptors).map_err(|e| {
            Error::topology("the descriptors are no base64")
                .caused_by(e)
                .hint("let Serdes.protobuf(...) write the plan")
        })?;
        let format = Format::new(
            &descriptors,
            &self.message,
            self.schema_id,
            &self.schema_ids,
        )?;
        Ok(match self.decode {
            Decode::Dict => format.as_dicts(),
            _ => format,
        })
    }

    /// Whether both have the same descriptors and ids, and so write the same bytes. Equality also
    /// compares `decode`.
    #[must_use]
    pub fn writes_as(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }

    fn identity(&self) -> (&str, &str, Option<u32>, &[u32], Option<u32>) {
        let (descriptors, message) = (&self.descriptors, &self.message);
        let ids = (self.schema_id, &self.schema_ids);
        (descriptors, message, ids.0, ids.1, self.registry)
    }

    /// Whether values begin with the id of their schema.
    #[must_use]
    pub const fn is_framed(&self) -> bool {
        self.schema_id.is_some() || self.registry.is_some()
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
