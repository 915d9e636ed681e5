use super::{Verdict, named, verdict};
use kafka_protocol::ResponseError;
use rdkafka::types::RDKafkaErrorCode as Code;

/// What Kafka's own descriptions call retriable is asked again, but for what no writer meets.
#[test]
fn what_may_be_asked_again_is_asked_again() {
    // No share groups, no quorums of controllers, no fetches, no reassignments, no queries of a topic's id.
    let not_ours = |error: ResponseError| {
        let name = format!("{error:?}");
        [
            "Fetch",
            "Share",
            "Snapshot",
            "Eligible",
            "Preferred",
            "Rebootstrap",
            "InconsistentTopicId",
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
        let again = matches!(verdict(code), Verdict::Again | Verdict::Ending);
        if error.is_retriable() && !not_ours(error) {
            assert!(again, "{code}, {error:?}, is retriable");
        }
    }
}

#[test]
fn the_ends_of_a_producer_are_told_apart() {
    let of = |error: ResponseError| verdict(error.code());
    assert_eq!(of(ResponseError::ProducerFenced), Verdict::Fenced);
    assert_eq!(of(ResponseError::InvalidProducerEpoch), Verdict::Outdated);
    assert_eq!(of(ResponseError::ConcurrentTransactions), Verdict::Ending);
    for lost in [
        ResponseError::OutOfOrderSequenceNumber,
        ResponseError::InvalidTxnState,
        ResponseError::UnknownProducerId,
        ResponseError::InvalidProducerIdMapping,
    ] {
        assert_eq!(of(lost), Verdict::Lost, "{lost:?}");
    }
    for refused in [
        ResponseError::MessageTooLarge,
        ResponseError::TopicAuthorizationFailed,
        ResponseError::TransactionalIdAuthorizationFailed,
        ResponseError::InvalidTimestamp,
        ResponseError::UnknownServerError,
    ] {
        assert_eq!(of(refused), Verdict::Refused, "{refused:?}");
    }
    assert_eq!(verdict(0), Verdict::Fine);
    assert_eq!(of(ResponseError::DuplicateSequenceNumber), Verdict::Fine);
}

#[test]
fn codes_have_librdkafkas_names() {
    assert_eq!(named(3), Code::UnknownTopicOrPartition);
    assert_eq!(named(90), Code::ProducerFenced);
    assert_eq!(named(10), Code::MessageSizeTooLarge);
    assert_eq!(named(9999), Code::Unknown);
}
