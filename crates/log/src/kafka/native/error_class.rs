//! What the codes of answers ask for.
//!
//! Takes a code of Kafka's protocol, gives what to do about it, and librdkafka's name of it, under which
//! messages know it. Never does it.

use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_sys as sys;

#[cfg(test)]
mod tests;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorClass {
    /// It is done.
    Fine,
    /// Not yet, or not here: ask again, where it may be somebody else who knows.
    Again,
    /// The broker still ends the transaction before: ask again in a moment.
    Ending,
    /// A newer epoch is known: of a newer producer, or because the broker gave the transaction up.
    Outdated,
    /// A newer producer has taken over.
    Fenced,
    /// The transaction is lost; the producer goes on.
    Lost,
    /// It will not be done however often one asks.
    Refused,
}

/// The broker does not know what went wrong, nor what it has done.
pub(super) const UNKNOWN_SERVER_ERROR: i16 = -1;
pub(super) const OUT_OF_RANGE: i16 = 1;
pub(super) const CORRUPT: i16 = 2;
pub(super) const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
pub(super) const TOO_LARGE: i16 = 10;
pub(super) const PRODUCER_FENCED: i16 = 90;

pub(super) const fn classify(code: i16) -> ErrorClass {
    match code {
        // 46: a broker that has a batch already says so.
        0 | 46 => ErrorClass::Fine,
        51 => ErrorClass::Ending,
        // Corrupt on its way; unknown partition, leader or replica; timed out; coordinator loading, gone or
        // elsewhere; too few replicas; not the controller; disk; listener; leader epochs; unstable offsets;
        // throttled; unknown topic id.
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
        | 88
        | 89
        | 100 => ErrorClass::Again,
        47 => ErrorClass::Outdated,
        PRODUCER_FENCED => ErrorClass::Fenced,
        // A number out of order, no transaction, another producer's id, no such producer, "abort it".
        45 | 48 | 49 | 59 | 120 => ErrorClass::Lost,
        _ => ErrorClass::Refused,
    }
}

/// librdkafka's name of a code, which it has in common with the protocol.
pub(super) fn named(code: i16) -> Code {
    sys::rd_kafka_resp_err_t::try_from(i32::from(code)).map_or(Code::Unknown, Code::from)
}
