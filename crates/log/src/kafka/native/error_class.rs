//! What to do about the error codes of answers.
//!
//! Takes a code of Kafka's protocol, returns what to do about it, and librdkafka's name for it, which
//! messages use. Never acts itself.

use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_sys as sys;

#[cfg(test)]
mod tests;

/// What to do about a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorClass {
    /// Nothing: the request was successful.
    Fine,
    /// Not yet, or not here: retry, possibly at another broker.
    Again,
    /// The broker is still completing the previous transaction: retry in a moment.
    Ending,
    /// A newer epoch exists: of a newer producer, or because the broker has aborted the transaction.
    Outdated,
    /// A newer producer has taken over.
    Fenced,
    /// The transaction is lost; the producer can go on.
    Lost,
    /// Fail: retries won't help.
    Refused,
}

/// The broker doesn't know what went wrong, nor what it has done.
pub(super) const UNKNOWN_SERVER_ERROR: i16 = -1;
pub(super) const OUT_OF_RANGE: i16 = 1;
pub(super) const CORRUPT: i16 = 2;
pub(super) const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
/// Offsets of a transaction that has not ended, as far as the coordinator knows.
pub(super) const UNSTABLE_OFFSET_COMMIT: i16 = 88;
pub(super) const TOO_LARGE: i16 = 10;
pub(super) const PRODUCER_FENCED: i16 = 90;
pub(super) const UNKNOWN_TOPIC_ID: i16 = 100;
/// The broker's log is of another topic with the name: it has not learned yet that one was deleted.
const INCONSISTENT_TOPIC_ID: i16 = 103;

pub(super) const fn classify(code: i16) -> ErrorClass {
    match code {
        // 46: the broker already has the batch.
        0 | 46 => ErrorClass::Fine,
        51 => ErrorClass::Ending,
        // Corrupt message; unknown partition, leader or replica; timeout; coordinator loading,
        // unavailable or elsewhere; too few replicas; not the controller; disk error; listener; leader
        // epochs; unstable offsets; throttled; unknown or other topic id.
        CORRUPT
        | UNKNOWN_TOPIC_OR_PARTITION
        | 5..=9
        | 13..=16
        | 19
        | 20
        | 41
        | 52
        | 56
        | 72
        | 74
        | 75
        | UNSTABLE_OFFSET_COMMIT
        | 89
        | UNKNOWN_TOPIC_ID
        | INCONSISTENT_TOPIC_ID => ErrorClass::Again,
        47 => ErrorClass::Outdated,
        PRODUCER_FENCED => ErrorClass::Fenced,
        // Out of sequence, no such transaction, another producer's id, no such producer, "abort it".
        45 | 48 | 49 | 59 | 120 => ErrorClass::Lost,
        _ => ErrorClass::Refused,
    }
}

/// librdkafka's name for a code; its numbers are those of the protocol.
pub(super) fn named(code: i16) -> Code {
    sys::rd_kafka_resp_err_t::try_from(i32::from(code)).map_or(Code::Unknown, Code::from)
}
