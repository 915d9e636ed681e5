//! Many records in one RocksDB value.
//!
//! Takes records of one partition in order, returns one run of bytes, and back: the reader's records are
//! slices of that run. RocksDB has a cost per key; a chunk pays it once for hundreds of records. Chunks
//! are small, so that a record that is kept alive keeps little else alive. Never knows its own offsets:
//! they are in the key, and are assigned only at commit.

use super::errors::corrupt;
use crate::ProducerRecord;
use bytes::Bytes;
use std::sync::Arc;
use stoatflow_core::{Header, Headers, Result, Timestamp};

/// A chunk of this size is closed.
pub(super) const MAX_CHUNK_BYTES: usize = 64 * 1024;

const KEY: u8 = 1;
const VALUE: u8 = 2;
const HEADERS: u8 = 4;
const NULL: u32 = u32::MAX;

/// The largest record, so that lengths fit into 32 bits.
pub(super) const MAX_RECORD: usize = 256 * 1024 * 1024;

/// A chunk being written.
#[derive(Debug)]
pub(super) struct ChunkWriter {
    bytes: Vec<u8>,
    count: u32,
}

impl ChunkWriter {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; 4],
            count: 0,
        }
    }

    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= MAX_CHUNK_BYTES
    }

    /// Adds a record that is no larger than [`MAX_RECORD`].
    pub(super) fn push(&mut self, record: &ProducerRecord) {
        let out = &mut self.bytes;
        let mut flags = 0;
        flags |= if record.key.is_some() { KEY } else { 0 };
        flags |= if record.value.is_some() { VALUE } else { 0 };
        flags |= if record.headers.is_some() { HEADERS } else { 0 };
        out.push(flags);
        out.extend_from_slice(&record.timestamp.0.to_le_bytes());
        for part in [&record.key, &record.value].into_iter().flatten() {
            put(out, part);
        }
        if let Some(headers) = &record.headers {
            out.extend_from_slice(&length(headers.len()).to_le_bytes());
            for header in headers.iter() {
                put(out, header.name.as_bytes());
                match &header.value {
                    Some(value) => put(out, value),
                    None => out.extend_from_slice(&NULL.to_le_bytes()),
                }
            }
        }
        self.count += 1;
        out[..4].copy_from_slice(&self.count.to_le_bytes());
    }

    /// The finished chunk.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// How many bytes the key, the value and the headers of a record take.
pub(super) fn weight(record: &ProducerRecord) -> usize {
    let len = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
    let headers = record
        .headers
        .iter()
        .flat_map(|h| h.iter())
        .map(|h| h.name.len() + len(&h.value))
        .sum::<usize>();
    len(&record.key) + len(&record.value) + headers
}

#[allow(clippy::cast_possible_truncation)] // MAX_RECORD bounds every part
const fn length(n: usize) -> u32 {
    n as u32
}

fn put(out: &mut Vec<u8>, part: &[u8]) {
    out.extend_from_slice(&length(part.len()).to_le_bytes());
    out.extend_from_slice(part);
}

/// How many records a chunk holds.
pub(super) fn count_of(bytes: &[u8]) -> Result<u32> {
    let head = bytes
        .get(..4)
        .ok_or_else(|| corrupt("a chunk has no head"))?;
    Ok(u32::from_le_bytes(
        head.try_into().expect("four bytes were taken"),
    ))
}

/// A record read from a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChunkRecord {
    pub timestamp: Timestamp,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Headers,
}

/// A chunk being read.
#[derive(Debug)]
pub(super) struct ChunkReader {
    bytes: Bytes,
    at: usize,
    left: u32,
}

impl ChunkReader {
    pub(super) fn new(bytes: Bytes) -> Result<Self> {
        let left = count_of(&bytes)?;
        Ok(Self { bytes, at: 4, left })
    }

    pub(super) const fn left(&self) -> u32 {
        self.left
    }

    /// Skips records without returning them.
    pub(super) fn skip(&mut self, n: u32) -> Result<()> {
        for _ in 0..n {
            self.next()?;
        }
        Ok(())
    }

    /// The next record, `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<ChunkRecord>> {
        if self.left == 0 {
            return Ok(None);
        }
        let flags = self.raw(1)?[0];
        let timestamp = Timestamp(i64::from_le_bytes(
            self.raw(8)?.try_into().expect("raw gives what was asked"),
        ));
        let key = if flags & KEY != 0 { self.part()? } else { None };
        let value = if flags & VALUE != 0 {
            self.part()?
        } else {
            None
        };
        let headers = if flags & HEADERS != 0 {
            Some(self.headers()?)
        } else {
            None
        };
        self.left -= 1;
        Ok(Some(ChunkRecord {
            timestamp,
            key,
            value,
            headers,
        }))
    }

    fn headers(&mut self) -> Result<Arc<[Header]>> {
        let n = self.number()?;
        let mut headers = Vec::new();
        for _ in 0..n {
            let name = self
                .part()?
                .ok_or_else(|| corrupt("a header has no name"))?;
            let name = std::str::from_utf8(&name)
                .map_err(|_| corrupt("a header name is not UTF-8"))?
                .into();
            headers.push(Header {
                name,
                value: self.part()?,
            });
        }
        Ok(headers.into())
    }

    fn part(&mut self) -> Result<Option<Bytes>> {
        let n = self.number()?;
        if n == NULL {
            return Ok(None);
        }
        let start = self.at;
        self.raw(n as usize)?;
        Ok(Some(self.bytes.slice(start..self.at)))
    }

    fn number(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(
            self.raw(4)?.try_into().expect("raw gives what was asked"),
        ))
    }

    fn raw(&mut self, n: usize) -> Result<&[u8]> {
        let end = self
            .at
            .checked_add(n)
            .filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| corrupt("a chunk is cut short"))?;
        let part = &self.bytes[self.at..end];
        self.at = end;
        Ok(part)
    }
}
