//! Parts of DSL calls that are data themselves: serdes, where a source starts, how an async function is
//! awaited.
//!
//! Used by the logical plan and by the physical one. Never decides anything.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use stoatflow_formats::json_schema::JsonSchemaSpec;
use stoatflow_formats::{avro, protobuf};

/// A serde: `"string"`, `{"custom": 0}`, `{"time_windowed": "string", "size_ms": 10}`,
/// `{"session_windowed": "string"}`, `{"avro": {"schema": ...}}`, `{"protobuf": {"descriptors": ...,
/// "message": ...}}`, `{"json_schema": {"schema": ...}}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", untagged)]
pub enum SerdeSpec {
    /// A built-in one by name (`bytes`, `string`, `int32`, `int64`, `double`, `json`).
    Builtin(String),
    /// Index into the table of custom serdes.
    Custom {
        /// The index.
        custom: u32,
    },
    /// Keys in time windows.
    TimeWindowed {
        /// The key within.
        time_windowed: Box<SerdeSpec>,
        /// The size of the windows.
        size_ms: i64,
    },
    /// Keys in sessions.
    SessionWindowed {
        /// The key within.
        session_windowed: Box<SerdeSpec>,
    },
    /// Avro, with the schema.
    Avro {
        /// The schema, and what stands before the bytes.
        avro: Arc<avro::Spec>,
    },
    /// Protobuf, with the message.
    Protobuf {
        /// The message, and what stands before the bytes.
        protobuf: Arc<protobuf::Spec>,
    },
    /// JSON, with the schema that checks it.
    JsonSchema {
        /// The schema, and what stands before the text.
        json_schema: Arc<JsonSchemaSpec>,
    },
}

impl SerdeSpec {
    /// Are the bytes of equal values equal? How functions see them is another matter.
    pub fn writes_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Avro { avro: one }, Self::Avro { avro: other }) => one.writes_as(other),
            (Self::Protobuf { protobuf: one }, Self::Protobuf { protobuf: other }) => {
                one.writes_as(other)
            }
            (Self::JsonSchema { json_schema: one }, Self::JsonSchema { json_schema: other }) => {
                one.writes_as(other)
            }
            _ => self == other,
        }
    }

    /// Did the user write it? Then nothing is known of its bytes.
    pub(crate) fn is_custom(&self) -> bool {
        match self {
            Self::Builtin(_)
            | Self::Avro { .. }
            | Self::Protobuf { .. }
            | Self::JsonSchema { .. } => false,
            Self::Custom { .. } => true,
            Self::TimeWindowed { time_windowed, .. } => time_windowed.is_custom(),
            Self::SessionWindowed { session_windowed } => session_windowed.is_custom(),
        }
    }
}

/// The default of flags that are on.
pub(crate) const fn yes() -> bool {
    true
}

/// Where a source starts without a committed position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reset {
    /// At the beginning.
    Earliest,
    /// With what comes from now on.
    Latest,
    /// Nowhere: without a committed position the application doesn't start.
    None,
    /// At the first record that is not older than so many milliseconds; with what comes from now on if
    /// there is none.
    ByDuration(i64),
}

/// How an async function is awaited. Time limits and retries are the foreign language's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Awaiting {
    /// Index into the table of callables.
    pub udf: u32,
    /// So many calls at a time, over all lanes.
    pub concurrency: u32,
    /// How long a barrier waits for calls before it writes down what is not done.
    pub park_after_ms: u64,
}
