use super::{Aborted, Records, Unmarked, UnreadableBatch};
use crate::ProducerRecord;
use crate::kafka::native::records::batch_writer::{
    ATTRIBUTES, BatchWriter, CRC, HEAD, Identity, LATEST_TIME, LOG_TIME, MAGIC, TRANSACTIONAL,
};
use crate::kafka::native::records::compression;
use bytes::{Bytes, BytesMut};
use kafka_protocol::records::{
    Compression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions,
};
use proptest::prelude::*;
use stoatflow_core::{Header, Timestamp};

fn outgoing(n: u8) -> ProducerRecord {
    ProducerRecord {
        topic: "t".into(),
        partition: None,
        key: (!n.is_multiple_of(3)).then(|| vec![n; usize::from(n)].into()),
        value: (!n.is_multiple_of(4)).then(|| vec![n; 300].into()),
        timestamp: Timestamp(1000 - i64::from(n)),
        headers: n.is_multiple_of(5).then(|| {
            let header = |value| Header {
                name: "same".into(),
                value,
            };
            vec![header(None), header(Some(vec![n].into()))].into()
        }),
    }
}

/// A batch at an offset, as the broker keeps it.
fn batch(base: i64, producer: i64, records: impl Iterator<Item = u8>) -> BytesMut {
    let mut batch = BatchWriter::new(Vec::new(), compression::Compression::default());
    for n in records {
        batch.append(&outgoing(n));
    }
    let owner = Identity {
        id: producer,
        epoch: 0,
    };
    batch.seal(owner, TRANSACTIONAL, 0);
    let mut bytes = BytesMut::from(batch.bytes());
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    bytes
}

/// Offsets, times, keys, values and headers from a position on; and the position after them.
type Seen = (Vec<(i64, ProducerRecord)>, i64);

fn read(bytes: Bytes, aborted: &[Aborted], from: i64) -> Result<Seen, UnreadableBatch> {
    let Some(mut records) = Records::new(bytes, aborted.to_vec(), -1)? else {
        return Ok((Vec::new(), from));
    };
    let (mut seen, mut position, mut unmarked) = (Vec::new(), from, Unmarked::default());
    while records.take(&mut position, &mut unmarked, |record| {
        let record = (
            record.offset,
            ProducerRecord {
                topic: "t".into(),
                partition: None,
                key: record.key.map(Bytes::copy_from_slice),
                value: record.value.map(Bytes::copy_from_slice),
                timestamp: Timestamp(record.timestamp),
                headers: record.headers()?,
            },
        );
        seen.push(record);
        Ok(())
    })? {}
    assert!(!records.seek(&mut position, &mut unmarked)?);
    Ok((seen, position))
}

fn numbered(offsets: std::ops::Range<i64>, first: i64) -> Vec<(i64, ProducerRecord)> {
    offsets
        .map(|o| (o, outgoing(u8::try_from(o - first).unwrap())))
        .collect()
}

#[test]
fn a_batch_is_read_from_any_offset_on() {
    let bytes = batch(100, 1, 0..40).freeze();
    for from in [0, 100, 101, 139, 140] {
        let (seen, position) = read(bytes.clone(), &[], from).unwrap();
        assert_eq!(seen, numbered(from.max(100)..140, 100));
        assert_eq!(position, 140);
    }
}

#[test]
fn a_batch_that_is_cut_is_left_for_the_next_answer() {
    let mut bytes = batch(0, 1, 0..10);
    let whole = bytes.len();
    bytes.extend_from_slice(&batch(10, 1, 0..10));
    for size in [whole, whole + 1, whole + 30, bytes.len() - 1] {
        let (seen, position) = read(bytes.clone().freeze().slice(..size), &[], 0).unwrap();
        assert_eq!((seen.len(), position), (10, 10), "of {size} bytes");
    }
    assert_eq!(read(bytes.freeze(), &[], 0).unwrap().0.len(), 20);
}

#[test]
fn aborted_transactions_are_passed_over_and_others_are_not() {
    use crate::kafka::native::tests::mark;
    let own = |id| Identity { id, epoch: 0 };
    let mut bytes = batch(0, 1, 0..5);
    for piece in [
        &batch(5, 2, 0..5)[..],
        &mark(own(1), false, 10),
        &batch(11, 1, 0..5),
        &mark(own(2), true, 16),
        &mark(own(1), true, 17),
    ] {
        bytes.extend_from_slice(piece);
    }
    let aborted = [Aborted {
        producer: 1,
        first: 0,
    }];
    let (seen, position) = read(bytes.clone().freeze(), &aborted, 0).unwrap();
    let wanted = [numbered(5..10, 5), numbered(11..16, 11)].concat();
    assert_eq!((seen, position), (wanted, 18));
    // The broker also reports it if the position lies within the transaction.
    let (seen, _) = read(bytes.freeze(), &aborted, 3).unwrap();
    assert_eq!(seen[0].0, 5);
}

/// Some brokers don't list aborted transactions: their marker is the first sign of them.
#[test]
fn an_aborted_transaction_that_is_not_listed_is_an_error() {
    use crate::kafka::native::tests::mark;
    let own = |id| Identity { id, epoch: 0 };
    let log = |ends: &[(i64, bool)]| {
        let mut bytes = batch(0, 1, 0..5);
        bytes.extend_from_slice(&batch(5, 2, 0..5));
        for (at, (producer, commits)) in (10..).zip(ends) {
            bytes.extend_from_slice(&mark(own(*producer), *commits, at));
        }
        bytes.freeze()
    };
    let unlisted = |at| Err(UnreadableBatch::Unlisted(at));
    assert_eq!(read(log(&[(1, false)]), &[], 0), unlisted(10));
    assert_eq!(read(log(&[(1, true), (2, false)]), &[], 0), unlisted(11));
    // Nothing of it was returned: it wrote nothing here, or it was committed before, or begins later.
    for ends in [[(3, false), (1, true)], [(1, true), (1, false)]] {
        assert_eq!(read(log(&ends), &[], 0).unwrap().1, 12);
    }
    assert_eq!(read(log(&[(1, false)]), &[], 5).unwrap().1, 11);
}

/// Compaction keeps the head of a batch to preserve the state of its producer.
#[test]
fn batches_without_records_are_passed_over() {
    use crate::kafka::native::tests::mark;
    let own = Identity { id: 1, epoch: 0 };
    let mut emptied = Vec::new();
    for batch in [
        &mark(own, false, 0)[..],
        &mark(own, true, 1),
        &batch(2, 1, 0..3),
    ] {
        let mut bytes = batch[..61].to_vec();
        bytes[8..12].copy_from_slice(&49_i32.to_be_bytes());
        bytes[57..61].copy_from_slice(&0_i32.to_be_bytes());
        let crc = crc32c::crc32c(&bytes[ATTRIBUTES..]);
        bytes[CRC..CRC + 4].copy_from_slice(&crc.to_be_bytes());
        emptied.extend(bytes);
    }
    emptied.extend_from_slice(&batch(5, 1, 0..2));
    assert_eq!(
        read(emptied.into(), &[], 0).unwrap(),
        (numbered(5..7, 5), 7)
    );
}

#[test]
fn the_brokers_time_counts_where_it_is_set() {
    let mut bytes = batch(0, 1, 0..3);
    bytes[ATTRIBUTES + 1] |= u8::try_from(LOG_TIME).unwrap();
    bytes[LATEST_TIME..LATEST_TIME + 8].copy_from_slice(&77_i64.to_be_bytes());
    let crc = crc32c::crc32c(&bytes[ATTRIBUTES..]);
    bytes[CRC..CRC + 4].copy_from_slice(&crc.to_be_bytes());
    let (seen, _) = read(bytes.freeze(), &[], 0).unwrap();
    assert!(seen.iter().all(|(_, r)| r.timestamp == Timestamp(77)));
}

#[test]
fn every_way_of_packing_is_read() {
    let plain = RecordBatchDecoder::decode(&mut batch(0, 1, 0..200).freeze()).unwrap();
    for compression in [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        let options = RecordEncodeOptions {
            version: 2,
            compression,
        };
        let mut bytes = BytesMut::new();
        let records: Vec<&Record> = plain.records.iter().collect();
        RecordBatchEncoder::encode(&mut bytes, records, &options).unwrap();
        let (seen, position) = read(bytes.freeze(), &[], 0).unwrap();
        assert_eq!(position, 200, "{compression:?}");
        for ((n, record), (offset, seen)) in (0_u8..).map(|n| (n, outgoing(n))).zip(&seen) {
            assert_eq!(*offset, i64::from(n));
            assert_eq!((&record.key, &record.value), (&seen.key, &seen.value));
            assert_eq!(record.timestamp, seen.timestamp);
        }
        assert_eq!(seen.len(), 200);
    }
}

#[test]
fn formats_of_long_ago_are_named() {
    let mut bytes = batch(0, 1, 0..3);
    bytes[MAGIC] = 1;
    assert_eq!(read(bytes.freeze(), &[], 0), Err(UnreadableBatch::Old(1)));
}

#[test]
fn formats_that_no_broker_sends_are_damage() {
    let mut bytes = batch(0, 1, 0..3);
    bytes[MAGIC] = 3;
    let read = read(bytes.freeze(), &[], 0);
    assert!(matches!(read, Err(UnreadableBatch::Corrupt(_))), "{read:?}");
}

/// The head decides whether a batch is skipped, so it is not trusted before the checksum is verified.
#[test]
fn a_damaged_head_passes_over_no_records() {
    for (at, bit) in (ATTRIBUTES..HEAD).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut bytes = batch(0, 1, 0..30);
        bytes[at] ^= 1 << bit;
        let outcome = read(bytes.freeze(), &[], 7);
        assert!(outcome.is_err(), "byte {at}, bit {bit}: {outcome:?}");
    }
}

proptest! {
    /// Any input gives an error or records, never a panic or an endless loop. A flipped bit is found.
    #[test]
    fn damage_is_found(at in 0_usize..10_000, bit in 0_u8..8) {
        let mut bytes = batch(0, 1, 0..30);
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        let outcome = read(bytes.freeze(), &[], 0);
        // The CRC doesn't cover the offset and the leader epoch, which the broker sets. A length that is
        // too large looks like a truncated batch. The format is checked first.
        let (free, length) = (at < 8 || (12..16).contains(&at), (8..12).contains(&at));
        prop_assert!(free || length || outcome.is_err(), "byte {at}: {outcome:?}");
        if let Ok((seen, _)) = outcome {
            prop_assert!(seen.is_empty() || free);
        }
    }

    #[test]
    fn rubbish_is_no_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), count in any::<bool>()) {
        if bytes.len() > 70 {
            bytes[MAGIC] = 2;
            let size = u32::try_from(bytes.len()).unwrap() - 12;
            bytes[8..12].copy_from_slice(&size.to_be_bytes());
            bytes[ATTRIBUTES] = 0;
            bytes[ATTRIBUTES + 1] &= 7;
            if count { bytes[57..61].copy_from_slice(&3_i32.to_be_bytes()); }
            let crc = crc32c::crc32c(&bytes[ATTRIBUTES..]);
            bytes[CRC..CRC + 4].copy_from_slice(&crc.to_be_bytes());
        }
        let _either = read(bytes.into(), &[], 0);
    }
}
