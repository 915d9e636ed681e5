//! How a table is kept, and the indexes of a store, as data.
//!
//! Used by the logical plan and by the physical one. Never decides anything.

use crate::expression::Expression;
use crate::spec::{SerdeSpec, yes};
use serde::{Deserialize, Serialize};
use stoatflow_core::RocksDbConfig;

/// A field of an index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexField {
    /// What it reads of a row.
    pub expr: Expression,
}

/// A secondary index of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexSpec {
    /// Its name, unique in the store.
    pub name: String,
    /// What it orders rows by.
    pub fields: Vec<IndexField>,
    /// May a value (none of whose fields is null) occur in one row only?
    #[serde(default)]
    pub unique: bool,
    /// Is the field a list, of which each element leads to the row?
    #[serde(default)]
    pub each: bool,
}

/// When rows of a table expire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expiry {
    /// So long after the row's timestamp.
    pub ttl: Ttl,
    /// By which clock.
    pub clock: ExpiryClock,
    /// Are the nodes below told, by a tombstone?
    pub forward: bool,
}

/// How long rows live.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ttl {
    /// All of them, in milliseconds.
    Fixed(i64),
    /// Each as long as this says of it, in milliseconds; null: for ever.
    #[serde(rename = "expr")]
    Row(Expression),
}

/// The clock by which rows expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpiryClock {
    /// The stream time of the row's task.
    Event,
    /// The machine's clock.
    Processing,
}

/// How a table is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Materialized {
    /// The store's name; without one the store gets a generated name, which never reaches disk
    /// unless `ensure.explicit.naming` is off.
    #[serde(default)]
    pub store: Option<String>,
    /// Serde of its keys (of a windowed table: of the keys within); default: what the input has.
    #[serde(default)]
    pub key: Option<SerdeSpec>,
    /// Serde of its values; default: what the operator gives (count: `int64`) or the input has.
    #[serde(default)]
    pub value: Option<SerdeSpec>,
    /// Written to a changelog topic?
    #[serde(default = "yes")]
    pub logged: bool,
    /// May updates wait for the barrier (one per key and commit)? Only if the application caches at all.
    #[serde(default = "yes")]
    pub cached: bool,
    /// How long windows and sessions are kept; default: size + grace.
    #[serde(default)]
    pub retention_ms: Option<i64>,
    /// A versioned table: how far back versions are kept.
    #[serde(default)]
    pub history_ms: Option<i64>,
    /// When its rows expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Expiry>,
    /// In memory only (restored from the changelog at each start)?
    #[serde(default)]
    pub in_memory: bool,
    /// Settings of the changelog topic.
    #[serde(default)]
    pub topic: std::collections::BTreeMap<String, String>,
    /// Secondary indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexSpec>,
    /// How RocksDB keeps it, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rocksdb: Option<RocksDbConfig>,
}
