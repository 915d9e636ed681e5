//! Partitions that wait in dispatch, and when the consumer pauses them.
//!
//! A partition is held while it is too far ahead of its alignment group, or while an offload would park
//! its records but has no room. Decides from the buffers which slots the consumer pauses. Held records
//! never keep other partitions from being fetched.

use super::Dispatch;
use std::cmp::Reverse;

impl Dispatch {
    /// True if there is buffer room for every partition.
    pub(super) fn has_room(&self) -> bool {
        self.buffered_bytes - self.held_bytes() < self.admission.budget() / 2
    }

    /// Bytes of held partitions, which must not keep others from being fetched.
    pub(super) fn held_bytes(&self) -> i64 {
        let buffers = self.held.iter();
        let bytes = buffers.map(|Reverse((_, slot))| self.buffers[*slot as usize].bytes);
        bytes.sum()
    }

    /// Releases partitions that no longer have to wait.
    pub(super) fn release_held(&mut self) {
        let mut at = 0;
        while let Some(Reverse((_, slot))) = self.held.get(at) {
            let slot = *slot as usize;
            let bound = self.times.bound(slot);
            if self.room(slot) == 0 || bound.is_some_and(|bound| self.times.watermark(slot) > bound)
            {
                at += 1;
            } else {
                let head = self.held.swap_remove(at);
                self.heads.push(head);
            }
        }
    }

    /// Marks held partitions with full buffers as paused, until half of the buffer is used up.
    pub(super) fn check_full(&mut self) {
        if self.held.is_empty() && self.full.is_empty() {
            return;
        }
        let enough = self.admission.budget() / 8;
        let crowded = self.held_bytes() > self.admission.budget() / 2;
        let buffers = &self.buffers;
        self.full
            .retain(|slot| buffers[*slot as usize].bytes > enough / 2);
        for Reverse((_, slot)) in &self.held {
            let bytes = buffers[*slot as usize].bytes;
            if (crowded || bytes > enough) && !self.full.contains(slot) {
                self.full.push(*slot);
            }
        }
        self.full.sort_unstable();
    }

    /// The slots to pause, sorted: other sources while global tables load; held partitions with
    /// full buffers; and without room, every partition that has anything buffered.
    #[must_use]
    pub fn paused_slots(&self) -> Vec<u32> {
        let those = |is: &dyn Fn(usize) -> bool| {
            let all = (0..).zip(0..self.slots.len());
            all.filter(|(_, at)| is(*at)).map(|(at, _)| at).collect()
        };
        if !self.gate.is_open() {
            those(&|at| !self.slots[at].is_global)
        } else if self.has_room() {
            self.full.clone()
        } else {
            those(&|at| !self.buffers[at].records.is_empty())
        }
    }
}
