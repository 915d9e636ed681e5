use super::{BatchWriter, Identity, TRANSACTIONAL, after};
use crate::ProducerRecord;
use crate::kafka::native::records::compression::Compression;
use bytes::Bytes;
use kafka_protocol::records::RecordBatchDecoder;
use proptest::prelude::*;
use stoatflow_core::{Header, Timestamp};

fn bytes() -> impl Strategy<Value = Option<Bytes>> {
    proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from))
}

/// Distinct names: the reference reader keeps headers in a map.
fn headers() -> impl Strategy<Value = Vec<Header>> {
    proptest::collection::btree_map("[a-z]{0,9}", bytes(), 0..4).prop_map(|headers| {
        let header = |(name, value): (String, _)| Header {
            name: name.into(),
            value,
        };
        headers.into_iter().map(header).collect()
    })
}

fn records() -> impl Strategy<Value = Vec<ProducerRecord>> {
    // Any two times must lie less than half of the range apart.
    let time = -(1_i64 << 61)..(1_i64 << 61);
    let record =
        (bytes(), bytes(), time, headers()).prop_map(|(key, value, at, headers)| ProducerRecord {
            topic: "t".into(),
            partition: None,
            key,
            value,
            timestamp: Timestamp(at),
            headers: (!headers.is_empty()).then(|| headers.into()),
        });
    proptest::collection::vec(record, 1..150)
}

proptest! {
    /// The decoder of kafka-protocol, which checks the CRC, reads what was written.
    #[test]
    fn another_reader_finds_the_same(records in records(), transactional in any::<bool>(), id in 0_i64.., epoch in 0_i16.., sequence in 0_i32..1_000_000) {
        let mut batch = BatchWriter::new(vec![7; 300], Compression::default());
        let mut sizes = vec![batch.size()];
        for record in &records {
            batch.append(record);
            sizes.push(batch.size());
        }
        prop_assert!(sizes.is_sorted_by(|a, b| a < b));
        prop_assert!(!batch.is_sealed());
        batch.seal(Identity { id, epoch }, if transactional { TRANSACTIONAL } else { 0 }, sequence);
        prop_assert!(batch.is_sealed());
        prop_assert_eq!(batch.count(), i32::try_from(records.len()).unwrap());
        let read = RecordBatchDecoder::decode(&mut Bytes::copy_from_slice(batch.bytes())).unwrap();
        prop_assert_eq!(read.version, 2);
        prop_assert_eq!(read.records.len(), records.len());
        for ((n, record), read) in (0..).zip(&records).zip(&read.records) {
            prop_assert!(read.transactional == transactional && !read.control);
            prop_assert_eq!((read.producer_id, read.producer_epoch), (id, epoch));
            prop_assert_eq!((read.offset, read.sequence), (n, sequence + i32::try_from(n).unwrap()));
            prop_assert_eq!(read.timestamp, record.timestamp.0);
            prop_assert_eq!((&read.key, &read.value), (&record.key, &record.value));
            let headers: Vec<_> = (read.headers.iter())
                .map(|(name, value)| Header { name: name.to_string().into(), value: value.clone() })
                .collect();
            prop_assert_eq!(headers, record.headers.as_deref().unwrap_or_default());
        }
    }
}

fn sealed(records: &[ProducerRecord], attributes: i16, sequence: i32) -> BatchWriter {
    let mut batch = BatchWriter::new(Vec::new(), Compression::default());
    for record in records {
        batch.append(record);
    }
    batch.seal(Identity { id: 8, epoch: 3 }, attributes, sequence);
    batch
}

proptest! {
    /// The halves of a batch that was too large equal two batches written separately.
    #[test]
    fn halves_are_what_half_of_the_records_make(records in records(), of in prop_oneof![Just(0), Just(TRANSACTIONAL)], sequence in any::<i32>().prop_map(|n| n & i32::MAX)) {
        let middle = records.len() / 2;
        let halves = sealed(&records, of, sequence).halves();
        prop_assert_eq!(halves.is_some(), middle > 0);
        if let Some([left, right]) = halves {
            let behind = after(sequence, i32::try_from(middle).unwrap());
            let wanted = [sealed(&records[..middle], of, sequence), sealed(&records[middle..], of, behind)];
            prop_assert_eq!(left.bytes(), wanted[0].bytes());
            prop_assert_eq!(right.bytes(), wanted[1].bytes());
        }
    }
}

#[test]
fn the_head_says_first_and_latest_time() {
    let mut batch = BatchWriter::new(Vec::new(), Compression::default());
    for at in [5, 9, 2] {
        batch.append(&ProducerRecord {
            topic: "t".into(),
            partition: None,
            key: None,
            value: None,
            timestamp: Timestamp(at),
            headers: None,
        });
    }
    batch.seal(Identity { id: 1, epoch: 0 }, TRANSACTIONAL, 0);
    let at = |place: usize| i64::from_be_bytes(batch.bytes()[place..place + 8].try_into().unwrap());
    assert_eq!((at(super::FIRST_TIME), at(super::LATEST_TIME)), (5, 9));
}
