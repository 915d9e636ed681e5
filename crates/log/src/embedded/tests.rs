//! What the contract suite can't test: the files, the lock, the format, the wake-up, `produce_many`.

use super::chunk::{ChunkReader, ChunkWriter};
use super::{EmbeddedBroker, keys, open};
use crate::{Broker, ConsumerRecord, CutEntry, NewTopic, Producer, ProducerMode, ProducerRecord};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, ErrorKind, Offset, Partition, SystemClock, Timestamp, TopicPartition};

const WAIT: Duration = Duration::from_secs(10);

fn topic(broker: &EmbeddedBroker, name: &str, partitions: i32) {
    let topic = NewTopic {
        name: name.into(),
        partitions,
        replication: -1,
        config: vec![("cleanup.policy".into(), "compact".into())],
    };
    broker.create_topics(&[topic], WAIT).unwrap();
}

fn producer(broker: &EmbeddedBroker) -> Box<dyn Producer> {
    broker
        .producer(
            &ProducerMode::Transactional {
                id: "app".into(),
                timeout: WAIT,
            },
            WAIT,
        )
        .unwrap()
}

fn record(name: &str, value: &str) -> ProducerRecord {
    let value = Some(Bytes::copy_from_slice(value.as_bytes()));
    ProducerRecord {
        topic: name.into(),
        partition: Some(Partition(0)),
        key: None,
        value,
        timestamp: Timestamp(1),
        headers: None,
    }
}

fn commit(producer: &mut dyn Producer, records: &[ProducerRecord], at: i64) {
    producer.begin().unwrap();
    producer.send(&mut records.to_vec()).unwrap();
    producer.flush(WAIT).unwrap();
    let cut = CutEntry {
        partition: TopicPartition::new("in", 3),
        offset: Offset(at),
        metadata: format!("at {at}"),
    };
    producer.offsets("group", &[cut], WAIT).unwrap();
    producer.commit(WAIT).unwrap();
}

fn read(broker: &EmbeddedBroker, name: &str, partition: i32) -> Vec<ConsumerRecord> {
    let mut consumer = broker.consumer("group", 1).unwrap();
    consumer
        .assign(&[(TopicPartition::new(name, partition), Offset(0))])
        .unwrap();
    let mut seen = Vec::new();
    consumer
        .poll(usize::MAX / 2, Duration::ZERO, &mut seen)
        .unwrap();
    seen
}

fn count(broker: &EmbeddedBroker, name: &str, partition: i32) -> usize {
    read(broker, name, partition).len()
}

#[test]
fn everything_is_there_after_reopening() {
    let place = tempfile::tempdir().unwrap();
    for round in 1..=3 {
        let broker = open(Some(place.path())).unwrap();
        topic(&broker, "t", 2);
        commit(
            producer(&broker).as_mut(),
            &vec![record("t", "v"); 1000],
            round,
        );
        assert_eq!(
            count(&broker, "t", 0),
            1000 * usize::try_from(round).unwrap()
        );
        assert_eq!(
            broker.ranges(&[TopicPartition::new("t", 0)], WAIT).unwrap()[0].stable_end,
            Offset(1000 * round)
        );
        let committed = broker
            .committed("group", &[TopicPartition::new("in", 3)], WAIT)
            .unwrap();
        let committed = committed[0].as_ref().unwrap();
        assert_eq!(
            (committed.offset, committed.metadata.as_str()),
            (Offset(round), format!("at {round}").as_str())
        );
    }
    let broker = open(Some(place.path())).unwrap();
    assert_eq!(
        broker
            .list_topics()
            .iter()
            .map(|t| (&*t.name, t.partitions))
            .collect::<Vec<_>>(),
        [("t", 2)]
    );
    topic(&broker, "later", 1);
    commit(
        producer(&broker).as_mut(),
        &[record("later", "own number")],
        9,
    );
    assert_eq!(
        (count(&broker, "later", 0), count(&broker, "t", 0)),
        (1, 3000)
    );
}

#[test]
fn a_killed_process_keeps_what_it_committed() {
    let (place, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let broker = open(Some(place.path())).unwrap();
    topic(&broker, "t", 1);
    let mut writer = producer(&broker);
    commit(writer.as_mut(), &[record("t", "a"), record("t", "b")], 2);
    writer.begin().unwrap();
    writer
        .send(&mut vec![record("t", "not committed")])
        .unwrap();
    // Copies the files as SIGKILL would leave them: the database is still open and closes nothing.
    for file in std::fs::read_dir(place.path()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    let found = open(Some(copy.path())).unwrap();
    assert_eq!(count(&found, "t", 0), 2);
    assert_eq!(
        found
            .committed("group", &[TopicPartition::new("in", 3)], WAIT)
            .unwrap()[0]
            .as_ref()
            .unwrap()
            .offset,
        Offset(2)
    );
}

#[test]
fn the_producer_epoch_is_durable() {
    let place = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let broker = open(Some(place.path())).unwrap();
        let _ = (producer(&broker), producer(&broker));
    }
    let db = rocksdb::DB::open_default(place.path()).unwrap();
    assert_eq!(
        db.get(keys::fence("app")).unwrap().unwrap(),
        4u64.to_le_bytes()
    );
}

#[test]
fn handles_of_one_path_share_one_log() {
    let place = tempfile::tempdir().unwrap();
    let one = open(Some(place.path())).unwrap();
    let other = open(Some(&place.path().join("."))).unwrap();
    topic(&one, "t", 1);
    let mut old = producer(&one);
    commit(old.as_mut(), &[record("t", "a")], 1);
    assert_eq!(count(&other, "t", 0), 1);
    let _new = producer(&other);
    assert_eq!(old.begin().unwrap_err().kind(), ErrorKind::Fenced);
    drop((one, other));
    // A producer alone keeps it open.
    assert_eq!(
        rocksdb::DB::open_default(place.path()).unwrap_err().kind(),
        rocksdb::ErrorKind::IOError
    );
}

#[test]
fn opening_and_closing_may_race() {
    let place = tempfile::tempdir().unwrap();
    topic(&open(Some(place.path())).unwrap(), "t", 1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert_eq!(open(Some(place.path())).unwrap().list_topics().len(), 1);
                }
            });
        }
    });
}

#[test]
fn a_directory_in_use_is_named() {
    let place = tempfile::tempdir().unwrap();
    let held = rocksdb::DB::open(
        &{
            let mut o = rocksdb::Options::default();
            o.create_if_missing(true);
            o
        },
        place.path(),
    )
    .unwrap();
    let refused = open(Some(place.path())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StateLocked);
    assert!(
        refused.to_string().contains(place.path().to_str().unwrap()),
        "{refused}"
    );
    assert!(
        refused.next_step().contains("stop the other process"),
        "{refused}"
    );
    drop(held);
    assert_eq!(
        open(Some(place.path()))
            .map(|b| b.list_topics().len())
            .unwrap(),
        0,
        "a refusal leaves nothing behind"
    );
}

fn refusal_of(key: &[u8], value: &[u8]) -> stoatflow_core::Error {
    let place = tempfile::tempdir().unwrap();
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    rocksdb::DB::open(&options, place.path())
        .unwrap()
        .put(key, value)
        .unwrap();
    open(Some(place.path())).unwrap_err()
}

#[test]
fn another_format_is_refused() {
    let refused = refusal_of(keys::FORMAT_KEY, &(keys::FORMAT + 1).to_le_bytes());
    assert_eq!(refused.kind(), ErrorKind::Incompatible);
    assert!(refused.message().contains("format 2"), "{refused}");
    assert_eq!(
        refusal_of(b"somebody", b"else").kind(),
        ErrorKind::Incompatible
    );
}

#[test]
fn a_directory_that_cannot_be_made_is_a_setting() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert_eq!(
        open(Some(&file.join("below"))).unwrap_err().kind(),
        ErrorKind::Config
    );
}

#[test]
fn a_temporary_place_is_removed() {
    let broker = open(None).unwrap();
    topic(&broker, "t", 1);
    assert_eq!(broker.address(), "embedded:");
    let mut reader = broker.consumer("g", 1).unwrap();
    let path = broker.path().to_owned();
    drop(broker);
    reader
        .assign(&[(TopicPartition::new("t", 0), Offset(0))])
        .unwrap();
    assert!(path.exists(), "a reader keeps it");
    drop(reader);
    assert!(!Path::new(&path).exists());
}

#[test]
fn a_commit_wakes_a_waiting_reader() {
    let broker = open(None).unwrap();
    topic(&broker, "t", 1);
    let mut reader = broker.consumer("g", 1).unwrap();
    reader
        .assign(&[(TopicPartition::new("t", 0), Offset(0))])
        .unwrap();
    let clock = SystemClock::new();
    std::thread::scope(|scope| {
        let woken = scope.spawn(|| {
            let mut seen = Vec::new();
            reader.poll(10, Duration::from_secs(60), &mut seen).unwrap();
            (seen.len(), clock.monotonic())
        });
        // Gives the reader time to fall asleep; nobody sends.
        let (_kept, silent) = std::sync::mpsc::channel::<()>();
        silent.recv_timeout(Duration::from_millis(50)).unwrap_err();
        commit(producer(&broker).as_mut(), &[record("t", "a")], 1);
        let (count, after) = woken.join().unwrap();
        assert_eq!(count, 1);
        assert!(
            (Duration::from_millis(50)..Duration::from_secs(30)).contains(&after),
            "{after:?}"
        );
    });
    let started = clock.monotonic();
    reader
        .poll(10, Duration::from_millis(40), &mut Vec::new())
        .unwrap();
    assert!(
        clock.monotonic() - started >= Duration::from_millis(40),
        "an idle poll waits its time"
    );
}

#[test]
fn loading_by_hand() {
    let broker = open(None).unwrap();
    topic(&broker, "t", 3);
    let keyed = (0..5000i64).map(|n| {
        (
            None,
            Some(Bytes::from(n.to_string())),
            Some(Bytes::from(vec![b'x'; 500])),
            n,
        )
    });
    assert_eq!(broker.produce_many("t", keyed).unwrap(), 5000);
    let keyless = (0..900i64).map(|n| (None, None, None, n));
    assert_eq!(broker.produce_many("t", keyless).unwrap(), 900);
    assert_eq!(
        broker
            .produce_many("t", [(Some(2), None, None, 7)])
            .unwrap(),
        1
    );
    let parts: Vec<_> = (0..3).map(|p| read(&broker, "t", p)).collect();
    assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), 5901);
    for (p, part) in (0..).zip(&parts) {
        assert!(
            part.iter()
                .filter_map(|r| r.key.as_ref())
                .all(|k| crate::murmur2::partition_of(k, 3) == p)
        );
        assert!(
            part.iter().filter(|r| r.key.is_none()).count() >= 256,
            "null keys are spread in runs"
        );
        assert!(part.iter().zip(0..).all(|(r, n)| r.offset == Offset(n)));
    }
    assert_eq!(
        broker
            .produce_many("none", [(None, None, None, 0)])
            .unwrap_err()
            .kind(),
        ErrorKind::MissingTopic
    );
    let beyond = broker
        .produce_many("t", [(Some(3), None, None, 0)])
        .unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::MissingTopic);
    assert!(beyond.message().contains("has 3 partitions"), "{beyond}");
}

#[test]
fn a_position_beyond_the_log_is_refused() {
    let broker = open(None).unwrap();
    topic(&broker, "t", 1);
    let mut reader = broker.consumer("g", 1).unwrap();
    let refused = reader
        .assign(&[(TopicPartition::new("t", 0), Offset(1))])
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Incompatible);
    assert_eq!(
        reader
            .assign(&[(TopicPartition::new("t", 1), Offset(0))])
            .unwrap_err()
            .kind(),
        ErrorKind::MissingTopic
    );
}

#[test]
fn topic_names_are_kafkas() {
    let broker = open(None).unwrap();
    for bad in ["", "a b", "..", "ü"] {
        let topic = NewTopic {
            name: bad.into(),
            partitions: 1,
            replication: -1,
            config: Vec::new(),
        };
        assert_eq!(
            broker.create_topics(&[topic], WAIT).unwrap_err().kind(),
            ErrorKind::Config,
            "{bad:?}"
        );
    }
    let none = NewTopic {
        name: "t".into(),
        partitions: 0,
        replication: -1,
        config: Vec::new(),
    };
    assert_eq!(
        broker.create_topics(&[none], WAIT).unwrap_err().kind(),
        ErrorKind::Config
    );
}

#[test]
fn calls_out_of_order_are_our_bug() {
    let broker = open(None).unwrap();
    topic(&broker, "t", 1);
    let mut writer = producer(&broker);
    assert_eq!(
        writer.send(&mut vec![record("t", "a")]).unwrap_err().kind(),
        ErrorKind::Internal
    );
    assert_eq!(writer.commit(WAIT).unwrap_err().kind(), ErrorKind::Internal);
    writer.begin().unwrap();
    assert_eq!(writer.begin().unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn a_chunk_cut_short_is_corrupt_not_a_crash() {
    let mut chunk = ChunkWriter::new();
    let header = stoatflow_core::Header {
        name: Arc::from("h"),
        value: Some(Bytes::from_static(b"1")),
    };
    chunk.push(&ProducerRecord {
        key: Some(Bytes::from_static(b"key")),
        headers: Some(vec![header].into()),
        ..record("t", "value")
    });
    let whole = chunk.bytes().to_vec();
    let mut reader = ChunkReader::new(whole.clone().into()).unwrap();
    assert!(reader.next().unwrap().is_some());
    assert!(reader.next().unwrap().is_none());
    for length in 0..whole.len() {
        let outcome = ChunkReader::new(whole[..length].to_vec().into()).and_then(|mut r| r.next());
        assert_eq!(
            outcome.unwrap_err().kind(),
            ErrorKind::StateCorrupt,
            "cut at {length}"
        );
    }
}

#[test]
fn offset_keys_do_not_collide() {
    assert_ne!(keys::offset("a", "bc", 0), keys::offset("ab", "c", 0));
    assert!(keys::chunk(1, 2, 255) < keys::chunk(1, 2, 256));
    assert!(keys::chunk(1, 2, u64::MAX) < keys::chunk(1, 3, 0));
    assert_eq!(keys::base_of(&keys::chunk(1, 2, 77), 1, 2), Some(77));
    assert_eq!(keys::base_of(&keys::chunk(1, 2, 77), 1, 3), None);
}

#[test]
fn topics_are_made_when_written_only_if_asked_for() {
    let broker = open(None).unwrap();
    let mut writer = producer(&broker);
    writer.begin().unwrap();
    let refused = writer.send(&mut vec![record("new", "1")]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MissingTopic);
    writer.abort(WAIT).unwrap();
    broker.make_topics_when_written();
    commit(writer.as_mut(), &[record("new", "1")], 1);
    assert_eq!(count(&broker, "new", 0), 1);
}

#[test]
fn a_deleted_topic_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let committed = |broker: &EmbeddedBroker| {
        let parts = [TopicPartition::new("in", 3), TopicPartition::new("ink", 0)];
        let found = broker.committed("group", &parts, WAIT).unwrap();
        found
            .into_iter()
            .map(|c| c.map(|c| c.offset.0))
            .collect::<Vec<_>>()
    };
    {
        let broker = open(Some(place.path())).unwrap();
        topic(&broker, "in", 4);
        topic(&broker, "ink", 1);
        topic(&broker, "last", 1);
        let mut older = producer(&broker);
        commit(older.as_mut(), &[record("last", "a"), record("in", "a")], 1);
        older.begin().unwrap();
        let other = CutEntry {
            partition: TopicPartition::new("ink", 0),
            offset: Offset(7),
            metadata: String::new(),
        };
        older.offsets("group", &[other], WAIT).unwrap();
        older.commit(WAIT).unwrap();
        assert_eq!(committed(&broker), [Some(1), Some(7)]);
        let mut reader = broker.consumer("reader", 1).unwrap();
        let all = [(TopicPartition::new("last", 0), Offset(0))];
        reader.assign(&all).unwrap();
        broker.delete_topics(&["last", "in"], WAIT).unwrap();
        assert_eq!(committed(&broker), [None, Some(7)], "only its own");
        let mut fetched = Vec::new();
        reader.poll(10, Duration::ZERO, &mut fetched).unwrap();
        assert!(
            fetched.is_empty(),
            "a reader of a deleted topic gets nothing"
        );
        // A producer that found the topic before it was deleted can't write to it, nor to a new one of
        // its name.
        topic(&broker, "last", 1);
        older.begin().unwrap();
        let refused = older
            .send(&mut vec![record("last", "b")])
            .and_then(|()| older.commit(WAIT).map(drop));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::MissingTopic);
        broker.delete_topics(&["last"], WAIT).unwrap();
    }
    // The number of the last topic may be reused after a restart: nothing may be stored under it.
    let broker = open(Some(place.path())).unwrap();
    assert_eq!(committed(&broker), [None, Some(7)]);
    topic(&broker, "new", 4);
    let range = broker
        .ranges(&[TopicPartition::new("new", 0)], WAIT)
        .unwrap();
    assert_eq!(range[0].stable_end, Offset(0));
    drop(broker);
    let broker = open(Some(place.path())).unwrap();
    let range = broker
        .ranges(&[TopicPartition::new("new", 0)], WAIT)
        .unwrap();
    assert_eq!(range[0].stable_end, Offset(0));
}

#[test]
fn a_concurrent_append_is_not_corruption() {
    let place = tempfile::tempdir().unwrap();
    let broker = open(Some(place.path())).unwrap();
    topic(&broker, "t", 1);
    let many = vec![record("t", "x"); 1_000];
    let mut first = producer(&broker);
    for n in 0..100 {
        commit(first.as_mut(), &many, n);
    }
    drop(first);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut producer = producer(&broker);
            for n in 100..1_000 {
                commit(producer.as_mut(), &[record("t", "x")], n);
            }
        });
        // A read of everything takes longer than a commit.
        while !writing.is_finished() {
            assert!(count(&broker, "t", 0) >= 100_000);
        }
    });
    assert_eq!(count(&broker, "t", 0), 100_900);
}
