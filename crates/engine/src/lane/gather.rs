//! Joins waiting input into larger batches.
//!
//! If admission lets in few records at a time, there are many small batches. A joined batch has at most
//! `batch.max.records` plus the records of the last item. Never joins across a tick or an epoch.

use super::LaneWorker;
use crate::lane::dispatched::Dispatched;
use stoatflow_core::Epoch;

impl LaneWorker {
    /// Adds what dispatch has sent meanwhile: a lane that had to wait for the interpreter catches up
    /// with a larger batch. Returns the number of items added.
    pub(super) fn gather_input(&mut self, epoch: Epoch, batch: &mut Dispatched) -> i64 {
        let mut taken = 0;
        let queue = &self.shared.queues[self.id.0 as usize];
        // Items that a barrier has released are older than anything in the queue.
        while batch.records.len() < self.batch_max
            && self.ready.is_empty()
            && let Some(more) = queue.take_input_of(epoch)
        {
            batch.append(more);
            taken += 1;
        }
        taken
    }
}
