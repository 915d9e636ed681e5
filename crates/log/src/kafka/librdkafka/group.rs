//! A group's committed positions, read by a client that is configured with the group.
//!
//! Takes partitions, returns what was committed for them; never joins. It needs a client of its own:
//! librdkafka's request for clients outside the group (`ListConsumerGroupOffsets`) reads a null pointer
//! when the broker answers "not coordinator", as a broker that has just started does.

use super::client::{Client, list, millis, rows, text};
use crate::Committed;
use crate::kafka::errors::{ErrorContext, error};
use crate::kafka::properties::Properties;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_sys as sys;
use std::time::Duration;
use stoatflow_core::{Clock, Error, ErrorKind, Offset, Result, SystemClock, TopicPartition};

const WHAT: &str = "asking for committed offsets";

/// Pause between two requests while the group's coordinator is being found.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// If permission is missing, the request never gets an answer instead of failing: check for a refusal
/// this often.
const REQUEST_SLICE: Duration = Duration::from_millis(500);

/// Reads the positions of one group.
#[derive(Debug)]
pub(in crate::kafka) struct Group {
    client: Client,
    address: String,
}

impl Group {
    pub(in crate::kafka) fn new(properties: &Properties, group: &str) -> Result<Self> {
        Ok(Self {
            client: Client::new(true, &properties.consumer(group))?,
            address: properties.bootstrap().to_owned(),
        })
    }

    /// The committed positions, in the order of `partitions`. Waits for offsets of a transaction that is
    /// still open: the client reads committed ones only.
    pub(in crate::kafka) fn committed(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        *self.client.events.last.lock() = None;
        let clock = SystemClock::new();
        loop {
            let left = timeout.saturating_sub(clock.monotonic());
            match self.ask(partitions, left.min(REQUEST_SLICE)) {
                Err(e) if e.kind() == ErrorKind::Unavailable && left > RETRY_PAUSE => {
                    if let Some(refusal) = self.refusal() {
                        return Err(refusal);
                    }
                    self.client.serve(RETRY_PAUSE);
                }
                other => return other,
            }
        }
    }

    /// A missing permission for the group is reported in the consumer's queue only, and only once.
    fn refusal(&self) -> Option<Error> {
        loop {
            // SAFETY: the client is alive; the message is ours and freed after its last use.
            let (code, said) = unsafe {
                let message = sys::rd_kafka_consumer_poll(self.client.ptr(), 0);
                if message.is_null() {
                    return None;
                }
                let found = (
                    Code::from((*message).err),
                    text(sys::rd_kafka_message_errstr(message)),
                );
                sys::rd_kafka_message_destroy(message);
                found
            };
            let doing = ErrorContext {
                address: &self.address,
                what: WHAT,
                topic: None,
            };
            let refusal = error(code, &said, doing);
            if refusal.kind() == ErrorKind::Unauthorized {
                return Some(refusal);
            }
        }
    }

    fn ask(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>> {
        let unknown = i64::from(sys::RD_KAFKA_OFFSET_INVALID);
        let asked = list(partitions.iter().map(|p| (p, unknown, None)))?;
        // SAFETY: client and list are alive during the call, which writes its answer into the list.
        let code = unsafe {
            sys::rd_kafka_committed(self.client.ptr(), asked.ptr(), millis(timeout).max(1))
        };
        let code = Code::from(code);
        if code != Code::NoError {
            return Err(self.fail(code, None));
        }
        // SAFETY: the list is ours and outlives the rows.
        let answered = unsafe { rows(asked.ptr()) };
        partitions
            .iter()
            .map(|partition| {
                let row = answered.iter().find(|row| {
                    // SAFETY: librdkafka keeps a topic's name in every row.
                    let topic = unsafe { text(row.topic) };
                    *partition.topic == *topic && partition.partition.0 == row.partition
                });
                row.map_or(Ok(None), |row| self.read(row, partition))
            })
            .collect()
    }

    fn read(
        &self,
        row: &sys::rd_kafka_topic_partition_t,
        partition: &TopicPartition,
    ) -> Result<Option<Committed>> {
        match Code::from(row.err) {
            Code::NoError => {}
            Code::UnknownTopicOrPartition => return Ok(None),
            code => return Err(self.fail(code, Some(&partition.topic))),
        }
        if row.offset < 0 {
            return Ok(None);
        }
        let metadata = if row.metadata.is_null() {
            String::new()
        } else {
            // SAFETY: the row has the length of its metadata.
            let bytes = unsafe {
                std::slice::from_raw_parts(
                    row.metadata.cast::<u8>().cast_const(),
                    row.metadata_size,
                )
            };
            String::from_utf8_lossy(bytes)
                .trim_end_matches('\0')
                .to_owned()
        };
        Ok(Some(Committed {
            offset: Offset(row.offset),
            metadata,
        }))
    }

    fn fail(&self, code: Code, topic: Option<&str>) -> Error {
        self.client.serve(Duration::ZERO);
        let said = match &*self.client.events.last.lock() {
            Some((_, reason)) => reason.clone(),
            None => "the group's committed offsets are not readable".to_owned(),
        };
        error(
            code,
            &said,
            ErrorContext {
                address: &self.address,
                what: WHAT,
                topic,
            },
        )
    }
}
