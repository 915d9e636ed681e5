//! Dead letters get the bodies of their input records, wherever those are in the topic.

use super::*;
use bytes::Bytes;
use std::sync::Arc;
use stoatflow_core::{ManualClock, Partition, Timestamp};
use stoatflow_log::{NewTopic, ProducerMode, embedded};

const SOON: Duration = Duration::from_secs(60);

fn broker(records: i32) -> Arc<embedded::EmbeddedBroker> {
    let broker = embedded::open(None).unwrap();
    let topic = NewTopic {
        name: "in".into(),
        partitions: 2,
        replication: 1,
        config: Vec::new(),
    };
    broker.create_topics(&[topic], SOON).unwrap();
    let mode = ProducerMode::Plain {
        id: "filler".into(),
        timeout: SOON,
    };
    let mut producer = broker.producer(&mode, SOON).unwrap();
    let mut all: Vec<ProducerRecord> = (0..records)
        .map(|n| ProducerRecord {
            topic: "in".into(),
            partition: Some(Partition(n % 2)),
            key: Some(Bytes::from(format!("k{n}"))),
            value: Some(Bytes::from(format!("v{n}"))),
            timestamp: Timestamp(i64::from(n)),
            headers: None,
        })
        .collect();
    producer.begin().unwrap();
    producer.send(&mut all).unwrap();
    producer.flush(SOON).unwrap();
    producer.commit(SOON).unwrap();
    broker
}

fn letter(partition: i32, offset: i64) -> PendingDeadLetter {
    PendingDeadLetter {
        missing: Some((TopicPartition::new("in", partition), Offset(offset))),
        record: ProducerRecord {
            topic: "bad".into(),
            partition: None,
            key: None,
            value: None,
            timestamp: Timestamp(7),
            headers: Some([header("why", "because")].into()),
        },
    }
}

fn header(name: &str, value: &'static str) -> Header {
    Header {
        name: name.into(),
        value: Some(value.into()),
    }
}

#[test]
fn each_letter_gets_the_body_of_its_own_record_in_the_order_they_came() {
    let broker = broker(20_000);
    let clock = ManualClock::new(Timestamp(0));
    // Near and far offsets, backwards, one of them twice, in both partitions.
    let asked = [(0, 9_999), (1, 3), (0, 0), (0, 1), (0, 0), (1, 9_000)];
    let letters = asked.iter().map(|(p, o)| letter(*p, *o)).collect();
    let found = refetch(broker.as_ref(), "group", letters, SOON, &clock).unwrap();
    for ((partition, offset), record) in asked.iter().zip(&found) {
        let number = 2 * offset + i64::from(*partition);
        assert_eq!(record.key, Some(Bytes::from(format!("k{number}"))));
        assert_eq!(record.value, Some(Bytes::from(format!("v{number}"))));
        assert_eq!(record.timestamp, Timestamp(number));
        assert_eq!(&*record.topic, "bad");
        assert_eq!(
            record.headers.as_deref(),
            Some([header("why", "because")].as_slice())
        );
    }
}

#[test]
fn a_letter_whose_record_is_gone_says_so() {
    let broker = broker(4);
    let clock = ManualClock::new(Timestamp(0));
    let letters = vec![letter(0, 77), letter(0, 1)];
    let found = refetch(broker.as_ref(), "group", letters, SOON, &clock).unwrap();
    assert_eq!(found[0].value, None);
    assert_eq!(found[0].timestamp, Timestamp(7));
    assert_eq!(
        found[0].headers.as_deref(),
        Some(
            [
                header("why", "because"),
                header("__stoatflow.errors.gone", "true")
            ]
            .as_slice()
        )
    );
    assert_eq!(found[1].value, Some(Bytes::from("v2")));
}
