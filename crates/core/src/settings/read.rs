//! Parses single values.
//!
//! Takes a JSON scalar (Python passes text, numbers and booleans; the environment only text); returns a
//! number, duration, size or boolean.

use serde_json::Value as Json;

/// A value that matches the type of its row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// Text, a path, or one of the allowed words.
    Text(String),
    /// A count, milliseconds, or bytes.
    Number(i64),
    /// True or false.
    Bool(bool),
    /// Set, but invalid; the problem is already recorded.
    Wrong,
}

/// The text of a scalar.
pub(super) fn text_of(value: &Json) -> Option<String> {
    match value {
        Json::String(s) => Some(s.clone()),
        Json::Number(n) => Some(n.to_string()),
        Json::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}

pub(super) fn bool_of(value: &Json) -> Option<bool> {
    match text_of(value)?.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

pub(super) fn number_of(value: &Json) -> Option<i64> {
    match value {
        Json::Number(n) => n.as_i64(),
        Json::String(s) => s.trim().replace('_', "").parse().ok(),
        _ => None,
    }
}

/// Milliseconds.
pub(super) fn duration_of(value: &Json) -> Option<i64> {
    with_unit(
        value,
        &[
            ("ms", 1.0),
            ("s", 1e3),
            ("m", 6e4),
            ("min", 6e4),
            ("h", 3.6e6),
            ("d", 8.64e7),
        ],
    )
}

/// Bytes.
pub(super) fn size_of(value: &Json) -> Option<i64> {
    const UNITS: &[(&str, f64)] = &[
        ("b", 1.0),
        ("k", 1024.0),
        ("kb", 1e3),
        ("kib", 1024.0),
        ("m", 1_048_576.0),
        ("mb", 1e6),
        ("mib", 1_048_576.0),
        ("g", 1_073_741_824.0),
        ("gb", 1e9),
        ("gib", 1_073_741_824.0),
    ];
    with_unit(value, UNITS)
}

fn with_unit(value: &Json, units: &[(&str, f64)]) -> Option<i64> {
    if let Some(number) = number_of(value) {
        return Some(number);
    }
    let Json::String(text) = value else {
        return None;
    };
    let text = text.trim().to_ascii_lowercase();
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = (text[..split].trim(), text[split..].trim());
    let factor = units.iter().find(|(u, _)| *u == unit)?.1;
    let number: f64 = number.parse().ok()?;
    let total = (number * factor).round();
    // Beyond 2^53 a float is no longer exact, and nothing here is that large.
    #[allow(clippy::cast_possible_truncation)]
    (total.abs() < 9e15).then_some(total as i64)
}

/// Whether the value of a setting or property with this name may be a secret. Covers mistyped names too.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    const WORDS: [&str; 10] = [
        "pass",
        "pasw",
        "pwd",
        "secret",
        "jaas",
        "token",
        "private",
        "credential",
        // Properties of schema registries: addresses may contain a password.
        "user.info",
        "registry.url",
    ];
    let name = name.to_ascii_lowercase().replace('_', ".");
    let is_key = name.ends_with(".key") || name.ends_with("key.pem");
    is_key || WORDS.iter().any(|word| name.contains(word))
}

/// The value as an error message may show it.
pub(super) fn shown(name: &str, value: &Json) -> String {
    if is_secret(name) {
        "***".to_owned()
    } else {
        value.to_string()
    }
}
