use super::*;

fn at(seconds: u64) -> (Duration, Timestamp) {
    let ms = i64::try_from(seconds * 1000).unwrap();
    (Duration::from_secs(seconds), Timestamp(1_000_000 + ms))
}

#[test]
fn a_stable_end_that_stands_still_below_the_high_watermark_is_held_back() {
    let mut watch = OpenTransactionWatch::new(2);
    let ends = |stable, high| (Offset(stable), Offset(high));
    assert_eq!(watch.update(0, ends(5, 9), at(0)), None, "seen once");
    assert!(!watch.should_log(0, at(100).0));
    let held = watch.update(0, ends(5, 9), at(5)).unwrap();
    assert_eq!(
        (held.start_offset, held.records, held.since_ms),
        (5, 4, 1_005_000)
    );
    assert!(!watch.should_log(0, at(14).0));
    let later = watch.update(0, ends(5, 30), at(15)).unwrap();
    assert_eq!((later.records, later.since_ms), (25, 1_005_000));
    assert!(watch.should_log(0, at(15).0));
    assert!(!watch.should_log(0, at(16).0), "once");
    assert!(!watch.should_log(1, at(16).0), "another partition");
    // It has ended, and the next transaction stays open too.
    assert_eq!(watch.update(0, ends(12, 30), at(20)), None);
    assert!(watch.update(0, ends(12, 30), at(25)).is_some());
    assert!(watch.should_log(0, at(35).0));
    // The partition is busy, but no transaction is open for long.
    assert_eq!(watch.update(1, ends(1, 2), at(0)), None);
    assert_eq!(watch.update(1, ends(2, 3), at(5)), None);
    assert_eq!(watch.update(1, ends(3, 3), at(10)), None);
    assert_eq!(
        watch.update(1, ends(3, 3), at(15)),
        None,
        "nothing stands behind it"
    );
}

#[test]
fn the_command_names_the_place() {
    let held = HeldBack {
        start_offset: 120,
        records: 3,
        since_ms: 0,
        producer_id: Some(7),
    };
    assert_eq!(
        held.command("kafka:9092", "orders", 3),
        "kafka-transactions.sh --bootstrap-server kafka:9092 abort --topic orders --partition 3 \
            --start-offset 120"
    );
    let open = |start| OpenTransaction {
        producer: 7,
        epoch: 1,
        start: Offset(start),
        last: Timestamp(0),
        coordinator_epoch: 0,
    };
    assert_eq!(owner(&held, Some(open(120))), Some(7));
    assert_eq!(owner(&held, Some(open(121))), None, "one that began later");
    assert_eq!(owner(&held, None), None);
}
