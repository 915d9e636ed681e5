//! What becomes of the batches of a request: they are acknowledged, go again, or go in two halves.
//!
//! Takes a request and its answer, or that there is none, gives what did not go well. A batch that goes
//! again keeps its place and its number.

use super::{Accumulator, Flight, Place, SPARE};
use crate::kafka::native::error_class::{
    ErrorClass, TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION, classify,
};
use crate::kafka::native::records::batch_writer::BatchWriter;
use kafka_protocol::messages::ProduceResponse;
use stoatflow_core::{Offset, Partition, Timestamp};

/// What an answer said of a batch that has to go again, or never will.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kafka::native) struct PartitionError {
    pub place: Place,
    pub code: i16,
    pub said: String,
}

impl Accumulator {
    /// It did not leave: it goes again, as it is.
    pub(in crate::kafka::native) fn keep(&mut self, flight: Flight) {
        for (place, batch) in flight.batches {
            self.again(place, batch);
        }
    }

    /// Whether it got there nobody will say: it goes again, as it is.
    pub(in crate::kafka::native) fn requeue(&mut self, flight: Flight) {
        for (place, mut batch) in flight.batches {
            batch.lost = true;
            self.again(place, batch);
        }
    }

    fn again(&mut self, place: Place, batch: BatchWriter) {
        let part = &mut self.topics[place.topic].parts[place.part];
        part.under_way = false;
        self.under_way -= batch.size();
        self.waiting += batch.size();
        part.waiting.push_front(batch);
    }

    /// Takes an answer; gives what did not go well.
    pub(in crate::kafka::native) fn landed(
        &mut self,
        flight: Flight,
        answer: &ProduceResponse,
    ) -> Vec<PartitionError> {
        let mut setbacks = Vec::new();
        for (place, mut batch) in flight.batches {
            let name = &self.topics[place.topic].name;
            let said = (answer.responses.iter())
                .filter(|t| *t.name.0 == **name)
                .flat_map(|t| &t.partition_responses)
                .find(|said| usize::try_from(said.index) == Ok(place.part));
            // An answer that leaves one out has not written it, as far as anybody knows.
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
            if !self.transactional && is_of_number(code) {
                batch.unseal();
            }
            let said = said.and_then(|s| s.error_message.as_ref());
            setbacks.push(PartitionError {
                place,
                code,
                said: said.map_or_else(String::new, ToString::to_string),
            });
            self.again(place, batch);
        }
        setbacks
    }

    /// What was too large goes as two, and what comes behind it is no larger.
    fn divide(&mut self, place: Place, whole: &BatchWriter, halves: [BatchWriter; 2]) {
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
        if self.spare_bytes + room.capacity() <= SPARE {
            self.spare_bytes += room.capacity();
            self.spare.push(room);
        }
    }
}

/// Is nothing wrong with a batch but whose it is and which number it has?
pub(in crate::kafka::native) const fn is_of_number(code: i16) -> bool {
    matches!(classify(code), ErrorClass::Outdated | ErrorClass::Lost)
}
