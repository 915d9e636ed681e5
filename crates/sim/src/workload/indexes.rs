//! Secondary indexes of some jobs' tables.
//!
//! Each table of an indexed job has one index by its value, and a covering one. Their contents follow
//! from the rows alone: [`crate::checkers`] compares both after each write to a disk.

use super::Part;
use bytes::Bytes;
use serde_json::{Value, json};
use stoatflow_core::{Datum, StoreId, ordered};
use stoatflow_engine::index::index_stores;
use stoatflow_plan::{PhysicalPlan, SerdeSpec};

/// An index of a job.
#[derive(Clone, Debug)]
pub(crate) struct SimIndex {
    /// The indexed store.
    pub rows: StoreId,
    /// The store of its entries.
    pub entries: StoreId,
    pub name: String,
    /// Whether values are numbers of eight bytes, otherwise text.
    is_number: bool,
    is_covering: bool,
}

/// Declares the indexes in the nodes of a part.
pub(super) fn declare(part: Part, nodes: &mut [Value]) {
    let field = |op: &str| json!([{"expr": {"op": op}}]);
    let indexes = json!([
        {"name": "by_value", "fields": field("value")},
        {"name": "covering", "fields": field("value"), "storing": field("key")},
    ]);
    for node in nodes {
        let store = &node["materialized"]["store"];
        if part.tables().iter().any(|(_, table)| store == table) {
            node["materialized"]["indexes"] = indexes.clone();
        }
    }
}

/// The indexes of a plan.
pub(crate) fn of(plan: &PhysicalPlan) -> Vec<SimIndex> {
    let all = index_stores(plan).into_iter();
    all.map(|(entries, store, spec)| SimIndex {
        rows: store.id,
        entries,
        name: format!("{}/{}", store.name, spec.name),
        is_number: store.value == SerdeSpec::Builtin("int64".into()),
        is_covering: !spec.storing.is_empty(),
    })
    .collect()
}

impl SimIndex {
    /// The entry of a row: its key, and what it keeps.
    pub fn entry(&self, key: &Bytes, value: &Bytes) -> (Bytes, Bytes) {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let number = || {
            let fixed = value.first_chunk().map(|fixed| i64::from_be_bytes(*fixed));
            fixed.unwrap_or_default()
        };
        let (datum, shown) = if self.is_number {
            (Datum::Int(number()), json!(number()))
        } else {
            (Datum::text(text(value)), json!(text(value)))
        };
        let kept = if self.is_covering {
            json!([shown, text(key)]).to_string()
        } else {
            String::new()
        };
        let entry = [ordered::bytes(&datum).as_slice(), key].concat();
        (entry.into(), kept.into())
    }
}
