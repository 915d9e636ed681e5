//! An order-preserving encoding of values, for the keys of indexes.
//!
//! Null comes first, then numbers, texts and bytes, then values without an order. Numbers compare as in
//! expressions: a whole number and a double by their exact value, true and false as 1 and 0; equal
//! numbers have equal bytes. Each value marks its own end, so several can be concatenated, and no value
//! is a prefix of another one.

#[cfg(test)]
mod tests;

use crate::Datum;

/// Null.
pub const NULL: u8 = 0x10;
/// Numbers: eight bytes of the nearest double and two of the difference to it.
pub const NUMBER: u8 = 0x20;
/// Texts.
pub const TEXT: u8 = 0x30;
/// Bytes.
pub const BYTES: u8 = 0x40;
/// Values without an order: objects, lists, whole numbers beyond 64 bits, NaN, and values that could not
/// be computed.
pub const OTHER: u8 = 0xf0;

/// Within a text: an escaped zero byte, and the end mark.
const ZERO: [u8; 2] = [0, 0xff];
const END: [u8; 2] = [0, 1];

/// Appends a value. False if the value has no order; `OTHER` is appended then.
pub fn write(out: &mut Vec<u8>, datum: &Datum) -> bool {
    match datum {
        Datum::Null => out.push(NULL),
        Datum::Bool(truth) => write_int(out, i64::from(*truth)),
        Datum::Int(number) => write_int(out, *number),
        Datum::Float(number) if !number.is_nan() => write_number(out, *number, 0),
        Datum::Str(text) => write_bytes(out, TEXT, text.as_bytes()),
        Datum::Bytes(bytes) => write_bytes(out, BYTES, bytes),
        _ => {
            out.push(OTHER);
            return false;
        }
    }
    true
}

/// The bytes of a value.
#[must_use]
pub fn bytes(datum: &Datum) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, datum);
    out
}

/// The prefix that the encodings of all texts with this beginning share.
#[must_use]
pub fn text_prefix(beginning: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(beginning.len() + 3);
    out.push(TEXT);
    escape(&mut out, beginning.as_bytes());
    out
}

/// The length of the value at the start of these bytes; `None` if there is no complete value.
#[must_use]
pub fn end(bytes: &[u8]) -> Option<usize> {
    match *bytes.first()? {
        NULL | OTHER => Some(1),
        NUMBER => (bytes.len() >= 11).then_some(11),
        TEXT | BYTES => {
            let mut at = 1;
            loop {
                at += bytes[at..].iter().position(|byte| *byte == 0)?;
                match bytes.get(at + 1)? {
                    1 => return Some(at + 2),
                    _ => at += 2,
                }
            }
        }
        _ => None,
    }
}

#[allow(clippy::cast_precision_loss)] // the difference is encoded too
fn write_int(out: &mut Vec<u8>, number: i64) {
    let nearest = number as f64;
    // 2^63 itself is a double but not an i64.
    let back = if nearest >= 9_223_372_036_854_775_808.0 {
        i128::from(i64::MAX) + 1
    } else {
        #[allow(clippy::cast_possible_truncation)] // a whole number within range
        i128::from(nearest as i64)
    };
    // Doubles of this size are at most 1024 apart.
    let distance = i16::try_from(i128::from(number) - back).unwrap_or(0);
    write_number(out, nearest, distance);
}

fn write_number(out: &mut Vec<u8>, nearest: f64, distance: i16) {
    // -0.0 equals 0.0.
    let bits = if nearest == 0.0 { 0 } else { nearest.to_bits() };
    let sign = 1 << 63;
    let ordered = if bits & sign == 0 { bits | sign } else { !bits };
    out.push(NUMBER);
    out.extend_from_slice(&ordered.to_be_bytes());
    out.extend_from_slice(&(distance.cast_unsigned() ^ 0x8000).to_be_bytes());
}

fn write_bytes(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    escape(out, bytes);
    out.extend_from_slice(&END);
}

fn escape(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut parts = bytes.split(|byte| *byte == 0);
    out.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        out.extend_from_slice(&ZERO);
        out.extend_from_slice(part);
    }
}
