//! Injected failures with librdkafka's mock cluster: how they are mapped, not exactly-once.

use super::native::{self, NativeConfig};
use super::properties::Properties;
use super::{KafkaBroker, connect};
use crate::kafka::librdkafka::admin::Admin;
use crate::kafka::librdkafka::consumer::KafkaConsumer;
use crate::kafka::librdkafka::producer::KafkaProducer;
use crate::{Broker, CommitOutcome, Consumer, CutEntry, Producer, ProducerMode, ProducerRecord};
use rdkafka::mocking::{MockCluster, MockCoordinator};
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey as Api, RDKafkaRespErr as Native};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::settings::ClientRole;
use stoatflow_core::{
    Clock, Error, ErrorKind, Offset, Partition, SystemClock, Timestamp, TopicPartition,
};

const WAIT: Duration = Duration::from_secs(20);

type Cluster = MockCluster<'static, DefaultProducerContext>;

fn cluster() -> (Cluster, Arc<KafkaBroker>) {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("t", 2, 1).unwrap();
    let broker = connect(&cluster.bootstrap_servers(), &[]).unwrap();
    (cluster, broker)
}

/// All producers pass the same cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Librdkafka,
    Wire,
    /// The native producer outside of transactions.
    Plain,
}

macro_rules! both_ways {
    ($($case:ident),* $(,)?) => {
        mod through_librdkafka {
            $( #[test] fn $case() { super::$case(super::Way::Librdkafka); } )*
        }
        mod by_wire {
            $( #[test] fn $case() { super::$case(super::Way::Wire); } )*
        }
    };
}

both_ways!(
    a_fenced_commit,
    a_commit_without_an_answer_has_an_unknown_outcome,
    a_commit_waits_short_outages_out,
    a_commit_that_must_be_aborted_is_aborted,
    a_refused_topic_is_named,
    a_refused_transactional_id_is_a_permission,
    a_refused_group_is_a_permission,
    leaders_and_coordinators_that_move_are_found,
    a_reader_waits_an_outage_out,
    a_reader_follows_leaders,
    a_position_that_is_lost_is_incompatible,
    a_topic_that_may_not_be_read_is_a_permission,
);

mod idempotent_natively {
    use super::Way;
    macro_rules! idempotent {
        ($($case:ident),* $(,)?) => { $( #[test] fn $case() { super::$case(Way::Plain); } )* };
    }
    idempotent!(
        a_refused_topic_is_named,
        a_refused_group_is_a_permission,
        leaders_and_coordinators_that_move_are_found,
    );
}

fn open(broker: &KafkaBroker, way: Way) -> Box<dyn Producer> {
    if way == Way::Librdkafka {
        return open_librdkafka(broker);
    }
    let address = broker.address();
    let config = NativeConfig::plaintext(&address);
    let mut writer = native::producer(&config, "app", WAIT);
    writer.open(WAIT).unwrap();
    if way == Way::Wire {
        return Box::new(writer);
    }
    let mut plain = native::plain(writer, &config, "app", WAIT, false);
    plain.open(WAIT).unwrap();
    Box::new(plain)
}

/// The mock has no controller to ask for topics, so the producer is told that `t` exists.
fn open_librdkafka(broker: &KafkaBroker) -> Box<dyn Producer> {
    let properties = Properties::new(&broker.address(), &[]).unwrap();
    let admin = Arc::new(Admin::new(&properties).unwrap());
    let mode = ProducerMode::Transactional {
        id: "app".into(),
        timeout: WAIT,
    };
    let mut producer = KafkaProducer::new(&properties, admin, &mode).unwrap();
    producer.open(WAIT).unwrap();
    producer.add_target(&"t".into(), 1).unwrap();
    Box::new(producer)
}

/// Reads the first partition.
fn reader(broker: &KafkaBroker, way: Way, from: i64) -> Box<dyn Consumer> {
    let properties = Properties::new(&broker.address(), &[]).unwrap();
    let admin = Arc::new(Admin::new(&properties).unwrap());
    let bootstrap = properties.bootstrap();
    let assigned = [(TopicPartition::new("t", 0), Offset(from))];
    if way != Way::Librdkafka {
        let config = NativeConfig::plaintext(bootstrap);
        let fetch_limits = Properties::fetch_limits(1);
        let mut reader = native::reader(&config, admin, fetch_limits);
        reader.place(&assigned);
        return Box::new(reader);
    }
    let config = properties.divided_consumer("g", 1);
    let mut reader = KafkaConsumer::new(&config, true, bootstrap, admin).unwrap();
    reader.place(&assigned).unwrap();
    Box::new(reader)
}

/// The error that a poll returns within the time that a test has.
fn told(reader: &mut dyn Consumer) -> Error {
    let clock = SystemClock::new();
    while clock.monotonic() < 3 * WAIT {
        let polled = reader.poll(10, Duration::from_millis(100), &mut Vec::new());
        if let Err(error) = polled {
            return error;
        }
    }
    panic!("nothing was said")
}

fn record() -> ProducerRecord {
    ProducerRecord {
        topic: "t".into(),
        partition: Some(Partition(0)),
        key: None,
        value: Some("v".into()),
        timestamp: Timestamp(1),
        headers: None,
    }
}

fn written(producer: &mut dyn Producer) {
    producer.begin().unwrap();
    producer.send(&mut vec![record()]).unwrap();
    producer.flush(WAIT).unwrap();
}

fn a_fenced_commit(way: Way) {
    let (cluster, broker) = cluster();
    let mut producer = open(&broker, way);
    written(producer.as_mut());
    cluster.request_errors(Api::EndTxn, &[Native::RD_KAFKA_RESP_ERR_PRODUCER_FENCED]);
    // The native client checks whether the id is still its own.
    cluster.request_errors(
        Api::InitProducerId,
        &[Native::RD_KAFKA_RESP_ERR_PRODUCER_FENCED],
    );
    assert_eq!(producer.commit(WAIT).unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(producer.begin().unwrap_err().kind(), ErrorKind::Fenced);
}

fn a_commit_without_an_answer_has_an_unknown_outcome(way: Way) {
    let (cluster, broker) = cluster();
    let mut producer = open(&broker, way);
    written(producer.as_mut());
    cluster.broker_down(1).unwrap();
    let clock = SystemClock::new();
    let unknown = producer.commit(Duration::from_millis(1500)).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::UnknownOutcome, "{unknown}");
    assert!(clock.monotonic() < WAIT, "it took {:?}", clock.monotonic());
}

fn a_commit_waits_short_outages_out(way: Way) {
    let (cluster, broker) = cluster();
    let mut producer = open(&broker, way);
    written(producer.as_mut());
    cluster.request_errors(
        Api::EndTxn,
        &[Native::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE; 3],
    );
    assert_eq!(producer.commit(WAIT).unwrap(), CommitOutcome::Committed);
}

fn a_commit_that_must_be_aborted_is_aborted(way: Way) {
    let (cluster, broker) = cluster();
    let mut producer = open(&broker, way);
    producer.begin().unwrap();
    // Set up before `send`: the first batch of a partition is sent at once.
    cluster.request_errors(
        Api::Produce,
        &[Native::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE],
    );
    producer.send(&mut vec![record()]).unwrap();
    assert_eq!(producer.commit(WAIT).unwrap(), CommitOutcome::Aborted);
    // The client gets a new producer epoch first, and may have to abort one more transaction for it.
    let next = (0..5).find(|_| {
        written(producer.as_mut());
        producer.commit(WAIT).unwrap() == CommitOutcome::Committed
    });
    assert!(
        next.is_some_and(|tries| tries <= 1),
        "the producer goes on after an abort: {next:?}"
    );
}

fn a_refused_topic_is_named(way: Way) {
    let (cluster, broker) = cluster();
    let mut producer = open(&broker, way);
    producer.begin().unwrap();
    cluster.request_errors(
        Api::Produce,
        &[Native::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED],
    );
    producer.send(&mut vec![record()]).unwrap();
    let refused = producer.flush(WAIT).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unauthorized, "{refused}");
    assert!(refused.next_step().contains("'t'"), "{refused}");
}

fn a_refused_transactional_id_is_a_permission(way: Way) {
    let (cluster, _) = cluster();
    cluster.request_errors(
        Api::InitProducerId,
        &[Native::RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED],
    );
    let address = cluster.bootstrap_servers();
    let properties = match way {
        Way::Wire | Way::Plain => vec![],
        Way::Librdkafka => vec![(
            ClientRole::All,
            "kafka.client".to_owned(),
            "librdkafka".to_owned(),
        )],
    };
    let mode = ProducerMode::Transactional {
        id: "app".into(),
        timeout: WAIT,
    };
    let refused = (connect(&address, &properties).unwrap())
        .producer(&mode, WAIT)
        .err()
        .expect("it is refused");
    assert_eq!(refused.kind(), ErrorKind::Unauthorized, "{refused}");
    assert!(
        refused.next_step().contains("transactional id"),
        "{refused}"
    );
}

fn a_refused_group_is_a_permission(way: Way) {
    let (cluster, broker) = cluster();
    let mut producer = open(&broker, way);
    written(producer.as_mut());
    cluster.request_errors(
        Api::AddOffsetsToTxn,
        &[Native::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED],
    );
    let cut = [CutEntry {
        partition: TopicPartition::new("t", 0),
        offset: Offset(1),
        metadata: "wm".into(),
    }];
    let refused = producer.offsets("app", &cut, WAIT).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unauthorized, "{refused}");
    producer.abort(WAIT).unwrap();
}

fn leaders_and_coordinators_that_move_are_found(way: Way) {
    const ROUNDS: i32 = 6;
    let cluster = MockCluster::new(3).unwrap();
    cluster.create_topic("t", 2, 3).unwrap();
    let broker = connect(&cluster.bootstrap_servers(), &[]).unwrap();
    let of = |round: i32| 1 + round % 3;
    let lead = |round| cluster.partition_leader("t", 0, Some(of(round))).unwrap();
    let keep = |round| {
        for coordinator in [
            MockCoordinator::Transaction("app".into()),
            MockCoordinator::Group("app".into()),
        ] {
            cluster.coordinator(coordinator, of(round)).unwrap();
        }
    };
    keep(0);
    let mut producer = open(&broker, way);
    for round in 0..ROUNDS {
        let send = |producer: &mut dyn Producer, part: i32| {
            let value = format!("{round}.{part}").into();
            let record = ProducerRecord {
                value: Some(value),
                ..record()
            };
            producer.send(&mut vec![record]).unwrap();
            producer.flush(WAIT).unwrap();
        };
        producer.begin().unwrap();
        send(producer.as_mut(), 0);
        lead(round + 1);
        send(producer.as_mut(), 1);
        keep(round + 2);
        let cut = [CutEntry {
            partition: TopicPartition::new("t", 0),
            offset: Offset(round.into()),
            metadata: String::new(),
        }];
        producer.offsets("app", &cut, WAIT).unwrap();
        keep(round + 3);
        assert_eq!(producer.commit(WAIT).unwrap(), CommitOutcome::Committed);
    }
    let mut reader = reader(&broker, way, 0);
    let expected: Vec<_> = (0..ROUNDS)
        .flat_map(|round| [0, 1].map(|part| format!("{round}.{part}")))
        .collect();
    let (mut seen, clock) = (Vec::new(), SystemClock::new());
    while seen.len() < expected.len() && clock.monotonic() < 3 * WAIT {
        reader
            .poll(100, Duration::from_millis(100), &mut seen)
            .unwrap();
    }
    reader
        .poll(100, Duration::from_millis(300), &mut seen)
        .unwrap();
    let values: Vec<_> = (seen.iter())
        .filter_map(|r| String::from_utf8(r.value.as_ref()?.to_vec()).ok())
        .collect();
    assert_eq!(values, expected, "each once, in order");
}

#[test]
fn no_broker_at_the_address() {
    let broker = connect("127.0.0.1:1", &[]).unwrap();
    assert_eq!(broker.address(), "127.0.0.1:1");
    let clock = SystemClock::new();
    let gone = broker
        .topics(&["t"], Duration::from_millis(1200))
        .unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Unavailable);
    assert!(
        gone.to_string().contains("127.0.0.1:1") && gone.to_string().contains("refused"),
        "{gone}"
    );
    assert!(
        (Duration::from_millis(900)..WAIT).contains(&clock.monotonic()),
        "{:?}",
        clock.monotonic()
    );
    let mode = ProducerMode::Transactional {
        id: "app".into(),
        timeout: WAIT,
    };
    assert_eq!(
        broker
            .producer(&mode, Duration::from_millis(500))
            .err()
            .expect("nobody is there")
            .kind(),
        ErrorKind::Unavailable
    );
}

fn a_position_that_is_lost_is_incompatible(way: Way) {
    let (_cluster, broker) = cluster();
    let mut reader = reader(&broker, way, 99);
    let error = told(reader.as_mut());
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    assert!(error.to_string().contains("'t'"), "{error}");
}

fn a_topic_that_may_not_be_read_is_a_permission(way: Way) {
    let (cluster, broker) = cluster();
    cluster.request_errors(
        Api::Fetch,
        &[Native::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED; 3],
    );
    let mut reader = reader(&broker, way, 0);
    let error = told(reader.as_mut());
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
}

#[test]
fn a_topic_that_goes_is_missing() {
    let (cluster, broker) = cluster();
    let mut reader = reader(&broker, Way::Wire, 0);
    reader
        .poll(1, Duration::from_millis(300), &mut Vec::new())
        .unwrap();
    let gone = Native::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    cluster.request_errors(Api::Fetch, &[gone; 2]);
    cluster.topic_error("t", gone).unwrap();
    let error = told(reader.as_mut());
    assert_eq!(error.kind(), ErrorKind::MissingTopic, "{error}");
}

/// Leaders move between brokers while records are written.
fn a_reader_follows_leaders(way: Way) {
    let cluster = MockCluster::new(3).unwrap();
    cluster.create_topic("t", 2, 3).unwrap();
    let broker = connect(&cluster.bootstrap_servers(), &[]).unwrap();
    let mut producer = open(&broker, Way::Wire);
    let mut reader = reader(&broker, way, 0);
    let mut seen = Vec::new();
    for round in 1..=6 {
        written(producer.as_mut());
        producer.commit(WAIT).unwrap();
        let clock = SystemClock::new();
        while seen.len() < round && clock.monotonic() < WAIT {
            reader
                .poll(10, Duration::from_millis(100), &mut seen)
                .unwrap();
        }
        assert_eq!(seen.len(), round);
        let next = i32::try_from(1 + round % 3).unwrap();
        cluster.partition_leader("t", 0, Some(next)).unwrap();
    }
}

fn a_reader_waits_an_outage_out(way: Way) {
    let (cluster, broker) = cluster();
    let mut producer = open_librdkafka(&broker);
    let mut reader = reader(&broker, way, 0);
    let mut seen = Vec::new();
    for round in 1..=2 {
        written(producer.as_mut());
        producer.commit(WAIT).unwrap();
        for _ in 0..200 {
            reader
                .poll(10, Duration::from_millis(100), &mut seen)
                .unwrap();
            if seen.len() >= round {
                break;
            }
        }
        assert_eq!(seen.len(), round);
        cluster.broker_down(1).unwrap();
        for _ in 0..5 {
            reader
                .poll(10, Duration::from_millis(50), &mut seen)
                .unwrap();
        }
        cluster.broker_up(1).unwrap();
    }
}
