//! Confluent's header before a value: a zero, then the id of the schema in the registry.
//!
//! Takes bytes, returns the id and the rest. The format looks up the meaning of an id.

use bytes::Bytes;
use stoatflow_core::{Error, Result};

/// Length of the header: a zero, then the schema's id in 4 bytes.
pub(crate) const HEADER: usize = 5;

/// The header with an id.
pub(crate) fn header(id: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[1..].copy_from_slice(&id.to_be_bytes());
    header
}

/// The error for bytes that the user gave as an encoded value, but that are not one.
pub(crate) fn unencoded(whose: &str, error: Error) -> Error {
    Error::serde(format!("the bytes are no value of {whose}"))
        .caused_by(error)
        .hint("bytes are written as they are: give what that schema writes, without a header; or give a dict, which is encoded here")
}

/// The id before a value of this format, and the bytes after it.
pub(crate) fn open(bytes: &Bytes, format: &str) -> Result<(u32, Bytes)> {
    match bytes.first_chunk::<HEADER>() {
        Some([0, id @ ..]) => Ok((u32::from_be_bytes(*id), bytes.slice(HEADER..))),
        _ => Err(Error::serde(format!(
            "the record has no schema id before its {format} value (a zero, then 4 bytes): it begins with {:02x?}",
            &bytes[..bytes.len().min(HEADER)]
        ))
        .hint(format!(
            "leave framing=\"confluent\" out if the producer writes plain {format}"
        ))),
    }
}
