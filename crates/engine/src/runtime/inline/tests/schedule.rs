//! When an epoch ends: soon if everything has been read, rarely if much is waiting.

use super::*;

/// Input records of the commits so far, the oldest first.
pub(super) fn commits(engine: &mut Inline) -> Vec<u64> {
    let recent = engine.parts().shared.status.recent_commits();
    recent.iter().map(|commit| commit.records).collect()
}

pub(super) fn many(count: i64) -> Vec<ProducerRecord> {
    let record = |at: i64| ProducerRecord {
        topic: "in".into(),
        partition: None,
        key: Some(Bytes::from(format!("k{at}"))),
        value: Some(Bytes::from_static(b"v")),
        timestamp: Timestamp(at),
        headers: None,
    };
    (0..count).map(record).collect()
}

#[test]
fn a_caught_up_application_commits_after_the_shortest_interval() {
    let bench = TestBench::new(&["in", "out"], 2, compile(copy("in")));
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    let before = commits(&mut engine).len();
    bench.send("in", &[("a", "1", 1)]);
    bench.clock.advance(Duration::from_millis(6));
    engine.run_until_idle().unwrap();
    assert_eq!(commits(&mut engine).len(), before);
    bench.clock.advance(Duration::from_millis(1));
    engine.run_until_idle().unwrap();
    assert_eq!(commits(&mut engine)[before..], [1]);
}

/// One step of every part, intake first; returns the number of commits so far.
fn round(engine: &mut Inline) -> usize {
    engine.take(Turn::Intake).unwrap();
    while (0..2).any(|lane| engine.take(Turn::Lane(lane)).unwrap()) {}
    engine.take(Turn::Commit).unwrap();
    commits(engine).len()
}

#[test]
fn a_lagging_application_commits_once_per_interval() {
    let bench = TestBench::new(&["in", "out"], 2, compile(copy("in")));
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    let before = commits(&mut engine).len();
    bench.write(many(9000));
    // The first records after a pause are committed at once, and show that there are more.
    bench.clock.advance(Duration::from_millis(20));
    assert_eq!(round(&mut engine), before + 1);
    bench.clock.advance(Duration::from_millis(99));
    assert_eq!(
        round(&mut engine),
        before + 1,
        "the shortest interval is over"
    );
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(round(&mut engine), before + 2, "the longest is over");
    engine.run_until_idle().unwrap();
    assert!(commits(&mut engine).iter().sum::<u64>() < 9000);
    // Everything is read now.
    bench.clock.advance(Duration::from_millis(20));
    engine.run_until_idle().unwrap();
    assert_eq!(commits(&mut engine).iter().sum::<u64>(), 9000);
}

#[test]
fn unsent_records_of_the_producer_take_room_until_they_are_sent() {
    let bench = TestBench::new(&["in", "out"], 2, compile(copy("in")));
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    let in_flight = |engine: &mut Inline| {
        let shared = &engine.parts().shared;
        shared.in_flight.load(std::sync::atomic::Ordering::Relaxed)
    };
    // Nothing is held back: records that the producer has sent take no room.
    bench.send("in", &[("a", "1", 1)]);
    engine.run_until_idle().unwrap();
    assert_eq!(in_flight(&mut engine), 0);
    super::calls::slow_down(&mut engine, &bench, "out");
    bench.send("in", &[("a", "22", 2), ("b", "333", 3)]);
    engine.run_until_idle().unwrap();
    assert_eq!(in_flight(&mut engine), 5);
    engine.run_and_commit().unwrap();
    assert_eq!(in_flight(&mut engine), 0);
}
