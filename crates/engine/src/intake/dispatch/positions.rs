//! The position of dispatch in each partition, as commits and the status report it.
//!
//! Takes the consumer's positions, which may be past commit markers; returns offsets and stream times,
//! and whether everything admitted is committed. A position never passes a record that is still
//! buffered.

use super::Dispatch;
use std::cmp::Reverse;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Offset, Timestamp};

impl Dispatch {
    /// Writes positions and watermarks to the status.
    pub(super) fn report_partitions(&self, watermark: i64) {
        let status = &self.shared.status;
        status.watermark.store(watermark, Relaxed);
        status.with_partitions(|known| {
            for (partition, at) in known.iter_mut().zip(&self.cut) {
                partition.position = at.0;
            }
            let waits = |at: usize| {
                let mut held = self.held.iter();
                held.any(|Reverse((_, slot))| *slot as usize == at)
            };
            self.times.report(known, waits);
        });
    }

    /// Advances to the consumer's positions, which may be past commit markers. Without this the group's
    /// lag behind a transactional producer would never become 0.
    pub fn skip_to(&mut self, positions: &[Offset]) {
        for ((at, position), buffer) in self.cut.iter_mut().zip(positions).zip(&self.buffers) {
            if buffer.records.is_empty() && position > at {
                *at = *position;
                self.skipped = true;
            }
        }
    }

    /// True if everything admitted is committed.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.epoch_records == 0 && !self.skipped && !self.fresh && !self.is_committing()
    }

    /// True if records wait only for credit.
    #[must_use]
    pub fn has_buffered(&self) -> bool {
        self.buffered_bytes > self.held_bytes()
    }

    /// Offset and stream time per slot.
    pub fn positions(&self) -> impl Iterator<Item = (Offset, Timestamp)> + '_ {
        self.cut
            .iter()
            .copied()
            .zip(self.times.highest().iter().copied())
    }
}
