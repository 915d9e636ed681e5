//! The beginning of a payload, as text if it is text.
//!
//! Takes bytes, gives JSON: `format` is `json`, `text` or `base64`, `bytes` is the size of the whole
//! payload, `cut` is true if `content` is only its beginning. JSON that was cut has the format `text`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    begin: Box<[u8]>,
    size: usize,
}

impl Excerpt {
    /// Keeps no more than `most` bytes.
    pub(super) fn of(bytes: &[u8], most: usize) -> Self {
        Self {
            begin: bytes[..bytes.len().min(most)].into(),
            size: bytes.len(),
        }
    }

    pub(super) fn shown(&self) -> Value {
        let cut = self.begin.len() < self.size;
        let (format, content) = match text(&self.begin, cut) {
            Some(text) if !cut && is_json(text) => ("json", text.to_owned()),
            Some(text) => ("text", text.to_owned()),
            None => ("base64", STANDARD.encode(&self.begin)),
        };
        json!({ "format": format, "content": content, "bytes": self.size, "cut": cut })
    }
}

/// The bytes as text, if a person can read them. If they were cut, they may end within a character.
fn text(bytes: &[u8], cut: bool) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if cut && error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_readable = |sign: char| !sign.is_control() || matches!(sign, '\n' | '\r' | '\t');
    text.chars().all(is_readable).then_some(text)
}

/// Whether the text is a JSON object or array. Other JSON (numbers, strings) is shown as text.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}
