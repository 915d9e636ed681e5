//! Serializes a held update in the format that Kafka Streams (since 2.5) writes to the changelog of a
//! suppress.
//!
//! Encodes and decodes an update with its buffer time. In order, numbers big-endian: the record's
//! context (timestamp 8, offset 8, topic with length 4, partition 4, number of headers 4 or -1, each
//! name and value with length 4 or -1), then the value before the first update, the one before the last
//! and the new one (each with length 4; -1 is null, and -2 for the second means that it equals the
//! first), then the buffer time (8). The changelog's key is the table's key.

#[cfg(test)]
mod tests;

use super::buffer::Waiting;
use crate::ops::tables::table_update;
use crate::support::node_context::NodeContext;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use stoatflow_core::{
    Datum, Error, Header, Headers, Offset, Origin, Partition, Record, Result, Serde, Timestamp,
};

const NULL: i32 = -1;
const SAME: i32 = -2;

/// See the module.
#[derive(Debug)]
pub struct Codec {
    value: Serde,
    node_context: NodeContext,
}

impl Codec {
    pub fn new(value: Serde, node_context: NodeContext) -> Self {
        Self {
            value,
            node_context,
        }
    }

    pub fn encode(&self, waiting: &Waiting) -> Result<Bytes> {
        let record = &waiting.record;
        let mut out = BytesMut::with_capacity(128);
        out.put_i64(record.timestamp.0);
        out.put_i64(record.origin.offset.0);
        let topic = self
            .node_context
            .topic_of(&record.origin)
            .unwrap_or_default();
        put(&mut out, Some(topic.as_bytes()));
        out.put_i32(record.origin.partition.0);
        put_headers(&mut out, &record.headers);
        let prior = self.bytes(&waiting.prior, record)?;
        let old = self.bytes(table_update::old(&record.value), record)?;
        put(&mut out, prior.as_deref());
        if old.is_some() && old == prior {
            out.put_i32(SAME);
        } else {
            put(&mut out, old.as_deref());
        }
        let new = self.bytes(table_update::new(&record.value), record)?;
        put(&mut out, new.as_deref());
        out.put_i64(waiting.time);
        Ok(out.freeze())
    }

    pub fn decode(&self, key: Datum, stored: &Datum) -> Result<(i64, Waiting)> {
        let Datum::Bytes(bytes) = stored else {
            return Err(self.corrupt());
        };
        let mut read = Reader(bytes.clone());
        self.read(key, &mut read).ok_or_else(|| self.corrupt())?
    }

    fn read(&self, key: Datum, read: &mut Reader) -> Option<Result<(i64, Waiting)>> {
        let timestamp = Timestamp(read.i64()?);
        let offset = Offset(read.i64()?);
        let topic = read.bytes()??;
        let partition = Partition(read.i32()?);
        let headers = read.headers()?;
        let prior = read.bytes()?;
        let old = match read.i32()? {
            SAME => prior.clone(),
            NULL => None,
            length => Some(read.take(length)?),
        };
        let new = read.bytes()?;
        let time = read.i64()?;
        let (source, topic) = self.node_context.find_topic(&topic).unwrap_or_default();
        let decode = |bytes| {
            self.value
                .decode(bytes)
                .map_err(|e| self.node_context.name_node(e))
        };
        let made = || {
            let record = Record {
                key,
                value: Datum::change(decode(old)?, decode(new)?, true),
                timestamp,
                headers,
                origin: Origin {
                    source,
                    topic,
                    partition,
                    offset,
                    ..Origin::default()
                },
            };
            Ok((time, Waiting::new(time, record, decode(prior)?)))
        };
        Some(made())
    }

    /// Approximate size of an update in bytes, counted as Kafka Streams does.
    pub fn size(&self, key: &Bytes, record: &Record, first: Option<&Waiting>) -> Result<usize> {
        let length = |value: &Datum| -> Result<usize> {
            Ok(self.bytes(value, record)?.map_or(0, |bytes| bytes.len()))
        };
        let old = table_update::old(&record.value);
        let prior = first.map_or(old, |first| &first.prior);
        // If both are equal, Kafka Streams holds them as one object.
        let before = match first {
            Some(_) if self.bytes(old, record)? != self.bytes(prior, record)? => length(old)?,
            _ => 0,
        };
        let topic = self
            .node_context
            .topic_of(&record.origin)
            .unwrap_or_default();
        let headers = record.headers.iter().flat_map(|all| all.iter());
        let headers: usize = headers
            .map(|h| h.name.len() + h.value.as_ref().map_or(0, Bytes::len))
            .sum();
        let context = 8 + 8 + 4 + topic.len() + headers;
        let new = length(table_update::new(&record.value))?;
        Ok(8 + key.len() + length(prior)? + before + new + context)
    }

    fn bytes(&self, value: &Datum, record: &Record) -> Result<Option<Bytes>> {
        let bytes = self.value.encode(value);
        bytes.map_err(|e| self.node_context.locate(e, &record.origin))
    }

    fn corrupt(&self) -> Error {
        self.node_context.name_node(
            Error::state_corrupt("an update in the buffer of a suppress can't be read")
                .hint("check that nothing else writes to its changelog topic"),
        )
    }
}

fn length(bytes: &[u8]) -> i32 {
    i32::try_from(bytes.len()).unwrap_or(i32::MAX)
}

pub(crate) fn put(out: &mut BytesMut, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            out.put_i32(length(bytes));
            out.put_slice(bytes);
        }
        None => out.put_i32(NULL),
    }
}

pub(crate) fn put_headers(out: &mut BytesMut, headers: &Headers) {
    let all = headers.as_deref().unwrap_or_default();
    out.put_i32(i32::try_from(all.len()).unwrap_or(i32::MAX));
    for header in all {
        put(out, Some(header.name.as_bytes()));
        put(out, header.value.as_deref());
    }
}

/// Reads fields in order; `None`: the bytes end too early.
pub(crate) struct Reader(pub(crate) Bytes);

impl Reader {
    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.0.try_get_i64().ok()
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.0.try_get_i32().ok()
    }

    pub(crate) fn take(&mut self, length: i32) -> Option<Bytes> {
        let length = usize::try_from(length).ok()?;
        (length <= self.0.len()).then(|| self.0.split_to(length))
    }

    /// Length-prefixed bytes, or null.
    #[allow(clippy::option_option)] // too short, null, or bytes
    pub(crate) fn bytes(&mut self) -> Option<Option<Bytes>> {
        match self.i32()? {
            NULL => Some(None),
            length => self.take(length).map(Some),
        }
    }

    pub(crate) fn headers(&mut self) -> Option<Headers> {
        let count = self.i32()?;
        let mut headers = Vec::new();
        for _ in 0..count.max(0) {
            let name = self.bytes()??;
            headers.push(Header {
                name: std::str::from_utf8(&name).ok()?.into(),
                value: self.bytes()?,
            });
        }
        Some((!headers.is_empty()).then(|| headers.into()))
    }
}
