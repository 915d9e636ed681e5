//! Functions of texts, as the methods of Python's `str` of the same names.
//!
//! Takes texts, returns texts, which share the buffer of the text that they are a part of. Positions
//! count characters, not bytes. Never looks at a locale.

use super::number::Number;
use super::{args, text};
use stoatflow_core::{Datum, Error, Result, Text};

const WIDEST: i64 = 1_000_000;

/// The ends to strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Both,
    Left,
    Right,
}

pub(super) fn strip(of: &Text, chars: Option<&str>, ends: Ends) -> Text {
    let drop = |c: char| chars.map_or_else(|| text::is_space(c), |chars| chars.contains(c));
    let s = of.as_str();
    of.cut(match ends {
        Ends::Both => s.trim_matches(drop),
        Ends::Left => s.trim_start_matches(drop),
        Ends::Right => s.trim_end_matches(drop),
    })
}

/// The range of `[start:stop]` in a sequence of this length.
pub(super) fn range(
    length: usize,
    start: Option<i64>,
    stop: Option<i64>,
) -> std::ops::Range<usize> {
    let place = |at: i64| match usize::try_from(at) {
        Ok(at) => at.min(length),
        Err(_) => length.saturating_sub(usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let (start, stop) = (start.map_or(0, place), stop.map_or(length, place));
    start..stop.max(start)
}

pub(super) fn slice(of: &Text, start: Option<i64>, stop: Option<i64>) -> Text {
    let s = of.as_str();
    if s.is_ascii() {
        return of.cut(&s[range(s.len(), start, stop)]);
    }
    let wanted = range(s.chars().count(), start, stop);
    let mut places = s.char_indices().map(|(at, _)| at).chain([s.len()]);
    let from = places.nth(wanted.start).unwrap_or(s.len());
    let to = match wanted.len() {
        0 => from,
        further => places.nth(further - 1).unwrap_or(s.len()),
    };
    of.cut(&s[from..to])
}

/// Replaces the first `count` occurrences; if `count` is negative, all of them.
pub(super) fn replace(of: Text, old: &str, new: &str, count: i64) -> Text {
    let s = of.as_str();
    if !s.contains(old) {
        return of;
    }
    Text::from(match usize::try_from(count) {
        Ok(count) => s.replacen(old, new, count),
        Err(_) => s.replace(old, new),
    })
}

pub(super) fn zfill(of: Text, width: i64) -> Result<Text> {
    let s = of.as_str();
    let missing = missing(s, width)?;
    if missing == 0 {
        return Ok(of);
    }
    let (sign, rest) = match s.as_bytes().first() {
        Some(b'+' | b'-') => s.split_at(1),
        _ => ("", s),
    };
    Ok(Text::from([sign, &"0".repeat(missing), rest].concat()))
}

/// Pads a text to this width, at the start or at the end.
pub(super) fn justify(of: Text, width: i64, fill: char, at_start: bool) -> Result<Text> {
    let missing = missing(of.as_str(), width)?;
    if missing == 0 {
        return Ok(of);
    }
    let filled: String = std::iter::repeat_n(fill, missing).collect();
    let s = of.as_str();
    Ok(Text::from(if at_start {
        [&filled, s].concat()
    } else {
        [s, &filled].concat()
    }))
}

/// How many characters are missing. The width is bounded: a record must not take all of the memory.
fn missing(s: &str, width: i64) -> Result<usize> {
    if width > WIDEST {
        return Err(
            Error::user(format!("a text of {width} characters is too wide"))
                .hint("give a width of at most 1 million"),
        );
    }
    Ok(usize::try_from(width)
        .unwrap_or(0)
        .saturating_sub(s.chars().count()))
}

/// The position of the first occurrence, in characters; -1 if there is none.
pub(super) fn find(of: &str, what: &str) -> i64 {
    of.find(what).map_or(-1, |at| {
        i64::try_from(of[..at].chars().count()).unwrap_or(i64::MAX)
    })
}

/// Splits with at most `cuts` cuts; if `cuts` is negative, with all of them.
pub(super) fn split(line: &Text, by: Option<&str>, cuts: i64) -> Datum {
    let Ok(cuts) = usize::try_from(cuts) else {
        let mut parts = Vec::new();
        text::split(line, by, &mut |part| parts.push(Datum::Str(part)));
        return Datum::List(parts.into());
    };
    let s = line.as_str();
    let mut parts = Vec::new();
    match by {
        Some(by) => parts.extend(
            s.splitn(cuts.saturating_add(1), by)
                .map(|p| Datum::Str(line.cut(p))),
        ),
        None => {
            let mut rest = s.trim_start_matches(text::is_space);
            while !rest.is_empty() && parts.len() < cuts {
                let end = rest.find(text::is_space).unwrap_or(rest.len());
                parts.push(Datum::Str(line.cut(&rest[..end])));
                rest = rest[end..].trim_start_matches(text::is_space);
            }
            if !rest.is_empty() {
                parts.push(Datum::Str(line.cut(rest)));
            }
        }
    }
    Datum::List(parts.into())
}

/// As Python's `int(text, base)`, with ASCII digits only.
pub(super) fn to_int(text: &str, base: u32) -> Option<i64> {
    let trimmed = text.trim_matches(text::is_space);
    let (sign, digits) = match trimmed.as_bytes().first()? {
        b'-' => ("-", &trimmed[1..]),
        b'+' => ("", &trimmed[1..]),
        _ => ("", trimmed),
    };
    let prefix = match base {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    };
    let prefixed = !prefix.is_empty()
        && digits
            .get(..2)
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let digits = if prefixed {
        let rest = &digits[2..];
        rest.strip_prefix('_').unwrap_or(rest)
    } else {
        digits
    };
    let mut plain = String::from(sign);
    let mut before = '_';
    for c in digits.chars() {
        if c == '_' && before == '_' || c != '_' && !c.is_digit(base) {
            return None;
        }
        if c != '_' {
            plain.push(c);
        }
        before = c;
    }
    if before == '_' {
        return None;
    }
    i64::from_str_radix(&plain, base).ok()
}

/// The format of a number: `[0][width][.digits]f`, `[0][width]d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    zeros: bool,
    width: usize,
    digits: Option<usize>,
    whole: bool,
}

impl Form {
    pub fn new(spelled: &str) -> Option<Self> {
        let (body, whole) = match spelled.strip_suffix('d') {
            Some(body) => (body, true),
            None => (spelled.strip_suffix('f')?, false),
        };
        let (width, digits) = match body.split_once('.') {
            Some((width, digits)) if !whole => (width, Some(digits.parse().ok()?)),
            Some(_) => return None,
            None => (body, None),
        };
        let numeric = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if !numeric(width) {
            return None;
        }
        Some(Self {
            zeros: width.starts_with('0'),
            width: if width.is_empty() {
                0
            } else {
                width.parse().ok()?
            },
            digits,
            whole,
        })
        .filter(|form| form.width < 1000 && form.digits.unwrap_or(0) < 400)
    }

    pub fn write(self, of: &Datum) -> Result<Text> {
        let Self { width, .. } = self;
        Ok(Text::from(match (args::number(of)?, self.whole) {
            (Number::Int(i), true) if self.zeros => format!("{i:0width$}"),
            (Number::Int(i), true) => format!("{i:width$}"),
            (Number::Float(_), true) => {
                return Err(Error::user("a whole number was expected, but found float")
                    .hint("use a form such as .2f, or .cast(\"int\")"));
            }
            (number, false) => {
                let (x, digits) = (number.float(), self.digits.unwrap_or(6));
                let written = match (self.zeros, x.is_finite()) {
                    (true, true) => format!("{x:0width$.digits$}"),
                    _ => format!("{x:width$.digits$}"),
                };
                if x.is_nan() {
                    written.to_lowercase()
                } else {
                    written
                }
            }
        }))
    }
}
