//! Exactly once, whatever goes wrong: many transactions on a broker that injects faults by a seed.

mod asking;
mod broker;
mod counting;
pub(in crate::kafka::native) mod faults;
mod idempotent;
mod old_brokers;
mod simulated;

use super::admin::NativeAdmin;
use super::{NativeConfig, producer};
use crate::kafka::native::net::wait;
use crate::{CommitOutcome, Consumer, CutEntry, Producer, ProducerRecord};
pub(super) use broker::mark;
use broker::{PARTITIONS, ROLLED};
use bytes::Bytes;
use faults::{Dice, FaultyBroker};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use stoatflow_core::{
    Clock, ErrorKind, Offset, Partition, Result, SystemClock, Timestamp, TopicPartition,
};

const WAIT: Duration = Duration::from_secs(30);
const TRANSACTIONS: i64 = 25;

fn open(broker: &FaultyBroker, id: &str) -> super::TransactionalProducer {
    let bootstrap = format!("127.0.0.1:{}", broker.port);
    let mut writer = producer(&NativeConfig::plaintext(&bootstrap), id, WAIT);
    writer.open(WAIT).unwrap();
    writer
}

fn record(topic: &Arc<str>, partition: i32, value: Vec<u8>) -> ProducerRecord {
    ProducerRecord {
        topic: topic.clone(),
        partition: Some(Partition(partition)),
        key: None,
        value: Some(value.into()),
        timestamp: Timestamp(1),
        headers: None,
    }
}

fn sent(writer: &mut dyn Producer, topic: &Arc<str>, value: &str) -> Result<()> {
    writer.send(&mut vec![record(topic, 0, value.into())])
}

/// Sends a value and waits for the acknowledgement.
fn written(writer: &mut dyn Producer, topic: &Arc<str>, value: &str) -> Result<()> {
    sent(writer, topic, value)?;
    writer.flush(WAIT)
}

fn cut(topic: &Arc<str>, offset: i64) -> [CutEntry; 1] {
    [CutEntry {
        partition: TopicPartition::new(topic.clone(), 0),
        offset: Offset(offset),
        metadata: String::new(),
    }]
}

/// Draws the next record: the index of its topic, its partition, and a value that begins with its
/// number.
fn drawn(dice: &mut Dice, number: &mut u64) -> (usize, i32, Bytes) {
    let topic = usize::try_from(dice.roll(2)).unwrap();
    let partition = i32::try_from(dice.roll(PARTITIONS.cast_unsigned().into())).unwrap();
    let mut value = number.to_be_bytes().to_vec();
    // Some fill a request of their own.
    value.resize(if dice.roll(30) == 0 { 150_000 } else { 20 }, 0);
    *number += 1;
    (topic, partition, value.into())
}

/// The number at the start of each value.
fn heads(values: &[Bytes]) -> Vec<Bytes> {
    values.iter().map(|v| v.slice(..8)).collect()
}

/// One life of a producer; checks that exactly the committed records are there. Returns its producer id.
fn run(seed: u64, transactions_v2: bool, first_epoch: i16) -> i64 {
    let broker = FaultyBroker::start(seed, 6, transactions_v2);
    broker.kept.lock().first_epoch = first_epoch;
    // Topics are named by their names, and by their ids.
    broker.kept.lock().fetch_version = if seed.is_multiple_of(2) { 12 } else { 13 };
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut writer = open(&broker, "app");
    let topics: [Arc<str>; 2] = ["left".into(), "right".into()];
    let mut expected: BTreeMap<(usize, i32), Vec<Bytes>> = BTreeMap::new();
    let (mut offset, mut number) = (0, 0_u64);
    for transaction in 1..=TRANSACTIONS {
        writer.begin().unwrap();
        let mut written: Vec<(usize, i32, Bytes)> = Vec::new();
        for _ in 0..dice.roll(4) {
            let mut records = Vec::new();
            for _ in 0..=dice.roll(20) {
                let (topic, partition, value) = drawn(&mut dice, &mut number);
                records.push(record(&topics[topic], partition, value.to_vec()));
                written.push((topic, partition, value));
            }
            writer.send(&mut records).unwrap();
            assert!(records.is_empty());
            writer.send_pending().unwrap();
        }
        let aborted = dice.roll(5) == 0;
        if aborted && dice.roll(2) == 0 {
            writer.abort(WAIT).unwrap();
            continue;
        }
        writer.flush(WAIT).unwrap();
        writer
            .offsets("group", &cut(&topics[0], transaction), WAIT)
            .unwrap();
        if aborted {
            writer.abort(WAIT).unwrap();
            continue;
        }
        assert_eq!(
            writer.commit(WAIT).unwrap(),
            CommitOutcome::Committed,
            "seed {seed}, transaction {transaction}"
        );
        offset = transaction;
        for (topic, partition, value) in written {
            expected.entry((topic, partition)).or_default().push(value);
        }
    }
    // The next producer ends transactions that may still be open.
    broker.kept.lock().one_of = 0;
    drop(open(&broker, "app"));
    broker.kept.lock().one_of = 6;
    let ends: Vec<_> = partitions()
        .map(|(t, p)| broker.kept.lock().end_of(&topics[t], p))
        .collect();
    let config = NativeConfig::plaintext(&format!("127.0.0.1:{}", broker.port));
    let clock = SystemClock::new();
    let elapsed = || clock.monotonic();
    let read = read_all(&config, (&topics, &ends), seed, (&elapsed, WAIT));
    broker.kept.lock().one_of = 0;
    for (t, topic) in topics.iter().enumerate() {
        for partition in 0..PARTITIONS {
            let seen = broker.committed(topic, partition);
            let wanted = expected.remove(&(t, partition)).unwrap_or_default();
            let given = &read[&(t, partition)];
            assert_eq!(
                heads(given),
                heads(&wanted),
                "seed {seed}: read of {topic} {partition}"
            );
            assert_eq!(
                heads(&seen),
                heads(&wanted),
                "seed {seed}: {topic} {partition}"
            );
        }
    }
    assert!(
        !broker.is_hanging(),
        "seed {seed}: records that nobody will ever see or pass"
    );
    let kept = broker.kept.lock();
    assert_eq!(kept.doubled, Vec::<String>::new(), "seed {seed}");
    assert_eq!(
        kept.committed
            .get(&("left".into(), 0))
            .copied()
            .unwrap_or(0),
        offset,
        "seed {seed}"
    );
    assert!(
        kept.faults > 0,
        "seed {seed}: nothing went wrong, nothing was shown"
    );
    kept.producer("app")
}

/// Reads everything from the start, over connections that are as bad. `ends` has the ends of all
/// partitions, `elapsed` the time spent so far, at most `most_time`.
fn read_all(
    config: &NativeConfig,
    (topics, ends): (&[Arc<str>; 2], &[i64]),
    seed: u64,
    (elapsed, most_time): (&dyn Fn() -> Duration, Duration),
) -> BTreeMap<(usize, i32), Vec<Bytes>> {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9) | 1);
    let mut reader = reader_of(config, 1 << 10);
    let parts: Vec<_> = partitions().collect();
    let assigned: Vec<_> = (parts.iter())
        .map(|(t, p)| (TopicPartition::new(topics[*t].clone(), *p), Offset(0)))
        .collect();
    reader.place(&assigned);
    let mut read: BTreeMap<_, Vec<Bytes>> = parts.iter().map(|at| (*at, Vec::new())).collect();
    let mut offsets = vec![-1; parts.len()];
    let mut paused = Vec::new();
    while reader
        .positions()
        .iter()
        .zip(ends)
        .any(|(at, end)| at.0 < *end)
    {
        assert!(
            elapsed() < most_time,
            "seed {seed}: {:?} of {ends:?}",
            reader.positions()
        );
        reader.pause(&paused, false).unwrap();
        paused = (0..6).filter(|_| dice.roll(4) == 0).collect();
        reader.pause(&paused, true).unwrap();
        let mut came = Vec::new();
        let most = usize::try_from(1 + dice.roll(30)).unwrap();
        let polled = reader.poll(most, Duration::from_millis(5), &mut came);
        if let Err(error) = polled {
            // Damaged batches are reported, and read again.
            assert!(error.to_string().contains("damaged"), "{error}");
        }
        assert!(came.len() <= most);
        for record in came {
            let slot = record.slot as usize;
            assert!(!paused.contains(&record.slot), "seed {seed}: it is paused");
            assert!(record.offset.0 > offsets[slot], "seed {seed}: in order");
            offsets[slot] = record.offset.0;
            read.get_mut(&parts[slot])
                .unwrap()
                .push(record.value.unwrap());
        }
    }
    assert!(
        (0..6).all(|slot| reader.caught_up(slot)),
        "seed {seed}: there is no more"
    );
    read
}

/// The partitions of two topics.
fn partitions() -> impl Iterator<Item = (usize, i32)> {
    (0..2).flat_map(|t| (0..PARTITIONS).map(move |p| (t, p)))
}

fn reader(broker: &FaultyBroker, each: usize) -> super::NativeConsumer {
    let bootstrap = format!("127.0.0.1:{}", broker.port);
    reader_of(&NativeConfig::plaintext(&bootstrap), each)
}

fn reader_of(config: &NativeConfig, each: usize) -> super::NativeConsumer {
    let admin = NativeAdmin::new(config.clone());
    let fetch_limits = super::FetchLimits {
        all: 4 * each,
        each,
    };
    super::reader(config, Arc::new(admin), fetch_limits)
}

fn seeds() -> u64 {
    #[allow(clippy::disallowed_methods)] // how long a test may take is no setting
    let asked = std::env::var("STOATFLOW_TEST_SIM_SEEDS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(5).min(2000)
}

/// Runs a check with every seed, several at a time, because on sockets it mostly waits.
fn with_every_seed(check: impl Fn(u64) + Sync) {
    let (next, last) = (AtomicU64::new(1), seeds());
    std::thread::scope(|scope| {
        for _ in 0..last.min(16) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > last {
                        break;
                    }
                    check(seed);
                }
            });
        }
    });
}

#[test]
fn nothing_is_lost_or_doubled_where_each_transaction_has_an_epoch() {
    with_every_seed(|seed| _ = run(seed, true, -1));
}

#[test]
fn nothing_is_lost_or_doubled_where_partitions_are_added() {
    with_every_seed(|seed| _ = run(seed, false, -1));
}

/// An epoch has 15 bits, and each transaction takes one: with a commit every 7 ms they are used up
/// within minutes.
#[test]
fn nothing_is_lost_or_doubled_where_epochs_run_out() {
    with_every_seed(|seed| {
        let last = run(seed, true, 32_755);
        assert!(last > ROLLED, "seed {seed}: no new producer, {last}");
    });
}

#[test]
fn a_newer_writer_fences() {
    for transactions_v2 in [true, false] {
        let broker = FaultyBroker::start(1, 0, transactions_v2);
        let topic: Arc<str> = "left".into();
        for how in ["records", "offsets", "commit", "abort"] {
            let mut old = open(&broker, how);
            old.begin().unwrap();
            written(&mut old, &topic, "old").unwrap();
            let _new = open(&broker, how);
            let told = match how {
                "records" => old
                    .send(&mut vec![record(&topic, 1, b"late".to_vec())])
                    .and_then(|()| old.flush(WAIT)),
                "offsets" => old.offsets("group", &cut(&topic, 1), WAIT),
                "commit" => old.commit(WAIT).map(drop),
                _ => old.abort(WAIT),
            };
            let told = told.expect_err(how);
            assert_eq!(told.kind(), ErrorKind::Fenced, "{how}: {told}");
            assert_eq!(old.begin().unwrap_err().kind(), ErrorKind::Fenced, "{how}");
        }
        assert_eq!(broker.committed("left", 0), Vec::<Bytes>::new());
        assert!(!broker.is_hanging());
    }
}

/// The broker has aborted a transaction that took too long: that is no newer producer. Before Kafka 4.0 it
/// leaves the producer with an epoch that it refuses.
#[test]
fn a_transaction_that_took_too_long_is_lost_and_the_next_one_goes_on() {
    for transactions_v2 in [true, false] {
        let broker = FaultyBroker::start(1, 0, transactions_v2);
        let topic: Arc<str> = "left".into();
        let mut writer = open(&broker, "slow");
        writer.begin().unwrap();
        written(&mut writer, &topic, "lost").unwrap();
        broker.kept.lock().time_out("slow");
        let told = written(&mut writer, &topic, "lost too").unwrap_err();
        assert_eq!(told.kind(), ErrorKind::Unavailable, "{told}");
        assert!(!told.next_step().is_empty());
        writer.abort(WAIT).unwrap();
        writer.begin().unwrap();
        sent(&mut writer, &topic, "good").unwrap();
        assert_eq!(
            writer.commit(WAIT).unwrap(),
            CommitOutcome::Committed,
            "it flushes first"
        );
        // The same, found out only by the offsets, or at the commit.
        for found_by in ["offsets", "commit"] {
            writer.begin().unwrap();
            written(&mut writer, &topic, "lost").unwrap();
            broker.kept.lock().time_out("slow");
            if found_by == "offsets" {
                let told = writer.offsets("group", &cut(&topic, 1), WAIT).unwrap_err();
                assert_eq!(told.kind(), ErrorKind::Unavailable, "{told}");
                writer.abort(WAIT).unwrap();
            } else {
                assert_eq!(writer.commit(WAIT).unwrap(), CommitOutcome::Aborted);
            }
        }
        writer.begin().unwrap();
        sent(&mut writer, &topic, "better").unwrap();
        assert_eq!(writer.commit(WAIT).unwrap(), CommitOutcome::Committed);
        assert_eq!(broker.committed("left", 0), ["good", "better"]);
        assert!(!broker.is_hanging());
    }
}

/// Before Kafka 4.0 the coordinator describes an id in the same way after a transaction that took too long,
/// and after one that a newer producer has aborted.
#[test]
fn a_newer_producer_that_has_aborted_a_transaction_is_not_fenced() {
    for transactions_v2 in [true, false] {
        let broker = FaultyBroker::start(1, 0, transactions_v2);
        let topic: Arc<str> = "left".into();
        let mut old = open(&broker, "app");
        old.begin().unwrap();
        written(&mut old, &topic, "first").unwrap();
        assert_eq!(old.commit(WAIT).unwrap(), CommitOutcome::Committed);
        old.begin().unwrap();
        let mut newer = open(&broker, "app");
        newer.begin().unwrap();
        written(&mut newer, &topic, "aborted").unwrap();
        newer.abort(WAIT).unwrap();

        let told = written(&mut old, &topic, "late").unwrap_err();
        assert_eq!(told.kind(), ErrorKind::Fenced, "{told}");
        newer.begin().unwrap();
        written(&mut newer, &topic, "new").unwrap();
        assert_eq!(newer.commit(WAIT).unwrap(), CommitOutcome::Committed);
        assert_eq!(broker.committed("left", 0), ["first", "new"]);
    }
}

/// The same if the transaction was open, and its end, which got no answer, has closed it.
#[test]
fn a_commit_without_an_answer_does_not_fence_the_newer_producer() {
    for transactions_v2 in [true, false] {
        let broker = FaultyBroker::start(1, 0, transactions_v2);
        let topic: Arc<str> = "left".into();
        let mut old = open(&broker, "app");
        old.begin().unwrap();
        written(&mut old, &topic, "committed").unwrap();
        broker.kept.lock().take_over_at_end = Some("app".into());
        let told = old.commit(WAIT).unwrap_err();
        assert_eq!(told.kind(), ErrorKind::Fenced, "{told}");
        assert_eq!(broker.committed("left", 0), ["committed"]);
    }
}

/// A broker that gets InitProducerId for an id with an open transaction aborts that first, and asks for
/// a retry. The old producer must not take the id back meanwhile.
#[test]
fn an_id_that_is_being_taken_over_is_lost() {
    let cases = ["records", "commit"].map(|by| [(by, true), (by, false)]);
    for (found_by, transactions_v2) in cases.into_iter().flatten() {
        let broker = FaultyBroker::start(1, 0, transactions_v2);
        let topic: Arc<str> = "left".into();
        let mut old = open(&broker, "app");
        old.begin().unwrap();
        written(&mut old, &topic, "old").unwrap();
        broker.kept.lock().time_out("app");
        let told = std::thread::scope(|scope| {
            scope.spawn(|| {
                wait(&mut [], Duration::from_millis(150));
                drop(open(&broker, "app"));
            });
            match found_by {
                "records" => written(&mut old, &topic, "late"),
                _ => old.commit(WAIT).map(drop),
            }
        });
        let told = told.expect_err(found_by);
        assert_eq!(told.kind(), ErrorKind::Fenced, "{found_by}: {told}");
    }
}

/// A broker that gets InitProducerId with an outdated epoch aborts the open transaction of the newer
/// producer before it compares the epochs.
#[test]
fn a_replaced_producer_does_not_abort_the_transaction_of_the_newer_one() {
    for transactions_v2 in [true, false] {
        let broker = FaultyBroker::start(1, 0, transactions_v2);
        let topic: Arc<str> = "left".into();
        let mut old = open(&broker, "app");
        old.begin().unwrap();
        written(&mut old, &topic, "old").unwrap();
        let mut newer = open(&broker, "app");
        newer.begin().unwrap();
        written(&mut newer, &topic, "new").unwrap();

        let told = written(&mut old, &topic, "late").unwrap_err();
        assert_eq!(told.kind(), ErrorKind::Fenced, "{told}");
        assert_eq!(newer.commit(WAIT).unwrap(), CommitOutcome::Committed);
        assert_eq!(broker.committed("left", 0), ["new"]);
    }
}

/// Without KIP-890, a broker may add late records to the next transaction of the same epoch: so there
/// must be no transaction in that epoch.
#[test]
fn a_transaction_with_records_that_may_still_come_is_not_ended_by_its_writer() {
    for transactions_v2 in [true, false] {
        let broker = FaultyBroker::start(1, 0, transactions_v2);
        let topic: Arc<str> = "left".into();
        let mut writer = open(&broker, "app");
        writer.begin().unwrap();
        written(&mut writer, &topic, "first").unwrap();
        broker.kept.lock().deaf = true;
        sent(&mut writer, &topic, "late").unwrap();
        let told = writer.flush(Duration::from_millis(200)).unwrap_err();
        assert_eq!(told.kind(), ErrorKind::Unavailable, "{told}");
        // Without KIP-890 it waits in vain.
        let patience = if transactions_v2 {
            WAIT
        } else {
            Duration::from_secs(1)
        };
        let aborted = writer.abort(patience);
        assert_eq!(aborted.is_ok(), transactions_v2, "{aborted:?}");
        assert_eq!(broker.kept.lock().is_open("app"), !transactions_v2);
        broker.kept.lock().deaf = false;
        // Once the broker receives records again, the producer goes on.
        writer.begin().unwrap();
        written(&mut writer, &topic, "next").unwrap();
        assert_eq!(writer.commit(WAIT).unwrap(), CommitOutcome::Committed);
        assert_eq!(broker.committed("left", 0), ["next"]);
        assert!(!broker.is_hanging());
    }
}

/// Each record is below the broker's limit, so their batches must be as well.
#[test]
fn records_that_fit_are_sent_in_batches_that_fit() {
    let topic: Arc<str> = "left".into();
    for (most, size) in [(1 << 20, 440_000), (1 << 20, 175_000), (50_000, 3_000)] {
        let broker = FaultyBroker::start(1, 0, true);
        broker.kept.lock().most = most;
        let mut writer = open(&broker, "app");
        for _ in 0..2 {
            writer.begin().unwrap();
            let records = (0..40_u8).map(|n| record(&topic, 0, vec![n; size]));
            writer.send(&mut records.collect()).unwrap();
            assert_eq!(writer.commit(WAIT).unwrap(), CommitOutcome::Committed);
        }
        let seen = broker.committed("left", 0);
        let numbers: Vec<_> = seen.iter().map(|v| v[0]).collect();
        assert_eq!(numbers, (0..40).chain(0..40).collect::<Vec<_>>());
        assert!(seen.iter().all(|v| v.len() == size));
        writer.begin().unwrap();
        let told = written_large(&mut writer, &topic, most).unwrap_err();
        assert_eq!(told.kind(), ErrorKind::Serde, "{told}");
    }
}

fn written_large(writer: &mut dyn Producer, topic: &Arc<str>, size: usize) -> Result<()> {
    writer.send(&mut vec![record(topic, 0, vec![1; size])])?;
    writer.flush(WAIT)
}

#[test]
fn an_end_without_an_answer_is_unknown() {
    let broker = FaultyBroker::start(1, 0, true);
    let topic: Arc<str> = "left".into();
    let mut writer = open(&broker, "app");
    writer.begin().unwrap();
    written(&mut writer, &topic, "perhaps").unwrap();
    broker.kept.lock().one_of = 1;
    // Long enough for the request to be sent.
    let told = writer.commit(Duration::from_secs(2)).unwrap_err();
    // "Not yet" may be the answer although an earlier attempt has done it.
    assert_eq!(told.kind(), ErrorKind::UnknownOutcome, "{told}");
    broker.kept.lock().one_of = 0;
    writer.begin().unwrap();
    sent(&mut writer, &topic, "next").unwrap();
    assert_eq!(writer.commit(WAIT).unwrap(), CommitOutcome::Committed);
    let seen = broker.committed("left", 0);
    assert!(seen == ["perhaps", "next"] || seen == ["next"], "{seen:?}");
}

#[test]
fn empty_transactions_send_no_request() {
    for transactions_v2 in [true, false] {
        let broker = FaultyBroker::start(1, 0, transactions_v2);
        let mut writer = open(&broker, "app");
        for _ in 0..2 {
            writer.begin().unwrap();
            writer.flush(WAIT).unwrap();
            writer.offsets("group", &[], WAIT).unwrap();
            assert_eq!(writer.commit(WAIT).unwrap(), CommitOutcome::Committed);
            writer.begin().unwrap();
            writer.abort(WAIT).unwrap();
        }
    }
}

/// The first attempt may have been done, whatever the second one is answered.
#[test]
fn an_end_whose_first_answer_is_lost_is_unknown_unless_it_is_done() {
    for transactions_v2 in [true, false] {
        let broker = FaultyBroker::start(1, 0, transactions_v2);
        let topic: Arc<str> = "left".into();
        let mut writer = open(&broker, "app");
        writer.begin().unwrap();
        written(&mut writer, &topic, "v").unwrap();
        broker.kept.lock().lose_end = Some("app".into());
        let told = writer.commit(WAIT).unwrap_err();
        if !transactions_v2 {
            // Without KIP-890 it may as well have been a newer producer.
            assert_eq!(told.kind(), ErrorKind::Fenced, "{told}");
            continue;
        }
        assert_eq!(told.kind(), ErrorKind::UnknownOutcome, "{told}");
        writer.begin().unwrap();
        written(&mut writer, &topic, "v").unwrap();
        assert_eq!(writer.commit(WAIT).unwrap(), CommitOutcome::Committed);
        assert_eq!(broker.committed("left", 0), ["v"]);
    }
}

#[test]
fn a_partition_that_is_not_there_is_named() {
    let broker = FaultyBroker::start(1, 0, true);
    let topic: Arc<str> = "left".into();
    let mut writer = open(&broker, "app");
    writer.begin().unwrap();
    let told = writer
        .send(&mut vec![record(&topic, PARTITIONS, b"x".to_vec())])
        .unwrap_err();
    assert_eq!(told.kind(), ErrorKind::MissingTopic, "{told}");
    assert!(told.to_string().contains("left"), "{told}");
}
