//! Damaged rows of the embedded log: they give an error, never a panic, and their length fields cause no
//! large allocations.

use super::chunk::{ChunkReader, ChunkWriter, count_of};
use super::codec::{TopicRow, decode_committed, encode_committed};
use crate::ProducerRecord;
use bytes::Bytes;
use stoatflow_core::{Header, Offset, Timestamp};
use stoatflow_fuzz::FuzzTarget;

#[test]
fn chunks() {
    let mut writer = ChunkWriter::new();
    for n in 0..9_u8 {
        writer.push(&ProducerRecord {
            topic: "t".into(),
            partition: None,
            key: (n % 3 > 0).then(|| vec![n; 7].into()),
            value: (n % 4 > 0).then(|| vec![n; 40].into()),
            timestamp: Timestamp(i64::from(n)),
            headers: (n % 2 == 0).then(|| {
                let value = (n % 4 == 0).then(|| Bytes::from_static(b"value"));
                [Header {
                    name: "name".into(),
                    value,
                }]
                .into()
            }),
        });
    }
    FuzzTarget::new("chunks", vec![writer.bytes().to_vec()]).run(|input| {
        let _count = count_of(input);
        for skipped in [0, 3] {
            let Ok(mut reader) = ChunkReader::new(Bytes::copy_from_slice(input)) else {
                return;
            };
            if reader.skip(skipped).is_ok() {
                while let Ok(Some(_)) = reader.next() {}
            }
        }
    });
}

#[test]
fn rows() {
    let row = TopicRow {
        id: 7,
        partitions: 3,
        config: vec![("cleanup.policy".into(), "compact".into())],
    };
    let valid = vec![row.encode(), encode_committed(Offset(12), "st=5;wm=3")];
    FuzzTarget::new("rows", valid).run(|input| {
        drop(TopicRow::decode(input));
        drop(decode_committed(input));
    });
}
