//! The error codes of answers: of the whole answer, and of each topic, partition or group in it.

use kafka_protocol::messages as m;
use std::iter::once;

/// An answer with error codes.
pub(in crate::kafka::native) trait ErrorCodes {
    /// All of them, including 0 for what succeeded.
    fn error_codes(&self) -> impl Iterator<Item = i16>;
}

macro_rules! error_codes {
    ($($answer:ident: |$it:ident| $codes:expr;)*) => {
        $(impl ErrorCodes for m::$answer {
            fn error_codes(&self) -> impl Iterator<Item = i16> {
                let $it = self;
                $codes
            }
        })*
    };
}

error_codes! {
    AddOffsetsToTxnResponse: |it| once(it.error_code);
    AddPartitionsToTxnResponse: |it| once(it.error_code).chain(
        it.results_by_topic_v3_and_below
            .iter()
            .flat_map(|topic| &topic.results_by_partition)
            .map(|partition| partition.partition_error_code),
    );
    ConsumerGroupDescribeResponse: |it| it.groups.iter().map(|group| group.error_code);
    CreateTopicsResponse: |it| it.topics.iter().map(|topic| topic.error_code);
    DeleteTopicsResponse: |it| it.responses.iter().map(|topic| topic.error_code);
    DescribeConfigsResponse: |it| it.results.iter().map(|resource| resource.error_code);
    DescribeGroupsResponse: |it| it.groups.iter().map(|group| group.error_code);
    DescribeProducersResponse: |it| it
        .topics
        .iter()
        .flat_map(|topic| &topic.partitions)
        .map(|partition| partition.error_code);
    DescribeTransactionsResponse: |it| it.transaction_states.iter().map(|state| state.error_code);
    EndTxnResponse: |it| once(it.error_code);
    FetchResponse: |it| once(it.error_code).chain(
        it.responses
            .iter()
            .flat_map(|topic| &topic.partitions)
            .map(|partition| partition.error_code),
    );
    FindCoordinatorResponse: |it| once(it.error_code)
        .chain(it.coordinators.iter().map(|coordinator| coordinator.error_code));
    InitProducerIdResponse: |it| once(it.error_code);
    ListGroupsResponse: |it| once(it.error_code);
    ListOffsetsResponse: |it| it
        .topics
        .iter()
        .flat_map(|topic| &topic.partitions)
        .map(|partition| partition.error_code);
    MetadataResponse: |it| it.topics.iter().flat_map(|topic| {
        once(topic.error_code).chain(topic.partitions.iter().map(|partition| partition.error_code))
    });
    OffsetFetchResponse: |it| once(it.error_code)
        .chain(it.topics.iter().flat_map(|topic| &topic.partitions).map(|p| p.error_code))
        .chain(it.groups.iter().flat_map(|group| {
            let topics = group.topics.iter().flat_map(|topic| &topic.partitions);
            once(group.error_code).chain(topics.map(|partition| partition.error_code))
        }));
    OffsetForLeaderEpochResponse: |it| it
        .topics
        .iter()
        .flat_map(|topic| &topic.partitions)
        .map(|partition| partition.error_code);
    ProduceResponse: |it| it
        .responses
        .iter()
        .flat_map(|topic| &topic.partition_responses)
        .map(|partition| partition.error_code);
    SaslAuthenticateResponse: |it| once(it.error_code);
    SaslHandshakeResponse: |it| once(it.error_code);
    TxnOffsetCommitResponse: |it| it
        .topics
        .iter()
        .flat_map(|topic| &topic.partitions)
        .map(|partition| partition.error_code);
    WriteTxnMarkersResponse: |it| it
        .markers
        .iter()
        .flat_map(|marker| &marker.topics)
        .flat_map(|topic| &topic.partitions)
        .map(|partition| partition.error_code);
}
