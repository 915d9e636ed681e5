//! Converts between bytes and datums, in Kafka's encodings.
//!
//! `Json` stays undecoded text: fields are parsed when they are read. JSON from a topic is validated
//! once.

use crate::header_bytes::{put_headers, take_headers};
use crate::{Datum, Error, PlainJson, Result, SchemaRegistry, Text, json};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// A serde written by the user (in Python).
pub trait CustomSerde: Send + Sync + fmt::Debug {
    /// Its name in messages and `describe`.
    fn name(&self) -> &str;
    /// Bytes of a non-null datum.
    ///
    /// # Errors
    /// `Serde` if the user's serializer raises.
    fn encode(&self, datum: &Datum) -> Result<Bytes>;
    /// A datum of non-null bytes.
    ///
    /// # Errors
    /// `Serde` if the user's deserializer raises.
    fn decode(&self, bytes: &Bytes) -> Result<Datum>;
    /// Like [`Self::decode`], for bytes from outside the engine: validation that is needed once happens
    /// here.
    ///
    /// # Errors
    /// As [`Self::decode`].
    fn read(&self, bytes: &Bytes) -> Result<Datum> {
        self.decode(bytes)
    }
    /// Whether it works without the runtime of the user's functions.
    fn is_native(&self) -> bool {
        false
    }
    /// The schema registry it uses, if any.
    fn registry(&self) -> Option<Arc<dyn SchemaRegistry>> {
        None
    }
}

/// How a key or a value is written.
#[derive(Clone, Debug)]
pub enum Serde {
    /// As it is.
    Bytes,
    /// UTF-8 text.
    String,
    /// 4 bytes, big-endian (Java `Integer`).
    Int32,
    /// 8 bytes, big-endian (Java `Long`).
    Int64,
    /// 8 bytes, IEEE 754 big-endian (Java `Double`).
    Double,
    /// Compact JSON text.
    Json,
    /// A serde written by the user.
    Custom(Arc<dyn CustomSerde>),
    /// A key in a time window, as Kafka Streams' `TimeWindowedSerde`: the key's bytes, then the start.
    /// The end isn't written: it is the start plus the size.
    TimeWindowed {
        /// The serde of the key inside.
        inner: Arc<Serde>,
        /// Milliseconds.
        size_ms: i64,
    },
    /// A key in a session, as `SessionWindowedSerde`: the key's bytes, the end, the start.
    SessionWindowed(Arc<Serde>),
    /// A value with headers: `length | headers | value`. The datum is a list of both, the headers as bytes.
    WithHeaders(Arc<Serde>),
    /// Reads what `WithHeaders` has written, without the headers.
    WithoutHeaders(Arc<Serde>),
}

impl Serde {
    /// Its name in the plan.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Bytes => "bytes",
            Self::String => "string",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Double => "double",
            Self::Json => "json",
            Self::Custom(c) => c.name(),
            Self::TimeWindowed { .. } => "time_windowed",
            Self::SessionWindowed(_) => "session_windowed",
            Self::WithHeaders(_) | Self::WithoutHeaders(_) => "with_headers",
        }
    }

    /// A built-in serde by its name in the plan.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        Some(match name {
            "bytes" => Self::Bytes,
            "string" => Self::String,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "double" => Self::Double,
            "json" => Self::Json,
            _ => return None,
        })
    }

    /// The datum that these bytes stand for; null stays null.
    ///
    /// # Errors
    /// `Serde` if the bytes are not of this form.
    pub fn decode(&self, bytes: Option<Bytes>) -> Result<Datum> {
        self.datum(bytes, false)
    }

    fn datum(&self, bytes: Option<Bytes>, from_outside: bool) -> Result<Datum> {
        let Some(bytes) = bytes else {
            return Ok(Datum::Null);
        };
        match self {
            Self::Bytes => Ok(Datum::Bytes(bytes)),
            Self::String => Ok(Datum::Str(Text::from_utf8(bytes)?)),
            Self::Int32 => Ok(Datum::Int(i64::from(i32::from_be_bytes(
                self.fixed(&bytes)?,
            )))),
            Self::Int64 => Ok(Datum::Int(i64::from_be_bytes(self.fixed(&bytes)?))),
            Self::Double => Ok(Datum::Float(f64::from_be_bytes(self.fixed(&bytes)?))),
            Self::Json if from_outside => json::read(bytes).map(Datum::Json),
            Self::Json => Ok(Datum::Json(bytes)),
            Self::Custom(c) if from_outside => checked(c.read(&bytes)?),
            Self::Custom(c) => c.decode(&bytes),
            Self::TimeWindowed { inner, size_ms } => {
                let (key, [start]) = self.split(bytes)?;
                // As in Kafka Streams: an end beyond 64 bits becomes the largest one.
                let end = start.saturating_add(*size_ms);
                Ok(Datum::windowed(
                    inner.datum(Some(key), from_outside)?,
                    start,
                    end,
                ))
            }
            Self::SessionWindowed(inner) => {
                let (key, [end, start]) = self.split(bytes)?;
                Ok(Datum::windowed(
                    inner.datum(Some(key), from_outside)?,
                    start,
                    end,
                ))
            }
            Self::WithHeaders(inner) => {
                let (headers, value) = take_headers(bytes)?;
                let value = inner.datum(Some(value), from_outside)?;
                Ok(Datum::List([Datum::Bytes(headers), value].into()))
            }
            Self::WithoutHeaders(inner) => inner.datum(Some(take_headers(bytes)?.1), from_outside),
        }
    }

    /// Like [`Self::decode`], for bytes from outside the engine: JSON, which stays text, is checked to
    /// be well-formed.
    ///
    /// # Errors
    /// `Serde` if the bytes are not of this form.
    pub fn read(&self, bytes: Option<Bytes>) -> Result<Datum> {
        self.datum(bytes, true)
    }

    /// The bytes that decide the lane (and, in a sink, the partition). For a windowed key those of the
    /// key inside, so that all windows of a key stay together.
    #[must_use]
    pub fn affinity<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let suffix = match self {
            Self::TimeWindowed { .. } => 8,
            Self::SessionWindowed(_) => 16,
            _ => 0,
        };
        &bytes[..bytes.len().saturating_sub(suffix)]
    }

    /// Splits a key into its bytes and the N times after it.
    fn split<const N: usize>(&self, mut bytes: Bytes) -> Result<(Bytes, [i64; N])> {
        let Some(at) = bytes.len().checked_sub(8 * N) else {
            return Err(Error::serde(format!(
                "the serde '{}' needs at least {} bytes, the key has {}",
                self.name(),
                8 * N,
                bytes.len()
            ))
            .hint("read the topic with the serde it was written with"));
        };
        let times = bytes.split_off(at);
        let mut out = [0; N];
        for (time, chunk) in out.iter_mut().zip(times.chunks_exact(8)) {
            let mut eight = [0; 8];
            eight.copy_from_slice(chunk);
            *time = i64::from_be_bytes(eight);
        }
        Ok((bytes, out))
    }

    /// The bytes of this datum; null stays null.
    ///
    /// # Errors
    /// `Serde` if the datum is of another type.
    pub fn encode(&self, datum: &Datum) -> Result<Option<Bytes>> {
        let bytes = match (self, datum) {
            (_, Datum::Null) => return Ok(None),
            (Self::Custom(c), datum) => c.encode(datum)?,
            (Self::Bytes, Datum::Bytes(b)) => b.clone(),
            (Self::String, Datum::Str(t)) => t.as_bytes().clone(),
            (Self::Int32, Datum::Int(i)) => match i32::try_from(*i) {
                Ok(i) => Bytes::copy_from_slice(&i.to_be_bytes()),
                Err(_) => {
                    return Err(Error::serde(format!("{i} does not fit into 4 bytes"))
                        .hint("use Serdes.int64() for numbers beyond 2147483647"));
                }
            },
            (Self::Int64, Datum::Int(i)) => Bytes::copy_from_slice(&i.to_be_bytes()),
            (Self::Double, Datum::Float(x)) => Bytes::copy_from_slice(&x.to_be_bytes()),
            #[allow(clippy::cast_precision_loss)]
            (Self::Double, Datum::Int(i)) => Bytes::copy_from_slice(&(*i as f64).to_be_bytes()),
            (Self::Json, datum) => json_bytes(datum)?,
            (Self::TimeWindowed { inner, .. }, Datum::Windowed(w)) => {
                joined(inner.encode(&w.key)?, &[w.start])
            }
            (Self::SessionWindowed(inner), Datum::Windowed(w)) => {
                joined(inner.encode(&w.key)?, &[w.end, w.start])
            }
            (Self::WithHeaders(inner), Datum::List(parts)) => match &parts[..] {
                [Datum::Bytes(headers), value] => match inner.encode(value)? {
                    Some(value) => with_headers(headers, &value),
                    None => return Ok(None),
                },
                _ => return Err(no_headers()),
            },
            (serde, datum) => {
                return Err(Error::serde(format!("the serde '{}' can't write a value of type {}", serde.name(), datum.type_name()))
                    .hint("give the operator before it a function that returns this type, or choose the serde that fits"));
            }
        };
        Ok(Some(bytes))
    }

    /// A copy of a value, made of its bytes: changing one doesn't change the other.
    ///
    /// # Errors
    /// `Serde` if the value is of another type.
    pub fn copy(&self, value: &Datum) -> Result<Datum> {
        match (self, value) {
            (Self::WithHeaders(inner), Datum::List(parts)) => match &parts[..] {
                [headers, value] => match inner.copy(value)? {
                    Datum::Null => Ok(Datum::Null),
                    value => Ok(Datum::List([headers.clone(), value].into())),
                },
                _ => Err(no_headers()),
            },
            (Self::WithoutHeaders(inner), value) => inner.copy(value),
            (serde, value) => serde.decode(serde.encode(value)?),
        }
    }

    fn fixed<const N: usize>(&self, bytes: &Bytes) -> Result<[u8; N]> {
        <[u8; N]>::try_from(bytes.as_ref()).map_err(|_| {
            Error::serde(format!(
                "the serde '{}' needs {N} bytes, the record has {}",
                self.name(),
                bytes.len()
            ))
            .hint("read the topic with the serde it was written with")
        })
    }
}

/// Validates text that is parsed later: from here on it is well-formed, and no member occurs twice.
fn checked(datum: Datum) -> Result<Datum> {
    match datum {
        Datum::Json(text) => json::read(text).map(Datum::Json),
        Datum::Windowed(windowed) => {
            let key = checked(windowed.key.clone())?;
            Ok(Datum::windowed(key, windowed.start, windowed.end))
        }
        // `json.loads` takes the last of two equal members anyway.
        Datum::Opaque(_) => {
            if let Some(plain) = datum.opaque::<PlainJson>() {
                json::check_bytes(&plain.0)?;
            }
            Ok(datum)
        }
        other => Ok(other),
    }
}

fn no_headers() -> Error {
    Error::internal("a value of a store with headers has none")
}

/// A value's bytes, with its headers in front.
fn with_headers(headers: &[u8], value: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(5 + headers.len() + value.len());
    put_headers(&mut out, headers);
    out.extend_from_slice(value);
    out.into()
}

/// A key's bytes, followed by the times.
fn joined(key: Option<Bytes>, times: &[i64]) -> Bytes {
    let key = key.unwrap_or_default();
    let mut out = Vec::with_capacity(key.len() + 8 * times.len());
    out.extend_from_slice(&key);
    for time in times {
        out.extend_from_slice(&time.to_be_bytes());
    }
    out.into()
}

/// Compact JSON text of a datum.
///
/// # Errors
/// `Serde` for values that JSON has no form for (bytes, NaN, foreign objects that refuse).
pub fn json_bytes(datum: &Datum) -> Result<Bytes> {
    match datum {
        Datum::Json(b) => Ok(b.clone()),
        Datum::Opaque(o) => o.to_json(),
        other => {
            let mut out = Vec::with_capacity(other.weight() + 8);
            write_json(other, &mut out)?;
            Ok(out.into())
        }
    }
}

/// Appends JSON text to existing bytes: a member of an object needs no buffer of its own.
///
/// # Errors
/// As [`json_bytes`].
pub fn write_json(datum: &Datum, out: &mut Vec<u8>) -> Result<()> {
    let to_text = |e: serde_json::Error| Error::serde("a value has no JSON form").caused_by(e);
    match datum {
        Datum::Null => out.extend_from_slice(b"null"),
        Datum::Bool(b) => serde_json::to_writer(out, b).map_err(to_text)?,
        Datum::Int(i) => serde_json::to_writer(out, i).map_err(to_text)?,
        Datum::Float(x) if !x.is_finite() => return Err(no_json(datum)),
        Datum::Float(x) => serde_json::to_writer(out, x).map_err(to_text)?,
        Datum::Str(t) if needs_no_escape(t.as_str().as_bytes()) => {
            out.push(b'"');
            out.extend_from_slice(t.as_str().as_bytes());
            out.push(b'"');
        }
        Datum::Str(t) => serde_json::to_writer(out, t.as_str()).map_err(to_text)?,
        Datum::Json(b) => out.extend_from_slice(b),
        Datum::Opaque(o) => out.extend_from_slice(&o.to_json()?),
        Datum::List(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_json(item, out)?;
            }
            out.push(b']');
        }
        Datum::Bytes(_) | Datum::Change(_) | Datum::Windowed(_) => return Err(no_json(datum)),
    }
    Ok(())
}

/// Whether a text looks the same between the quotes of JSON. Checks block by block without an early exit
/// within a block: so the compiler can vectorize it, and a long text costs an eighth of a byte-by-byte
/// check.
#[must_use]
pub fn needs_no_escape(text: &[u8]) -> bool {
    let is_odd = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    let mut blocks = text.chunks_exact(32);
    let odd_block = |block: &[u8]| block.iter().fold(false, |odd, b| odd | is_odd(*b));
    !blocks.any(odd_block) && !odd_block(blocks.remainder())
}

/// Whether [`write_json`] could write this. Returns the same error, and writes nothing (except foreign
/// values).
///
/// # Errors
/// As [`json_bytes`].
pub fn check_json(datum: &Datum) -> Result<()> {
    match datum {
        Datum::Float(x) if !x.is_finite() => Err(no_json(datum)),
        Datum::Bytes(_) | Datum::Change(_) | Datum::Windowed(_) => Err(no_json(datum)),
        Datum::List(items) => items.iter().try_for_each(check_json),
        Datum::Opaque(object) => object.to_json().map(|_| ()),
        _ => Ok(()),
    }
}

fn no_json(datum: &Datum) -> Error {
    match datum {
        Datum::Float(x) => Error::serde(format!("JSON has no form for the number {x}"))
            .hint("replace it before the sink"),
        other => Error::serde(format!(
            "JSON has no form for a value of type {}",
            other.type_name()
        ))
        .hint("decode the bytes first, or use Serdes.bytes()"),
    }
}

#[cfg(test)]
mod tests;
