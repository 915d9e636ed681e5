//! Headers as bytes, as Kafka and Kafka Streams write them.
//!
//! `number of headers | length of name | name | length of value | value | ...`: the format of the headers
//! in a Kafka record, which is also that of KIP-1271. All numbers are zigzag varints; a null value has the
//! length -1. No headers are no bytes.

#[cfg(test)]
mod tests;

use crate::header_bytes::{broken, put_length, take, take_length};
use crate::{Header, Headers, Result};
use bytes::Bytes;
use std::sync::Arc;

/// The bytes of these headers.
#[must_use]
pub fn headers_to_bytes(headers: &Headers) -> Bytes {
    let Some(headers) = headers.as_deref().filter(|all| !all.is_empty()) else {
        return Bytes::new();
    };
    let mut out = Vec::new();
    put_length(&mut out, Some(headers.len()));
    for header in headers {
        put_length(&mut out, Some(header.name.len()));
        out.extend_from_slice(header.name.as_bytes());
        put_length(&mut out, header.value.as_ref().map(Bytes::len));
        out.extend_from_slice(header.value.as_deref().unwrap_or_default());
    }
    out.into()
}

/// The headers that these bytes stand for.
///
/// # Errors
/// `Serde` if the bytes are not of this form.
pub fn headers_from_bytes(mut bytes: Bytes) -> Result<Headers> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let count = take_length(&mut bytes)?.ok_or_else(broken)?;
    let mut headers = Vec::new();
    for _ in 0..count {
        let length = take_length(&mut bytes)?.ok_or_else(broken)?;
        let name = take(&mut bytes, length)?;
        let name = Arc::from(String::from_utf8_lossy(&name));
        let length = take_length(&mut bytes)?;
        // A header would keep the whole row alive.
        let value = length.map(|length| take(&mut bytes, length)).transpose()?;
        let value = value.map(|value| Bytes::copy_from_slice(&value));
        headers.push(Header { name, value });
    }
    Ok((!headers.is_empty()).then(|| headers.into()))
}
