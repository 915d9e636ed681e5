//! Applies the policy for late records, before anything else sees them.
//!
//! Takes a batch as it was read; returns the indices of records to leave out. Counts every late record
//! by topic and outcome, and sends dead letters in the epoch's transaction. The watermark is that of the
//! last barrier, the same in all lanes, so lateness doesn't depend on how records are distributed.
//! Records are decoded only if a user function has to see them.

use super::LaneWorker;
use super::dead_letters::{record_bytes, with_body};
use crate::commit::outbox::PendingDeadLetter;
use crate::intake::invalid_timestamps::InvalidTimestamp;
use crate::intake::source_partitions::{SourceBinding, SourcePartition};
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::{Record, Result, StageId};
use stoatflow_log::ConsumerRecord;
use stoatflow_operators::dropped;
use stoatflow_operators::late::{LatePolicy, LateRecord, LateVerdict};

/// A record of a batch and one of its sources, by index.
pub(super) type RecordBinding = (usize, usize);

impl LaneWorker {
    /// The late records of a batch that are left out, in order. Records without a timestamp are
    /// never late.
    pub(super) fn late(
        &self,
        batch: &[ConsumerRecord],
        refused: &[(usize, InvalidTimestamp)],
    ) -> Result<Vec<RecordBinding>> {
        let watermark = self.views[self.view(StageId(0))].watermark;
        if batch.iter().all(|f| f.timestamp.0 >= watermark) {
            return Ok(Vec::new());
        }
        self.apply_late_policy(batch, refused, watermark)
    }

    #[cold]
    fn apply_late_policy(
        &self,
        batch: &[ConsumerRecord],
        refused: &[(usize, InvalidTimestamp)],
        watermark: i64,
    ) -> Result<Vec<RecordBinding>> {
        let slots = Arc::clone(&self.slots);
        // By partition, because a function gets the records of one partition at a time.
        let mut late: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, fetched) in batch.iter().enumerate() {
            let has_time = refused.binary_search_by_key(&at, |(of, _)| *of).is_err();
            if fetched.timestamp.0 < watermark && has_time {
                late.entry(fetched.slot).or_default().push(at);
            }
        }
        let mut gone = Vec::new();
        for (slot, places) in late {
            let slot = &slots[slot as usize];
            // Global tables and answers don't take part in the application's time.
            if slot.is_global || slot.is_answers {
                continue;
            }
            for (which, reader) in slot.bindings.iter().enumerate() {
                let Some(policy) = &reader.late else {
                    let count = places.len() as u64;
                    self.count_late(slot, reader, &LateVerdict::Grace, count);
                    continue;
                };
                let said = verdicts(policy, reader, slot, (batch, &places, watermark))?;
                self.settle_late((slot, reader, policy.as_ref()), &said, batch, watermark);
                let left_out = said.iter().filter(|(_, v)| *v != LateVerdict::Grace);
                gone.extend(left_out.map(|(at, _)| (*at, which)));
            }
        }
        gone.sort_unstable();
        Ok(gone)
    }

    /// Counts and logs late records, and sends their dead letters.
    fn settle_late(
        &self,
        (slot, reader, policy): (&SourcePartition, &SourceBinding, &LatePolicy),
        said: &[(usize, LateVerdict)],
        batch: &[ConsumerRecord],
        watermark: i64,
    ) {
        let place = self.place(StageId(0));
        let (mut letters, mut weight) = (Vec::new(), 0);
        let mut counts: [Option<(&LateVerdict, u64)>; 3] = [None; 3];
        for (at, verdict) in said {
            let index = match verdict {
                LateVerdict::Grace => 0,
                LateVerdict::Drop => 1,
                LateVerdict::DeadLetter(_) => 2,
            };
            counts[index].get_or_insert((verdict, 0)).1 += 1;
            let LateVerdict::DeadLetter(to) = verdict else {
                continue;
            };
            let read = &batch[*at];
            let late = LateRecord {
                origin: reader.origin(slot, read),
                topic: &slot.partition.topic,
                timestamp: read.timestamp,
                watermark,
            };
            let letter = self.without_payload(policy.letter(Arc::clone(to), late, place));
            let record = with_body(letter, read);
            weight += record_bytes(&record);
            letters.push(PendingDeadLetter {
                missing: None,
                record,
            });
        }
        for (verdict, count) in counts.into_iter().flatten() {
            self.count_late(slot, reader, verdict, count);
        }
        self.send_dead_letters(StageId(0), letters, weight);
    }

    fn count_late(
        &self,
        slot: &SourcePartition,
        reader: &SourceBinding,
        verdict: &LateVerdict,
        count: u64,
    ) {
        let status = &self.shared.status;
        let (topic, policy) = (&slot.partition.topic, verdict.policy());
        status.late(topic, policy, count);
        let reason = match verdict {
            LateVerdict::Grace => return,
            LateVerdict::Drop => dropped::LATE,
            LateVerdict::DeadLetter(_) => dropped::LATE_DEAD_LETTER,
        };
        let node = &self.plan.nodes[reader.entry.0 as usize].name;
        status.dropped(node, reason, count);
        let (partition, now) = (&slot.partition, self.shared.clock.monotonic());
        let cause = format!("{node}|{reason}|{partition}");
        if let Some(records) = status.drop_log.count(&cause, (node, reason), count, now) {
            tracing::warn!(node, %partition, records, policy, "records older than the watermark were left out");
        }
    }
}

/// The policy's verdicts on a partition's late records. A record that a function should see but that
/// can't be decoded is left to its source's error handler.
fn verdicts(
    policy: &LatePolicy,
    reader: &SourceBinding,
    slot: &SourcePartition,
    (batch, places, watermark): (&[ConsumerRecord], &[usize], i64),
) -> Result<Vec<(usize, LateVerdict)>> {
    if let Some(verdict) = policy.always() {
        return Ok(places.iter().map(|at| (*at, verdict.clone())).collect());
    }
    let mut asked: (Vec<usize>, Vec<Record>) = (Vec::new(), Vec::new());
    for at in places {
        match reader.decode(slot, &batch[*at]) {
            Ok(record) => {
                asked.0.push(*at);
                asked.1.push(record);
            }
            Err(_) if reader.error_policy.is_some() => {}
            Err(error) => return Err(error),
        }
    }
    let mut said = Vec::with_capacity(asked.0.len());
    let topic = &slot.partition.topic;
    policy
        .decide(&asked.1, topic, watermark, &mut said)
        .map_err(|failed| match asked.1.get(failed.at) {
            Some(record) => failed.error.at(|at| {
                at.topic = Some(topic.to_string());
                at.partition = Some(slot.partition.partition);
                at.offset = Some(record.origin.offset);
            }),
            None => failed.error,
        })?;
    Ok(asked.0.into_iter().zip(said).collect())
}
