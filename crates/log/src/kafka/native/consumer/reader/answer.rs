//! Handles the answer to a fetch, partition by partition.
//!
//! Takes a decoded answer, passes records to the state of their partitions, and notes errors that end
//! the run: a refusal, lost records, a topic that has been gone for too long.

use super::{NativeConsumer, UNKNOWN_ERROR_TIMEOUT, UNKNOWN_TOPIC_TIMEOUT};
use crate::kafka::native::consumer::fetch::{FetchOutcome, said};
use crate::kafka::native::error_class::{
    ErrorClass, OUT_OF_RANGE, UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION,
    classify, named,
};
use crate::kafka::native::net::cluster::Node;
use crate::kafka::native::net::connection_error::ConnectionError;
use kafka_protocol::messages::FetchResponse;
use stoatflow_core::{Error, ErrorKind};

impl NativeConsumer {
    /// Handles a decoded answer.
    pub(super) fn take(&mut self, node: Node, answer: FetchResponse) {
        let code = answer.error_code;
        if classify(code) == ErrorClass::Refused {
            let error = self.fail(code, "refused", None);
            return self.note(error);
        }
        if code != 0 {
            let why = format!("broker {node} says {:?}", named(code));
            return self.lose(node, &ConnectionError::lost(why));
        }
        for topic in answer.responses {
            // Newer versions name the topic by its id.
            let of_id = self.slots.name_of(topic.topic_id.as_u128());
            let name = of_id.as_deref().unwrap_or(&topic.topic.0);
            for data in topic.partitions {
                if let Some(index) = self.slots.find(name, data.partition_index) {
                    self.take_partition(index, said(data));
                }
            }
        }
    }

    fn take_partition(&mut self, index: usize, what: FetchOutcome) {
        let slot = &mut self.slots.all[index];
        match what {
            FetchOutcome::Came {
                stable_end,
                records,
                aborted,
            } => {
                let now = self.clock.elapsed();
                let taken = slot.store_records(stable_end, records, aborted, now);
                self.missing.remove(&index);
                if let Err(why) = taken {
                    self.note_unreadable(index, &why);
                }
            }
            FetchOutcome::Nearer(node) => {
                tracing::debug!(
                    target: "stoatflow::kafka",
                    partition = %slot.partition,
                    "read from the replica on broker {node}"
                );
                slot.read_nearer(node, self.clock.elapsed());
            }
            // A replica that lags behind doesn't have the offset yet: the leader does.
            FetchOutcome::Refused(OUT_OF_RANGE) if slot.reads_nearer() => {
                slot.forget_leader();
                self.retry_leader_lookup();
            }
            // A leader that lacks records of the last epoch may still have all of ours: fetch without
            // that epoch.
            FetchOutcome::Diverged { from } if from >= slot.from => {
                slot.forget_seen();
            }
            FetchOutcome::Diverged { from } => {
                let (partition, at) = (&slot.partition, slot.from);
                let error = Error::new(
                    ErrorKind::Incompatible,
                    format!(
                        "reading: {partition} was read up to offset {at}, but its leader never had the \
                            records from {from} on: the brokers have lost them"
                    ),
                );
                self.note(error.hint(
                    "their results stay. Check unclean.leader.election.enable and min.insync.replicas of the \
                        topic, then start again, or compute everything again: stoatflow reset",
                ));
            }
            FetchOutcome::NotYet(code) => {
                slot.forget_leader();
                match code {
                    UNKNOWN_TOPIC_OR_PARTITION | UNKNOWN_SERVER_ERROR => self.miss(index, code),
                    // It is deleted, or not known here yet: the metadata tell.
                    UNKNOWN_TOPIC_ID => self.miss(index, UNKNOWN_TOPIC_OR_PARTITION),
                    _ => {}
                }
                self.retry_leader_lookup();
            }
            // A former leader that doesn't know yet that it was replaced answers like this for newer
            // offsets.
            FetchOutcome::Refused(OUT_OF_RANGE) if slot.forget_seen() => {
                slot.forget_leader();
                self.retry_leader_lookup();
            }
            FetchOutcome::Refused(code) => {
                let what = format!("asked for from offset {} on", slot.from);
                self.note_code(index, code, &what);
            }
        }
    }

    /// Fails the run if a partition has been gone, or broken for unknown reasons, for too long.
    pub(super) fn miss(&mut self, index: usize, code: i16) {
        let (most, what) = if code == UNKNOWN_SERVER_ERROR {
            (
                UNKNOWN_ERROR_TIMEOUT,
                "the broker can't read it, and does not say why",
            )
        } else {
            (UNKNOWN_TOPIC_TIMEOUT, "it is gone")
        };
        let now = self.clock.elapsed();
        if now > self.missing.entry(index).or_insert((now, code)).0 + most {
            self.note_code(index, code, what);
        }
    }
}
