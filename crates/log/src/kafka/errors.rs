//! Error codes of librdkafka and the broker as StoatFlow's errors: the only place that maps them.
//!
//! Takes a code and what was being done, returns an error with a kind, an address and a next step. Never
//! decides whether to retry: `Unavailable` means that a retry may help.

use rdkafka::types::RDKafkaErrorCode as Code;
use stoatflow_core::{Error, ErrorKind};

#[cfg(test)]
mod tests;

/// The error kind of a code.
pub(super) fn kind_of(code: Code) -> ErrorKind {
    match code {
        Code::Fenced
        | Code::InvalidProducerEpoch
        | Code::ProducerFenced
        | Code::FencedInstanceId => ErrorKind::Fenced,

        Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::DelegationTokenAuthorizationFailed
        | Code::SaslAuthenticationFailed
        | Code::Authentication
        | Code::SecurityDisabled
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState => ErrorKind::Unauthorized,

        Code::UnknownTopicOrPartition
        | Code::UnknownTopic
        | Code::UnknownPartition
        | Code::InvalidTopic => ErrorKind::MissingTopic,

        Code::AllBrokersDown
        | Code::BrokerTransportFailure
        | Code::Resolve
        | Code::OperationTimedOut
        | Code::MessageTimedOut
        | Code::TimedOutQueue
        | Code::WaitingForCoordinator
        | Code::Retry
        | Code::RequestTimedOut
        | Code::CoordinatorNotAvailable
        | Code::NotCoordinator
        | Code::CoordinatorLoadInProgress
        | Code::TransactionCoordinatorFenced
        | Code::NotEnoughReplicas
        | Code::NotEnoughReplicasAfterAppend
        | Code::LeaderNotAvailable
        | Code::NotLeaderForPartition
        | Code::ReplicaNotAvailable
        | Code::BrokerNotAvailable
        | Code::NetworkException
        | Code::NotController
        | Code::ConcurrentTransactions
        | Code::UnstableOffsetCommit
        | Code::KafkaStorageError
        // The transaction is lost, as after a missing answer: the next instance repeats it.
        | Code::InvalidProducerIdMapping
        | Code::InvalidTransactionalState
        | Code::OutOfOrderSequenceNumber
        | Code::UnknownProducerId
        | Code::UnknownLeaderEpoch
        // A new leader doesn't know the end yet; a broker that is starting doesn't have this listener
        // yet.
        | Code::OffsetNotAvailable
        | Code::ListenerNotFound
        // More topics were created or deleted than a quota allows: retry later.
        | Code::ThrottlingQuotaExceeded
        // The client knows no leader of a partition: a broker that has just restarted leads none yet.
        | Code::NoEnt
        // The client is being closed during the call.
        | Code::DestroyBroker
        | Code::FencedLeaderEpoch => ErrorKind::Unavailable,

        Code::MessageSizeTooLarge
        | Code::MessageBatchTooLarge
        | Code::InvalidMessageSize
        | Code::InvalidMessage
        | Code::InvalidRecord
        | Code::InvalidTimestamp => ErrorKind::Serde,

        Code::InvalidArgument
        | Code::InvalidConfig
        | Code::InvalidPartitions
        | Code::InvalidReplicationFactor
        | Code::InvalidReplicaAssignment
        | Code::PolicyViolation
        | Code::TopicDeletionDisabled
        | Code::InvalidTransactionTimeout
        | Code::UnsupportedVersion
        | Code::UnsupportedFeature
        | Code::UnsupportedForMessageFormat
        | Code::NotConfigured
        | Code::SSL => ErrorKind::Config,

        Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::LogTruncation => {
            ErrorKind::Incompatible
        }

        _ => ErrorKind::Internal,
    }
}

/// Whether the broker no longer knows the transaction, or not as the client knows it.
const fn is_lost(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidProducerIdMapping
            | Code::InvalidTransactionalState
            | Code::OutOfOrderSequenceNumber
            | Code::UnknownProducerId
    )
}

/// What was being done when the error occurred.
#[derive(Clone, Copy, Debug)]
pub(super) struct ErrorContext<'a> {
    /// The bootstrap list.
    pub address: &'a str,
    /// For the message: "committing the transaction of 'app'".
    pub what: &'a str,
    /// The topic, if the error concerns one.
    pub topic: Option<&'a str>,
}

/// Converts a code to an error. `said` is the broker's or the client's own text.
pub(super) fn error(code: Code, said: &str, doing: ErrorContext<'_>) -> Error {
    let ErrorContext {
        address,
        what,
        topic,
    } = doing;
    let kind = kind_of(code);
    let of_topic = topic.map(|t| format!(" '{t}'")).unwrap_or_default();
    let message = match kind {
        ErrorKind::Fenced => {
            format!("{what}: a newer producer with the same transactional id took over")
        }
        ErrorKind::Unauthorized => format!(
            "{what}: the broker at {address} refuses this user{}",
            topic
                .map(|t| format!(" the topic '{t}'"))
                .unwrap_or_default()
        ),
        ErrorKind::MissingTopic => {
            format!("{what}: topic{of_topic} (or a partition of it) does not exist at {address}")
        }
        ErrorKind::Unavailable if is_lost(code) => {
            format!("{what}: the broker at {address} knows nothing of this transaction any more")
        }
        ErrorKind::Unavailable => format!("{what}: the broker at {address} doesn't answer"),
        ErrorKind::Serde => {
            format!("{what}: a record for topic{of_topic} is refused by the broker at {address}")
        }
        ErrorKind::Incompatible => {
            format!("{what}: topic{of_topic} at {address} no longer holds the saved position")
        }
        ErrorKind::Config => {
            format!("{what}: the client or the broker at {address} refuses a setting")
        }
        _ => format!("{what}: the client failed"),
    };
    let error = Error::new(kind, format!("{message} ({code:?}: {said})"));
    let error = match kind {
        ErrorKind::Unauthorized => error.hint(permission(code, what, topic)),
        ErrorKind::MissingTopic => error.hint(format!(
            "create the topic{of_topic}, or fix its name \
            in the topology"
        )),
        ErrorKind::Serde if code == Code::InvalidTimestamp => error.hint(format!(
            "the record's time lies outside what the broker takes: correct it, or raise \
                message.timestamp.after.max.ms (before.max.ms) of topic{of_topic}"
        )),
        ErrorKind::Serde => error.hint(format!(
            "keep records below max.message.bytes of \
            topic{of_topic}, or raise it there and message.max.bytes here"
        )),
        ErrorKind::Config if code == Code::InvalidTransactionTimeout => error.hint(
            "transaction.timeout.ms is more than the broker's transaction.max.timeout.ms (15 \
                minutes by default): lower transaction.timeout.ms, or raise the broker's setting",
        ),
        ErrorKind::Incompatible => error.hint(
            "records were deleted before they were read, or the topic was created again: raise the topic's \
                retention, then reset the application's offsets and state",
        ),
        ErrorKind::Unavailable if is_lost(code) => {
            error.hint("start again: nothing of it is visible, and its records are read again")
        }
        _ => error,
    };
    match topic {
        Some(topic) => error.at(|at| at.topic = Some(topic.to_owned())),
        None => error,
    }
}

fn permission(code: Code, what: &str, topic: Option<&str>) -> String {
    match (code, topic) {
        (Code::TopicAuthorizationFailed, Some(topic)) if what == "making topics" => {
            format!("grant this user Create on topics that are named like '{topic}'")
        }
        (Code::TopicAuthorizationFailed, Some(topic))
            if what.starts_with("asking for the settings") =>
        {
            format!("grant this user DescribeConfigs on the topic '{topic}'")
        }
        (Code::TopicAuthorizationFailed, Some(topic)) => {
            format!("grant this user Describe, Read and Write on the topic '{topic}'")
        }
        (Code::TopicAuthorizationFailed, None) => {
            "grant this user Describe and Read on the topics that it reads, and Write on those that it writes"
                .to_owned()
        }
        (Code::GroupAuthorizationFailed, _) => {
            "grant this user Read on the group named like application.id".to_owned()
        }
        (Code::TransactionalIdAuthorizationFailed, _) => {
            "grant this user Write on both transactional ids: application.id, and the same with ~2 \
                behind it. A broker without transactions, such as Nisshi, refuses them too: an application needs \
                them with either guarantee"
                .to_owned()
        }
        (Code::ClusterAuthorizationFailed, _) => {
            "grant this user IdempotentWrite on the cluster, and Create to make topics".to_owned()
        }
        (Code::SaslAuthenticationFailed | Code::Authentication, _) => {
            "check the user name and the password of the client properties".to_owned()
        }
        _ => "grant the permission, or check security.protocol and the sasl properties".to_owned(),
    }
}
