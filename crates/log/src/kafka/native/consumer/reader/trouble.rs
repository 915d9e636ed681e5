//! Errors of a reader.
//!
//! Only the first one is kept, and returned once after the fetched records.

use super::NativeConsumer;
use crate::kafka::errors::{ErrorContext, error};
use crate::kafka::native::error_class::named;
use crate::kafka::native::records::batch_reader::UnreadableBatch;
use stoatflow_core::{Error, ErrorKind};

impl NativeConsumer {
    pub(super) fn fail(&self, code: i16, said: &str, topic: Option<&str>) -> Error {
        let doing = ErrorContext {
            address: &self.address,
            what: "reading",
            topic,
        };
        error(named(code), said, doing)
    }

    /// Keeps an error to be returned; the first one wins.
    pub(super) fn note(&mut self, error: Error) {
        self.trouble.get_or_insert(error);
    }

    pub(super) fn note_code(&mut self, index: usize, code: i16, what: &str) {
        let partition = &self.slots.all[index].partition;
        let said = format!("{partition}: {what}");
        let error = self.fail(code, &said, Some(&partition.topic));
        self.note(error);
    }

    pub(super) fn note_unreadable(&mut self, index: usize, why: &UnreadableBatch) {
        match why {
            UnreadableBatch::Corrupt(why) => {
                let (partition, address) = (&self.slots.all[index].partition, &self.address);
                let error = Error::unavailable(format!(
                    "reading: a record batch of {partition} from {address} is damaged ({why})"
                ));
                self.note(error.hint(
                    "it is fetched again. If it stays damaged, so is the disk of that broker: make another \
                        replica the leader of the partition (kafka-reassign-partitions.sh)",
                ));
            }
            UnreadableBatch::Old(format) => {
                let (partition, address) = (&self.slots.all[index].partition, &self.address);
                let error = Error::new(
                    ErrorKind::Incompatible,
                    format!(
                        "reading: {partition} at {address} has records of format {format}, from before 2017"
                    ),
                );
                self.note(error.hint("set kafka.client = librdkafka, which knows them"));
            }
            UnreadableBatch::Unlisted(offset) => {
                let (partition, address) = (&self.slots.all[index].partition, &self.address);
                let error = Error::new(
                    ErrorKind::Incompatible,
                    format!(
                        "reading: {address} returned records of {partition} as committed, and their \
                            transaction was aborted: its marker is at offset {offset}"
                    ),
                );
                self.note(error.hint(
                    "this broker doesn't list aborted transactions, as Kafka's protocol requires. Results of \
                        records before this offset may be wrong: run the application on another broker, and \
                        compute them again",
                ));
            }
        }
    }
}
