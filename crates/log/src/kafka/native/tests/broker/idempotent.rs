//! How the broker handles records outside of transactions.

use super::{Entry, Kept, Part, fetching};
use crate::kafka::native::records::batch_writer::Identity;
use bytes::Bytes;
use kafka_protocol::ResponseError as Fault;
use kafka_protocol::messages::{InitProducerIdResponse, ProducerId};
use kafka_protocol::records::RecordBatchDecoder;

/// The first producer id without transactions, larger than all with them.
const FIRST: i64 = 5000;

impl Kept {
    pub(super) fn name_somebody(&mut self) -> InitProducerIdResponse {
        self.named += 1;
        InitProducerIdResponse::default()
            .with_producer_id(ProducerId(FIRST + self.named - 1))
            .with_producer_epoch(0)
    }

    /// The records are visible at once.
    pub(super) fn append_idempotent(
        &mut self,
        part: &Part,
        mut records: Bytes,
    ) -> Result<i64, Fault> {
        if records.len() > self.most {
            return Err(Fault::MessageTooLarge);
        }
        let whole = records.clone();
        let read = RecordBatchDecoder::decode(&mut records).map_err(|_| Fault::CorruptMessage)?;
        let first = &read.records[0];
        assert!(!first.transactional);
        assert!((FIRST..FIRST + self.named).contains(&first.producer_id));
        let owner = Identity {
            id: first.producer_id,
            epoch: first.producer_epoch,
        };
        let values: Vec<_> = (read.records.iter())
            .map(|r| r.value.clone().unwrap())
            .collect();
        let forgets = self.forgetful && self.dice.roll(6) == 0;
        let log = self.logs.entry(part.clone()).or_default();
        if forgets {
            self.faults += 1;
            log.iter_mut()
                .for_each(|entry| entry.owner = Identity::NONE);
        }
        let mine = || log.iter().filter(|entry| entry.owner == owner);
        let known = |e: &&Entry| e.first == first.sequence && e.values == values;
        if let Some(known) = mine().rev().take(5).find(known) {
            return Ok(known.base);
        }
        let next = |e: &Entry| e.first + i32::try_from(e.values.len()).unwrap();
        if first.sequence != mine().last().map_or(0, next) {
            return Err(if self.dice.roll(2) == 0 {
                Fault::OutOfOrderSequenceNumber
            } else {
                Fault::UnknownProducerId
            });
        }
        let base = log.last().map_or(0, Entry::end);
        log.push(Entry {
            owner,
            first: first.sequence,
            values,
            committed: Some(true),
            base,
            bytes: fetching::placed(&whole, base),
            mark: None,
        });
        Ok(base)
    }
}
