//! What happens to the batches of a request: they are acknowledged, sent again, or split in two.
//!
//! Takes a request and its answer, or none; returns what failed. A batch that is sent again keeps its
//! place and its sequence number.

use super::{Accumulator, BatchPartition, MAX_SPARE_BYTES, RequestInFlight};
use crate::kafka::native::error_class::{
    ErrorClass, TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION, classify,
};
use crate::kafka::native::records::batch_writer::BatchWriter;
use kafka_protocol::messages::ProduceResponse;
use stoatflow_core::{Offset, Partition, Timestamp};

/// A partition's error in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kafka::native) struct PartitionError {
    pub place: BatchPartition,
    pub code: i16,
    pub said: String,
}

impl Accumulator {
    /// The request was not sent: its batches wait again, unchanged.
    pub(in crate::kafka::native) fn keep(&mut self, flight: RequestInFlight) {
        for (place, batch) in flight.batches {
            self.again(place, batch);
        }
    }

    /// The request got no answer, so its batches may have arrived: they wait again, unchanged.
    pub(in crate::kafka::native) fn requeue(&mut self, flight: RequestInFlight) {
        for (place, mut batch) in flight.batches {
            batch.lost = true;
            self.again(place, batch);
        }
    }

    fn again(&mut self, place: BatchPartition, batch: BatchWriter) {
        let part = &mut self.topics[place.topic].parts[place.part];
        part.under_way = false;
        self.under_way -= batch.size();
        self.waiting += batch.size();
        part.waiting.push_front(batch);
    }

    /// Handles an answer; returns what failed.
    pub(in crate::kafka::native) fn complete(
        &mut self,
        flight: RequestInFlight,
        answer: &ProduceResponse,
    ) -> Vec<PartitionError> {
        let mut partition_errors = Vec::new();
        for (place, mut batch) in flight.batches {
            let name = &self.topics[place.topic].name;
            let said = (answer.responses.iter())
                .filter(|t| *t.name.0 == **name)
                .flat_map(|t| &t.partition_responses)
                .find(|said| usize::try_from(said.index) == Ok(place.part));
            // A partition missing in the answer counts as not written.
            let code = said.map_or(UNKNOWN_TOPIC_OR_PARTITION, |said| said.error_code);
            if classify(code) == ErrorClass::Fine {
                let first = said.map_or(-1, |said| said.base_offset);
                let count = i64::from(batch.count());
                if first >= 0 {
                    let partition = Partition(i32::try_from(place.part).unwrap_or(i32::MAX));
                    self.ends.append(name, partition, Offset(first), count);
                }
                let part = &mut self.topics[place.topic].parts[place.part];
                part.under_way = false;
                if first >= 0 {
                    part.end = part.end.max(Some(first + count));
                }
                let time = said.map_or(-1, |said| said.log_append_time_ms);
                if time >= 0 {
                    self.append_time = self.append_time.max(Some(Timestamp(time)));
                }
                self.under_way -= batch.size();
                self.recycle(batch);
                continue;
            }
            if code == TOO_LARGE
                && let Some(halves) = batch.halves()
            {
                self.divide(place, &batch, halves);
                continue;
            }
            if !self.transactional && is_producer_state_error(code) {
                batch.unseal();
            }
            let said = said.and_then(|s| s.error_message.as_ref());
            partition_errors.push(PartitionError {
                place,
                code,
                said: said.map_or_else(String::new, ToString::to_string),
            });
            self.again(place, batch);
        }
        partition_errors
    }

    /// Splits a batch that was too large; later batches are no larger than its halves.
    fn divide(&mut self, place: BatchPartition, whole: &BatchWriter, halves: [BatchWriter; 2]) {
        let part = &mut self.topics[place.topic].parts[place.part];
        part.under_way = false;
        part.full = part.full.min(whole.size() / 2);
        self.under_way -= whole.size();
        for half in halves.into_iter().rev() {
            self.waiting += half.size();
            part.waiting.push_front(half);
        }
    }

    fn recycle(&mut self, batch: BatchWriter) {
        let room = batch.into_room();
        if self.spare_bytes + room.capacity() <= MAX_SPARE_BYTES {
            self.spare_bytes += room.capacity();
            self.spare.push(room);
        }
    }
}

/// Whether the code concerns only the producer id, epoch or sequence number of a batch.
pub(in crate::kafka::native) const fn is_producer_state_error(code: i16) -> bool {
    matches!(classify(code), ErrorClass::Outdated | ErrorClass::Lost)
}
