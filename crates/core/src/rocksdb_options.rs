//! Options of RocksDB that users may choose for a store.
//!
//! [`RocksDbConfig`] is what a topology sets for one store, [`RocksDbOptions`] what is in force for it.
//! The memory of all stores together is limited by the setting `state.memory.max.bytes`.

use ::serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Allowed sizes of a block, in bytes.
pub const BLOCK_SIZES: RangeInclusive<u64> = 1 << 10..=1 << 20;
/// Allowed bits per key of a Bloom filter.
pub const BLOOM_BITS: RangeInclusive<u64> = 0..=32;
/// Allowed sizes of a store's own block cache, in bytes.
pub const CACHE_SIZES: RangeInclusive<u64> = 1 << 20..=1 << 40;

/// How blocks of rows are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockCompression {
    /// Not at all.
    None,
    /// Fast.
    #[default]
    Lz4,
    /// Smaller, but slower.
    Zstd,
}

/// When files are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionStyle {
    /// Often: a read looks into few files, and old rows soon free their space.
    #[default]
    Level,
    /// Rarely: fewer bytes are written, but reads and disk usage cost more.
    Universal,
}

/// Options that a topology sets for a store. For those it doesn't set, the settings `rocksdb.*` apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RocksDbConfig {
    /// See [`RocksDbOptions::compression`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<BlockCompression>,
    /// See [`RocksDbOptions::block_size`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u64>,
    /// See [`RocksDbOptions::bloom_bits`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bloom_bits: Option<u32>,
    /// See [`RocksDbOptions::compaction`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<CompactionStyle>,
    /// See [`RocksDbOptions::cache_size`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_size: Option<u64>,
}

/// Options in force for a store. All of them may change between two runs: each file is read with the
/// options it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RocksDbOptions {
    /// How its blocks are compressed.
    pub compression: BlockCompression,
    /// About how many bytes of rows are read, cached and compressed together.
    pub block_size: u64,
    /// Bits per key of the Bloom filter; 0: no filter.
    pub bloom_bits: u32,
    /// When its files are merged.
    pub compaction: CompactionStyle,
    /// Bytes of its own block cache; `None`: it shares the cache of all stores.
    pub cache_size: Option<u64>,
}

impl Default for RocksDbOptions {
    fn default() -> Self {
        Self {
            compression: BlockCompression::default(),
            block_size: 4 << 10,
            bloom_bits: 10,
            compaction: CompactionStyle::default(),
            cache_size: None,
        }
    }
}

impl BlockCompression {
    /// Parses the word of a setting.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "none" => Some(Self::None),
            "lz4" => Some(Self::Lz4),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }
}

impl CompactionStyle {
    /// Parses the word of a setting.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "level" => Some(Self::Level),
            "universal" => Some(Self::Universal),
            _ => None,
        }
    }
}

impl RocksDbConfig {
    /// The same options for a second store beside this one: without the cache, which belongs to one
    /// store.
    #[must_use]
    pub const fn without_cache(self) -> Self {
        Self {
            cache_size: None,
            ..self
        }
    }

    /// A wrong option, if there is one, and what to write instead.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let numbers = [
            ("block_size", self.block_size, BLOCK_SIZES),
            ("bloom_bits", self.bloom_bits.map(u64::from), BLOOM_BITS),
            ("cache_size", self.cache_size, CACHE_SIZES),
        ];
        let wrong = numbers
            .into_iter()
            .find(|(_, given, range)| given.is_some_and(|given| !range.contains(&given)));
        let (name, given, range) = wrong?;
        Some(format!(
            "RocksDBConfig({name}={}) must be between {} and {}",
            given?,
            range.start(),
            range.end()
        ))
    }
}

impl RocksDbOptions {
    /// These options, overridden by those of one store.
    #[must_use]
    pub fn with(self, said: &RocksDbConfig) -> Self {
        Self {
            compression: said.compression.unwrap_or(self.compression),
            block_size: said.block_size.unwrap_or(self.block_size),
            bloom_bits: said.bloom_bits.unwrap_or(self.bloom_bits),
            compaction: said.compaction.unwrap_or(self.compaction),
            cache_size: said.cache_size.or(self.cache_size),
        }
    }
}

#[cfg(test)]
mod tests;
