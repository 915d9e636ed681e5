//! Lengths as zigzag varints, and headers behind their length. Knows nothing of what headers are.

use crate::{Error, Result};
use bytes::{Buf, Bytes};

/// Appends the bytes of headers with their length in front of them.
pub fn put_headers(out: &mut Vec<u8>, headers: &[u8]) {
    put_length(out, Some(headers.len()));
    out.extend_from_slice(headers);
}

/// Splits what [`put_headers`] has written from the bytes after it.
///
/// # Errors
/// `Serde` if the bytes are not of this form.
pub fn take_headers(mut bytes: Bytes) -> Result<(Bytes, Bytes)> {
    let length = take_length(&mut bytes)?.ok_or_else(broken)?;
    let headers = take(&mut bytes, length)?;
    Ok((headers, bytes))
}

/// The error for bytes of another form.
pub(crate) fn broken() -> Error {
    Error::serde("the headers of a value are cut off or have an invalid length")
        .hint("check that nothing else writes to this store's changelog topic")
}

/// The next bytes of this length.
pub(crate) fn take(bytes: &mut Bytes, length: usize) -> Result<Bytes> {
    if length > bytes.len() {
        return Err(broken());
    }
    Ok(bytes.split_to(length))
}

/// Writes a length as a zigzag varint; `None` is -1.
pub(crate) fn put_length(out: &mut Vec<u8>, length: Option<usize>) {
    let Some(length) = length else {
        out.push(1);
        return;
    };
    let mut rest = (length as u64) << 1;
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Reads what [`put_length`] has written.
pub(crate) fn take_length(bytes: &mut Bytes) -> Result<Option<usize>> {
    let mut number = 0_u64;
    for shift in (0..35).step_by(7) {
        if bytes.is_empty() {
            return Err(broken());
        }
        let byte = bytes.get_u8();
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return match number {
                1 => Ok(None),
                odd if odd & 1 == 1 => Err(broken()),
                even => usize::try_from(even >> 1).map(Some).map_err(|_| broken()),
            };
        }
    }
    Err(broken())
}
