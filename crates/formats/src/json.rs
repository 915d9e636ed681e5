//! Pieces of JSON text, for values of all formats.
//!
//! Bytes become text as in Avro's own JSON: one character per byte.

use stoatflow_core::{Error, Result};

/// Ends a list or an object. `sign` is what would come before its next part: the bracket `opens` if it
/// has none.
pub(crate) fn close(sign: u8, opens: u8, closes: u8, out: &mut Vec<u8>) {
    if sign == opens {
        out.push(opens);
    }
    out.push(closes);
}

/// Writes text in quotes.
pub(crate) fn text(text: &str, out: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(out, text)
        .map_err(|e| Error::serde("a text has no JSON form").caused_by(e))
}

/// Text with one character per byte.
#[must_use]
pub fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// The bytes of text from [`latin`].
pub(crate) fn unlatin(text: &str) -> Option<Vec<u8>> {
    text.chars()
        .map(|c| u8::try_from(u32::from(c)).ok())
        .collect()
}

/// The number with these digits, if it is too large for `i64`. JSON has such numbers, and they arrive as
/// text.
pub(crate) fn large(text: &str) -> Option<u64> {
    let number = text.parse::<u64>().ok()?;
    i64::try_from(number).is_err().then_some(number)
}
