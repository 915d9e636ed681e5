//! Lists parked records, for queries from outside the lanes.
//!
//! Takes the committed rows of an offload's store, returns entries in the order of their keys' bytes.
//! Never changes a row, and never sees uncommitted ones.

use super::headers::correlation;
use super::row::{Row, split_row_key};
use crate::ForeignCode;
use crate::support::node_context::NodeContext;
use crate::support::parked_record::Codec;
use bytes::Bytes;
use stoatflow_core::{Datum, Error, Result, StoreId};
use stoatflow_plan::{Op, PhysicalNode, PhysicalPlan, RetryPolicy};

/// A parked record.
#[derive(Clone, Debug)]
pub struct Parked {
    /// Its key.
    pub key: Datum,
    /// Its value, as it was parked.
    pub value: Datum,
    /// Its timestamp.
    pub timestamp: i64,
    /// Wall time at which it was parked.
    pub since: i64,
    /// Requests that were sent for it.
    pub attempt: u32,
    /// When it times out, or the next request is sent.
    pub due: Option<i64>,
    /// `asked`, `pausing` (between two requests), or waiting for its turn: `answered`, `timed_out`,
    /// `failed`, `left_out`.
    pub state: &'static str,
    /// The correlation that its answer must have.
    pub correlation: String,
}

/// Lists the entries of an offload's store.
#[derive(Debug)]
pub struct Listing {
    /// Its store.
    pub store: StoreId,
    name: String,
    codec: Codec,
    patience: RetryPolicy,
}

/// The listing of the offload with this name.
///
/// # Errors
/// `Config` if there is none.
pub fn parked(plan: &PhysicalPlan, foreign: &ForeignCode, name: &str) -> Result<Listing> {
    let offloads = || {
        plan.nodes
            .iter()
            .filter(|node| matches!(node.op, Op::Offload { .. }))
    };
    let found = offloads().find(|node| node.name == name);
    let Some(PhysicalNode {
        id,
        op:
            Op::Offload {
                store,
                key,
                value,
                patience,
                ..
            },
        ..
    }) = found
    else {
        let names: Vec<&str> = offloads().map(|node| node.name.as_str()).collect();
        let hint = if names.is_empty() {
            "the topology has none: call stream.offload(...)".to_owned()
        } else {
            format!("the topology has: {}", names.join(", "))
        };
        return Err(Error::config(format!("there is no offload named '{name}'")).hint(hint));
    };
    Ok(Listing {
        store: *store,
        name: name.to_owned(),
        codec: Codec {
            key: foreign.serde(key)?,
            value: foreign.serde(value)?,
            node_context: NodeContext::new(*id, name, NodeContext::topics(plan)),
            who: "an offload",
        },
        patience: *patience,
    })
}

impl Listing {
    /// The entry for a committed row.
    ///
    /// # Errors
    /// `StateCorrupt` if the row is damaged, and errors of custom serdes.
    pub fn entry(&self, row_key: &Bytes, stored: &Bytes) -> Result<Parked> {
        // Each value in the back end is prefixed by a timestamp.
        let value = stored.get(8..).map(|value| stored.slice_ref(value));
        let parts = split_row_key(row_key).zip(value);
        let ((_, number), value) = parts.ok_or_else(|| self.codec.corrupt())?;
        let row = Row::decode(value).map_err(|e| e.error(&self.codec))?;
        let record = self.codec.decode(&Datum::Bytes(row.record))?;
        Ok(Parked {
            key: record.key,
            value: record.value,
            timestamp: record.timestamp.0,
            since: row.since,
            attempt: row.attempt,
            due: row.phase.due(&self.patience),
            state: row.phase.word(),
            correlation: correlation(&self.name, number),
        })
    }
}
