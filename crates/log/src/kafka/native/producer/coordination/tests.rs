use super::refused_topic;
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{TopicName, TxnOffsetCommitResponse};
use kafka_protocol::protocol::StrBytes;

const REFUSED: i16 = 29;

fn topic(name: &'static str, codes: &[i16]) -> TxnOffsetCommitResponseTopic {
    let partitions = codes
        .iter()
        .map(|code| TxnOffsetCommitResponsePartition::default().with_error_code(*code));
    TxnOffsetCommitResponseTopic::default()
        .with_name(TopicName(StrBytes::from_static_str(name)))
        .with_partitions(partitions.collect())
}

#[test]
fn the_topic_whose_offsets_are_refused_is_named() {
    let answer = TxnOffsetCommitResponse::default()
        .with_topics(vec![topic("fine", &[0, 0]), topic("secret", &[0, REFUSED])]);
    assert_eq!(refused_topic(&answer, REFUSED), Some("secret"));
    assert_eq!(refused_topic(&answer, 3), None);
}
