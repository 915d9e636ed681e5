//! Batches out of what waits in front of a lane.
//!
//! Takes the first records of an item, and those of the items that follow it and belong together: an admission that lets
//! in few records at a time makes many small batches. Gives one, of at most `batch.max.records` and the last item's. Never
//! takes anything past a tick, or out of another epoch.

use super::LaneRoom;
use stoatflow_core::Epoch;
use stoatflow_log::ConsumerRecord;

impl LaneRoom {
    /// Takes what dispatch has sent meanwhile: a lane that had to wait (for the interpreter, which the others use in turn)
    /// makes up for it with a larger batch.
    pub(super) fn gather_input(
        &mut self,
        epoch: Epoch,
        batch: &mut Vec<ConsumerRecord>,
        bytes: &mut i64,
    ) -> i64 {
        let mut taken = 0;
        let queue = &self.shared.queues[self.id.0 as usize];
        // What a barrier has let go is older than anything in the queue.
        while batch.len() < self.batch_max
            && self.ready.is_empty()
            && let Some((mut more, weight)) = queue.take_input_of(epoch)
        {
            batch.append(&mut more);
            *bytes += weight;
            taken += 1;
        }
        taken
    }
}
