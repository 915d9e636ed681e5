//! Compression of produced batches (`compression.type`, `compression.level`).
//!
//! Takes the records of a batch, returns the bytes that replace them. Consumed batches are decompressed
//! by the crate kafka-protocol.

use flate2::write::GzEncoder;
use kafka_protocol::compression::{Compressor, Snappy};
use lz4::{BlockMode, ContentChecksum, EncoderBuilder};
use std::io::{self, Write};

#[cfg(test)]
mod tests;

/// The algorithm, with its number in the attributes of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::kafka) enum Codec {
    #[default]
    None = 0,
    Gzip = 1,
    Snappy = 2,
    Lz4 = 3,
    Zstd = 4,
}

impl Codec {
    /// Parses a value of `compression.type`.
    pub(in crate::kafka) fn read(name: &str) -> Option<Self> {
        Some(match name {
            "none" => Self::None,
            "gzip" => Self::Gzip,
            "snappy" => Self::Snappy,
            "lz4" => Self::Lz4,
            "zstd" => Self::Zstd,
            _ => return None,
        })
    }

    /// The lowest and the highest level.
    pub(in crate::kafka) const fn levels(self) -> (i32, i32) {
        match self {
            Self::None | Self::Snappy => (0, 0),
            Self::Gzip => (1, 9),
            Self::Lz4 => (1, 17),
            Self::Zstd => (-131_072, 22),
        }
    }
}

/// An algorithm with its level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::kafka) struct Compression {
    pub codec: Codec,
    /// `None` is the algorithm's own default.
    pub level: Option<i32>,
}

impl Compression {
    /// Appends the compressed records to `into`. False if the codec is `None`.
    pub(super) fn compress(self, records: &[u8], into: &mut Vec<u8>) -> io::Result<bool> {
        match self.codec {
            Codec::None => return Ok(false),
            Codec::Gzip => {
                let level = self.level.and_then(|level| u32::try_from(level).ok());
                let level =
                    level.map_or_else(flate2::Compression::default, flate2::Compression::new);
                let mut encoder = GzEncoder::new(into, level);
                encoder.write_all(records)?;
                encoder.finish()?;
            }
            Codec::Snappy => {
                let mut packed = bytes::BytesMut::new();
                Snappy::compress(&mut packed, |plain: &mut bytes::BytesMut| {
                    plain.extend_from_slice(records);
                    Ok(())
                })
                .map_err(io::Error::other)?;
                into.extend_from_slice(&packed);
            }
            Codec::Lz4 => {
                // Java reads only frames of independent blocks.
                let mut builder = EncoderBuilder::new();
                builder
                    .block_mode(BlockMode::Independent)
                    .checksum(ContentChecksum::NoChecksum);
                if let Some(level) = self.level.and_then(|level| u32::try_from(level).ok()) {
                    builder.level(level);
                }
                let mut encoder = builder.build(into)?;
                encoder.write_all(records)?;
                encoder.finish().1?;
            }
            Codec::Zstd => {
                let level = self.level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
                zstd::stream::copy_encode(records, into, level)?;
            }
        }
        Ok(true)
    }
}
