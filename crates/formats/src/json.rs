//! Parts of JSON text: what values of all formats are written as where JSON is wanted.
//!
//! Bytes become text as in Avro's own JSON: one character for each byte.

use stoatflow_core::{Error, Result};

/// Ends a list or an object; `sign` is what stood before its last part, or would have stood before the first.
pub(crate) fn close(sign: u8, opens: u8, closes: u8, out: &mut Vec<u8>) {
    if sign == opens {
        out.push(opens);
    }
    out.push(closes);
}

/// A text in quotes.
pub(crate) fn text(text: &str, out: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(out, text)
        .map_err(|e| Error::serde("a text has no JSON form").caused_by(e))
}

/// One character for each byte.
#[must_use]
pub fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// The bytes of such a text.
pub(crate) fn unlatin(text: &str) -> Option<Vec<u8>> {
    text.chars()
        .map(|c| u8::try_from(u32::from(c)).ok())
        .collect()
}

/// The number of which these are the digits, if no `i64` holds it. JSON has such numbers, and they
/// come as text.
pub(crate) fn large(text: &str) -> Option<u64> {
    let number = text.parse::<u64>().ok()?;
    i64::try_from(number).is_err().then_some(number)
}
