//! The types that all crates share.
//!
//! No threads, files or sockets, and nothing that waits. A record, an epoch or an error has the same
//! type from the broker port to the Python binding.

/// Records the largest allocation, for the fuzz tests.
#[cfg(test)]
#[global_allocator]
static MEMORY: stoatflow_fuzz::Watched = stoatflow_fuzz::Watched;

pub mod datum;
pub mod error;
pub mod fields;
pub mod handler;
mod header_bytes;
pub mod headers;
pub mod ids;
pub mod inline_bytes;
pub mod json;
pub mod late;
pub mod lent;
pub mod murmur2;
pub mod order;
pub mod ordered;
pub mod ports;
pub mod record;
pub mod rocksdb_options;
pub mod schemas;
pub mod serde;
pub mod settings;

pub use bytes::Bytes;
pub use datum::{Change, Datum, Opaque, PlainJson, Text, Windowed};
pub use error::{Error, ErrorCoordinates, ErrorKind, Result};
pub use fields::{Fields, Open};
pub use handler::{CallableHandler, FailureKind, Handler, Handlers, RetryHandler};
pub use header_bytes::{put_headers, take_headers};
pub use headers::{headers_from_bytes, headers_to_bytes};
pub use ids::{
    ClockId, Epoch, Lane, NodeId, Offset, Partition, ProcessorId, SinkId, SourceId, StageId,
    StoreId, Timestamp, TopicPartition, UdfId,
};
pub use inline_bytes::InlineBytes;
pub use late::Late;
pub use order::{End, Order, Task};
pub use ports::{Clock, ManualClock, Rng, SystemClock};
pub use record::{Header, Headers, Origin, Record};
pub use rocksdb_options::{BlockCompression, CompactionStyle, RocksDbConfig, RocksDbOptions};
pub use schemas::{SchemaPlace, SchemaRegistry};
pub use serde::{CustomSerde, Serde};
pub use settings::{Guarantee, Settings};
