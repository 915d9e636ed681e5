use super::*;

fn at(offset: i64) -> Option<Offset> {
    Some(Offset(offset))
}

#[test]
fn names_are_those_of_kafka_streams() {
    assert!(is_repartition_topic(
        "orders",
        "orders-by-customer-repartition"
    ));
    assert!(!is_repartition_topic(
        "orders",
        "orders-by-customer-changelog"
    ));
    assert!(!is_repartition_topic(
        "orders",
        "order-by-customer-repartition"
    ));
    assert!(!is_repartition_topic(
        "orders",
        "ordersby-customer-repartition"
    ));
}

#[test]
fn records_between_the_committed_offset_and_the_end_are_checked() {
    let partitions = [
        TopicPartition::new("a-x-repartition", 0),
        TopicPartition::new("a-x-repartition", 1),
        TopicPartition::new("a-x-repartition", 2),
        TopicPartition::new("a-b-y-repartition", 0),
    ];
    let range = (Offset(2), Offset(9));
    let found = unread(&partitions, &[at(9), at(5), None, None], &[range; 4]);
    let expected = [
        (partitions[1].clone(), Offset(5), Offset(9)),
        // Never committed; its first records were deleted.
        (partitions[2].clone(), Offset(2), Offset(9)),
    ];
    assert_eq!(found, expected);
    assert!(unread(&partitions, &[at(1); 4], &[(Offset(2), Offset(2)); 4]).is_empty());
}
