//! A record that is parked beyond its epoch, as bytes.
//!
//! Encodes the record that a function was called for (or a request was sent for), and decodes it. In
//! order, numbers big-endian: a version (1), the record's context (timestamp 8, source 2, topic 2,
//! topic's name with length 4, partition 4, offset 8, headers as a suppress writes them), its key, its
//! value. Both are written by their type (a tag, then the content), not by a serde: between two
//! functions a value has none. Only values that the foreign language alone understands go through the
//! stream's serde, if that is the user's own, or become JSON that is decoded to objects of that language
//! (rows of earlier versions are decoded to JSON).

use crate::ops::tables::suppress::codec::{Reader, put, put_headers};
use crate::support::node_context::NodeContext;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use stoatflow_core::{
    Datum, Error, Offset, Origin, Partition, PlainJson, Record, Result, Serde, SourceId, Text,
    Timestamp,
};

const VERSION: u8 = 1;

const NULL: u8 = 0;
const BOOL: u8 = 1;
const INT: u8 = 2;
const FLOAT: u8 = 3;
const BYTES: u8 = 4;
const STR: u8 = 5;
const JSON: u8 = 6;
const LIST: u8 = 7;
const WINDOWED: u8 = 8;
const CUSTOM: u8 = 9;
const PLAIN: u8 = 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Codec {
    pub key: Serde,
    pub value: Serde,
    pub node_context: NodeContext,
    /// What parks it, for messages: "an async call".
    pub who: &'static str,
}

impl Codec {
    pub fn encode(&self, record: &Record) -> Result<Bytes> {
        let mut out = BytesMut::with_capacity(96 + record.key.weight() + record.value.weight());
        out.put_u8(VERSION);
        out.put_i64(record.timestamp.0);
        let origin = &record.origin;
        out.put_u16(origin.source.0);
        out.put_u16(origin.topic);
        let topic = self.node_context.topic_of(origin).unwrap_or_default();
        put(&mut out, Some(topic.as_bytes()));
        out.put_i32(origin.partition.0);
        out.put_i64(origin.offset.0);
        put_headers(&mut out, &record.headers);
        self.write(&record.key, &self.key, &mut out)?;
        self.write(&record.value, &self.value, &mut out)?;
        Ok(out.freeze())
    }

    pub fn decode(&self, stored: &Datum) -> Result<Record> {
        let read = || {
            let Datum::Bytes(bytes) = stored else {
                return None;
            };
            let mut read = Reader(bytes.clone());
            (read.0.try_get_u8().ok()? == VERSION).then_some(())?;
            let timestamp = Timestamp(read.i64()?);
            let known = (
                SourceId(read.0.try_get_u16().ok()?),
                read.0.try_get_u16().ok()?,
            );
            let topic = read.bytes()??;
            let partition = Partition(read.i32()?);
            let offset = Offset(read.i64()?);
            let headers = read.headers()?;
            // The topics of a source may have another order by now; one that matched a pattern has no
            // name here.
            let (source, topic) = self.node_context.find_topic(&topic).unwrap_or(known);
            let key = datum(&self.key, &mut read)?;
            let value = datum(&self.value, &mut read)?;
            let origin = Origin {
                source,
                topic,
                partition,
                offset,
                ..Origin::default()
            };
            Some(key.and_then(|key| {
                Ok(Record {
                    key,
                    value: value?,
                    timestamp,
                    headers,
                    origin,
                })
            }))
        };
        let read = read().unwrap_or_else(|| Err(self.corrupt()));
        read.map_err(|e| self.node_context.name_node(e))
    }

    /// Writes another value that is parked with a record.
    pub fn write(&self, datum: &Datum, serde: &Serde, out: &mut BytesMut) -> Result<()> {
        write(datum, serde, out).map_err(|e| {
            if let (Datum::Opaque(object), false) = (datum, matches!(serde, Serde::Custom(_))) {
                let (who, kind) = (self.who, object.type_name());
                return e.hint(format!("{who} may outlive its epoch, so what it gets must have a form in bytes: give it a value that JSON can hold instead of a {kind}, or put it before the value becomes one"));
            }
            e
        })
    }

    pub fn corrupt(&self) -> Error {
        let error = Error::state_corrupt(format!("what {} has parked can't be read", self.who));
        self.node_context
            .name_node(error.hint(
            "only the application may write its changelog topics. To compute everything again: stoatflow reset",
        ))
    }
}

fn write(datum: &Datum, serde: &Serde, out: &mut BytesMut) -> Result<()> {
    let tagged = |out: &mut BytesMut, tag: u8, bytes: &[u8]| {
        out.put_u8(tag);
        put(out, Some(bytes));
    };
    match datum {
        Datum::Null => out.put_u8(NULL),
        Datum::Bool(b) => out.put_slice(&[BOOL, u8::from(*b)]),
        Datum::Int(i) => {
            out.put_u8(INT);
            out.put_i64(*i);
        }
        Datum::Float(x) => {
            out.put_u8(FLOAT);
            out.put_f64(*x);
        }
        Datum::Bytes(b) => tagged(out, BYTES, b),
        Datum::Str(t) => tagged(out, STR, t.as_bytes()),
        Datum::Json(b) => tagged(out, JSON, b),
        Datum::List(items) => {
            out.put_u8(LIST);
            out.put_i32(i32::try_from(items.len()).unwrap_or(i32::MAX));
            items
                .iter()
                .try_for_each(|item| write(item, &Serde::Json, out))?;
        }
        Datum::Windowed(w) => {
            out.put_u8(WINDOWED);
            out.put_i64(w.start);
            out.put_i64(w.end);
            write(&w.key, within(serde), out)?;
        }
        Datum::Opaque(object) => match serde {
            Serde::Custom(custom) => tagged(out, CUSTOM, &custom.encode(datum)?),
            // Functions see a value that can't change (a native aggregate) as JSON that was read.
            _ => {
                let tag = if object.changes() { PLAIN } else { JSON };
                tagged(out, tag, &object.to_json()?);
            }
        },
        Datum::Change(_) => {
            return Err(Error::internal("an update of a table was to be parked"));
        }
    }
    Ok(())
}

/// The serde of the key within a windowed key.
fn within(serde: &Serde) -> &Serde {
    match serde {
        Serde::TimeWindowed { inner, .. } | Serde::SessionWindowed(inner) => inner,
        other => other,
    }
}

/// Decodes a datum; `None` if the bytes end too early, or have an unknown tag.
pub(crate) fn datum(serde: &Serde, read: &mut Reader) -> Option<Result<Datum>> {
    Some(Ok(match read.0.try_get_u8().ok()? {
        NULL => Datum::Null,
        BOOL => Datum::Bool(read.0.try_get_u8().ok()? != 0),
        INT => Datum::Int(read.i64()?),
        FLOAT => Datum::Float(read.0.try_get_f64().ok()?),
        BYTES => Datum::Bytes(read.bytes()??),
        STR => match Text::from_utf8(read.bytes()??) {
            Ok(text) => Datum::Str(text),
            Err(e) => return Some(Err(e)),
        },
        JSON => Datum::Json(read.bytes()??),
        PLAIN => PlainJson::datum(read.bytes()??),
        LIST => {
            let count = read.i32()?;
            let items = (0..count).map(|_| datum(&Serde::Json, read));
            match items.collect::<Option<Result<Vec<_>>>>()? {
                Ok(items) => Datum::List(items.into()),
                Err(e) => return Some(Err(e)),
            }
        }
        WINDOWED => {
            let (start, end) = (read.i64()?, read.i64()?);
            match datum(within(serde), read)? {
                Ok(key) => Datum::windowed(key, start, end),
                Err(e) => return Some(Err(e)),
            }
        }
        CUSTOM => match serde {
            Serde::Custom(custom) => return Some(custom.decode(&read.bytes()??)),
            _ => {
                return Some(Err(Error::incompatible(
                    "a parked record was written with a serde of the user that the stream doesn't have any more",
                )
                .hint("start once more with the serde it had, or reset the application")));
            }
        },
        _ => return None,
    }))
}
