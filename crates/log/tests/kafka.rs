//! The contract suite on a real broker, and tests that need one.
//!
//! Needs `STOATFLOW_TEST_BOOTSTRAP=host:port` of a Kafka 4 broker that this user may do anything on
//! (`tests/integration/broker/kafka_broker.py --print-bootstrap` starts one). Runs with `--test kafka`
//! only, and without the variable every test fails, so that none is skipped unnoticed.
//! `STOATFLOW_TEST_CLIENT` may hold client properties, a JSON object, for a cluster with TLS or SASL.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stoatflow_core::settings::ClientRole;
use stoatflow_core::{Clock, ErrorKind, Offset, Partition, SystemClock, Timestamp, TopicPartition};
use stoatflow_log::kafka::{KafkaBroker, connect};
use stoatflow_log::{
    Broker, CommitOutcome, CutEntry, NewTopic, Producer, ProducerMode, ProducerRecord, contract,
};

const WAIT: Duration = Duration::from_secs(30);

fn broker() -> Arc<KafkaBroker> {
    broker_with(&[])
}

fn broker_of_librdkafka() -> Arc<KafkaBroker> {
    broker_with(&[(ClientRole::All, "kafka.client".into(), "librdkafka".into())])
}

#[allow(clippy::disallowed_methods)] // a test has no settings
fn broker_with(properties: &[(ClientRole, String, String)]) -> Arc<KafkaBroker> {
    let bootstrap = std::env::var("STOATFLOW_TEST_BOOTSTRAP").expect(
        "these tests need a real broker: set STOATFLOW_TEST_BOOTSTRAP=host:port, \
         e.g. to what `python tests/integration/broker/kafka_broker.py --print-bootstrap` prints",
    );
    let of_cluster = std::env::var("STOATFLOW_TEST_CLIENT").unwrap_or_else(|_| "{}".to_owned());
    let of_cluster: BTreeMap<String, String> =
        serde_json::from_str(&of_cluster).expect("STOATFLOW_TEST_CLIENT is a JSON object of texts");
    let of_cluster = (of_cluster.into_iter()).map(|(name, value)| (ClientRole::All, name, value));
    let all: Vec<_> = of_cluster.chain(properties.iter().cloned()).collect();
    connect(&bootstrap, &all).expect("the properties are right")
}

/// Keeps the topics of this run apart from earlier ones on the same broker.
#[allow(clippy::disallowed_methods)] // no two runs may be alike
fn tag() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is past 1970");
    format!("suite-{}-{}", std::process::id(), now.as_micros())
}

macro_rules! each {
    ($($case:ident),* $(,)?) => {
        mod contract_on_kafka {
            use super::{broker, contract, tag};
            $( #[test] fn $case() {
                if let Err(e) = contract::$case(broker().as_ref(), &tag()) { panic!("{e}") }
            } )*
        }
        mod contract_through_librdkafka {
            use super::{broker_of_librdkafka, contract, tag};
            $( #[test] fn $case() {
                if let Err(e) = contract::$case(broker_of_librdkafka().as_ref(), &tag()) { panic!("{e}") }
            } )*
        }
    };
}

stoatflow_log::contract_cases!(each);

fn record(topic: &Arc<str>, value: Vec<u8>) -> ProducerRecord {
    ProducerRecord {
        topic: topic.clone(),
        partition: Some(Partition(0)),
        key: None,
        value: Some(value.into()),
        timestamp: Timestamp(1),
        headers: None,
    }
}

fn topic(broker: &KafkaBroker, name: &str, config: &[(&str, &str)]) -> Arc<str> {
    let name = format!("{}-{name}", tag());
    let config = config
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    broker
        .create_topics(
            &[NewTopic {
                name: name.clone(),
                partitions: 1,
                replication: -1,
                config,
            }],
            WAIT,
        )
        .expect("a topic is made");
    name.into()
}

fn transactional(broker: &KafkaBroker) -> Box<dyn Producer> {
    broker
        .producer(
            &ProducerMode::Transactional {
                id: tag(),
                timeout: WAIT,
            },
            WAIT,
        )
        .expect("a producer opens")
}

#[test]
fn a_commit_does_not_wait_in_steps_of_100_ms() {
    let broker = broker();
    let topic = topic(&broker, "fast", &[]);
    let mut producer = transactional(&broker);
    // The other tests and the broker share the machine: some of the runs find it free.
    let quick = Duration::from_millis(60);
    let is_quick = (0..10).any(|_| lower_quartile(producer.as_mut(), &topic) < quick);
    assert!(
        is_quick,
        "it takes longer each time: something waits in steps"
    );
}

/// The lower quartile of the duration of a transaction.
fn lower_quartile(producer: &mut dyn Producer, topic: &Arc<str>) -> Duration {
    let mut times = Vec::new();
    for n in 0..30 {
        let clock = SystemClock::new();
        producer.begin().unwrap();
        producer
            .send(&mut (0..200).map(|_| record(topic, vec![b'x'; 100])).collect())
            .unwrap();
        producer.flush(WAIT).unwrap();
        let cut = CutEntry {
            partition: TopicPartition::new(topic.clone(), 0),
            offset: Offset(n),
            metadata: String::new(),
        };
        producer.offsets("commit-speed", &[cut], WAIT).unwrap();
        producer.commit(WAIT).unwrap();
        times.push(clock.monotonic());
    }
    times.sort();
    println!(
        "a transaction of 200 records: median {:?}, best {:?}, worst {:?}",
        times[15], times[0], times[29]
    );
    times[7]
}

#[test]
fn a_record_that_is_too_large_names_its_topic() {
    let broker = broker();
    let topic = topic(&broker, "small", &[("max.message.bytes", "2000")]);
    let mut producer = transactional(&broker);
    producer.begin().unwrap();
    let refused = producer
        .send(&mut vec![record(&topic, vec![1; 5000])])
        .and_then(|()| producer.flush(WAIT))
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Serde, "{refused}");
    assert!(refused.to_string().contains(&*topic), "{refused}");
    producer.abort(WAIT).unwrap();
    // The client gets a new producer epoch first, and may have to abort one more transaction for it.
    let next = (0..5).find(|_| {
        producer.begin().unwrap();
        let sent = producer
            .send(&mut vec![record(&topic, vec![1; 100])])
            .and_then(|()| producer.flush(WAIT));
        if sent.is_err() {
            producer.abort(WAIT).unwrap();
            return false;
        }
        producer.commit(WAIT).unwrap() == CommitOutcome::Committed
    });
    assert!(
        next.is_some_and(|tries| tries <= 1),
        "after the abort the producer goes on: {next:?}"
    );
}

/// Batching must not make a request too large.
#[test]
fn records_that_are_small_enough_are_taken_however_many() {
    let broker = broker();
    for (limit, size) in [("30000", 2_000), ("1048588", 440_000)] {
        let topic = topic(&broker, limit, &[("max.message.bytes", limit)]);
        let mut producer = transactional(&broker);
        for _ in 0..2 {
            producer.begin().unwrap();
            let records = (0..40).map(|n| record(&topic, vec![n; size]));
            producer.send(&mut records.collect()).unwrap();
            assert_eq!(producer.commit(WAIT).unwrap(), CommitOutcome::Committed);
        }
        let mut reader = broker.consumer("small", 1).unwrap();
        reader
            .assign(&[(TopicPartition::new(topic, 0), Offset(0))])
            .unwrap();
        let (mut seen, clock) = (Vec::new(), SystemClock::new());
        while seen.len() < 80 && clock.monotonic() < WAIT {
            reader
                .poll(100, Duration::from_millis(200), &mut seen)
                .unwrap();
        }
        let numbers = seen.iter().map(|r| r.value.as_ref().unwrap()[0]);
        assert!(
            numbers.eq((0..40).chain(0..40)),
            "{} records of {limit}",
            seen.len()
        );
    }
}

/// The broker aborts a transaction that takes too long, and raises its epoch. That is no newer producer:
/// this one goes on.
#[test]
fn a_transaction_that_took_too_long_is_lost_and_the_next_one_goes_on() {
    let broker = broker();
    let topic = topic(&broker, "slow", &[]);
    let mode = ProducerMode::Transactional {
        id: tag(),
        timeout: Duration::from_millis(500),
    };
    let mut producer = broker.producer(&mode, WAIT).unwrap();
    producer.begin().unwrap();
    producer
        .send(&mut vec![record(&topic, b"lost".to_vec())])
        .and_then(|()| producer.flush(WAIT))
        .unwrap();
    // The broker looks for such transactions every ten seconds.
    let clock = SystemClock::new();
    let mut reader = broker.consumer("slow", 1).unwrap();
    let part = TopicPartition::new(topic.clone(), 0);
    reader.assign(&[(part, Offset(0))]).unwrap();
    let mut seen = Vec::new();
    while reader.positions()[0].0 < 2 && clock.monotonic() < WAIT {
        reader
            .poll(10, Duration::from_millis(200), &mut seen)
            .unwrap();
    }
    assert_eq!(producer.commit(WAIT).unwrap(), CommitOutcome::Aborted);
    producer.begin().unwrap();
    producer
        .send(&mut vec![record(&topic, b"good".to_vec())])
        .unwrap();
    assert_eq!(producer.commit(WAIT).unwrap(), CommitOutcome::Committed);
    while seen.is_empty() && clock.monotonic() < 2 * WAIT {
        reader
            .poll(10, Duration::from_millis(200), &mut seen)
            .unwrap();
    }
    let values: Vec<_> = seen.iter().filter_map(|r| r.value.as_deref()).collect();
    assert_eq!(values, [b"good"]);
}

/// Two instances that start at the same instant may each take one of the two ids. The one with the first
/// id goes on.
#[test]
fn the_owner_of_the_first_id_only_loses_a_transaction() {
    let broker = broker();
    let topic = topic(&broker, "two", &[]);
    let (id, mode) = {
        let id = tag();
        let mode = |id: String| ProducerMode::Transactional { id, timeout: WAIT };
        (id.clone(), mode)
    };
    let mut first = broker.producer(&mode(id.clone()), WAIT).unwrap();
    let write = |producer: &mut dyn Producer| {
        producer.begin()?;
        producer.send(&mut vec![record(&topic, b"v".to_vec())])?;
        producer.flush(WAIT)?;
        producer.commit(WAIT)
    };
    assert_eq!(write(first.as_mut()).unwrap(), CommitOutcome::Committed);
    // Takes over the second id of `first`.
    let second = broker.producer(&mode(format!("{id}~2")), WAIT).unwrap();
    let lost = write(first.as_mut()).unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Unavailable, "{lost}");
    assert!(
        lost.to_string().contains("second transactional id"),
        "{lost}"
    );
    // A restart takes over both ids.
    let mut again = broker.producer(&mode(id.clone()), WAIT).unwrap();
    for _ in 0..3 {
        assert_eq!(write(again.as_mut()).unwrap(), CommitOutcome::Committed);
    }
    drop(second);
    // An instance that has lost the first id is fenced, whichever turn it is.
    for commits in [0, 1] {
        let id = format!("{id}-{commits}");
        let mut old = broker.producer(&mode(id.clone()), WAIT).unwrap();
        for _ in 0..commits {
            write(old.as_mut()).unwrap();
        }
        let _new = broker.producer(&mode(id), WAIT).unwrap();
        let fenced = write(old.as_mut()).unwrap_err();
        assert_eq!(fenced.kind(), ErrorKind::Fenced, "{fenced}");
    }
}

#[test]
fn a_partition_that_does_not_exist_is_named() {
    let broker = broker();
    let topic = topic(&broker, "one", &[]);
    let mut producer = transactional(&broker);
    producer.begin().unwrap();
    let lost = ProducerRecord {
        partition: Some(Partition(7)),
        ..record(&topic, vec![1])
    };
    let refused = producer
        .send(&mut vec![lost])
        .and_then(|()| producer.flush(WAIT))
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MissingTopic, "{refused}");
    assert!(refused.to_string().contains(&*topic), "{refused}");
}

#[test]
fn a_setting_that_the_broker_refuses_is_a_config_error() {
    let broker = broker();
    let wrong = NewTopic {
        name: tag(),
        partitions: 1,
        replication: -1,
        config: vec![("cleanup.policy".into(), "sometimes".into())],
    };
    let refused = broker.create_topics(&[wrong], WAIT).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config, "{refused}");
    let many = NewTopic {
        name: tag(),
        partitions: 1,
        replication: 77,
        config: Vec::new(),
    };
    assert_eq!(
        broker.create_topics(&[many], WAIT).unwrap_err().kind(),
        ErrorKind::Config
    );
}

#[test]
fn a_lost_position_is_an_error_not_a_jump() {
    let broker = broker();
    let topic = topic(&broker, "lost", &[]);
    let mut reader = broker.consumer("lost", 1).unwrap();
    reader
        .assign(&[(TopicPartition::new(topic.clone(), 0), Offset(1000))])
        .unwrap();
    let mut seen = Vec::new();
    let refused = (0..100)
        .find_map(|_| reader.poll(10, Duration::from_millis(100), &mut seen).err())
        .expect("the position is beyond the end");
    assert_eq!(refused.kind(), ErrorKind::Incompatible, "{refused}");
    assert!(refused.to_string().contains(&*topic), "{refused}");
}

#[test]
fn reading_a_missing_topic_is_named() {
    let broker = broker();
    let name = tag();
    let mut reader = broker.consumer("missing", 1).unwrap();
    let refused = reader
        .assign(&[(TopicPartition::new(name.as_str(), 0), Offset(0))])
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MissingTopic, "{refused}");
    assert!(refused.to_string().contains(&name), "{refused}");
    assert_eq!(
        broker.topics(&[&name], WAIT).unwrap(),
        [None],
        "reading did not make it"
    );
}

#[test]
fn a_large_backlog_is_read_through_small_queues() {
    let broker = broker();
    let topic = topic(&broker, "backlog", &[]);
    let mut producer = transactional(&broker);
    producer.begin().unwrap();
    for _ in 0..60 {
        producer
            .send(
                &mut (0..1000)
                    .map(|n: u32| record(&topic, [n.to_be_bytes().as_slice(), &[7; 996]].concat()))
                    .collect(),
            )
            .unwrap();
    }
    producer.flush(WAIT).unwrap();
    producer.commit(WAIT).unwrap();
    let mut reader = broker.consumer("backlog", 1).unwrap();
    reader
        .assign(&[(TopicPartition::new(topic.clone(), 0), Offset(0))])
        .unwrap();
    let (mut seen, mut count, mut idle) = (Vec::new(), 0u32, 0);
    while count < 60_000 && idle < 100 {
        reader
            .poll(700, Duration::from_millis(100), &mut seen)
            .unwrap();
        idle = if seen.is_empty() { idle + 1 } else { 0 };
        for record in seen.drain(..) {
            let value = record.value.unwrap();
            assert_eq!(value[..4], (count % 1000).to_be_bytes());
            assert_eq!(value.len(), 1000);
            count += 1;
        }
    }
    assert_eq!(count, 60_000);
}
