//! A partition's log as Kafka keeps it: records, aborted records and markers all take an offset.
//!
//! Returns what a `read_committed` consumer may see. Nothing behind the first record of an open
//! transaction is visible, not even records of other producers (last stable offset).

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use stoatflow_core::{Headers, Offset, Timestamp};
use stoatflow_log::ProducerRecord;

/// The number of a transaction, unique in a broker's life.
pub type Transaction = u64;

/// A record in a log.
#[derive(Clone, Debug)]
pub struct LogRecord {
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Option<Bytes>,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// Its headers.
    pub headers: Headers,
    transaction: Option<Transaction>,
}

/// One partition.
#[derive(Debug, Default)]
pub struct PartitionLog {
    /// `None` is a marker, or a record that compaction removed: an offset without a record.
    entries: Vec<Option<LogRecord>>,
    open: BTreeMap<Transaction, usize>,
    aborted: BTreeSet<Transaction>,
}

fn offset(at: usize) -> Offset {
    Offset(i64::try_from(at).unwrap_or(i64::MAX))
}

fn index(offset: Offset) -> usize {
    usize::try_from(offset.0).unwrap_or(0)
}

impl PartitionLog {
    /// Appends a record; returns its offset.
    pub fn append(&mut self, record: ProducerRecord, transaction: Option<Transaction>) -> Offset {
        let at = self.entries.len();
        if let Some(transaction) = transaction {
            self.open.entry(transaction).or_insert(at);
        }
        let ProducerRecord {
            key,
            value,
            timestamp,
            headers,
            ..
        } = record;
        self.entries.push(Some(LogRecord {
            key,
            value,
            timestamp,
            headers,
            transaction,
        }));
        offset(at)
    }

    /// Ends a transaction that wrote to this partition; its marker takes an offset.
    pub fn end(&mut self, transaction: Transaction, commit: bool) {
        if self.open.remove(&transaction).is_some() {
            self.entries.push(None);
            if !commit {
                self.aborted.insert(transaction);
            }
        }
    }

    /// The last stable offset.
    pub fn stable_end(&self) -> Offset {
        offset(
            self.open
                .values()
                .min()
                .copied()
                .unwrap_or(self.entries.len()),
        )
    }

    /// The first visible record at or after `from`, with its offset.
    pub fn next(&self, from: Offset) -> Option<(Offset, &LogRecord)> {
        self.visible(from).next()
    }

    /// All visible records at or after `from`.
    pub fn visible(&self, from: Offset) -> impl DoubleEndedIterator<Item = (Offset, &LogRecord)> {
        let end = index(self.stable_end());
        let from = index(from).min(end);
        self.entries[from..end]
            .iter()
            .enumerate()
            .filter_map(move |(at, entry)| {
                let kept = entry.as_ref()?;
                let aborted = kept.transaction.is_some_and(|t| self.aborted.contains(&t));
                (!aborted).then(|| (offset(from + at), kept))
            })
    }

    /// Removes stable records that a later stable one of the same key replaces, as the log cleaner does.
    pub fn compact(&mut self) {
        let mut newest: BTreeMap<Bytes, Offset> = BTreeMap::new();
        for (at, kept) in self.visible(Offset(0)) {
            newest.insert(kept.key.clone().unwrap_or_default(), at);
        }
        let keep: BTreeSet<Offset> = newest.into_values().collect();
        for at in 0..index(self.stable_end()) {
            if !keep.contains(&offset(at)) {
                self.entries[at] = None;
            }
        }
    }

    /// Also removes stable tombstones, as the log cleaner does after `delete.retention.ms`.
    pub fn purge_tombstones(&mut self) {
        self.compact();
        for at in 0..index(self.stable_end()) {
            if matches!(&self.entries[at], Some(kept) if kept.value.is_none()) {
                self.entries[at] = None;
            }
        }
    }
}

#[cfg(test)]
mod tests;
