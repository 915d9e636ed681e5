//! One pass over JSON text: checks that it is well-formed, and collects the member names of its objects.
//!
//! Takes UTF-8. Builds nothing and doesn't recurse, however deep a text is. Its verdict equals that of
//! serde_json for every text (tested). We know no library that does this without parsing numbers and
//! strings, and every JSON record passes through this scan.

use super::Names;
use smallvec::SmallVec;
use std::ops::Range;

/// Whether the text is one JSON value, with nothing but whitespace around it.
pub(super) fn is_well_formed(text: &[u8], names: &mut Names) -> bool {
    let mut scan = JsonScanner::new(text, Some(names));
    scan.whole_value().is_some() && scan.past_blanks().is_none()
}

/// A position in the text. Each step returns `None` where the text is not well-formed.
pub(super) struct JsonScanner<'a> {
    text: &'a [u8],
    pub at: usize,
    /// `None`: names are not collected.
    names: Option<&'a mut Names>,
    /// The objects and arrays around the position: the object's number, 0 for an array.
    open: SmallVec<[u64; 8]>,
}

impl<'a> JsonScanner<'a> {
    pub fn new(text: &'a [u8], names: Option<&'a mut Names>) -> Self {
        Self {
            text,
            at: 0,
            names,
            open: SmallVec::new(),
        }
    }

    /// At a value: moves past it and everything in it.
    pub fn whole_value(&mut self) -> Option<()> {
        loop {
            self.value()?;
            // After a value: the enclosing array or object continues or ends.
            loop {
                let Some(around) = self.open.last().copied() else {
                    return Some(());
                };
                let next = self.past_blanks()?;
                self.at += 1;
                match (next, around) {
                    (b',', 0) => break,
                    (b',', object) => {
                        self.name(object)?;
                        break;
                    }
                    (b']', 0) => {}
                    (b'}', object) if object > 0 => {}
                    _ => return None,
                }
                self.open.pop();
            }
        }
    }

    /// A scalar, an empty object or array, or the start of a non-empty one: with its first name if it is
    /// an object, up to its first value.
    fn value(&mut self) -> Option<()> {
        loop {
            let first = self.past_blanks()?;
            self.at += 1;
            match first {
                b'"' => return self.string().map(drop),
                b'{' => {
                    if self.past_blanks()? == b'}' {
                        self.at += 1;
                        return Some(());
                    }
                    let object = self.names.as_deref_mut().map_or(1, Names::object);
                    self.open.push(object);
                    self.name(object)?;
                }
                b'[' => {
                    if self.past_blanks()? == b']' {
                        self.at += 1;
                        return Some(());
                    }
                    self.open.push(0);
                }
                b'-' => {
                    let digit = self.next()?;
                    return self.number(digit);
                }
                b'0'..=b'9' => return self.number(first),
                b't' => return self.word(b"rue"),
                b'f' => return self.word(b"alse"),
                b'n' => return self.word(b"ull"),
                _ => return None,
            }
        }
    }

    /// A member's name and the colon after it.
    fn name(&mut self, object: u64) -> Option<()> {
        if self.past_blanks()? != b'"' {
            return None;
        }
        self.at += 1;
        let first = self.at;
        let plain = self.string()?;
        let name = &self.text[first..self.at - 1];
        if let Some(names) = &mut self.names {
            if plain {
                names.add(object, name);
            } else {
                let name = serde_json::from_slice::<String>(&self.text[first - 1..self.at]);
                // A name that can't be encoded in UTF-8 (a lone surrogate) is well-formed, and equals no
                // other name.
                if let Ok(name) = name {
                    names.add(object, name.as_bytes());
                }
            }
        }
        (self.past_blanks()? == b':').then(|| self.at += 1)
    }

    /// At an object: moves to the value of its first member with this name; false if there is none.
    /// `None` also if a name is escaped, because it would have to be decoded first.
    pub fn member(&mut self, wanted: &[u8]) -> Option<bool> {
        self.open_object()?;
        let mut name = self.first_member()?;
        while let Some(place) = name {
            if self.text[place] == *wanted {
                return self.past_blanks().map(|_| true);
            }
            self.whole_value()?;
            name = self.next_member()?;
        }
        Some(false)
    }

    /// At an object: moves past its bracket.
    pub fn open_object(&mut self) -> Option<()> {
        (self.past_blanks()? == b'{').then(|| self.at += 1)
    }

    /// After an object's opening bracket: moves to the first value; the range of its name. `Some(None)`
    /// at the closing bracket. `None` also if the name is escaped.
    pub fn first_member(&mut self) -> Option<Option<Range<usize>>> {
        match self.past_blanks()? {
            b'}' => Some(None),
            _ => self.plain_name().map(Some),
        }
    }

    /// After the value of a member: as [`Self::first_member`], for the next one.
    pub fn next_member(&mut self) -> Option<Option<Range<usize>>> {
        match self.past_blanks()? {
            b'}' => Some(None),
            b',' => {
                self.at += 1;
                self.plain_name().map(Some)
            }
            _ => None,
        }
    }

    fn plain_name(&mut self) -> Option<Range<usize>> {
        if self.past_blanks()? != b'"' {
            return None;
        }
        self.at += 1;
        let first = self.at;
        let plain = self.string()?;
        let place = first..self.at - 1;
        if !plain || self.past_blanks()? != b':' {
            return None;
        }
        self.at += 1;
        Some(place)
    }

    /// After the opening quote; true if the string contains no escape.
    fn string(&mut self) -> Option<bool> {
        let mut plain = true;
        loop {
            let rest = &self.text[self.at..];
            let end = special(rest)?;
            self.at += end + 1;
            match rest[end] {
                b'"' => return Some(plain),
                b'\\' => plain = false,
                _ => return None,
            }
            match self.next()? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                b'u' => {
                    for _ in 0..4 {
                        self.next().filter(u8::is_ascii_hexdigit)?;
                    }
                }
                _ => return None,
            }
        }
    }

    /// After its first digit.
    fn number(&mut self, first: u8) -> Option<()> {
        match first {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            _ => return None,
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.next().filter(u8::is_ascii_digit)?;
            self.digits();
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.next().filter(u8::is_ascii_digit)?;
            self.digits();
        }
        Some(())
    }

    fn digits(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn word(&mut self, rest: &[u8]) -> Option<()> {
        let found = self.text[self.at..].starts_with(rest);
        self.at += rest.len();
        found.then_some(())
    }

    fn next(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// The next byte that is not whitespace; moves to it but not past it.
    pub fn past_blanks(&mut self) -> Option<u8> {
        loop {
            match *self.text.get(self.at)? {
                b' ' | b'\n' | b'\t' | b'\r' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }
}

/// Beyond this length memchr is faster than 8-byte steps.
const SHORT: usize = 32;

/// Position of the first quote, backslash or control character; `None` also if a control character comes
/// first in a long text.
fn special(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < SHORT
        && let Some(part) = text[at..].first_chunk()
    {
        let found = marks(u64::from_le_bytes(*part));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = &text[at..];
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    // No early exit, so that the compiler can compare many bytes at once.
    let controls = rest[..end].iter().fold(false, |any, b| any | (*b < b' '));
    (!controls).then_some(at + end)
}

/// Marks quotes, backslashes and control characters in eight little-endian bytes, in the highest bit of each.
/// Only the lowest mark is reliable: the subtraction may carry into the bytes above it.
const fn marks(eight: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let quote = eight ^ (ONES * b'"' as u64);
    let slash = eight ^ (ONES * b'\\' as u64);
    let quote = quote.wrapping_sub(ONES) & !quote;
    let slash = slash.wrapping_sub(ONES) & !slash;
    let control = eight.wrapping_sub(ONES * b' ' as u64) & !eight;
    (quote | slash | control) & (ONES << 7)
}
