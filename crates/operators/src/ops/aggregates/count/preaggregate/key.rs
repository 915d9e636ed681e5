//! A key as it is held: its bytes, if they are few.
//!
//! Takes keys, gives what is compared without a look at where the key lies, and the key again. A line's word that is held this
//! way doesn't keep its line.

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

/// The key, in bytes of its own. `long`: those that lie elsewhere; each is asked for once.
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
