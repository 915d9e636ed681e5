//! Damaged batches in answers of brokers: they give an error, never a panic, and their length fields
//! cause no large allocations.
//!
//! The fields around the batches are decoded by the crate kafka-protocol, which allocates a list with
//! the length in the message, before it is read: an answer with a false length can end the process. A
//! peer that is no broker can't send one, because its answers don't have the request's correlation id.

use crate::ProducerRecord;
use crate::kafka::native::consumer::fetch::{FetchOutcome, said};
use crate::kafka::native::records::batch_reader::{Aborted, Records, Unmarked, UnreadableBatch};
use crate::kafka::native::records::batch_writer::{
    ATTRIBUTES, BatchWriter, CRC, HEAD, Identity, LENGTH, TRANSACTIONAL,
};
use crate::kafka::native::records::compression::{Codec, Compression};
use bytes::Bytes;
use kafka_protocol::messages::ProducerId;
use kafka_protocol::messages::fetch_response::{AbortedTransaction, PartitionData};
use stoatflow_core::{Header, Timestamp};
use stoatflow_fuzz::FuzzTarget;

const CODECS: [Codec; 5] = [
    Codec::None,
    Codec::Gzip,
    Codec::Snappy,
    Codec::Lz4,
    Codec::Zstd,
];

fn batch(codec: Codec, count: u8) -> Vec<u8> {
    let compression = Compression { codec, level: None };
    let mut batch = BatchWriter::new(Vec::new(), compression);
    for n in 0..count {
        batch.append(&ProducerRecord {
            topic: "t".into(),
            partition: None,
            key: (n % 3 > 0).then(|| vec![n; 9].into()),
            value: (n % 5 > 0).then(|| vec![b'v'; 30 + usize::from(n)].into()),
            timestamp: Timestamp(1_700_000_000_000 + i64::from(n)),
            headers: (n % 4 == 0).then(|| {
                let value = (n % 8 == 0).then(|| Bytes::from_static(b"value"));
                [Header {
                    name: "name".into(),
                    value,
                }]
                .into()
            }),
        });
    }
    batch.seal(Identity { id: 7, epoch: 1 }, TRANSACTIONAL, 0);
    batch.bytes().to_vec()
}

fn batches() -> Vec<Vec<u8>> {
    let each = CODECS.into_iter().map(|codec| batch(codec, 12));
    let several = CODECS
        .into_iter()
        .flat_map(|codec| batch(codec, 3))
        .collect();
    each.chain([several]).collect()
}

/// Sets the checksum of each batch to that of its present content.
fn check(bytes: &mut [u8]) {
    let mut rest = bytes;
    while rest.len() >= HEAD {
        let length: [u8; 4] = rest[LENGTH..LENGTH + 4].try_into().unwrap();
        let size = usize::try_from(i32::from_be_bytes(length)).unwrap_or(0) + LENGTH + 4;
        if !(HEAD..=rest.len()).contains(&size) {
            return;
        }
        let sum = crc32c::crc32c(&rest[ATTRIBUTES..size]);
        rest[CRC..CRC + 4].copy_from_slice(&sum.to_be_bytes());
        rest = &mut rest[size..];
    }
}

fn read(bytes: Bytes, aborted: Vec<Aborted>) -> Result<usize, UnreadableBatch> {
    let mut count = 0;
    let (mut position, mut unmarked) = (0, Unmarked::default());
    let Some(mut records) = Records::new(bytes, aborted, -1)? else {
        return Ok(0);
    };
    while records.seek(&mut position, &mut unmarked)? {
        records.take(&mut position, &mut unmarked, |record| {
            count += 1 + record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
            record.headers().map(drop)
        })?;
    }
    Ok(count)
}

#[test]
fn record_batches() {
    let target = FuzzTarget::new("record batches", batches());
    let target = target.repaired(|bytes| check(bytes)).at_most(8 << 20);
    target.run(|input| {
        let aborted = Aborted {
            producer: 7,
            first: 5,
        };
        let bytes = Bytes::copy_from_slice(input);
        for aborted in [Vec::new(), vec![aborted]] {
            drop(read(bytes.clone(), aborted));
        }
    });
}

#[test]
fn fetch_answers() {
    let valid = batches();
    let target = FuzzTarget::new("batches in answers", valid).repaired(|bytes| check(bytes));
    target.at_most(8 << 20).run(|input| {
        let aborted = AbortedTransaction::default()
            .with_producer_id(ProducerId(7))
            .with_first_offset(3);
        let data = PartitionData::default()
            .with_last_stable_offset(9)
            .with_aborted_transactions(Some(vec![aborted]))
            .with_records(Some(Bytes::copy_from_slice(input)));
        if let FetchOutcome::Came {
            records, aborted, ..
        } = said(data)
        {
            drop(read(records, aborted));
        }
    });
}
