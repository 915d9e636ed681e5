//! A parked record as a row of its store.
//!
//! Encodes and decodes the state of a record, and the record itself, as key and value of a row. The key:
//! the bytes of the record's key, and its number (8 bytes; numbers increase, so rows of a key are in
//! order). The value, with sizes in bytes, numbers big-endian: format version (1), phase (1), time of
//! parking (8), requests so far (4), those of them that a handler asked for (4), time of the phase (8:
//! when the request was sent, when the next request is due, the timeout that was exceeded, or 0); then
//! the data of the phase (an answer, a message); then the record as [`crate::support::parked_record`]
//! writes it. Timeouts are not in the row: the current settings apply.

use crate::ops::tables::suppress::codec::{Reader, put};
use crate::support::parked_record::Codec;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use stoatflow_core::Error;
use stoatflow_plan::RetryPolicy;

const VERSION: u8 = 2;
/// This version stored when an answer was due, not when its request was sent.
const OLDER: u8 = 1;

const ASKED: u8 = 0;
const PAUSING: u8 = 1;
const ANSWERED: u8 = 2;
const TIMED_OUT: u8 = 3;
const FAILED: u8 = 4;
const LEFT_OUT: u8 = 5;

/// State of a parked record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A request was sent at this time.
    Asked { at: i64 },
    /// Another request will be sent at this time.
    Pausing { due: i64 },
    /// Answered, with a datum as the codec writes it.
    Answered(Bytes),
    /// The last request was not answered within this many milliseconds.
    TimedOut { after: i64 },
    /// The last request was answered with an error.
    Failed(String),
    /// Another request could not be made, and a handler has left the record out.
    LeftOut,
}

impl Phase {
    /// When something is due in this phase, with these settings; `None`: nothing is.
    pub fn due(&self, patience: &RetryPolicy) -> Option<i64> {
        match self {
            Self::Asked { at } => patience.timeout_ms.map(|ms| at.saturating_add(ms)),
            Self::Pausing { due } => Some(*due),
            _ => None,
        }
    }

    const fn time(&self) -> i64 {
        match self {
            Self::Asked { at: time }
            | Self::Pausing { due: time }
            | Self::TimedOut { after: time } => *time,
            _ => 0,
        }
    }

    pub const fn word(&self) -> &'static str {
        match self {
            Self::Asked { .. } => "asked",
            Self::Pausing { .. } => "pausing",
            Self::Answered(_) => "answered",
            Self::TimedOut { .. } => "timed_out",
            Self::Failed(_) => "failed",
            Self::LeftOut => "left_out",
        }
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub phase: Phase,
    pub since: i64,
    pub attempt: u32,
    /// Requests that a handler asked for. Those of the offload's own `Backoff` don't count, so that they
    /// don't use up a `Retry`.
    pub again: u32,
    /// The record, as it was parked.
    pub record: Bytes,
}

impl Row {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64 + self.record.len());
        out.put_u8(VERSION);
        out.put_u8(match self.phase {
            Phase::Asked { .. } => ASKED,
            Phase::Pausing { .. } => PAUSING,
            Phase::Answered(_) => ANSWERED,
            Phase::TimedOut { .. } => TIMED_OUT,
            Phase::Failed(_) => FAILED,
            Phase::LeftOut => LEFT_OUT,
        });
        out.put_i64(self.since);
        out.put_u32(self.attempt);
        out.put_u32(self.again);
        out.put_i64(self.phase.time());
        match &self.phase {
            Phase::Answered(answer) => put(&mut out, Some(answer)),
            Phase::Failed(message) => put(&mut out, Some(message.as_bytes())),
            _ => {}
        }
        out.put_slice(&self.record);
        out.freeze()
    }

    pub fn decode(bytes: Bytes) -> Result<Self, Unreadable> {
        match bytes.first() {
            Some(&VERSION) => Self::read(Reader(bytes)).ok_or(Unreadable::Damaged),
            Some(&OLDER) => Err(Unreadable::Older),
            _ => Err(Unreadable::Damaged),
        }
    }

    fn read(mut read: Reader) -> Option<Self> {
        read.0.try_get_u8().ok()?;
        let tag = read.0.try_get_u8().ok()?;
        let since = read.i64()?;
        let attempt = read.0.try_get_u32().ok()?;
        let again = read.0.try_get_u32().ok()?;
        let time = read.i64()?;
        let phase = match tag {
            ASKED => Phase::Asked { at: time },
            PAUSING => Phase::Pausing { due: time },
            ANSWERED => Phase::Answered(read.bytes()??),
            TIMED_OUT => Phase::TimedOut { after: time },
            FAILED => Phase::Failed(String::from_utf8_lossy(&read.bytes()??).into_owned()),
            LEFT_OUT => Phase::LeftOut,
            _ => return None,
        };
        Some(Self {
            phase,
            since,
            attempt,
            again,
            record: read.0,
        })
    }
}

/// Why these bytes can't be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    Damaged,
    Older,
}

impl Unreadable {
    /// The error for an operator or a listing with this codec.
    pub fn error(self, codec: &Codec) -> Error {
        match self {
            Self::Damaged => codec.corrupt(),
            Self::Older => codec.node_context.name_node(
                Error::incompatible(
                    "what an offload has parked was written by an earlier version, and can't be read by this one",
                )
                .hint("start that version once more until nothing is parked, or reset the application"),
            ),
        }
    }
}

/// The key of a row.
pub(super) fn row_key(key: &[u8], number: u64) -> Bytes {
    let mut row = BytesMut::with_capacity(key.len() + 8);
    row.put_slice(key);
    row.put_u64(number);
    row.freeze()
}

/// The parts of a row's key.
pub(super) fn split_row_key(row: &Bytes) -> Option<(Bytes, u64)> {
    let (key, number) = row.split_last_chunk::<8>()?;
    Some((row.slice_ref(key), u64::from_be_bytes(*number)))
}
