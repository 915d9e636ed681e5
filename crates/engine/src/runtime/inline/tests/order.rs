//! Which record is admitted first, and for which partitions dispatch waits.

use super::*;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::TopicPartition;

/// An engine over an empty topic with two partitions.
fn bench(idle: Option<Duration>) -> (TestBench, Inline) {
    let mut bench = TestBench::new(&["in", "out"], 1, compile(copy("in")));
    let mut settings = (*bench.spec.settings).clone();
    settings.max_task_idle = idle;
    bench.spec.settings = Arc::new(settings);
    let engine = bench.start();
    (bench, engine)
}

fn fetched(slot: u32, offset: i64, time: i64, size: usize) -> ConsumerRecord {
    ConsumerRecord {
        slot,
        offset: Offset(offset),
        timestamp: Timestamp(time),
        key: Some(Bytes::from_static(b"k")),
        value: Some(Bytes::from(vec![b'v'; size])),
        headers: None,
        number: 0,
    }
}

/// The next offset of each partition to be admitted.
fn admitted(engine: &mut Inline) -> Vec<i64> {
    let dispatch = engine.parts().intake.dispatch();
    dispatch.admit();
    dispatch.positions().map(|(at, _)| at.0).collect()
}

fn accept(engine: &mut Inline, mut records: Vec<ConsumerRecord>, caught_up: [bool; 2]) {
    let dispatch = engine.parts().intake.dispatch();
    dispatch.accept(&mut records, &mut Vec::new());
    dispatch.check_lagging(|slot| caught_up[slot as usize]);
}

#[test]
fn a_partition_with_more_on_the_broker_is_waited_for() {
    let (_bench, mut engine) = bench(Some(Duration::ZERO));
    accept(
        &mut engine,
        vec![fetched(0, 0, 10, 1), fetched(0, 1, 30, 1)],
        [true, false],
    );
    assert_eq!(admitted(&mut engine), [0, 0], "older ones may be coming");
    accept(&mut engine, vec![fetched(1, 0, 20, 1)], [true, false]);
    assert_eq!(
        admitted(&mut engine),
        [1, 1],
        "30 has to wait for what comes after 20"
    );
    accept(&mut engine, Vec::new(), [true, true]);
    assert_eq!(admitted(&mut engine), [2, 1], "nothing more is known of");
}

#[test]
fn an_awaited_partition_is_fetched_when_there_is_no_room_for_others() {
    let (_bench, mut engine) = bench(Some(Duration::ZERO));
    let much = (0..200).map(|n| fetched(0, n, n, 1_000)).collect();
    accept(&mut engine, much, [false, false]);
    let dispatch = engine.parts().intake.dispatch();
    assert!(dispatch.wants_more());
    assert_eq!(dispatch.paused_slots(), [0]);
    assert!(dispatch.is_waiting());
    accept(&mut engine, vec![fetched(1, 0, 1_000, 1)], [false, true]);
    let dispatch = engine.parts().intake.dispatch();
    assert!(!dispatch.is_waiting());
    assert!(
        !dispatch.wants_more(),
        "all have something, and that is enough"
    );
    assert!(admitted(&mut engine)[0] > 0);
}

#[test]
fn an_empty_partition_is_waited_for_as_long_as_set() {
    let (bench, mut engine) = bench(Some(Duration::from_millis(50)));
    accept(&mut engine, vec![fetched(0, 0, 10, 1)], [true, true]);
    assert_eq!(admitted(&mut engine), [0, 0]);
    bench.clock.advance(Duration::from_millis(49));
    assert_eq!(admitted(&mut engine), [0, 0]);
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(admitted(&mut engine), [1, 0]);
}

#[test]
fn partitions_are_not_awaited_if_task_idling_is_off() {
    let (_bench, mut engine) = bench(None);
    accept(&mut engine, vec![fetched(0, 0, 10, 1)], [false, false]);
    assert_eq!(admitted(&mut engine), [1, 0]);
}

#[test]
fn a_backlog_of_a_topic_does_not_overtake_another_topic() {
    let bench = TestBench::new(
        &["in", "late", "out"],
        1,
        compile(json!([
            {"op": "stream", "topics": ["in", "late"], "key": "string", "value": "string"},
            {"op": "to", "from": 0, "topic": "out", "key": "string", "value": "string"},
        ])),
    );
    let body: &'static str = "x".repeat(1_000).leak();
    for n in 0..50 {
        let at = n * 100;
        let records: Vec<_> = (at..at + 100)
            .map(|time| ("k", body, 1_000 + time))
            .collect();
        bench.send("in", &records);
    }
    bench.send(
        "late",
        &[
            ("k", "first", 1),
            ("k", "middle", 3_500),
            ("k", "last", 100_000),
        ],
    );
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    let mut consumer = bench.broker.consumer("reader", 1).unwrap();
    let places: Vec<_> = (0..2)
        .map(|p| (TopicPartition::new("out", p), Offset(0)))
        .collect();
    consumer.assign(&places).unwrap();
    let mut read = Vec::new();
    consumer.poll(10_000, Duration::ZERO, &mut read).unwrap();
    assert_eq!(read.len(), 5_003);
    assert!(
        read.windows(2).all(|w| w[0].timestamp <= w[1].timestamp),
        "all have the same key, and came in the order of their times"
    );
}

/// The records are admitted one by one, while the lane has to wait.
#[test]
fn waiting_input_of_a_lane_is_one_batch_up_to_the_barrier() {
    let (_bench, mut engine) = bench(None);
    for offset in 0..4 {
        accept(&mut engine, vec![fetched(0, offset, 10, 1)], [true, true]);
        assert_eq!(admitted(&mut engine)[0], offset + 1);
        if offset == 2 {
            engine.parts().intake.dispatch().barrier();
        }
    }
    let status = Arc::clone(&engine.parts().shared.status);
    let handled = || status.lanes[0].records.load(Relaxed);
    assert!(engine.take(Turn::Lane(0)).unwrap());
    assert_eq!(handled(), 3, "one step");
    assert!(engine.take(Turn::Lane(0)).unwrap());
    assert_eq!(handled(), 3, "the barrier");
    while engine.take(Turn::Lane(0)).unwrap() {}
    assert_eq!(handled(), 4);
}
