//! How RocksDB keeps a store: what users may choose.
//!
//! [`RocksDbConfig`] is what a topology says of one store, [`RocksDbOptions`] what holds for it. What all
//! stores together may take of the memory is the setting `state.memory.max.bytes`.

use ::serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Bytes of a block.
pub const BLOCK_SIZES: RangeInclusive<u64> = 1 << 10..=1 << 20;
/// Bits of a Bloom filter for each key.
pub const BLOOM_BITS: RangeInclusive<u64> = 0..=32;
/// Bytes of a store's own block cache.
pub const CACHE_SIZES: RangeInclusive<u64> = 1 << 20..=1 << 40;

/// How blocks of rows are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockCompression {
    /// Not at all.
    None,
    /// Quickly.
    #[default]
    Lz4,
    /// Into less space, with more work.
    Zstd,
}

/// When files are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionStyle {
    /// Often: a read looks into few files, and old rows soon free their space.
    #[default]
    Level,
    /// Seldom: less is written, more is read and kept.
    Universal,
}

/// What a topology says of a store. What is left out is as the settings `rocksdb.*` say.
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

/// How a store is kept. All of it may change between two runs: files are read by what they were written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RocksDbOptions {
    /// Of its blocks.
    pub compression: BlockCompression,
    /// About how many bytes of rows are read, cached and compressed together.
    pub block_size: u64,
    /// How many bits of a Bloom filter a key has; 0: no filter.
    pub bloom_bits: u32,
    /// When its files are merged.
    pub compaction: CompactionStyle,
    /// Bytes of a block cache of its own; `None`: it shares that of all stores.
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
    /// By the word of a setting.
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
    /// By the word of a setting.
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
    /// What it says of a store that is kept beside this one: all but the cache, which is of one store.
    #[must_use]
    pub const fn without_cache(self) -> Self {
        Self {
            cache_size: None,
            ..self
        }
    }

    /// What is wrong with it, and what to write instead.
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
    /// These options, and what is said of one store.
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
