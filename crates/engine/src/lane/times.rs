//! Moves a lane's clocks by the records that it receives.
//!
//! Sees batches before the chains do. The effect of other lanes' records on time arrives with the steps
//! of a tick, and with the times that dispatch notes at each record. Never reads the machine's clock.

use super::LaneWorker;
use std::sync::Arc;
use stoatflow_core::{NodeId, Record, StageId};
use stoatflow_operators::RecordTimes;

impl LaneWorker {
    /// Passes the times that dispatch has noted at the records of a batch to the first stage.
    pub(super) fn begin_input(&mut self, times: Vec<RecordTimes>) {
        if self.timing.stages[0].dispatched {
            let view = self.view(StageId(0));
            self.views[view].begin_batch(times);
        }
    }

    /// Moves the application's clock by all records of a batch, including those from other lanes.
    pub(super) fn observe(&mut self, stage: StageId, batch: &[Record]) {
        if let Some(clock) = self.timing.application
            && !self.timing.by_watermark
            && self.timing.stages[usize::from(stage.0)].timed
        {
            let view = self.view(stage);
            for record in batch {
                self.views[view].see(clock, record.task(), record.timestamp.0);
            }
        }
    }

    /// Moves the stream time of the first stage's processors by records of a source, each in its task.
    pub(super) fn observe_read(&mut self, source: usize, batch: &[Record]) {
        let timing = Arc::clone(&self.timing);
        let view = self.view(StageId(0));
        for clock in &timing.groups.read[source] {
            for record in batch {
                self.views[view].see(*clock, record.task(), record.timestamp.0);
            }
        }
    }

    /// Moves the stream time of tasks in a single lane. With several lanes the steps of a tick do that.
    pub(super) fn observe_tasks(&mut self, via: NodeId, stage: StageId, batch: &[Record]) {
        let timing = Arc::clone(&self.timing);
        let clocks = &timing.groups.processors[via.0 as usize];
        if self.assignment.lanes > 1 || clocks.is_empty() {
            return;
        }
        let view = self.view(stage);
        let view = &mut self.views[view];
        let mut times = Vec::with_capacity(batch.len());
        for record in batch {
            let mut time = -1;
            for clock in clocks {
                time = view.see(*clock, record.task(), record.timestamp.0);
            }
            times.push(RecordTimes {
                place: record.origin.order.key(),
                stream: time,
                keyed_before: -1,
            });
        }
        view.begin_batch(times);
    }
}
