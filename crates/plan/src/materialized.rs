//! How a table is materialized, and the indexes of a store, as data.
//!
//! Used in the logical and in the physical plan. Never decides anything.

use crate::expression::Expression;
use crate::spec::{SerdeSpec, yes};
use serde::{Deserialize, Serialize};
use stoatflow_core::RocksDbConfig;

/// A field of an index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexField {
    /// The expression over a row.
    pub expr: Expression,
}

/// A secondary index of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexSpec {
    /// Its name, unique in the store.
    pub name: String,
    /// The expressions that rows are sorted by.
    pub fields: Vec<IndexField>,
    /// Whether a value (with no null in its fields) may occur in only one row.
    #[serde(default)]
    pub unique: bool,
    /// Whether the field is a list, with an entry for each element.
    #[serde(default)]
    pub each: bool,
    /// Expressions whose values its entries keep beside the fields, so that a query that reads nothing
    /// else needs no row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storing: Vec<IndexField>,
}

/// When rows of a table, or of a processor's store, expire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expiry {
    /// How long after its timestamp a row expires.
    pub ttl: Ttl,
    /// The clock.
    pub clock: ExpiryClock,
    /// Whether a tombstone is forwarded.
    pub forward: bool,
}

/// Time to live of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ttl {
    /// The same for all rows, in milliseconds.
    Fixed(i64),
    /// An expression for each row, in milliseconds; null: for ever.
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

/// How a table is materialized.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Materialized {
    /// The name of the store; without one it gets a generated name, which is refused if
    /// `ensure.explicit.naming` is on.
    #[serde(default)]
    pub store: Option<String>,
    /// Serde of its keys (for a windowed table: of the keys inside); default: that of the input.
    #[serde(default)]
    pub key: Option<SerdeSpec>,
    /// Serde of its values; default: that of the operator (count: `int64`) or of the input.
    #[serde(default)]
    pub value: Option<SerdeSpec>,
    /// Whether it has a changelog topic.
    #[serde(default = "yes")]
    pub logged: bool,
    /// Whether updates may wait for the barrier (one per key and commit). Has no effect if the
    /// application's cache is off.
    #[serde(default = "yes")]
    pub cached: bool,
    /// How long windows and sessions are kept; default: size + grace.
    #[serde(default)]
    pub retention_ms: Option<i64>,
    /// For a versioned table: how long old versions are kept.
    #[serde(default)]
    pub history_ms: Option<i64>,
    /// When its rows expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Expiry>,
    /// Whether it is kept in memory only (and restored from the changelog at each start).
    #[serde(default)]
    pub in_memory: bool,
    /// Configuration of the changelog topic.
    #[serde(default)]
    pub topic: std::collections::BTreeMap<String, String>,
    /// Secondary indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexSpec>,
    /// RocksDB options that differ from the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rocksdb: Option<RocksDbConfig>,
}
