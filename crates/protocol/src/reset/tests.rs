use super::{OffsetMove, OffsetReason, PartitionFacts, Request, Target, decide};
use std::time::Duration;
use stoatflow_core::{ErrorKind, Offset, Timestamp, TopicPartition};

/// A topic has offsets 10 to 49, and 30 is committed.
fn facts(topic: &str) -> PartitionFacts {
    PartitionFacts {
        partition: TopicPartition::new(topic, 0),
        global: false,
        committed: Some(Offset(30)),
        begin: Offset(10),
        end: Offset(50),
        since: None,
        of_group: None,
    }
}

fn to(target: Target, facts: PartitionFacts) -> (i64, OffsetReason) {
    let request = Request {
        target,
        topics: Vec::new(),
    };
    let moves = decide(&request, &[facts]).unwrap();
    (moves[0].to.unwrap().0, moves[0].why)
}

#[test]
fn a_partition_goes_where_it_is_asked_to() {
    for (target, expected) in [
        (Target::Earliest, (10, OffsetReason::Requested)),
        (Target::Latest, (50, OffsetReason::Requested)),
        (Target::At(Offset(10)), (10, OffsetReason::Requested)),
        (Target::At(Offset(33)), (33, OffsetReason::Requested)),
        (Target::At(Offset(50)), (50, OffsetReason::Requested)),
        (Target::Shift(-5), (25, OffsetReason::Requested)),
        (Target::Shift(20), (50, OffsetReason::Requested)),
        (Target::Shift(0), (30, OffsetReason::Requested)),
    ] {
        assert_eq!(to(target.clone(), facts("in")), expected, "{target:?}");
    }
}

#[test]
fn it_never_leaves_what_there_is() {
    for (target, expected) in [
        (Target::At(Offset(9)), (10, OffsetReason::BeforeBegin)),
        (Target::At(Offset(51)), (50, OffsetReason::BehindEnd)),
        (Target::Shift(-21), (10, OffsetReason::BeforeBegin)),
        (Target::Shift(21), (50, OffsetReason::BehindEnd)),
        (Target::Shift(i64::MIN), (10, OffsetReason::BeforeBegin)),
        (Target::Shift(i64::MAX), (50, OffsetReason::BehindEnd)),
    ] {
        assert_eq!(to(target.clone(), facts("in")), expected, "{target:?}");
    }
}

#[test]
fn a_shift_without_a_position_counts_from_the_first_record() {
    let nowhere = PartitionFacts {
        committed: None,
        ..facts("in")
    };
    assert_eq!(
        to(Target::Shift(5), nowhere.clone()),
        (15, OffsetReason::NothingCommitted)
    );
    assert_eq!(
        to(Target::Shift(-5), nowhere),
        (10, OffsetReason::BeforeBegin)
    );
}

#[test]
fn a_partition_goes_where_another_group_is() {
    let group = Target::Group("old".into());
    let at = |of_group: Option<i64>| PartitionFacts {
        of_group: of_group.map(Offset),
        ..facts("in")
    };
    assert_eq!(
        to(group.clone(), at(Some(20))),
        (20, OffsetReason::Requested)
    );
    assert_eq!(
        to(group.clone(), at(Some(9))),
        (10, OffsetReason::BeforeBegin)
    );
    assert_eq!(
        to(group.clone(), at(Some(51))),
        (50, OffsetReason::BehindEnd)
    );

    let request = Request {
        target: group,
        topics: Vec::new(),
    };
    let moves = decide(&request, &[at(Some(20)), at(None)]).unwrap();
    assert_eq!(
        (moves[1].to, moves[1].why),
        (Some(Offset(10)), OffsetReason::NotInGroup)
    );
    // No offset at all: the name is wrong, or the offsets have expired. Those of a global table don't
    // count.
    let global = PartitionFacts {
        global: true,
        ..at(Some(20))
    };
    let refused = decide(&request, &[at(None), global]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
    assert_eq!(
        refused.message(),
        "the group 'old' has committed no offset in what the topology reads: 'in'"
    );
}

#[test]
fn times_are_the_brokers_answer_or_the_end() {
    let answered = |since: Option<i64>| PartitionFacts {
        since: since.map(Offset),
        ..facts("in")
    };
    let target = Target::Since(Timestamp(5));
    for (answer, expected) in [
        (Some(12), (12, OffsetReason::Requested)),
        (None, (50, OffsetReason::NoneThatNew)),
        // For a time after all records, the broker may return the offset of a commit marker.
        (Some(50), (50, OffsetReason::NoneThatNew)),
        (Some(51), (50, OffsetReason::NoneThatNew)),
    ] {
        assert_eq!(to(target.clone(), answered(answer)), expected);
    }
    let ago = Target::Ago(Duration::from_millis(300));
    assert_eq!(ago.since(Timestamp(1_000)), Some(Timestamp(700)));
    assert_eq!(target.since(Timestamp(1_000)), Some(Timestamp(5)));
    assert_eq!(Target::Earliest.since(Timestamp(1_000)), None);
}

#[test]
fn topics_that_are_left_out_keep_their_position_and_global_tables_are_read_whole() {
    let global = PartitionFacts {
        global: true,
        ..facts("rates")
    };
    let nowhere = PartitionFacts {
        committed: None,
        ..facts("new")
    };
    let request = Request {
        target: Target::Latest,
        topics: vec!["in".into()],
    };
    let moves = decide(&request, &[facts("in"), global, facts("other"), nowhere]).unwrap();
    let shown = |m: &OffsetMove| (m.from.map(|o| o.0), m.to.map(|o| o.0), m.why);
    assert_eq!(
        moves.iter().map(shown).collect::<Vec<_>>(),
        [
            (Some(30), Some(50), OffsetReason::Requested),
            (Some(30), Some(10), OffsetReason::Global),
            (Some(30), Some(30), OffsetReason::Kept),
            (None, None, OffsetReason::Kept),
        ]
    );
}

#[test]
fn a_topic_that_is_not_read_is_refused_with_the_nearest() {
    let asking = |topics: &[&str]| Request {
        target: Target::Earliest,
        topics: topics.iter().map(ToString::to_string).collect(),
    };
    let facts = [facts("orders"), facts("rates")];
    let refused = decide(&asking(&["ordres", "rates", "xyz"]), &facts).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
    assert_eq!(
        refused.message(),
        "the topology does not read the topic(s) 'ordres' (did you mean 'orders'?), 'xyz'; it reads \
            'orders', 'rates'"
    );
}
