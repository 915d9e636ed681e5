//! Records from dispatch: decoded, given to their sources.
//!
//! Takes a batch as it was fetched, gives each source its records: all of a batch at a time where sources don't depend on
//! each other, else neighbours of one source. Leaves out what the policies for late records and the handlers of the sources
//! leave out; those are asked about records without a time, too. Never waits.

use super::LaneRoom;
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::{Result, StageId};
use stoatflow_log::ConsumerRecord;

impl LaneRoom {
    pub(super) fn input(&mut self, batch: &mut [ConsumerRecord]) -> Result<()> {
        let mut refused = self.shared.invalid_timestamps.take(batch);
        let late = self.late(batch, &refused)?;
        for (at, refusal) in &refused {
            batch[*at].timestamp = refusal.timestamp;
        }
        let batch = &*batch;
        let mut refused = refused.iter_mut().peekable();
        let grouped = self.plan.stages[0].independent_entries || self.plan.sources.len() == 1;
        let slots = Arc::clone(&self.slots);
        let mut late = late.into_iter().peekable();
        // Where entries depend on each other, only neighbours of one source go together.
        let mut run = None;
        for (at, fetched) in batch.iter().enumerate() {
            let slot = &slots[fetched.slot as usize];
            let mut refusal = refused.next_if(|(of, _)| *of == at);
            for (which, reader) in slot.bindings.iter().enumerate() {
                if late.next_if_eq(&(at, which)).is_some() {
                    continue;
                }
                let read = match &mut refusal {
                    Some((_, refusal)) => self.invalid_time(refusal, reader, slot, fetched)?,
                    None => match reader.decode(slot, fetched) {
                        Ok(record) => Some(record),
                        Err(error) => self.unreadable(error, reader, slot, fetched)?,
                    },
                };
                let Some(record) = read else {
                    continue;
                };
                let source = usize::from(reader.source.0);
                if !grouped
                    && let Some(before) = run.replace(source)
                    && before != source
                {
                    self.push_source(before)?;
                }
                self.sorted[source].push(record);
            }
        }
        for source in 0..self.sorted.len() {
            self.push_source(source)?;
        }
        if self.may_park {
            let mut parked = BTreeMap::new();
            for offload in batch.iter().flat_map(|f| &slots[f.slot as usize].parks_at) {
                *parked.entry(*offload).or_insert(0) += 1;
            }
            for (offload, records) in parked {
                self.shared.run.came_to_park(offload, records);
            }
        }
        self.send_handled(StageId(0), batch)?;
        self.send_effects(StageId(0))
    }

    fn push_source(&mut self, source: usize) -> Result<()> {
        let mut batch = std::mem::take(&mut self.sorted[source]);
        let spec = &self.plan.sources[source];
        let (entry, timeless) = (spec.entry, spec.global || spec.answers);
        let done = if batch.is_empty() {
            Ok(())
        } else {
            // A global table's records are no part of the application's time, and answers are none.
            if !timeless {
                self.observe(StageId(0), &batch);
            }
            self.push(StageId(0), entry, &mut batch)
        };
        batch.clear();
        self.sorted[source] = batch;
        done
    }
}
