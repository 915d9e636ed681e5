//! A key inline if it is short, else its place in a list.
//!
//! Takes keys, compares them without another memory access, and gives them back. A short key doesn't pin
//! the buffer it was cut from.

use stoatflow_core::{Bytes, Datum, Short, Text};

const FAR: u8 = 0;
const TEXT: u8 = 1;
const BYTES: u8 = 2;
const JSON: u8 = 3;
const INT: u8 = 4;

/// A key that is short enough and is its bytes. (Two doubles may be equal with other bytes.)
#[inline]
pub(super) fn short(key: &Datum) -> Option<Short> {
    match key {
        Datum::Str(text) => Short::of(TEXT, text.as_bytes()),
        Datum::Bytes(bytes) => Short::of(BYTES, bytes),
        Datum::Json(text) => Short::of(JSON, text),
        Datum::Int(number) => Short::of(INT, &number.to_be_bytes()),
        _ => None,
    }
}

/// In place of one that lies elsewhere, by its number there.
pub(super) fn far(number: u32) -> Short {
    Short::number(FAR, number)
}

/// The number of one that lies elsewhere.
pub(super) fn elsewhere(short: &Short) -> Option<usize> {
    let number = short.bytes().try_into().map(u32::from_be_bytes);
    number
        .ok()
        .filter(|_| short.kind() == FAR)
        .map(|at| at as usize)
}

/// The key, in bytes of its own. `long`: keys too long to be held here; each is taken once.
pub(super) fn datum(short: &Short, long: &mut [Datum]) -> Datum {
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
