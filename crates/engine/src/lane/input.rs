//! Decodes records from dispatch and passes them to their sources.
//!
//! A source gets all of its records of a batch at once if sources don't depend on each other; otherwise
//! it gets runs of adjacent records. Policies for late records and for records without a timestamp are
//! applied first. Never blocks.

use super::LaneWorker;
use super::dispatched::Dispatched;
use super::kept_records::KeepLimits;
use super::stream_time::groups::moves_time;
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::{Epoch, Result, StageId};
use stoatflow_log::ConsumerRecord;

impl LaneWorker {
    pub(super) fn input(&mut self, input: Dispatched) -> Result<()> {
        let Dispatched {
            mut records, times, ..
        } = input;
        let mut refused = self.shared.invalid_timestamps.take(&records);
        let late = self.late(&records, &refused)?;
        for (at, refusal) in &refused {
            records[*at].timestamp = refusal.timestamp;
        }
        let batch = &records[..];
        self.begin_input(times);
        let mut refused = refused.iter_mut().peekable();
        let grouped = self.plan.stages[0].independent_entries || self.plan.sources.len() == 1;
        let slots = Arc::clone(&self.slots);
        let mut late = late.into_iter().peekable();
        // If sources depend on each other, only adjacent records are passed together.
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
            for offload in batch
                .iter()
                .flat_map(|f| &slots[f.slot as usize].parking_offloads)
            {
                *parked.entry(*offload).or_insert(0) += 1;
            }
            for (offload, records) in parked {
                self.shared.run.release_park_room(offload, records);
            }
        }
        self.send_handled(StageId(0), batch)?;
        if self.keep_most > 0 {
            self.keep_for_dead_letters(records);
        }
        self.send_effects(StageId(0))
    }

    /// Keeps records for dead letters.
    fn keep_for_dead_letters(&self, records: Vec<ConsumerRecord>) {
        let keep = KeepLimits {
            most: self.keep_most,
            committed: match self.keep_uncommitted {
                true => self.shared.committed(),
                false => Epoch(u64::MAX),
            },
        };
        let epoch = self.stages[0].epoch;
        (self.shared.kept_records).keep(self.id, epoch, records, keep);
    }

    fn push_source(&mut self, source: usize) -> Result<()> {
        let mut batch = std::mem::take(&mut self.sorted[source]);
        let spec = &self.plan.sources[source];
        let (entry, moves) = (spec.entry, moves_time(spec));
        let done = if batch.is_empty() {
            Ok(())
        } else {
            if moves {
                self.observe(StageId(0), &batch);
                self.observe_read(source, &batch);
            }
            self.push(StageId(0), entry, &mut batch)
        };
        batch.clear();
        self.sorted[source] = batch;
        done
    }
}
