//! Headers by which Confluent's serializers name the schema of a key or a value.
//!
//! Takes the serdes of sources and of the written data, returns the headers that are still true of it:
//! Confluent's deserializers believe them before anything else. The source of a record tells which
//! schema they refer to. Never creates such a header: ids are known to the registry alone.

#[cfg(test)]
mod tests;

use stoatflow_core::{Header, Headers, Origin};
use stoatflow_plan::{PhysicalPlan, SerdeSpec};

/// The header of keys.
const KEY: &str = "__key_schema_id";
/// The header of values.
const VALUE: &str = "__value_schema_id";

/// See the module.
#[derive(Debug)]
pub(crate) struct SchemaIds {
    key: Kept,
    value: Kept,
}

/// Which records keep a header.
#[derive(Debug)]
enum Kept {
    /// All: the bytes are written as they came.
    Always,
    /// Those of these sources, by number.
    From(Vec<bool>),
}

impl SchemaIds {
    /// For keys and values that are written by these serdes, each with whether it is still as it was
    /// read.
    pub fn new(plan: &PhysicalPlan, key: (&SerdeSpec, bool), value: (&SerdeSpec, bool)) -> Self {
        let sources = plan.sources.iter();
        Self {
            key: Kept::new(sources.clone().map(|source| &source.key), key),
            value: Kept::new(sources.map(|source| &source.value), value),
        }
    }

    /// The headers that a written record keeps.
    #[inline]
    pub fn valid_headers(&self, headers: Headers, origin: &Origin) -> Headers {
        match headers {
            None => None,
            Some(all) => self.without_stale_ids(all, origin),
        }
    }

    fn without_stale_ids(&self, all: std::sync::Arc<[Header]>, origin: &Origin) -> Headers {
        let is_stale = |header: &Header| match &*header.name {
            KEY => !self.key.has(origin),
            VALUE => !self.value.has(origin),
            _ => false,
        };
        if !all.iter().any(is_stale) {
            return Some(all);
        }
        let others = all.iter().filter(|header| !is_stale(header)).cloned();
        let others: Vec<Header> = others.collect();
        (!others.is_empty()).then(|| others.into())
    }
}

impl Kept {
    fn new<'p>(
        sources: impl Iterator<Item = &'p SerdeSpec>,
        (serde, as_read): (&SerdeSpec, bool),
    ) -> Self {
        // Bytes were encoded before, together with their headers.
        if *serde == SerdeSpec::Builtin("bytes".into()) {
            return Self::Always;
        }
        let may = match serde {
            // Framed bytes contain the id of their schema: a header could only repeat or contradict it.
            SerdeSpec::Avro { avro } => !avro.is_framed(),
            SerdeSpec::Protobuf { protobuf } => !protobuf.is_framed(),
            SerdeSpec::JsonSchema { json_schema } => {
                !json_schema.is_framed() && (json_schema.validate || as_read)
            }
            // It has no schema: a value made since may be anything.
            _ => as_read,
        };
        Self::From(
            sources
                .map(|source| may && serde.writes_as(source))
                .collect(),
        )
    }

    fn has(&self, origin: &Origin) -> bool {
        match self {
            Self::Always => true,
            Self::From(sources) => sources.get(usize::from(origin.source.0)) == Some(&true),
        }
    }
}
