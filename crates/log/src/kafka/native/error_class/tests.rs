use super::{ErrorClass, classify, named};
use kafka_protocol::ResponseError;
use rdkafka::types::RDKafkaErrorCode as Code;

/// Every code that Kafka calls retriable is retried, except those that a producer never gets.
#[test]
fn retriable_errors_are_retried() {
    // Not share groups, controller quorums, fetch sessions and reassignments.
    let not_ours = |error: ResponseError| {
        let name = format!("{error:?}");
        [
            "Fetch",
            "Share",
            "Snapshot",
            "Eligible",
            "Preferred",
            "Rebootstrap",
            "Election",
            "Replica",
            "InvalidVoterKey",
            "OffsetNotAvailable",
        ]
        .iter()
        .any(|word| name.contains(word))
    };
    for code in -1..=140 {
        let Some(error) = ResponseError::try_from_code(code) else {
            continue;
        };
        let again = matches!(classify(code), ErrorClass::Again | ErrorClass::Ending);
        if error.is_retriable() && !not_ours(error) {
            assert!(again, "{code}, {error:?}, is retriable");
        }
    }
}

#[test]
fn the_ends_of_a_producer_are_told_apart() {
    let of = |error: ResponseError| classify(error.code());
    assert_eq!(of(ResponseError::ProducerFenced), ErrorClass::Fenced);
    assert_eq!(
        of(ResponseError::InvalidProducerEpoch),
        ErrorClass::Outdated
    );
    assert_eq!(
        of(ResponseError::ConcurrentTransactions),
        ErrorClass::Ending
    );
    for lost in [
        ResponseError::OutOfOrderSequenceNumber,
        ResponseError::InvalidTxnState,
        ResponseError::UnknownProducerId,
        ResponseError::InvalidProducerIdMapping,
    ] {
        assert_eq!(of(lost), ErrorClass::Lost, "{lost:?}");
    }
    for refused in [
        ResponseError::MessageTooLarge,
        ResponseError::TopicAuthorizationFailed,
        ResponseError::TransactionalIdAuthorizationFailed,
        ResponseError::InvalidTimestamp,
        ResponseError::UnknownServerError,
    ] {
        assert_eq!(of(refused), ErrorClass::Refused, "{refused:?}");
    }
    assert_eq!(classify(0), ErrorClass::Fine);
    assert_eq!(of(ResponseError::DuplicateSequenceNumber), ErrorClass::Fine);
}

#[test]
fn codes_have_librdkafkas_names() {
    assert_eq!(named(3), Code::UnknownTopicOrPartition);
    assert_eq!(named(90), Code::ProducerFenced);
    assert_eq!(named(10), Code::MessageSizeTooLarge);
    assert_eq!(named(9999), Code::Unknown);
}
