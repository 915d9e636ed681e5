//! Batches out of what waits in front of a lane.
//!
//! Takes the first records of an item, and those of the items that follow it and belong together: many lanes, and an
//! admission that lets in few records at a time, make many small batches. Gives one, of at most `batch.max.records` and the
//! last item's. Never takes anything past a barrier, or out of another epoch.

use super::LaneRoom;
use crate::queue::Item;
use stoatflow_core::{Epoch, NodeId, Record};
use stoatflow_log::Fetched;

impl LaneRoom {
    /// Many lanes send many small batches: takes the ones that follow directly and belong together.
    pub(super) fn gather_routed(
        &mut self,
        epoch: Epoch,
        via: NodeId,
        batch: &mut Vec<Record>,
        bytes: &mut i64,
    ) -> i64 {
        let mut taken = 0;
        while batch.len() < self.batch_max {
            let source = if self.ready.is_empty() {
                &mut self.inbox
            } else {
                &mut self.ready
            };
            match source.front() {
                Some(Item::Routed {
                    epoch: e, via: v, ..
                }) if *e == epoch && *v == via => {}
                _ => break,
            }
            if let Some(Item::Routed {
                batch: mut more,
                bytes: weight,
                ..
            }) = source.pop_front()
            {
                batch.append(&mut more);
                *bytes += weight;
                taken += 1;
            }
        }
        taken
    }

    /// The same for what dispatch has sent meanwhile, where admission lets in few records at a time: a lane that had to wait
    /// (for the interpreter, which the others use in turn) makes up for it with a larger batch.
    pub(super) fn gather_input(
        &mut self,
        epoch: Epoch,
        batch: &mut Vec<Fetched>,
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
