//! One row per code that a user can meet.

use super::{ErrorContext, error, kind_of};
use rdkafka::types::RDKafkaErrorCode as Code;
use stoatflow_core::ErrorKind;

const TABLE: &[(Code, ErrorKind)] = &[
    (Code::Fenced, ErrorKind::Fenced),
    (Code::InvalidProducerEpoch, ErrorKind::Fenced),
    (Code::ProducerFenced, ErrorKind::Fenced),
    (Code::FencedInstanceId, ErrorKind::Fenced),
    (Code::TopicAuthorizationFailed, ErrorKind::Unauthorized),
    (Code::GroupAuthorizationFailed, ErrorKind::Unauthorized),
    (Code::ClusterAuthorizationFailed, ErrorKind::Unauthorized),
    (
        Code::TransactionalIdAuthorizationFailed,
        ErrorKind::Unauthorized,
    ),
    (Code::SaslAuthenticationFailed, ErrorKind::Unauthorized),
    (Code::Authentication, ErrorKind::Unauthorized),
    (Code::UnknownTopicOrPartition, ErrorKind::MissingTopic),
    (Code::UnknownTopic, ErrorKind::MissingTopic),
    (Code::UnknownPartition, ErrorKind::MissingTopic),
    (Code::AllBrokersDown, ErrorKind::Unavailable),
    (Code::BrokerTransportFailure, ErrorKind::Unavailable),
    (Code::Resolve, ErrorKind::Unavailable),
    (Code::OperationTimedOut, ErrorKind::Unavailable),
    (Code::MessageTimedOut, ErrorKind::Unavailable),
    (Code::CoordinatorNotAvailable, ErrorKind::Unavailable),
    (Code::NotEnoughReplicas, ErrorKind::Unavailable),
    (Code::ConcurrentTransactions, ErrorKind::Unavailable),
    (Code::UnstableOffsetCommit, ErrorKind::Unavailable),
    (Code::OffsetNotAvailable, ErrorKind::Unavailable),
    (Code::ListenerNotFound, ErrorKind::Unavailable),
    (Code::ThrottlingQuotaExceeded, ErrorKind::Unavailable),
    (Code::NoEnt, ErrorKind::Unavailable),
    (Code::DestroyBroker, ErrorKind::Unavailable),
    (Code::MessageSizeTooLarge, ErrorKind::Serde),
    (Code::MessageBatchTooLarge, ErrorKind::Serde),
    (Code::InvalidConfig, ErrorKind::Config),
    (Code::InvalidReplicationFactor, ErrorKind::Config),
    (Code::InvalidTransactionTimeout, ErrorKind::Config),
    (Code::AutoOffsetReset, ErrorKind::Incompatible),
    (Code::OffsetOutOfRange, ErrorKind::Incompatible),
    (Code::State, ErrorKind::Internal),
    (Code::InvalidTransactionalState, ErrorKind::Unavailable),
    (Code::OutOfOrderSequenceNumber, ErrorKind::Unavailable),
    (Code::UnknownProducerId, ErrorKind::Unavailable),
];

#[test]
fn every_code_has_its_kind() {
    for (code, kind) in TABLE {
        assert_eq!(kind_of(*code), *kind, "{code:?}");
    }
}

#[test]
fn errors_name_address_topic_and_permission() {
    let doing = ErrorContext {
        address: "broker:9092",
        what: "writing",
        topic: Some("orders"),
    };
    let refused = error(Code::TopicAuthorizationFailed, "denied", doing).to_string();
    assert!(
        refused.contains("broker:9092")
            && refused.contains("'orders'")
            && refused.contains("grant this user"),
        "{refused}"
    );
    let unnamed = ErrorContext {
        topic: None,
        ..doing
    };
    let refused = error(Code::TopicAuthorizationFailed, "denied", unnamed).to_string();
    assert!(
        refused.contains("grant this user Describe and Read"),
        "{refused}"
    );
    let gone = error(
        Code::AllBrokersDown,
        "1/1 brokers are down",
        ErrorContext {
            topic: None,
            ..doing
        },
    )
    .to_string();
    assert!(
        gone.contains("broker:9092")
            && gone.contains("bootstrap.servers")
            && gone.contains("1/1 brokers"),
        "{gone}"
    );
    let future = error(Code::InvalidTimestamp, "", doing).to_string();
    assert!(
        future.contains("message.timestamp.after.max.ms"),
        "{future}"
    );
    let missing = error(Code::UnknownTopic, "", doing).to_string();
    assert!(missing.contains("create the topic 'orders'"), "{missing}");
    let lost = error(Code::OutOfOrderSequenceNumber, "skipped", doing).to_string();
    assert!(lost.contains("nothing of it is visible"), "{lost}");
}
