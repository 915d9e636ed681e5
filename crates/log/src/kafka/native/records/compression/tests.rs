//! Every codec can be read back, and saves space.

use super::{Codec, Compression};
use crate::ProducerRecord;
use crate::kafka::native::records::batch_reader::{Record, Records, Unmarked};
use crate::kafka::native::records::batch_writer::{BatchWriter, Identity};
use bytes::Bytes;
use stoatflow_core::Timestamp;

const ALL: [Codec; 5] = [
    Codec::None,
    Codec::Gzip,
    Codec::Snappy,
    Codec::Lz4,
    Codec::Zstd,
];

fn record(n: i64) -> ProducerRecord {
    ProducerRecord {
        topic: "t".into(),
        partition: None,
        key: Some(Bytes::from(format!("key-{n}"))),
        value: Some(Bytes::from("value ".repeat(200))),
        timestamp: Timestamp(n),
        headers: None,
    }
}

fn batch(compression: Compression) -> BatchWriter {
    let mut batch = BatchWriter::new(Vec::new(), compression);
    for n in 0..100 {
        batch.append(&record(n));
    }
    batch.seal(Identity { id: 7, epoch: 1 }, 0, 0);
    batch
}

fn keys(batch: &BatchWriter) -> Vec<String> {
    let bytes = Bytes::copy_from_slice(batch.bytes());
    let mut records = Records::new(bytes, Vec::new(), -1)
        .unwrap()
        .expect("a whole batch");
    let (mut keys, mut position) = (Vec::new(), 0);
    let mut note = |record: Record<'_>| {
        keys.push(String::from_utf8(record.key.unwrap().to_vec()).unwrap());
        Ok(())
    };
    while records
        .take(&mut position, &mut Unmarked::default(), &mut note)
        .unwrap()
    {}
    keys
}

#[test]
fn every_codec_is_read_back() {
    let plain = batch(Compression::default());
    for codec in ALL {
        let (least, most) = codec.levels();
        for level in [None, Some(least), Some(most)] {
            let packed = batch(Compression { codec, level });
            assert_eq!(keys(&packed), keys(&plain), "{codec:?} {level:?}");
            if codec != Codec::None && level.is_none() {
                assert!(
                    packed.bytes().len() * 4 < plain.bytes().len(),
                    "{codec:?} {level:?}"
                );
            }
        }
    }
}

#[test]
fn incompressible_data_stays_uncompressed() {
    let mut batch = BatchWriter::new(
        Vec::new(),
        Compression {
            codec: Codec::Gzip,
            level: None,
        },
    );
    batch.append(&ProducerRecord {
        value: Some(Bytes::from_static(b"x")),
        ..record(1)
    });
    let size = batch.size();
    batch.seal(Identity { id: 7, epoch: 1 }, 0, 0);
    assert_eq!(batch.bytes().len(), size);
    assert_eq!(keys(&batch), ["key-1"]);
}

#[test]
fn a_compressed_batch_is_divided() {
    for codec in ALL {
        let whole = batch(Compression { codec, level: None });
        let halves = whole.halves().unwrap();
        let both: Vec<_> = halves.iter().flat_map(keys).collect();
        assert_eq!(both, keys(&whole), "{codec:?}");
    }
}
