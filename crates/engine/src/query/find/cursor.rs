//! The end of a page.
//!
//! Contains the store and the query, so that a cursor can't be used for another query, where its
//! position would mean something else.

use stoatflow_core::{Bytes, Error, Result};
use stoatflow_plan::find::FindSpec;

const VERSION: u8 = 1;
/// Length of version, kind, store and query.
const HEAD: usize = 18;

/// FNV-1a: the same in every process.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A hash of what determines the rows of a query and their order, with this index.
pub(super) fn query_number(spec: &FindSpec, index: &str) -> u64 {
    let order: Vec<_> = spec.order_by.iter().map(|by| (&by.expr, by.down)).collect();
    let made = serde_json::to_vec(&(&spec.condition, order, index));
    number(&made.unwrap_or_default())
}

/// See the module.
pub(super) struct Cursor;

impl Cursor {
    pub fn write(store: &str, query: u64, sorted: bool, at: &[u8]) -> Vec<u8> {
        let mut bytes = vec![VERSION, u8::from(sorted)];
        bytes.extend_from_slice(&number(store.as_bytes()).to_be_bytes());
        bytes.extend_from_slice(&query.to_be_bytes());
        bytes.extend_from_slice(at);
        bytes
    }

    pub fn read(bytes: &[u8], store: &str, query: u64, sorted: bool) -> Result<Bytes> {
        let foreign = |what: &str| {
            Error::config(format!("the cursor is {what}"))
                .hint("give the cursor of a page of the same find(), or none to begin at the front")
        };
        let Some((head, at)) = bytes.split_at_checked(HEAD) else {
            return Err(foreign("none of find()"));
        };
        if head[0] != VERSION || head[1] > 1 {
            return Err(foreign("none of this version of find()"));
        }
        if head[2..10] != number(store.as_bytes()).to_be_bytes() {
            return Err(foreign(&format!("of another store than '{store}'")));
        }
        if head[10..] != query.to_be_bytes() || head[1] != u8::from(sorted) {
            return Err(foreign(
                "of another query: where=, order_by= and the indexes must be the same",
            ));
        }
        Ok(Bytes::copy_from_slice(at))
    }
}
