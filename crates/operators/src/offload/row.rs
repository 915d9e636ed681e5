//! A parked record as a row of its store.
//!
//! Takes what is known of a record and the record, gives key and value of the row, and back. The key: the bytes of the
//! record's key, and 8 of its number (they count up, so rows of a key lie in its order). The value, numbers
//! big-endian: a version (1), the phase (1), since when it is parked (8), requests so far (4), when something is due
//! (8, the greatest number: never); then what the phase has (an answer, a message); then the record as
//! [`crate::parked`] writes it.

use crate::suppress::codec::{Reader, put};
use bytes::{Buf, BufMut, Bytes, BytesMut};

const VERSION: u8 = 1;

const ASKED: u8 = 0;
const PAUSING: u8 = 1;
const ANSWERED: u8 = 2;
const TIMED_OUT: u8 = 3;
const FAILED: u8 = 4;
const LEFT_OUT: u8 = 5;

/// Where a parked record stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A request is out; its time is over then.
    Asked { due: Option<i64> },
    /// Another request goes out then.
    Pausing { due: i64 },
    /// Answered, with a datum as the codec writes it.
    Answered(Bytes),
    /// The last request was not answered in time.
    TimedOut,
    /// The last request was answered with an error.
    Failed(String),
    /// Another request could not be made, and a handler has said that its record is left out.
    LeftOut,
}

impl Phase {
    pub const fn due(&self) -> Option<i64> {
        match self {
            Self::Asked { due } => *due,
            Self::Pausing { due } => Some(*due),
            _ => None,
        }
    }

    pub const fn word(&self) -> &'static str {
        match self {
            Self::Asked { .. } => "asked",
            Self::Pausing { .. } => "pausing",
            Self::Answered(_) => "answered",
            Self::TimedOut => "timed_out",
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
            Phase::TimedOut => TIMED_OUT,
            Phase::Failed(_) => FAILED,
            Phase::LeftOut => LEFT_OUT,
        });
        out.put_i64(self.since);
        out.put_u32(self.attempt);
        out.put_i64(self.phase.due().unwrap_or(i64::MAX));
        match &self.phase {
            Phase::Answered(answer) => put(&mut out, Some(answer)),
            Phase::Failed(message) => put(&mut out, Some(message.as_bytes())),
            _ => {}
        }
        out.put_slice(&self.record);
        out.freeze()
    }

    /// `None`: these are not the bytes of a row.
    pub fn decode(bytes: Bytes) -> Option<Self> {
        let mut read = Reader(bytes);
        (read.0.try_get_u8().ok()? == VERSION).then_some(())?;
        let tag = read.0.try_get_u8().ok()?;
        let since = read.i64()?;
        let attempt = read.0.try_get_u32().ok()?;
        let due = read.i64()?;
        let phase = match tag {
            ASKED => Phase::Asked {
                due: (due != i64::MAX).then_some(due),
            },
            PAUSING => Phase::Pausing { due },
            ANSWERED => Phase::Answered(read.bytes()??),
            TIMED_OUT => Phase::TimedOut,
            FAILED => Phase::Failed(String::from_utf8_lossy(&read.bytes()??).into_owned()),
            LEFT_OUT => Phase::LeftOut,
            _ => return None,
        };
        Some(Self {
            phase,
            since,
            attempt,
            record: read.0,
        })
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
