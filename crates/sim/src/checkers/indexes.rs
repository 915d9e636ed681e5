//! Compares the indexes on a disk with the rows that they index.
//!
//! An index that is marked as complete must hold exactly the entries of its store's rows, at any time: a
//! commit writes both or neither.

use super::{Verdict, ensure};
use crate::workload::indexes::SimIndex;
use bytes::Bytes;
use std::collections::BTreeMap;
use stoatflow_core::StoreId;
use stoatflow_engine::index::state::STATE_KEY;
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::{Backend, KeyRange};

/// Compares the complete ones; returns how many entries these have.
pub(crate) fn compare(indexes: &[SimIndex], disk: &MemoryBackend) -> Result<u64, String> {
    let mut compared = 0;
    for index in indexes {
        let mut entries = scan(disk, index.entries)?;
        if !entries
            .remove(STATE_KEY)
            .is_some_and(|row| is_readable(&row))
        {
            continue;
        }
        let expected: BTreeMap<Bytes, Bytes> = scan(disk, index.rows)?
            .iter()
            .map(|(key, stored)| index.entry(key, &stored.slice(8..)))
            .collect();
        for kept in entries.values_mut() {
            *kept = kept.slice(8..);
        }
        ensure!(
            entries == expected,
            "the index {} holds {entries:?}, but its store's rows give {expected:?}",
            index.name
        );
        compared += entries.len() as u64;
    }
    Ok(compared)
}

/// Checks that all are complete.
pub(super) fn complete(indexes: &[SimIndex], disk: &MemoryBackend) -> Verdict {
    for index in indexes {
        let state = disk.get(index.entries, STATE_KEY);
        let state = state.map_err(|e| e.to_string())?;
        ensure!(
            state.is_some_and(|row| is_readable(&row)),
            "the index {} is not complete after a start",
            index.name
        );
    }
    Ok(())
}

/// Version, fingerprint, state: 2 is readable.
fn is_readable(state: &Bytes) -> bool {
    state.get(9) == Some(&2)
}

fn scan(disk: &MemoryBackend, store: StoreId) -> Result<BTreeMap<Bytes, Bytes>, String> {
    let rows = disk.scan(store, &KeyRange::default(), usize::MAX);
    Ok(rows.map_err(|e| e.to_string())?.into_iter().collect())
}
