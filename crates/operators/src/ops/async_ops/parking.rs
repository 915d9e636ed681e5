//! Rows of calls that outlive their epoch.
//!
//! Writes the records of calls that haven't ended by the barrier; deletes the row of an ended call in
//! the epoch of its result. At the start reads all rows, and makes the calls of those that belong to
//! this lane.

use super::tally::Row;
use super::{AsyncCalls, Entry, Written};
use crate::{Context, FaultInjection, LaneStore};
use bytes::{BufMut, Bytes, BytesMut};
use std::sync::Arc;
use stoatflow_core::{Datum, Record, Result};
use stoatflow_state::{KeyRange, Stored};

impl AsyncCalls {
    pub(super) fn unpark(&self, entry: &Entry, context: &mut Context<'_>) -> Result<()> {
        let Some(row) = &entry.row else {
            return Ok(());
        };
        if self.settings.fault == FaultInjection::CallsParkedForever {
            return Ok(());
        }
        let epoch = context.epoch;
        let LaneStore { store, dirty } = context.store(self.settings.store);
        store
            .put(epoch, dirty, &row.key, None)
            .map_err(|e| self.node_context.name_node(e))
    }

    /// Parks records of running calls that have no row yet.
    pub(super) fn park(&mut self, context: &mut Context<'_>) -> Result<()> {
        if self.settings.fault == FaultInjection::CallsNotParked {
            self.fresh.clear();
        }
        let epoch = context.epoch;
        let tally = Arc::clone(&self.udf.in_flight().tally);
        let LaneStore { store, dirty } = context.store(self.settings.store);
        for ticket in self.fresh.drain(..) {
            let Some(entry) = self.entries.get_mut(&ticket) else {
                continue;
            };
            let origin = &entry.record.origin;
            let bytes = match entry.written.parked.take() {
                Some(bytes) => Ok(bytes),
                None => self.codec.encode(&entry.record),
            };
            let stored = Stored {
                value: Datum::Bytes(bytes.map_err(|e| self.node_context.locate(e, origin))?),
                timestamp: entry.record.timestamp,
            };
            let row = row(ticket, entry);
            store
                .put(epoch, dirty, &row, Some(stored))
                .map_err(|e| self.node_context.name_node(e))?;
            entry.row = Some(Row::new(row, &tally));
        }
        self.queue.mark(self.next);
        Ok(())
    }

    /// Starts the calls of all rows that belong to this lane.
    pub(super) fn restore(&mut self, context: &mut Context<'_>) -> Result<()> {
        let (epoch, assignment) = (context.epoch, context.assignment);
        let LaneStore { store, .. } = context.store(self.settings.store);
        let found = store
            .scan(epoch, &KeyRange::default(), usize::MAX)
            .map_err(|e| self.node_context.name_node(e))?;
        let mut parked = Vec::new();
        for (row, stored) in found {
            let Some(at) = row.len().checked_sub(8).filter(|at| *at > 0) else {
                return Err(self.codec.corrupt());
            };
            let mut number = [0; 8];
            number.copy_from_slice(&row[at..]);
            let ticket = u64::from_be_bytes(number);
            self.next = self.next.max(ticket + 1);
            let key = (row[0] == KEYED).then(|| row.slice(1..at));
            let owner = match &key {
                Some(key) => self.settings.key.affinity(key),
                None => &row[..at],
            };
            if assignment.owns(owner) {
                let record = self.codec.decode(&stored.value)?;
                parked.push((ticket, row.clone(), key, record));
            }
        }
        parked.sort_unstable_by_key(|(ticket, ..)| *ticket);
        self.udf.in_flight().force(parked.len());
        if self.settings.fault == FaultInjection::CallsOvertaken {
            parked.iter_mut().for_each(|(_, _, key, _)| *key = None);
        }
        let rows = parked.into_iter();
        // They get new tickets, higher than those of all rows: lanes assign tickets independently, and
        // rows of several lanes may now be in one.
        let tally = Arc::clone(&self.udf.in_flight().tally);
        self.begin(rows.map(|(_, row, key, record)| {
            let written = Written { key, parked: None };
            (Some(Row::new(row, &tally)), written, record)
        }));
        self.queue.mark(self.next);
        Ok(())
    }
}

/// First byte of a row's key.
const UNKEYED: u8 = 0;
const KEYED: u8 = 1;

/// A row's key: the record's key (without a key: its origin), then the ticket of its call.
fn row(ticket: u64, entry: &Entry) -> Bytes {
    let mut row = BytesMut::with_capacity(32);
    match &entry.written.key {
        Some(key) => {
            row.put_u8(KEYED);
            row.put_slice(key);
        }
        None => {
            row.put_u8(UNKEYED);
            row.put_slice(&place(&entry.record));
        }
    }
    row.put_u64(ticket);
    row.freeze()
}

/// Origin of a record without a key: no two lanes have the same.
fn place(record: &Record) -> [u8; 16] {
    let origin = &record.origin;
    let mut place = [0; 16];
    place[..2].copy_from_slice(&origin.source.0.to_be_bytes());
    place[2..4].copy_from_slice(&origin.topic.to_be_bytes());
    place[4..8].copy_from_slice(&origin.partition.0.to_be_bytes());
    place[8..].copy_from_slice(&origin.offset.0.to_be_bytes());
    place
}
