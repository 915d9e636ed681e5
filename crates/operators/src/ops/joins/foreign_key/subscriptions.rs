//! The store of a foreign-key join: which left rows have which foreign key.
//!
//! Takes foreign keys and left keys as bytes; returns the entries of a foreign key, in the order of the
//! left keys' bytes. An entry's key is the length-prefixed foreign key, then the left key, so that no
//! entry of another foreign key lies in between. Values are fingerprints of the left values.

use crate::ops::joins::foreign_key::message::Fingerprint;
use crate::{Context, LaneStore};
use bytes::{BufMut, Bytes, BytesMut};
use stoatflow_core::{Datum, Error, Result, StoreId, Timestamp};
use stoatflow_state::{KeyRange, Stored, after_prefix};

fn prefix(foreign: &[u8]) -> Result<BytesMut> {
    let length = u32::try_from(foreign.len())
        .map_err(|_| Error::user("a foreign key has more than 4294967295 bytes"))?;
    let mut key = BytesMut::with_capacity(4 + foreign.len() + 16);
    key.put_u32(length);
    key.put_slice(foreign);
    Ok(key)
}

/// Adds the entry of a left row.
pub(crate) fn put(
    store: StoreId,
    foreign: &[u8],
    left: &[u8],
    fingerprint: Fingerprint,
    timestamp: Timestamp,
    context: &mut Context<'_>,
) -> Result<()> {
    let bytes = fingerprint.map_or_else(Bytes::new, |print| {
        Bytes::copy_from_slice(&print.to_be_bytes())
    });
    write(
        store,
        foreign,
        left,
        Datum::Bytes(bytes),
        timestamp,
        context,
    )
}

/// Deletes the entry of a left row.
pub(crate) fn delete(
    store: StoreId,
    foreign: &[u8],
    left: &[u8],
    timestamp: Timestamp,
    context: &mut Context<'_>,
) -> Result<()> {
    write(store, foreign, left, Datum::Null, timestamp, context)
}

fn write(
    store: StoreId,
    foreign: &[u8],
    left: &[u8],
    value: Datum,
    timestamp: Timestamp,
    context: &mut Context<'_>,
) -> Result<()> {
    let mut key = prefix(foreign)?;
    key.put_slice(left);
    let epoch = context.epoch;
    let LaneStore { store, dirty } = context.store(store);
    store.put(
        epoch,
        dirty,
        &key.freeze(),
        Some(Stored { value, timestamp }),
    )
}

/// The left rows of a foreign key: their keys' bytes and fingerprints.
pub(crate) fn of(
    store: StoreId,
    foreign: &[u8],
    context: &mut Context<'_>,
) -> Result<Vec<(Bytes, Fingerprint)>> {
    let prefix = prefix(foreign)?.freeze();
    let range = KeyRange {
        to: after_prefix(&prefix),
        from: Some(prefix.clone()),
        reverse: false,
    };
    let epoch = context.epoch;
    let found = context.store(store).store.scan(epoch, &range, usize::MAX)?;
    found
        .into_iter()
        .map(|(key, stored)| Ok((key.slice(prefix.len()..), read(&stored.value)?)))
        .collect()
}

fn read(value: &Datum) -> Result<Fingerprint> {
    match value {
        Datum::Bytes(bytes) if bytes.is_empty() => Ok(None),
        Datum::Bytes(bytes) => match <[u8; 8]>::try_from(bytes.as_ref()) {
            Ok(bytes) => Ok(Some(u64::from_be_bytes(bytes))),
            Err(_) => Err(Error::state_corrupt(format!(
                "a subscription has a value of {} bytes instead of 8",
                bytes.len()
            ))),
        },
        other => Err(Error::internal(format!(
            "a subscription has a value of type {}",
            other.type_name()
        ))),
    }
}
