use super::*;
use kafka_protocol::messages::TopicName;
use kafka_protocol::messages::metadata_response::{
    MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::protocol::StrBytes;

fn answer(id: u8, epochs: &[i32]) -> MetadataResponse {
    let partitions = (0..).zip(epochs).map(|(index, epoch)| {
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_epoch(*epoch)
    });
    let name = TopicName::from(StrBytes::from_static_str("t"));
    MetadataResponse::default().with_topics(vec![
        MetadataResponseTopic::default()
            .with_name(Some(name))
            .with_topic_id(format!("{id:032}").parse().expect("an id"))
            .with_partitions(partitions.collect()),
    ])
}

#[test]
fn an_answer_from_before_an_election_is_behind() {
    let known = LeaderEpochs::default();
    assert_eq!(known.learn(&answer(1, &[3, 5]), None), Ok(()));
    assert_eq!(known.learn(&answer(1, &[3, 6]), None), Ok(()));
    assert_eq!(
        known.learn(&answer(1, &[4, 5]), None),
        Err("t-1".to_owned())
    );
    // Nothing of the stale answer was stored.
    assert_eq!(known.learn(&answer(1, &[3, 6]), None), Ok(()));
}

#[test]
fn a_topic_that_was_made_anew_counts_from_0_and_old_brokers_tell_no_epochs() {
    let known = LeaderEpochs::default();
    assert_eq!(known.learn(&answer(1, &[3]), None), Ok(()));
    assert_eq!(known.learn(&answer(1, &[-1]), None), Ok(()));
    assert_eq!(known.learn(&answer(1, &[2]), None), Err("t-0".to_owned()));
    assert_eq!(known.learn(&answer(2, &[0]), None), Ok(()));
    assert_eq!(known.learn(&answer(2, &[0, 0]), None), Ok(()));
}

#[test]
fn a_stale_broker_is_known_until_it_has_caught_up() {
    let known = LeaderEpochs::default();
    assert_eq!(known.learn(&answer(1, &[3]), Some(7)), Ok(()));
    assert_eq!(
        known.learn(&answer(1, &[2]), Some(8)),
        Err("t-0".to_owned())
    );
    assert!(known.is_behind(8) && !known.is_behind(7));
    assert_eq!(known.learn(&answer(1, &[3]), Some(8)), Ok(()));
    assert!(!known.is_behind(8));
}
