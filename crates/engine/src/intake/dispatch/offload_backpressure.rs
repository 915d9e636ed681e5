//! Partitions whose records are parked, and those that bring the answers which unpark them (`offload`).
//!
//! Takes how full the parking lots are; says whose turn it is, how many records of a partition may go on, and whether
//! all answers have been read that were there at the start.

use super::Dispatch;
use stoatflow_core::Timestamp;
use stoatflow_log::ConsumerRecord;

impl Dispatch {
    /// What decides when a record has its turn. Answers have it at once: whatever waits for room waits for them.
    pub(super) fn turn(&self, record: &ConsumerRecord) -> Timestamp {
        if self.may_hold && self.slots[record.slot as usize].answers_end.is_some() {
            return Timestamp(i64::MIN);
        }
        record.timestamp
    }

    /// How many of its records may be parked.
    pub(super) fn room(&self, slot: usize) -> usize {
        let lots = self.slots[slot].parks_at.iter();
        let room = lots.map(|offload| self.shared.run.room_at(*offload)).min();
        room.map_or(usize::MAX, |room| {
            usize::try_from(room).unwrap_or(usize::MAX)
        })
    }

    /// How many of its records may go on in one turn. If they are parked, their room is taken now: others must not
    /// count on it while they are on their way.
    pub(super) fn reserve_room(&self, slot: usize) -> usize {
        let lots = &self.slots[slot].parks_at;
        if lots.is_empty() {
            return self.limits.batch;
        }
        let there = self.buffers[slot].records.len();
        let most = self.limits.batch.min(there).min(self.room(slot));
        for offload in lots {
            self.shared.run.sent_to_park(*offload, most as u64);
        }
        most
    }

    /// So many did not go.
    pub(super) fn return_room(&self, slot: usize, records: usize) {
        for offload in &self.slots[slot].parks_at {
            self.shared.run.came_to_park(*offload, records as u64);
        }
    }

    /// Answers may have come while nothing ran. Until they are read, what is due waits. Said at the start, and
    /// before a barrier goes out: then every lane has all answers that are read when it looks at the clock.
    pub(super) fn check_answers(&self) {
        let unread = (self.slots.iter().zip(&self.cut))
            .any(|(slot, at)| slot.answers_end.is_some_and(|end| *at < end));
        self.shared.run.set_answers_wait(unread);
    }
}
