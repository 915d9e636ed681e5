//! Rows in the engine's store `clocks` about the partitioning of other stores' keys.
//!
//! A row (0, name of the store, 0, a letter) means that a partitioner doesn't fit. It is written in the
//! epoch in which that was found, and never deleted.

use super::key_tasks::Misfit;
use crate::{Context, LaneStore};
use bytes::{BufMut, Bytes, BytesMut};
use stoatflow_core::{Datum, Error, Result, Timestamp};
use stoatflow_state::Stored;

fn row_key(store: &str, misfit: Misfit) -> Bytes {
    // No clock has an empty name, so no row of a clock begins like this.
    let mut key = BytesMut::with_capacity(store.len() + 3);
    key.put_u8(0);
    key.put_slice(store.as_bytes());
    key.put_u8(0);
    key.put_u8(misfit as u8);
    key.freeze()
}

/// Whether the row exists.
pub(crate) fn is_written(store: &str, misfit: Misfit, context: &mut Context<'_>) -> Result<bool> {
    let Some((id, _)) = context.clocks.rows.clone() else {
        return Ok(false);
    };
    let epoch = context.epoch;
    let found = context
        .store(id)
        .store
        .get(epoch, &row_key(store, misfit))?;
    Ok(found.is_some())
}

/// Writes the row.
pub(crate) fn write(store: &str, misfit: Misfit, context: &mut Context<'_>) -> Result<()> {
    let Some((id, _)) = context.clocks.rows.clone() else {
        return Err(Error::internal("a processor has no store of stream times"));
    };
    let epoch = context.epoch;
    let stored = Stored {
        value: Datum::Bytes(Bytes::new()),
        timestamp: Timestamp(0),
    };
    let LaneStore { store: kept, dirty } = context.store(id);
    kept.put(epoch, dirty, &row_key(store, misfit), Some(stored))
}
