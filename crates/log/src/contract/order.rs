//! Records: their order, their offsets, their fields.

use super::stage::{Stage, WAIT, commit, numbered, promise, read, record, until, values};
use crate::murmur2::partition_of;
use crate::{Broker, ConsumerRecord, ProducerRecord};
use bytes::Bytes;
use stoatflow_core::{
    Header, Offset, Partition, Result, Timestamp, TopicPartition, headers_from_bytes,
};

/// Many records of a key arrive in the order in which they were sent.
pub fn much_at_once_keeps_its_order(broker: &dyn Broker, tag: &str) -> Result<()> {
    const COUNT: usize = 3000;
    let stage = Stage::new(broker, tag, "much");
    let topic = stage.topic("t", 2)?;
    let mut producer = stage.transactional("p")?;
    producer.begin()?;
    // More than fits into one request, so that a client may hold records back; in pieces of all sizes.
    let padding = "x".repeat(1000);
    let mut left = (0..COUNT)
        .map(|n| record(&topic, None, Some("k"), &format!("{n} {padding}")))
        .collect::<Vec<_>>();
    for size in (1..).step_by(37) {
        let rest = left.split_off(size.min(left.len()));
        producer.send(&mut left)?;
        producer.send_pending()?;
        left = rest;
        if left.is_empty() {
            break;
        }
    }
    producer.flush(WAIT)?;
    let kept = producer.send_pending()?;
    promise!(kept == 0, "{kept} bytes are kept back behind a flush");
    producer.commit(WAIT)?;
    let parts = [0, 1].map(|p| TopicPartition::new(topic.clone(), p));
    let seen = values(&stage.all(&parts, COUNT)?);
    let numbers: Vec<_> = (seen.iter())
        .map(|value| value.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    let expected: Vec<_> = (0..COUNT).map(|n| n.to_string()).collect();
    promise!(
        numbers == expected,
        "{} of {COUNT} records came, or not in their order",
        numbers.len()
    );
    Ok(())
}

/// Per partition, records arrive in the order they were sent, at rising offsets, in the right slot.
pub fn order_within_partitions(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "order");
    let topic = stage.topic("t", 3)?;
    let mut producer = stage.transactional("p")?;
    for round in 0..4 {
        let mut mixed = Vec::new();
        for n in 0..300 {
            mixed.push(record(
                &topic,
                Some(n % 3),
                Some("k"),
                &format!("{}", round * 100 + n / 3),
            ));
        }
        commit(producer.as_mut(), mixed)?;
    }
    // Slots are indices into the assignment, not partition numbers: hence the reversed order.
    let parts: Vec<_> = (0..3)
        .rev()
        .map(|p| TopicPartition::new(topic.clone(), p))
        .collect();
    let mut reader = stage.reader(&parts)?;
    let mut seen = Vec::new();
    until(reader.as_mut(), &mut seen, |_, seen| seen.len() >= 1200)?;
    promise!(
        seen.len() == 1200,
        "1200 records were sent, {} came",
        seen.len()
    );
    let mut single = Vec::new();
    for slot in 0..3 {
        let part: Vec<_> = seen.iter().filter(|r| r.slot == slot).cloned().collect();
        let expected: Vec<_> = (0..400).map(|n| n.to_string()).collect();
        promise!(
            values(&part) == expected,
            "slot {slot} came out of order: {:?}",
            values(&part)
        );
        promise!(
            part.windows(2).all(|w| w[0].offset < w[1].offset),
            "offsets of slot {slot} do not rise"
        );
        single.extend(part.last().map(|r| r.offset));
    }
    promise!(single.len() == 3, "a slot got nothing");
    Ok(())
}

/// Without a partition, the key's murmur2 decides as in Java; records with null keys all arrive.
pub fn keys_choose_partitions(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "keys");
    let topic = stage.topic("t", 5)?;
    let mut producer = stage.transactional("p")?;
    let keys: Vec<_> = (0..100).map(|n| format!("key-{n}")).collect();
    let mut records: Vec<_> = keys
        .iter()
        .map(|k| record(&topic, None, Some(k), k))
        .collect();
    records.push(record(&topic, None, Some(""), ""));
    records.extend((0..50).map(|n| record(&topic, None, None, &format!("keyless-{n}"))));
    commit(producer.as_mut(), records)?;
    let parts: Vec<_> = (0..5)
        .map(|p| TopicPartition::new(topic.clone(), p))
        .collect();
    let seen = stage.all(&parts, 151)?;
    promise!(
        seen.len() == 151,
        "151 records were sent, {} came",
        seen.len()
    );
    for r in &seen {
        if let Some(key) = &r.key {
            let expected = partition_of(key, 5);
            promise!(
                i64::from(r.slot) == i64::from(expected),
                "key {key:?} went to partition {}, Java chooses {expected}",
                r.slot
            );
        }
    }
    promise!(
        seen.iter().filter(|r| r.key.is_none()).count() == 50,
        "a record without a key was lost"
    );
    Ok(())
}

/// Many records without keys are spread evenly once the leaders are known; before that, a client may
/// prefer the partitions whose leaders it knows.
pub fn keyless_records_spread_when_they_are_many(broker: &dyn Broker, tag: &str) -> Result<()> {
    const COUNT: usize = 3000;
    let stage = Stage::new(broker, tag, "keyless");
    let topic = stage.topic("t", 3)?;
    let parts = [0, 1, 2].map(|p| TopicPartition::new(topic.clone(), p));
    let padding = "x".repeat(1000);
    let mut producer = stage.transactional("p")?;
    // A producer may be two that alternate: both must learn every leader.
    for turn in ["first", "second"] {
        let to_each = (0..3).map(|p| record(&topic, Some(p), None, turn));
        commit(producer.as_mut(), to_each.collect())?;
    }
    let records = (0..COUNT).map(|_| record(&topic, None, None, &padding));
    commit(producer.as_mut(), records.collect())?;
    let mut seen = stage.all(&parts, COUNT + 6)?;
    seen.retain(|r| r.value.as_ref().is_some_and(|v| v.len() == padding.len()));
    promise!(
        seen.len() == COUNT,
        "{COUNT} records were sent, {} came",
        seen.len()
    );
    for slot in 0..3 {
        let found = seen.iter().filter(|r| r.slot == slot).count();
        promise!(
            (COUNT / 4..COUNT / 2).contains(&found),
            "of {COUNT} records {found} are in partition {slot}"
        );
    }
    Ok(())
}

/// Nulls, empty values, headers and timestamps arrive as they were sent.
pub fn records_round_trip(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "parts");
    let topic = stage.topic("t", 1)?;
    let bytes = |b: &'static [u8]| Some(Bytes::from_static(b));
    let header = |name: &str, value| Header {
        name: name.into(),
        value,
    };
    let base = ProducerRecord {
        topic: topic.clone(),
        partition: Some(Partition(0)),
        key: None,
        value: None,
        timestamp: Timestamp(0),
        headers: None,
    };
    let repeated = vec![
        header("a", bytes(b"1")),
        header("a", bytes(b"2")),
        header("null", None),
        header("empty", bytes(b"")),
    ];
    let sent = vec![
        ProducerRecord {
            key: bytes(b"k"),
            value: bytes(b"v"),
            timestamp: Timestamp(1_234_567_890_123),
            ..base.clone()
        },
        ProducerRecord {
            value: bytes(b"no key"),
            timestamp: Timestamp(1),
            ..base.clone()
        },
        ProducerRecord {
            key: bytes(b"tombstone"),
            timestamp: Timestamp(1_000_000_000_000),
            ..base.clone()
        },
        ProducerRecord {
            key: bytes(b""),
            value: bytes(b""),
            timestamp: Timestamp(5),
            ..base.clone()
        },
        ProducerRecord {
            key: bytes(b"h"),
            value: bytes(&[0, 255, 128]),
            timestamp: Timestamp(6),
            headers: Some(repeated.into()),
            ..base.clone()
        },
        ProducerRecord {
            value: Some(vec![7; 200_000].into()),
            timestamp: Timestamp(7),
            ..base.clone()
        },
    ];
    let mut producer = stage.transactional("p")?;
    commit(producer.as_mut(), sent.clone())?;
    let seen = stage.all(&[TopicPartition::new(topic, 0)], sent.len())?;
    promise!(
        seen.len() == sent.len(),
        "{} records were sent, {} came",
        sent.len(),
        seen.len()
    );
    for (sent, seen) in sent.iter().zip(&seen) {
        promise!(
            sent.key == seen.key,
            "key {:?} became {:?}",
            sent.key,
            seen.key
        );
        promise!(
            sent.value == seen.value,
            "the value of key {:?} changed",
            sent.key
        );
        promise!(
            sent.timestamp == seen.timestamp,
            "timestamp {} became {}",
            sent.timestamp,
            seen.timestamp
        );
        promise!(
            sent.headers == seen.headers,
            "headers {:?} became {:?}",
            sent.headers,
            seen.headers
        );
    }
    Ok(())
}

/// `poll_borrowed` passes the same records as `poll` returns, moves to the same positions, and `poll` can
/// follow it.
pub fn poll_borrowed_passes_what_poll_returns(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "borrowed");
    let topic = stage.topic("t", 2)?;
    let parts = [0, 1].map(|p| TopicPartition::new(topic.clone(), p));
    let mut producer = stage.transactional("p")?;
    let mut records = numbered(&topic, 0, "a", 200);
    records.extend(numbered(&topic, 1, "b", 100));
    records[7].value = None;
    records[8].key = None;
    records[9].key = Some(Bytes::new());
    let header = |name: &str, value: Option<&'static [u8]>| Header {
        name: name.into(),
        value: value.map(Bytes::from_static),
    };
    records[10].headers = Some([header("trace", Some(b"7f")), header("", None)].into());
    commit(producer.as_mut(), records)?;
    let given = stage.all(&parts, 300)?;

    let mut reader = stage.reader(&parts)?;
    let mut seen: Vec<ConsumerRecord> = Vec::new();
    let mut most = 0;
    for _ in 0..1000 {
        let before = seen.len();
        reader.poll_borrowed(40, WAIT, &mut |record| {
            seen.push(ConsumerRecord {
                slot: record.slot,
                offset: record.offset,
                timestamp: record.timestamp,
                key: record.key.map(Bytes::copy_from_slice),
                value: record.value.map(Bytes::copy_from_slice),
                headers: headers_from_bytes(Bytes::copy_from_slice(record.headers))
                    .unwrap_or_default(),
                number: 0,
            });
        })?;
        most = most.max(seen.len() - before);
        if seen.len() >= 300 {
            break;
        }
    }
    promise!(most <= 40, "{most} records came where 40 were asked for");
    for slot in 0..2 {
        let of = |all: &[ConsumerRecord]| -> Vec<ConsumerRecord> {
            all.iter().filter(|r| r.slot == slot).cloned().collect()
        };
        promise!(
            of(&seen) == of(&given),
            "slot {slot}: {} records were seen, {} are there, or they differ",
            of(&seen).len(),
            of(&given).len()
        );
    }
    commit(producer.as_mut(), numbered(&topic, 0, "more", 3))?;
    let more = read(reader.as_mut(), 3)?;
    promise!(
        values(&more) == ["more0", "more1", "more2"],
        "after looking came {:?}",
        values(&more)
    );
    Ok(())
}

/// Reading starts at the offset in the assignment.
pub fn reading_starts_anywhere(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "start");
    let topic = stage.topic("t", 1)?;
    let part = TopicPartition::new(topic.clone(), 0);
    let mut producer = stage.transactional("p")?;
    commit(producer.as_mut(), numbered(&topic, 0, "a", 100))?;
    commit(producer.as_mut(), numbered(&topic, 0, "b", 100))?;
    let all = stage.all(std::slice::from_ref(&part), 200)?;
    promise!(
        all.len() == 200,
        "200 records were sent, {} came",
        all.len()
    );
    for from in [1, 57, 99, 100, 150, 199] {
        let mut reader = broker.consumer(&stage.name("reader"), 1)?;
        reader.assign(&[(part.clone(), all[from].offset)])?;
        promise!(
            reader.positions() == [all[from].offset],
            "a fresh assignment stands at {:?}",
            reader.positions()
        );
        let seen = read(reader.as_mut(), 200 - from)?;
        promise!(
            seen == all[from..],
            "reading from record {from} gave others than reading on to it"
        );
    }
    Ok(())
}

/// A second assignment replaces the first, including positions and slots.
pub fn assignment_replaces(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "reassign");
    let topic = stage.topic("t", 2)?;
    let mut producer = stage.transactional("p")?;
    let mut both = numbered(&topic, 0, "a", 50);
    both.extend(numbered(&topic, 1, "b", 50));
    commit(producer.as_mut(), both)?;
    let parts = [
        TopicPartition::new(topic.clone(), 0),
        TopicPartition::new(topic, 1),
    ];
    let mut reader = stage.reader(&parts)?;
    let mut first = Vec::new();
    reader.poll(10, WAIT, &mut first)?;
    promise!(
        first.len() <= 10,
        "'poll' gave {} records for a maximum of 10",
        first.len()
    );
    reader.assign(&[(parts[1].clone(), Offset(20))])?;
    let seen = read(reader.as_mut(), 30)?;
    let expected: Vec<_> = (20..50).map(|n| format!("b{n}")).collect();
    promise!(
        values(&seen) == expected,
        "after a new assignment came {:?}",
        values(&seen)
    );
    promise!(
        seen.iter().all(|r| r.slot == 0),
        "slots are not those of the new assignment"
    );
    Ok(())
}
