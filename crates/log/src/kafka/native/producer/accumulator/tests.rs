use super::{Accumulator, FULL_BATCH_BYTES, after};
use crate::ProducerRecord;
use crate::kafka::native::records::batch_writer::Identity;
use crate::kafka::native::records::compression::Compression;
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::metadata_response::{
    MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{
    BrokerId, MetadataResponse, ProduceRequest, ProduceResponse, TopicName, TransactionalId,
};
use kafka_protocol::protocol::{Encodable, StrBytes};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Offset, Partition, Timestamp};

const OWNER: Identity = Identity { id: 7, epoch: 3 };

fn topic_name(name: &str) -> TopicName {
    TopicName::from(StrBytes::from_string(name.to_owned()))
}

/// Topics `a` and `b` with four partitions each, the odd ones led by broker 2, the others by 1.
fn accumulator() -> (Accumulator, Arc<str>, Arc<str>) {
    let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
    let topic = |name: &str| {
        let part = |p: i32| {
            MetadataResponsePartition::default()
                .with_partition_index(p)
                .with_leader_id(BrokerId(1 + p % 2))
        };
        MetadataResponseTopic::default()
            .with_name(Some(topic_name(name)))
            .with_partitions((0..4).map(part).collect())
    };
    let answer = MetadataResponse::default().with_topics(vec![topic("a"), topic("b")]);
    let mut accumulator = Accumulator::new(true, Compression::default());
    accumulator.learn(&answer, &[a.clone(), b.clone()]);
    (accumulator, a, b)
}

fn record(topic: &Arc<str>, partition: i32, value: &str) -> ProducerRecord {
    ProducerRecord {
        topic: topic.clone(),
        partition: Some(Partition(partition)),
        key: None,
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        timestamp: Timestamp(1),
        headers: None,
    }
}

fn put(accumulator: &mut Accumulator, record: &ProducerRecord) {
    let topic = accumulator.find(&record.topic).unwrap();
    let place = accumulator.place(topic, record).unwrap();
    accumulator.append(place, record);
}

fn answer(rows: &[(&str, i32, i16, i64)]) -> ProduceResponse {
    let topic = |(name, index, code, offset): &(&str, i32, i16, i64)| {
        let part = PartitionProduceResponse::default()
            .with_index(*index)
            .with_error_code(*code)
            .with_base_offset(*offset);
        TopicProduceResponse::default()
            .with_name(topic_name(name))
            .with_partition_responses(vec![part])
    };
    ProduceResponse::default().with_responses(rows.iter().map(topic).collect())
}

/// The frame equals the generated message.
#[test]
fn a_request_is_what_others_would_write() {
    let (mut accumulator, a, b) = accumulator();
    for (topic, partition) in [(&a, 0), (&a, 2), (&b, 2), (&a, 0), (&a, 1)] {
        put(
            &mut accumulator,
            &record(topic, partition, &"x".repeat(300)),
        );
    }
    let flight = accumulator.gather(1, OWNER, 12).unwrap();
    let frame = accumulator.frame(&flight, BytesMut::from(&[0; 4][..]), "app", 1234);
    let written: Vec<u8> = frame.pieces().concat();
    let data = |topic: usize, part: usize| {
        let bytes = (flight.batches.iter())
            .find(|(place, _)| (place.topic, place.part) == (topic, part))
            .map(|(_, batch)| Bytes::copy_from_slice(batch.bytes()));
        PartitionProduceData::default()
            .with_index(i32::try_from(part).unwrap())
            .with_records(bytes)
    };
    let expected = ProduceRequest::default()
        .with_transactional_id(Some(TransactionalId::from(StrBytes::from_static_str(
            "app",
        ))))
        .with_acks(-1)
        .with_timeout_ms(1234)
        .with_topic_data(vec![
            TopicProduceData::default()
                .with_name(topic_name("a"))
                .with_partition_data(vec![data(0, 0), data(0, 2)]),
            TopicProduceData::default()
                .with_name(topic_name("b"))
                .with_partition_data(vec![data(1, 2)]),
        ]);
    for version in [9, 11, 12] {
        let mut body = BytesMut::new();
        expected.encode(&mut body, version).unwrap();
        assert_eq!(written[4..], body, "version {version}");
    }
    assert_eq!(
        written[..4],
        u32::try_from(written.len() - 4).unwrap().to_be_bytes()
    );
    assert_eq!(accumulator.idle_leaders(), [2], "broker 1 has all of its");
}

#[test]
fn failed_batches_are_resent_unchanged_and_first() {
    let (mut accumulator, a, _) = accumulator();
    put(&mut accumulator, &record(&a, 0, "first"));
    put(&mut accumulator, &record(&a, 2, "other"));
    let all = accumulator.unacknowledged();
    let flight = accumulator.gather(1, OWNER, 12).unwrap();
    let sent: Vec<_> = flight
        .batches
        .iter()
        .map(|(_, b)| b.bytes().to_vec())
        .collect();
    assert_eq!(
        (accumulator.waiting(), accumulator.unacknowledged()),
        (0, all)
    );
    put(&mut accumulator, &record(&a, 0, "second"));
    assert!(
        accumulator.gather(1, OWNER, 12).is_none(),
        "one at a time for a partition"
    );
    // One of two batches is acknowledged.
    let partition_errors =
        accumulator.complete(flight, &answer(&[("a", 0, 6, -1), ("a", 2, 0, 41)]));
    assert_eq!(partition_errors.len(), 1);
    assert_eq!(
        (partition_errors[0].place.part, partition_errors[0].code),
        (0, 6)
    );
    let again = accumulator.gather(1, OWNER, 12).unwrap();
    assert_eq!(again.places().count(), 1);
    assert_eq!(again.batches[0].1.bytes(), sent[0], "to the last byte");
    accumulator.mark_in_flight(1, again, Duration::ZERO);
    assert!(accumulator.idle_leaders().is_empty());
    let again = accumulator.take_flight(1).unwrap();
    accumulator.requeue(again);
    let again = accumulator.gather(1, OWNER, 12).unwrap();
    assert_eq!(again.batches[0].1.bytes(), sent[0]);
    assert_eq!(
        accumulator.complete(again, &answer(&[("a", 0, 46, -1)])),
        []
    );
    let next = accumulator.gather(1, OWNER, 12).unwrap();
    let sequence = &next.batches[0].1.bytes()[53..57];
    assert_eq!(sequence, 1_i32.to_be_bytes(), "behind the first record");
    assert_eq!(accumulator.complete(next, &answer(&[("a", 0, 0, 10)])), []);
    assert_eq!(accumulator.unacknowledged(), 0);
    assert_eq!(
        accumulator.acknowledged("a"),
        [(Partition(0), Offset(11)), (Partition(2), Offset(42))]
    );
    assert_eq!(accumulator.acknowledged("c"), []);
}

#[test]
fn partitions_missing_in_a_response_are_resent() {
    let (mut accumulator, a, _) = accumulator();
    put(&mut accumulator, &record(&a, 0, "x"));
    let flight = accumulator.gather(1, OWNER, 12).unwrap();
    assert_eq!(accumulator.complete(flight, &answer(&[])).len(), 1);
    assert!(accumulator.gather(1, OWNER, 12).is_some());
}

#[test]
fn a_batch_has_its_measure() {
    let (mut accumulator, a, _) = accumulator();
    for _ in 0..5 {
        put(
            &mut accumulator,
            &record(&a, 0, &"x".repeat(FULL_BATCH_BYTES / 3 - 100)),
        );
    }
    let mut counts = Vec::new();
    while let Some(flight) = accumulator.gather(1, OWNER, 12) {
        counts.push(flight.batches[0].1.count());
        accumulator.complete(flight, &answer(&[("a", 0, 0, 1)]));
    }
    assert_eq!(counts, [3, 2]);
}

#[test]
fn keys_choose_as_javas_do() {
    let (mut accumulator, a, _) = accumulator();
    // Hashes of Java's own tests: -973932308, -790332482, -985981536, without their signs.
    for (key, expected) in [
        ("21", 1_173_551_340 % 4),
        ("foobar", 1_357_151_166 % 4),
        ("a-little-bit-long-string", 1_161_502_112 % 4),
    ] {
        let record = ProducerRecord {
            partition: None,
            key: Some(Bytes::from_static(key.as_bytes())),
            ..record(&a, 0, "v")
        };
        let place = accumulator.place(0, &record).unwrap();
        assert_eq!(place.part, expected, "{key}");
    }
    assert!(
        accumulator.place(0, &record(&a, 4, "v")).is_none(),
        "there is no fifth"
    );
    assert!(accumulator.place(0, &record(&a, -1, "v")).is_none());
}

#[test]
fn another_transaction_knows_no_partition() {
    let (mut accumulator, a, b) = accumulator();
    put(&mut accumulator, &record(&a, 0, "x"));
    put(&mut accumulator, &record(&b, 2, "x"));
    assert!(accumulator.is_fresh());
    let flight = accumulator.gather(1, OWNER, 11).unwrap();
    let unknown = accumulator.unknown(&flight);
    assert_eq!(unknown, [(a.clone(), vec![0]), (b, vec![2])]);
    accumulator.added(&flight);
    assert!(!accumulator.is_fresh());
    assert_eq!(accumulator.unknown(&flight), []);
    accumulator.complete(flight, &answer(&[("a", 0, 0, 1), ("b", 2, 0, 1)]));
    put(&mut accumulator, &record(&a, 0, "x"));
    assert!(!accumulator.is_fresh());
    accumulator.forget_added();
    assert!(accumulator.is_fresh());
    accumulator.clear();
    assert_eq!(
        (accumulator.waiting(), accumulator.unacknowledged()),
        (0, 0)
    );
    assert!(!accumulator.is_fresh() && accumulator.idle_leaders().is_empty());
    accumulator.renumber();
    put(&mut accumulator, &record(&a, 0, "x"));
    let flight = accumulator.gather(1, OWNER, 11).unwrap();
    assert_eq!(flight.batches[0].1.bytes()[53..57], 0_i32.to_be_bytes());
}

#[test]
fn numbers_begin_anew_behind_the_largest() {
    assert_eq!(after(5, 3), 8);
    assert_eq!(after(i32::MAX, 1), 0);
    assert_eq!(after(i32::MAX - 1, 4), 2);
}
