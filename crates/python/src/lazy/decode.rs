//! Decodes scanned JSON text into Python objects.
//!
//! Takes the text of a value; returns what `json.loads` would: whole numbers of any size, the nearest
//! float, strings with their escapes (also a lone surrogate), dicts in which the last of equal names
//! wins. Member names are cached in a small table, because they repeat in every record. Does not
//! validate: [`super::scan`] has done so, or does it along the way.

use super::scan::{JsonSyntaxError, Scanner};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use std::borrow::Cow;
use std::cell::RefCell;

/// Why decoding failed.
pub enum DecodeFailure {
    Text(JsonSyntaxError),
    Python(PyErr),
}

impl From<JsonSyntaxError> for DecodeFailure {
    fn from(fault: JsonSyntaxError) -> Self {
        Self::Text(fault)
    }
}

impl From<PyErr> for DecodeFailure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

/// A whole text as plain Python objects.
pub fn whole<'py>(py: Python<'py>, text: &[u8]) -> Result<Bound<'py, PyAny>, DecodeFailure> {
    let mut scanner = Scanner::of(text)?;
    scanner.skip_blanks();
    let value = read(py, &mut scanner, 0)?;
    scanner.skip_blanks();
    if scanner.at < text.len() {
        return Err(scanner.error("something behind the value").into());
    }
    Ok(value)
}

/// The plain Python object of a value; moves the scanner past it.
fn read<'py>(
    py: Python<'py>,
    scanner: &mut Scanner<'_>,
    depth: usize,
) -> Result<Bound<'py, PyAny>, DecodeFailure> {
    match scanner.peek() {
        Some(b'{') => {
            let dict = PyDict::new(py);
            scanner.enter(depth)?;
            if scanner.eat(b'}') {
                return Ok(dict.into_any());
            }
            loop {
                if scanner.peek() != Some(b'"') {
                    return Err(scanner.error("no name of a member").into());
                }
                let named = scanner.string()?;
                scanner.skip_blanks();
                if !scanner.eat(b':') {
                    return Err(scanner.error("no ':' behind a name").into());
                }
                scanner.skip_blanks();
                let value = read(py, scanner, depth + 1)?;
                dict.set_item(name(py, named.of(scanner.text))?, value)?;
                scanner.skip_blanks();
                if scanner.eat(b',') {
                    scanner.skip_blanks();
                } else if scanner.eat(b'}') {
                    return Ok(dict.into_any());
                } else {
                    let what = "neither ',' nor '}' behind a member";
                    return Err(scanner.error(what).into());
                }
            }
        }
        Some(b'[') => {
            let list = PyList::empty(py);
            scanner.enter(depth)?;
            if scanner.eat(b']') {
                return Ok(list.into_any());
            }
            loop {
                list.append(read(py, scanner, depth + 1)?)?;
                scanner.skip_blanks();
                if scanner.eat(b',') {
                    scanner.skip_blanks();
                } else if scanner.eat(b']') {
                    return Ok(list.into_any());
                } else {
                    let what = "neither ',' nor ']' behind an item";
                    return Err(scanner.error(what).into());
                }
            }
        }
        _ => {
            let from = scanner.at;
            scanner.value(depth)?;
            Ok(scalar(py, &scanner.text[from..scanner.at])?)
        }
    }
}

/// A string, number, boolean or null; its text has been scanned.
pub fn scalar<'py>(py: Python<'py>, text: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    Ok(match text.first() {
        Some(b'"') => string(py, &text[1..text.len() - 1])?.into_any(),
        Some(b't') => PyBool::new(py, true).to_owned().into_any(),
        Some(b'f') => PyBool::new(py, false).to_owned().into_any(),
        Some(b'n') | None => py.None().into_bound(py),
        Some(_) => number(py, text)?,
    })
}

fn number<'py>(py: Python<'py>, text: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    // The scanner has accepted digits, signs, points and exponents only.
    let text = std::str::from_utf8(text).unwrap_or_default();
    if text.bytes().any(|b| matches!(b, b'.' | b'e' | b'E')) {
        // As in Python: the nearest double, or infinity beyond the largest.
        return Ok(PyFloat::new(py, text.parse::<f64>()?).into_any());
    }
    match text.parse::<i64>() {
        Ok(number) => Ok(number.into_pyobject(py)?.into_any()),
        Err(_) => py.get_type::<PyInt>().call1((text,)),
    }
}

/// A Python string from the text between quotes.
pub fn string<'py>(py: Python<'py>, raw: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match unescaped(raw) {
        Cow::Borrowed(plain) => PyString::from_bytes(py, plain),
        Cow::Owned(decoded) => match std::str::from_utf8(&decoded) {
            Ok(text) => Ok(PyString::new(py, text)),
            Err(_) => decode_surrogates(py, &decoded),
        },
    }
}

#[cold]
fn decode_surrogates<'py>(py: Python<'py>, decoded: &[u8]) -> PyResult<Bound<'py, PyString>> {
    let bytes = pyo3::types::PyBytes::new(py, decoded);
    let text = bytes.call_method1("decode", ("utf-8", "surrogatepass"))?;
    Ok(text.cast_into::<PyString>()?)
}

/// Resolves the escapes of the text between quotes, to UTF-8. Lone surrogates take three bytes, as
/// Python's `surrogatepass` writes them.
pub fn unescaped(raw: &[u8]) -> Cow<'_, [u8]> {
    let Some(mut at) = raw.iter().position(|b| *b == b'\\') else {
        return Cow::Borrowed(raw);
    };
    let mut out = Vec::with_capacity(raw.len());
    out.extend_from_slice(&raw[..at]);
    while at < raw.len() {
        if raw[at] != b'\\' {
            out.push(raw[at]);
            at += 1;
            continue;
        }
        at += 2;
        match raw.get(at - 1) {
            Some(b'b') => out.push(8),
            Some(b'f') => out.push(12),
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b't') => out.push(b'\t'),
            Some(b'u') => {
                let mut code = hex(raw, at);
                at += 4;
                let is_high = (0xD800..0xDC00).contains(&code);
                if is_high && raw[at..].starts_with(b"\\u") {
                    let low = hex(raw, at + 2);
                    if (0xDC00..0xE000).contains(&low) {
                        code = 0x1_0000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                        at += 6;
                    }
                }
                push(&mut out, code);
            }
            Some(other) => out.push(*other),
            None => {}
        }
    }
    Cow::Owned(out)
}

fn hex(raw: &[u8], at: usize) -> u32 {
    let digits = raw.get(at..at + 4).unwrap_or_default();
    digits.iter().fold(0, |number, digit| {
        number * 16 + char::from(*digit).to_digit(16).unwrap_or(0)
    })
}

#[allow(clippy::cast_possible_truncation)] // six bits at a time
fn push(out: &mut Vec<u8>, code: u32) {
    if let Some(c) = char::from_u32(code) {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        return;
    }
    // A lone surrogate.
    out.push(0xE0 | (code >> 12) as u8);
    out.push(0x80 | (code >> 6 & 0x3F) as u8);
    out.push(0x80 | (code & 0x3F) as u8);
}

/// Number of slots in a thread's name cache.
const NAME_CACHE_SLOTS: usize = 512;

/// Longer names are unlikely to repeat.
const MAX_CACHED_NAME: usize = 40;

thread_local! {
    /// Name strings by a hash of their bytes: one string object for a name that is in every record.
    /// Bounded, unlike the interpreter's intern table, where names that are data (customer numbers)
    /// would stay forever.
    static NAME_CACHE: RefCell<Vec<Option<Py<PyString>>>> = const { RefCell::new(Vec::new()) };
}

/// The name of a member as a Python string.
pub fn name<'py>(py: Python<'py>, raw: &[u8]) -> PyResult<Bound<'py, PyString>> {
    if raw.len() > MAX_CACHED_NAME || raw.contains(&b'\\') {
        return string(py, raw);
    }
    let hash = raw.iter().fold(raw.len() as u64, |hash, byte| {
        (hash.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x517c_c1b7_2722_0a95)
    });
    NAME_CACHE.with_borrow_mut(|known| {
        if known.is_empty() {
            known.resize_with(NAME_CACHE_SLOTS, || None);
        }
        // The upper bits are well mixed.
        let slot = &mut known[(hash >> 55) as usize % NAME_CACHE_SLOTS];
        if let Some(there) = slot
            && there
                .bind(py)
                .to_str()
                .is_ok_and(|there| there.as_bytes() == raw)
        {
            return Ok(there.bind(py).clone());
        }
        let made = string(py, raw)?;
        *slot = Some(made.clone().unbind());
        Ok(made)
    })
}
