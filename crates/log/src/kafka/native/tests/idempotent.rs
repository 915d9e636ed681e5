//! At least once, whatever goes wrong: flushed records are there.

use super::broker::PARTITIONS;
use super::faults::{Dice, FaultyBroker};
use super::{WAIT, cut, drawn, heads, open, record, sent, with_every_seed, written};
use crate::kafka::native::{self, NativeConfig};
use crate::{CommitOutcome, Producer};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, ErrorKind, SystemClock};

const ROUNDS: i64 = 25;

fn open_idempotent(broker: &FaultyBroker, id: &str) -> native::IdempotentProducer {
    let bootstrap = format!("127.0.0.1:{}", broker.port);
    let config = NativeConfig::plaintext(&bootstrap);
    let guard = open(broker, id);
    let mut writer = native::plain(guard, &config, id, WAIT, false);
    writer.open(WAIT).unwrap();
    writer
}

/// One life of a producer; checks the records. Only a broker that loses state may have duplicates.
fn run(seed: u64, transactions_v2: bool, forgetful: bool) {
    let broker = FaultyBroker::start(seed, 6, transactions_v2);
    broker.kept.lock().forgetful = forgetful;
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut writer = open_idempotent(&broker, "app");
    let topics: [Arc<str>; 2] = ["left".into(), "right".into()];
    let mut expected: BTreeMap<(usize, i32), Vec<Bytes>> = BTreeMap::new();
    let check = |expected: &BTreeMap<(usize, i32), Vec<Bytes>>| {
        for ((t, partition), wanted) in expected {
            let mut seen = broker.committed(&topics[*t], *partition);
            if forgetful {
                let mut before = BTreeSet::new();
                seen.retain(|value| before.insert(value.to_vec()));
            }
            let place = &topics[*t];
            assert_eq!(
                heads(&seen),
                heads(wanted),
                "seed {seed}: {place} {partition}"
            );
        }
    };
    let (mut committed, mut number) = (0, 0_u64);
    for round in 1..=ROUNDS {
        writer.begin().unwrap();
        for _ in 0..dice.roll(4) {
            let mut records = Vec::new();
            for _ in 0..=dice.roll(20) {
                let (topic, partition, value) = drawn(&mut dice, &mut number);
                records.push(record(&topics[topic], partition, value.to_vec()));
                let of_part = expected.entry((topic, partition)).or_default();
                of_part.push(value);
            }
            writer.send(&mut records).unwrap();
            writer.send_pending().unwrap();
        }
        // An abort takes back no record.
        if dice.roll(5) == 0 {
            writer.abort(WAIT).unwrap();
            continue;
        }
        writer.flush(WAIT).unwrap();
        check(&expected);
        let cut = cut(&topics[0], round);
        writer.offsets("group", &cut, WAIT).unwrap();
        let outcome = writer.commit(WAIT).unwrap();
        assert_eq!(outcome, CommitOutcome::Committed, "seed {seed}, {round}");
        committed = round;
    }
    writer.flush(WAIT).unwrap();
    check(&expected);
    broker.kept.lock().one_of = 0;
    drop(open(&broker, "app"));
    let kept = broker.kept.lock();
    let offset = kept.committed.get(&("left".into(), 0)).copied();
    assert_eq!(offset.unwrap_or(0), committed, "seed {seed}");
    assert!(kept.faults > 0, "seed {seed}: nothing was shown");
}

#[test]
fn nothing_is_lost_or_doubled_outside_of_transactions() {
    with_every_seed(|seed| run(seed, seed % 2 == 0, false));
}

#[test]
fn nothing_is_lost_by_a_broker_that_forgets() {
    with_every_seed(|seed| run(seed, seed % 2 == 0, true));
}

/// No flush is needed: the first record is sent at once, and those that follow closely are sent
/// together.
#[test]
fn a_record_is_there_soon_and_many_need_few_requests() {
    let broker = FaultyBroker::start(1, 0, true);
    let topic: Arc<str> = "left".into();
    let mut writer = open_idempotent(&broker, "app");
    writer.begin().unwrap();
    sent(&mut writer, &topic, "first").unwrap();
    let clock = SystemClock::new();
    while broker.committed("left", 0).is_empty() {
        // The connection is opened meanwhile.
        writer.send_pending().unwrap();
        assert!(clock.monotonic() < WAIT, "it was not sent");
    }
    let clock = SystemClock::new();
    for _ in 0..100 {
        sent(&mut writer, &topic, "next").unwrap();
        // The broker has answered long before the next record.
        native::net::wait(&mut [], Duration::from_micros(500));
    }
    while writer.send_pending().unwrap() > 0 {
        assert!(clock.monotonic() < WAIT, "they are not sent");
        native::net::wait(&mut [], Duration::from_millis(1));
    }
    let took = clock.monotonic();
    writer.flush(WAIT).unwrap();
    let produces = broker.kept.lock().produces;
    let most = u32::try_from(took.as_millis() / 5).unwrap() + 3;
    assert!((2..=most).contains(&produces), "{produces} in {took:?}");
    assert_eq!(broker.committed("left", 0).len(), 101);
}

/// A later commit would contain positions of records whose results are missing.
#[test]
fn after_a_record_that_is_not_taken_nothing_is_committed() {
    for how in ["nowhere", "too large"] {
        let broker = FaultyBroker::start(1, 0, true);
        let topic: Arc<str> = "left".into();
        let mut writer = open_idempotent(&broker, "app");
        writer.begin().unwrap();
        written(&mut writer, &topic, "good").unwrap();
        let (bad, kind) = match how {
            "nowhere" => (
                record(&topic, PARTITIONS, b"x".to_vec()),
                ErrorKind::MissingTopic,
            ),
            _ => (record(&topic, 0, vec![1; 1 << 20]), ErrorKind::Serde),
        };
        let told = (writer.send(&mut vec![bad]))
            .and_then(|()| writer.flush(WAIT))
            .unwrap_err();
        assert_eq!(told.kind(), kind, "{how}: {told}");
        assert!(writer.flush(WAIT).is_err(), "{how}");
        assert!(writer.offsets("group", &cut(&topic, 1), WAIT).is_err());
        assert!(writer.commit(WAIT).is_err(), "{how}");
        writer.abort(WAIT).unwrap();
        let told = writer.begin().unwrap_err();
        assert!(!told.next_step().is_empty(), "{how}: {told}");
        assert_eq!(broker.committed("left", 0), ["good"]);
        assert!(broker.kept.lock().committed.is_empty());
    }
}

#[test]
fn a_newer_instance_fences_the_commits() {
    let broker = FaultyBroker::start(1, 0, true);
    let topic: Arc<str> = "left".into();
    let mut old = open_idempotent(&broker, "app");
    old.begin().unwrap();
    written(&mut old, &topic, "old").unwrap();
    let _new = open_idempotent(&broker, "app");
    written(&mut old, &topic, "nobody can stop that").unwrap();
    let told = (old.offsets("group", &cut(&topic, 1), WAIT))
        .and_then(|()| old.commit(WAIT).map(drop))
        .unwrap_err();
    assert_eq!(told.kind(), ErrorKind::Fenced, "{told}");
    assert!(broker.kept.lock().committed.is_empty());
}
