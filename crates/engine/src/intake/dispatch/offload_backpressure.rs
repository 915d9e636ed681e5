//! Backpressure of `offload`: partitions whose records are parked, and partitions whose answers free
//! room.
//!
//! Computes how many records of a partition may continue, and whether all answers that existed at the
//! start were read.

use super::Dispatch;
use stoatflow_core::Timestamp;
use stoatflow_log::ConsumerRecord;

impl Dispatch {
    /// The timestamp that orders a record. Answers go first, because everything that waits for room
    /// waits for them.
    pub(super) fn turn(&self, record: &ConsumerRecord) -> Timestamp {
        if self.may_hold && self.slots[record.slot as usize].is_answers {
            return Timestamp(i64::MIN);
        }
        record.timestamp
    }

    /// How many records of the slot may be parked.
    pub(super) fn room(&self, slot: usize) -> usize {
        let lots = self.slots[slot].parking_offloads.iter();
        let room = lots.map(|offload| self.shared.run.room_at(*offload)).min();
        room.map_or(usize::MAX, |room| {
            usize::try_from(room).unwrap_or(usize::MAX)
        })
    }

    /// How many records of the slot may continue now. Room for records that will be parked is reserved
    /// at once, because they are in flight until then.
    pub(super) fn reserve_room(&self, slot: usize) -> usize {
        let lots = &self.slots[slot].parking_offloads;
        if lots.is_empty() {
            return self.limits.batch;
        }
        let there = self.buffers[slot].records.len();
        let most = self.limits.batch.min(there).min(self.room(slot));
        for offload in lots {
            self.shared.run.reserve_park_room(*offload, most as u64);
        }
        most
    }

    /// Returns reserved room that was not used.
    pub(super) fn return_room(&self, slot: usize, records: usize) {
        for offload in &self.slots[slot].parking_offloads {
            self.shared.run.release_park_room(*offload, records as u64);
        }
    }

    /// Answers may have arrived while the application was down; timeouts wait until those are read.
    /// Checked at the start and before each barrier, so that every lane has seen all answers before it
    /// looks at the clock.
    pub(super) fn check_answers(&self) {
        let unread =
            (self.slots.iter().zip(&self.cut)).any(|(slot, at)| slot.is_answers && *at < slot.end);
        self.shared.run.set_answers_wait(unread);
    }
}
