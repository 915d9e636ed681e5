use super::choose::PositionOrigin;
use super::*;
use stoatflow_core::Guarantee;

fn committed(offset: i64, metadata: &str) -> Committed {
    Committed {
        offset: Offset(offset),
        metadata: metadata.to_owned(),
    }
}

fn entry(partition: i32, offset: i64) -> CutEntry {
    CutEntry {
        partition: TopicPartition::new(Arc::from("orders \"of\" ü"), partition),
        offset: Offset(offset),
        metadata: format!("st={offset}"),
    }
}

fn read(rows: &mut OffsetRows, records: &[ProducerRecord]) {
    for record in records {
        let key = record.key.as_ref().unwrap();
        rows.take(key, record.value.as_deref()).unwrap();
    }
}

#[test]
fn written_rows_are_read_again_and_only_changed_ones_are_written() {
    let ids = BTreeMap::from([(Arc::from("orders"), Arc::from("id-1"))]);
    let mut topic = OffsetsTopic::new("shop", OffsetRows::default(), ids.clone());
    assert!(topic.is_behind(&[]), "the id of a topic is not there yet");
    let first = topic.write(&[entry(0, 5), entry(1, 7)], Timestamp(1));
    assert_eq!(first.len(), 3);
    assert_eq!(&*first[0].topic, "shop-offsets");
    let second = topic.write(&[entry(0, 5), entry(1, 9)], Timestamp(2));
    assert_eq!(second.len(), 1);
    assert!(!topic.is_behind(&[entry(0, 5), entry(1, 9)]));
    assert!(topic.is_behind(&[entry(0, 6)]));

    let mut rows = OffsetRows::default();
    read(&mut rows, &first);
    read(&mut rows, &second);
    let position = |at: i32| rows.positions[&entry(at, 0).partition].clone();
    assert_eq!(position(0), committed(5, "st=5"));
    assert_eq!(position(1), committed(9, "st=9"));
    assert_eq!(rows.topics, ids);
    let again = OffsetsTopic::new("shop", rows, ids);
    assert!(!again.is_behind(&[entry(0, 5), entry(1, 9)]));
}

#[test]
fn ends_of_changelogs_are_written_when_they_move() {
    let mut topic = OffsetsTopic::new("shop", OffsetRows::default(), BTreeMap::new());
    let changelog: Arc<str> = "shop-counts-changelog".into();
    let end = |partition, end| (Partition(partition), Offset(end));
    topic.note_ends(&changelog, vec![]);
    assert!(topic.write_ends(Timestamp(1)).is_empty());
    topic.note_ends(&changelog, vec![end(2, 40)]);
    assert!(topic.is_behind(&[]), "the end is not there yet");
    let first = topic.write_ends(Timestamp(2));
    assert_eq!(
        first[0].value.as_deref(),
        Some(br#"{"ends":[null,null,40]}"#.as_slice())
    );
    topic.note_ends(&changelog, vec![end(0, 7), end(2, 40)]);
    let second = topic.write_ends(Timestamp(3));
    topic.note_ends(&changelog, vec![end(0, 7), end(2, 39)]);
    assert!(topic.write_ends(Timestamp(4)).is_empty(), "nothing moved");

    let mut rows = OffsetRows::default();
    read(&mut rows, &first);
    read(&mut rows, &second);
    let noted = |partition| rows.end_of(&TopicPartition::new(Arc::clone(&changelog), partition));
    assert_eq!(
        [0, 1, 2, 3].map(noted),
        [Some(Offset(7)), None, Some(Offset(40)), None]
    );
    let lost = TopicPartition::new(Arc::clone(&changelog), 2);
    read(&mut rows, &topic.write_lost(lost.clone(), Timestamp(5)));
    assert_eq!(rows.end_of(&lost), Some(Offset(40)), "its ends stay");
    assert_eq!(rows.lost, BTreeSet::from([lost]));
    let records = topic.rewind(&[], &[changelog.to_string()], Timestamp(6));
    read(&mut rows, &records);
    assert!(
        rows.changelogs.is_empty() && rows.lost.is_empty(),
        "a reset deletes it"
    );
}

#[test]
fn a_changelog_whose_partitions_were_added_to_is_refused() {
    let info = |partitions| TopicInfo {
        name: "shop-counts-changelog".into(),
        partitions,
        id: None,
    };
    let mut topic = OffsetsTopic::new("shop", OffsetRows::default(), BTreeMap::new());
    topic.note_partitions(&info(2));
    assert!(topic.write_ends(Timestamp(1)).is_empty(), "it has no rows");
    topic.note_ends(&info(2).name, vec![(Partition(0), Offset(7))]);
    let mut rows = OffsetRows::default();
    read(&mut rows, &topic.write_ends(Timestamp(2)));
    rows.refuse_other_partitions(&[info(2)]).unwrap();
    let refused = rows.refuse_other_partitions(&[info(3)]).unwrap_err();
    assert_eq!(refused.kind(), stoatflow_core::ErrorKind::Incompatible);
    assert!(
        refused.to_string().contains("has 3 partitions, and had 2"),
        "{refused}"
    );
    let reset = topic.rewind(&[], &[info(2).name.to_string()], Timestamp(3));
    read(&mut rows, &reset);
    rows.refuse_other_partitions(&[info(3)]).unwrap();
}

#[test]
fn formats_of_changelogs_are_written_once() {
    let changelog: Arc<str> = "shop-counts-changelog".into();
    let formats = BTreeMap::from([(Arc::clone(&changelog), "key-value:string:int64".to_owned())]);
    let mut topic = OffsetsTopic::new("shop", OffsetRows::default(), BTreeMap::new());
    topic.note_formats(formats.clone());
    assert!(topic.is_behind(&[]), "the format is not there yet");
    let first = topic.write(&[], Timestamp(1));
    assert!(topic.write(&[], Timestamp(2)).is_empty());
    let mut rows = OffsetRows::default();
    read(&mut rows, &first);
    assert_eq!(rows.formats, formats);
    let mut again = OffsetsTopic::new("shop", rows.clone(), BTreeMap::new());
    again.note_formats(formats);
    assert!(!again.is_behind(&[]));
    read(
        &mut rows,
        &again.rewind(&[], &[changelog.to_string()], Timestamp(3)),
    );
    assert!(rows.formats.is_empty(), "a reset deletes it");
}

#[test]
fn an_application_that_was_handed_over_is_refused_until_a_reset() {
    let mark = "handed over to Spark: /shared/one (7f); next: stoatflow hand-over from-spark \
        --checkpoint /shared/one";
    // Of a topology without stores, and of one with a changelog.
    for name in ["shop-offsets", "shop-counts-changelog"] {
        let mut rows = OffsetRows::default();
        rows.refuse_handed_over("shop").unwrap();
        rows.formats.insert(Arc::from(name), mark.to_owned());
        let refused = rows.refuse_handed_over("shop").unwrap_err();
        assert_eq!(refused.kind(), stoatflow_core::ErrorKind::Incompatible);
        let text = refused.to_string();
        assert!(
            text.contains("handed over to Spark: /shared/one (7f)"),
            "{text}"
        );
        assert!(
            text.contains("from-spark --checkpoint /shared/one"),
            "{text}"
        );
        let mut topic = OffsetsTopic::new("shop", rows.clone(), BTreeMap::new());
        let changelogs = ["shop-counts-changelog".to_owned()];
        read(&mut rows, &topic.rewind(&[], &changelogs, Timestamp(3)));
        assert!(rows.formats.is_empty());
        rows.refuse_handed_over("shop").unwrap();
    }
}

#[test]
fn an_idle_instance_writes_now_and_then() {
    let mut topic = OffsetsTopic::new("shop", OffsetRows::default(), BTreeMap::new());
    let cut = [entry(0, 5)];
    let start = 1_000_000;
    assert_eq!(topic.write(&cut, Timestamp(start)).len(), 1);
    assert!(topic.write(&cut, Timestamp(start + 599_999)).is_empty());
    let alive = topic.write(&cut, Timestamp(start + 600_000));
    assert_eq!(alive.len(), 1);
    assert_eq!(alive[0].key.as_deref(), Some(br#"["instance"]"#.as_slice()));
    assert!(topic.write(&cut, Timestamp(start + 600_001)).is_empty());
    let mut rows = OffsetRows::default();
    read(&mut rows, &alive);
    let told = OffsetRows {
        started: Some(Timestamp(0)),
        ..OffsetRows::default()
    };
    assert_eq!(rows, told, "no position, no topic");
}

#[test]
fn a_reset_writes_positions_and_forgets_the_topics_that_it_deletes() {
    let name: Arc<str> = "shop-counts-changelog".into();
    let mut rows = OffsetRows::default();
    rows.topics.insert(Arc::clone(&name), "old".into());
    let mut topic = OffsetsTopic::new("shop", rows.clone(), BTreeMap::new());
    let records = topic.rewind(&[entry(0, 0)], &[name.to_string()], Timestamp(1));
    read(&mut rows, &records);
    assert!(rows.topics.is_empty());
    assert_eq!(rows.positions[&entry(0, 0).partition], committed(0, "st=0"));
}

#[test]
fn rows_of_other_applications_are_recognized_by_key() {
    let mut rows = OffsetRows::default();
    for key in [
        "what",
        "[7]",
        r#"["position","t","x"]"#,
        r#"["position","t",99999999999]"#,
        r#"["changelog","t"]"#,
    ] {
        let found = rows.take(key.as_bytes(), Some(br#"{"offset":1}"#));
        assert_eq!(found, Err(key.to_owned()));
    }
    let half = rows.take(br#"["position","t",1]"#, Some(br#"{"metadata":"st=1"}"#));
    assert!(half.is_err());
    // A later version may write other kinds of rows.
    rows.take(br#"["more","t",1]"#, Some(b"{}")).unwrap();
    assert_eq!(rows, OffsetRows::default());
}

#[test]
fn a_topic_made_anew_is_refused_by_its_name() {
    let mut rows = OffsetRows::default();
    let changelog: Arc<str> = "shop-counts-changelog".into();
    rows.topics.insert("orders".into(), "one".into());
    rows.topics.insert(Arc::clone(&changelog), "two".into());
    let now = |orders: &str, counts: &str| {
        BTreeMap::from([
            (Arc::from("orders"), Arc::from(orders)),
            (Arc::clone(&changelog), Arc::from(counts)),
            (Arc::from("new"), Arc::from("whatever")),
        ])
    };
    let changelogs = [None, Some(Arc::clone(&changelog))];
    let refuse = |now| rows.refuse_recreated("shop", &now, &changelogs);
    refuse(now("one", "two")).unwrap();
    refuse(BTreeMap::new()).unwrap();
    let source = refuse(now("other", "two")).unwrap_err();
    assert!(
        source.to_string().contains("'orders' was deleted"),
        "{source}"
    );
    assert!(source.next_step().contains("--input-topic orders"));
    let own = refuse(now("one", "other")).unwrap_err();
    assert!(own.to_string().contains("'shop-counts-changelog'"), "{own}");
    assert!(own.next_step().contains("stoatflow reset"));
}

#[test]
fn where_both_say_something_the_rule_is_the_one_that_loses_nothing() {
    let ours = committed(10, "st=4");
    let chosen = |group: Option<(i64, &str)>, topic: Option<&Committed>| {
        let group = || group.map(|(offset, metadata)| committed(offset, metadata));
        let [once, least] = [Guarantee::ExactlyOnceV2, Guarantee::AtLeastOnce]
            .map(|guarantee| choose_position(guarantee, group(), topic));
        if once.1 != PositionOrigin::Uncommitted {
            assert_eq!(
                once, least,
                "only what the group has beyond the topic differs"
            );
        }
        (once.0.map(|c| c.offset.0), once.1)
    };
    assert_eq!(chosen(None, None), (None, PositionOrigin::Nowhere));
    assert_eq!(
        chosen(Some((3, "")), None),
        (Some(3), PositionOrigin::Group)
    );
    assert_eq!(
        chosen(None, Some(&ours)),
        (Some(10), PositionOrigin::Expired)
    );
    assert_eq!(
        chosen(Some((10, "st=4")), Some(&ours)),
        (Some(10), PositionOrigin::Both)
    );
    // kafka-consumer-groups --reset-offsets writes no metadata.
    assert_eq!(
        chosen(Some((3, "")), Some(&ours)),
        (Some(3), PositionOrigin::Moved)
    );
    assert_eq!(
        chosen(Some((30, "")), Some(&ours)),
        (Some(30), PositionOrigin::Moved)
    );
    // Under exactly-once both are of one transaction; under at-least-once the topic follows.
    assert_eq!(
        chosen(Some((12, "st=5")), Some(&ours)),
        (Some(10), PositionOrigin::Uncommitted)
    );
    let later = Some(committed(12, "st=5"));
    let least = choose_position(Guarantee::AtLeastOnce, later.clone(), Some(&ours));
    assert_eq!(least, (later, PositionOrigin::Ahead));
    assert_eq!(
        chosen(Some((8, "st=3")), Some(&ours)),
        (Some(10), PositionOrigin::Lost)
    );
    // A tool that sets the same offset removes the stream time.
    let (same, _) = choose_position(
        Guarantee::ExactlyOnceV2,
        Some(committed(10, "")),
        Some(&ours),
    );
    assert_eq!(same, Some(ours));
}

#[test]
fn a_cluster_that_refuses_small_segments_gives_its_own() {
    let asked = std::cell::RefCell::new(Vec::new());
    let small = |topic: &NewTopic| topic.config.iter().any(|(name, _)| name == SEGMENT_BYTES);
    let ask = |refused: Option<ErrorKind>, always: bool| {
        asked.borrow_mut().clear();
        create("words", 3, |topic| {
            asked.borrow_mut().push(topic.clone());
            match refused {
                Some(kind) if always || small(topic) => Err(Error::new(kind, "refused")),
                _ => Ok(()),
            }
        })
    };
    ask(None, false).unwrap();
    assert!(asked.borrow().len() == 1 && small(&asked.borrow()[0]));
    ask(Some(ErrorKind::Config), false).unwrap();
    assert!(asked.borrow().len() == 2 && !small(&asked.borrow()[1]));
    let kept = |name: &str| asked.borrow()[1].config.iter().any(|(n, _)| n == name);
    assert!(kept("cleanup.policy") && kept("message.timestamp.type"));
    assert_eq!(asked.borrow()[1].name, "words-offsets");
    let refused = ask(Some(ErrorKind::Config), true).unwrap_err();
    assert_eq!(
        (refused.kind(), asked.borrow().len()),
        (ErrorKind::Config, 2)
    );
    // A retry would not help.
    let refused = ask(Some(ErrorKind::Unauthorized), true).unwrap_err();
    assert_eq!(
        (refused.kind(), asked.borrow().len()),
        (ErrorKind::Unauthorized, 1)
    );
}
