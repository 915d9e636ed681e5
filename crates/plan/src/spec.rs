//! Parts of DSL calls that are plain data: serdes, where a source starts, how an async function is
//! awaited.
//!
//! Used in the logical and in the physical plan. Never decides anything.

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
        /// The serde of the key inside.
        time_windowed: Box<SerdeSpec>,
        /// The size of the windows.
        size_ms: i64,
    },
    /// Keys in sessions.
    SessionWindowed {
        /// The serde of the key inside.
        session_windowed: Box<SerdeSpec>,
    },
    /// Avro, with the schema.
    Avro {
        /// The schema, and the header before the bytes.
        avro: Arc<avro::Spec>,
    },
    /// Protobuf, with the message.
    Protobuf {
        /// The message type, and the header before the bytes.
        protobuf: Arc<protobuf::Spec>,
    },
    /// JSON that is validated by a schema.
    JsonSchema {
        /// The schema, and the header before the text.
        json_schema: Arc<JsonSchemaSpec>,
    },
}

impl SerdeSpec {
    /// Whether both encode equal values to equal bytes. How functions see the values doesn't matter.
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

    /// Whether it is the user's own serde, about whose bytes nothing is known.
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

/// Where a source starts without a committed offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reset {
    /// At the beginning.
    Earliest,
    /// At the end: only new records are read.
    Latest,
    /// Nowhere: without a committed offset the application doesn't start.
    None,
    /// At the first record that is not older than this many milliseconds; at the end if there is none.
    ByDuration(i64),
}

/// How an async function is awaited. Timeouts and retries are implemented in the foreign language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AsyncSpec {
    /// Index into the table of callables.
    pub udf: u32,
    /// The maximum number of calls in flight, over all lanes.
    pub concurrency: u32,
    /// How long a barrier waits for calls before it writes the unfinished ones to a store.
    pub park_after_ms: u64,
}
