use super::*;
use kafka_protocol::messages::fetch_response::EpochEndOffset;

fn wanted(topic: &str, partition: i32) -> FetchTarget {
    FetchTarget {
        topic: topic.into(),
        topic_id: topic.as_bytes()[0].into(),
        partition,
        from: 7,
        leader_epoch: 3,
        seen_epoch: 2,
    }
}

const PORTION: FetchLimits = FetchLimits {
    all: 1000,
    each: 100,
};

#[test]
fn a_request_says_what_was_seen_where_it_can() {
    let asked = [wanted("a", 1), wanted("a", 0), wanted("b", 0)];
    for (version, seen) in [(12, 2), (11, -1)] {
        let rack = StrBytes::from_static_str("here");
        let request = request(&asked, PORTION, Duration::from_millis(20), (version, &rack));
        assert_eq!(
            (
                request.isolation_level,
                request.min_bytes,
                request.max_bytes
            ),
            (1, 1, 1000)
        );
        let names: Vec<_> = request.topics.iter().map(|t| &*t.topic.0).collect();
        assert_eq!(names, ["a", "b"]);
        let parts = &request.topics[0].partitions;
        assert_eq!([parts[0].partition, parts[1].partition], [1, 0]);
        assert_eq!(
            (parts[0].fetch_offset, parts[0].current_leader_epoch),
            (7, 3)
        );
        assert_eq!(parts[0].last_fetched_epoch, seen);
        assert_eq!(parts[0].partition_max_bytes, 100);
    }
}

#[test]
fn topics_are_named_by_ids_if_all_have_one() {
    let mut asked = [wanted("a", 1), wanted("a", 0), wanted("b", 0)];
    let rack = StrBytes::default();
    let request = |asked: &[FetchTarget]| {
        let version = newest_version(asked);
        let made = request(asked, PORTION, Duration::ZERO, (version, &rack));
        let of_topics = made.topics.iter();
        let named = of_topics.map(|t| (t.topic.0.to_string(), t.topic_id.as_u128()));
        (version, named.collect::<Vec<_>>())
    };
    let ids = vec![(String::new(), 97), (String::new(), 98)];
    assert_eq!(request(&asked), (13, ids));
    asked[2].topic_id = 0;
    let names = vec![("a".to_owned(), 0), ("b".to_owned(), 0)];
    assert_eq!(request(&asked), (12, names));
}

#[test]
fn answers_are_told_apart() {
    let of = |code| said(PartitionData::default().with_error_code(code));
    assert!(
        matches!(of(1), FetchOutcome::Refused(1)),
        "a position that is lost"
    );
    assert!(matches!(of(2), FetchOutcome::Refused(2)), "damaged");
    for code in [-1, 3, 5, 6, 9, 56, 74, 75, 78, 100, 103] {
        assert!(
            matches!(of(code), FetchOutcome::NotYet(c) if c == code),
            "{code}"
        );
    }
    assert!(matches!(of(29), FetchOutcome::Refused(29)), "no permission");
    let end = EpochEndOffset::default().with_epoch(1).with_end_offset(40);
    let lost = PartitionData::default().with_diverging_epoch(end);
    assert!(matches!(said(lost), FetchOutcome::Diverged { from: 40 }));
    // Brokers without transactions report no stable end.
    let old = PartitionData::default()
        .with_last_stable_offset(-1)
        .with_high_watermark(9);
    assert!(matches!(
        said(old),
        FetchOutcome::Came { stable_end: 9, .. }
    ));
}
