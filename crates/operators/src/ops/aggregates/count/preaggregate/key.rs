//! A key: inline if it is short, else an index into a list.
//!
//! Takes keys, compares them without another memory access, and returns them. A short key doesn't keep
//! alive the buffer that it is a slice of.

use stoatflow_core::{Bytes, Datum, InlineBytes, Text};

const FAR: u8 = 0;
const TEXT: u8 = 1;
const BYTES: u8 = 2;
const JSON: u8 = 3;
const INT: u8 = 4;

/// A key that is short enough and equal only to the same bytes. (Doubles can be equal with different
/// bytes.)
#[inline]
pub(super) fn short(key: &Datum) -> Option<InlineBytes> {
    match key {
        Datum::Str(text) => InlineBytes::of(TEXT, text.as_bytes()),
        Datum::Bytes(bytes) => InlineBytes::of(BYTES, bytes),
        Datum::Json(text) => InlineBytes::of(JSON, text),
        Datum::Int(number) => InlineBytes::of(INT, &number.to_be_bytes()),
        _ => None,
    }
}

/// Placeholder for a long key, by its index in the list.
pub(super) fn far(number: u32) -> InlineBytes {
    InlineBytes::number(FAR, number)
}

/// Index of a long key in the list; `None` if the key is inline.
pub(super) fn elsewhere(short: &InlineBytes) -> Option<usize> {
    let number = short.bytes().try_into().map(u32::from_be_bytes);
    number
        .ok()
        .filter(|_| short.kind() == FAR)
        .map(|at| at as usize)
}

/// The key, with its own buffer. `long`: the list of long keys; each is taken once.
pub(super) fn datum(short: &InlineBytes, long: &mut [Datum]) -> Datum {
    let bytes = short.bytes();
    match short.kind() {
        TEXT => Datum::Str(Text::from(std::str::from_utf8(bytes).unwrap_or_default())),
        BYTES => Datum::Bytes(Bytes::copy_from_slice(bytes)),
        JSON => Datum::Json(Bytes::copy_from_slice(bytes)),
        INT => Datum::Int(bytes.try_into().map_or(0, i64::from_be_bytes)),
        _ => {
            let there = elsewhere(short).and_then(|at| long.get_mut(at));
            there.map(std::mem::take).unwrap_or_default()
        }
    }
}
