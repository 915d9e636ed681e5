//! Builds and splits internal keys.
//!
//! Splitting returns `None` for a key that is too short, which happens only with damaged data.

use bytes::{BufMut, Bytes, BytesMut};

/// A window's internal key, split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowParts<'k> {
    /// The record's key.
    pub key: &'k [u8],
    /// When the window starts.
    pub start: i64,
    /// Tells entries with the same key and start apart; 0 unless duplicates are kept.
    pub seq: u32,
}

/// A session's internal key, split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionParts<'k> {
    /// The record's key.
    pub key: &'k [u8],
    /// Time of its first record.
    pub start: i64,
    /// Time of its last record.
    pub end: i64,
}

/// The number of the segment that `time` is in. A negative time counts as 0.
#[must_use]
pub const fn segment(segment_ms: i64, time: i64) -> u64 {
    let length = if segment_ms > 0 { segment_ms } else { 1 };
    if time <= 0 {
        0
    } else {
        (time / length).cast_unsigned()
    }
}

/// The internal key of a window's entry.
#[must_use]
pub fn window_key(segment_ms: i64, key: &[u8], start: i64, seq: u32) -> Bytes {
    let mut b = BytesMut::with_capacity(8 + key.len() + 12);
    b.put_u64(segment(segment_ms, start));
    put_window(&mut b, key, start, seq);
    b.freeze()
}

/// The changelog key of a window's entry: key, start, sequence number.
#[must_use]
pub fn window_changelog_key(key: &[u8], start: i64, seq: u32) -> Bytes {
    let mut b = BytesMut::with_capacity(key.len() + 12);
    put_window(&mut b, key, start, seq);
    b.freeze()
}

fn put_window(b: &mut BytesMut, key: &[u8], start: i64, seq: u32) {
    b.put_slice(key);
    b.put_i64(start);
    b.put_u32(seq);
}

/// Splits an internal window key.
#[must_use]
pub fn split_window(internal: &[u8]) -> Option<WindowParts<'_>> {
    let (_, rest) = internal.split_first_chunk::<8>()?;
    let (key, start, seq) = split_window_changelog(rest)?;
    Some(WindowParts { key, start, seq })
}

/// Splits a window's changelog key: key, start, sequence number.
#[must_use]
pub fn split_window_changelog(key: &[u8]) -> Option<(&[u8], i64, u32)> {
    let (rest, seq) = key.split_last_chunk::<4>()?;
    let (key, start) = rest.split_last_chunk::<8>()?;
    Some((key, i64::from_be_bytes(*start), u32::from_be_bytes(*seq)))
}

/// The internal key of a session.
#[must_use]
pub fn session_key(segment_ms: i64, key: &[u8], start: i64, end: i64) -> Bytes {
    let mut b = BytesMut::with_capacity(8 + key.len() + 16);
    b.put_u64(segment(segment_ms, end));
    put_session(&mut b, key, start, end);
    b.freeze()
}

/// The changelog key of a session: key, end, start.
#[must_use]
pub fn session_changelog_key(key: &[u8], start: i64, end: i64) -> Bytes {
    let mut b = BytesMut::with_capacity(key.len() + 16);
    put_session(&mut b, key, start, end);
    b.freeze()
}

fn put_session(b: &mut BytesMut, key: &[u8], start: i64, end: i64) {
    b.put_slice(key);
    b.put_i64(end);
    b.put_i64(start);
}

/// Splits an internal session key.
#[must_use]
pub fn split_session(internal: &[u8]) -> Option<SessionParts<'_>> {
    let (_, rest) = internal.split_first_chunk::<8>()?;
    let (key, start, end) = split_session_changelog(rest)?;
    Some(SessionParts { key, start, end })
}

/// Splits a session's changelog key: key, start, end.
#[must_use]
pub fn split_session_changelog(key: &[u8]) -> Option<(&[u8], i64, i64)> {
    let (rest, start) = key.split_last_chunk::<8>()?;
    let (key, end) = rest.split_last_chunk::<8>()?;
    Some((key, i64::from_be_bytes(*start), i64::from_be_bytes(*end)))
}

/// Inverts the sign of a time that may be negative, so that the order of bytes is that of times.
pub(crate) const SIGN: u64 = 1 << 63;

/// The internal key of a version.
#[must_use]
pub fn versioned_key(key: &[u8], ts: i64) -> Bytes {
    let mut b = BytesMut::with_capacity(key.len() + 8);
    b.put_slice(key);
    b.put_slice(&version(ts));
    b.freeze()
}

/// The suffix of an internal version key.
pub(super) fn version(ts: i64) -> [u8; 8] {
    (ts.cast_unsigned() ^ SIGN).to_be_bytes()
}

/// Splits an internal version key: key, timestamp.
#[must_use]
pub fn split_versioned(internal: &[u8]) -> Option<(&[u8], i64)> {
    let (key, ts) = internal.split_last_chunk::<8>()?;
    Some((key, (u64::from_be_bytes(*ts) ^ SIGN).cast_signed()))
}

/// A key for a [`crate::Layout::TimeKey`] store: the time, then arbitrary bytes.
#[must_use]
pub fn time_key(time: i64, rest: &[u8]) -> Bytes {
    let mut b = BytesMut::with_capacity(8 + rest.len());
    b.put_u64(time.cast_unsigned() ^ SIGN);
    b.put_slice(rest);
    b.freeze()
}

/// Splits a time key: time, rest.
#[must_use]
pub fn split_time_key(internal: &[u8]) -> Option<(i64, &[u8])> {
    let (time, rest) = internal.split_first_chunk::<8>()?;
    Some(((u64::from_be_bytes(*time) ^ SIGN).cast_signed(), rest))
}
