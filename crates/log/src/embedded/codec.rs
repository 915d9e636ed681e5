//! The encoding of everything that is not a record: topics and committed positions.
//!
//! Takes values, returns bytes, and back. Never decides where they are stored.

use super::errors::corrupt;
use crate::Committed;
use stoatflow_core::{Offset, Result};

/// The stored row of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopicRow {
    /// Its number, used in keys.
    pub id: u32,
    /// How many partitions.
    pub partitions: u32,
    /// Its settings, kept for queries; the embedded log never deletes or compacts.
    pub config: Vec<(String, String)>,
}

/// Reads numbers and strings from the front of a slice.
struct SliceReader<'a>(&'a [u8]);

impl<'a> SliceReader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (head, rest) = self
            .0
            .split_at_checked(n)
            .ok_or_else(|| corrupt("a row is cut short"))?;
        self.0 = rest;
        Ok(head)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(
            self.take(4)?.try_into().expect("take gives what was asked"),
        ))
    }

    fn text(&mut self) -> Result<String> {
        let n = self.u32()? as usize;
        String::from_utf8(self.take(n)?.to_vec()).map_err(|_| corrupt("a name is not UTF-8"))
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    #[allow(clippy::cast_possible_truncation)] // names and settings, never 4 GiB
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

impl TopicRow {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&self.partitions.to_le_bytes());
        #[allow(clippy::cast_possible_truncation)]
        out.extend_from_slice(&(self.config.len() as u32).to_le_bytes());
        for (name, value) in &self.config {
            put_text(&mut out, name);
            put_text(&mut out, value);
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut front = SliceReader(bytes);
        let (id, partitions, settings) = (front.u32()?, front.u32()?, front.u32()?);
        let mut config = Vec::new();
        for _ in 0..settings {
            config.push((front.text()?, front.text()?));
        }
        Ok(Self {
            id,
            partitions,
            config,
        })
    }
}

/// Encodes a committed position.
pub(super) fn encode_committed(offset: Offset, metadata: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + metadata.len());
    out.extend_from_slice(&offset.0.to_le_bytes());
    out.extend_from_slice(metadata.as_bytes());
    out
}

/// Decodes a committed position.
pub(super) fn decode_committed(bytes: &[u8]) -> Result<Committed> {
    let mut front = SliceReader(bytes);
    let offset = i64::from_le_bytes(
        front
            .take(8)?
            .try_into()
            .expect("take gives what was asked"),
    );
    let metadata =
        String::from_utf8(front.0.to_vec()).map_err(|_| corrupt("offset metadata is not UTF-8"))?;
    Ok(Committed {
        offset: Offset(offset),
        metadata,
    })
}
