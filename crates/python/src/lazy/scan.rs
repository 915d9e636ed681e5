//! Locates the parts of a JSON text.
//!
//! Takes bytes; returns the spans of an object's members or an array's items, and validates every byte
//! of the text on the way (RFC 8259, and not deeper than [`MAX_DEPTH`]). Owns the grammar. Never creates
//! values: [`super::decode`] does. Strings are scanned eight bytes at a time, so validation costs about
//! as much as a copy of the text.

use stoatflow_core::json::is_utf8;

/// Deeper texts are rejected: the scanner is recursive.
pub const MAX_DEPTH: usize = 200;

/// What is wrong, and at which byte.
#[derive(Debug, PartialEq, Eq)]
pub struct JsonSyntaxError {
    pub at: usize,
    pub what: &'static str,
}

type Scanned<T> = Result<T, JsonSyntaxError>;

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: u32,
    pub to: u32,
}

impl Span {
    // `Scanner::of` rejects texts whose length needs more than 31 bits.
    #[allow(clippy::cast_possible_truncation)]
    const fn new(from: usize, to: usize) -> Self {
        Self {
            from: from as u32,
            to: to as u32,
        }
    }

    pub const fn range(self) -> std::ops::Range<usize> {
        self.from as usize..self.to as usize
    }

    pub fn of(self, text: &[u8]) -> &[u8] {
        &text[self.range()]
    }
}

/// A member of an object: the name between its quotes, and the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: Span,
    pub value: Span,
    /// Whether the name contains escapes.
    pub escaped: bool,
}

/// The type of a text's top-level value.
#[derive(Debug)]
pub enum Top {
    /// Members in the order of the text; names may repeat, then the last one wins.
    Object(Vec<Member>),
    Array(Vec<Span>),
    Scalar,
}

/// Validates a whole text. Returns its top-level value, and its span without surrounding blanks.
pub fn scan(text: &[u8]) -> Scanned<(Top, Span)> {
    let mut scanner = Scanner::of(text)?;
    scanner.skip_blanks();
    let from = scanner.at;
    let top = match scanner.peek() {
        Some(b'{') => {
            // Most objects have a handful of members, which fit one allocation.
            let mut members = Vec::with_capacity(16);
            scanner.object(0, |member| members.push(member))?;
            Top::Object(members)
        }
        Some(b'[') => {
            let mut items = Vec::with_capacity(16);
            scanner.array(0, |item| items.push(item))?;
            Top::Array(items)
        }
        _ => {
            scanner.value(0)?;
            Top::Scalar
        }
    };
    let span = Span::new(from, scanner.at);
    scanner.skip_blanks();
    if scanner.at < text.len() {
        return Err(scanner.error("something behind the value"));
    }
    Ok((top, span))
}

/// A position in a text.
pub struct Scanner<'t> {
    pub text: &'t [u8],
    pub at: usize,
    /// Whether an escape was seen since this was last reset.
    escapes: bool,
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

impl<'t> Scanner<'t> {
    /// Starts at the beginning of a text, which must be UTF-8.
    pub fn of(text: &'t [u8]) -> Scanned<Self> {
        if !is_utf8(text)
            && let Err(error) = std::str::from_utf8(text)
        {
            return Err(JsonSyntaxError {
                at: error.valid_up_to(),
                what: "a byte that is not UTF-8",
            });
        }
        if text.len() > i32::MAX as usize {
            return Err(JsonSyntaxError {
                at: 0,
                what: "a text of more than 2 GiB",
            });
        }
        Ok(Self {
            text,
            at: 0,
            escapes: false,
        })
    }

    pub const fn error(&self, what: &'static str) -> JsonSyntaxError {
        JsonSyntaxError { at: self.at, what }
    }

    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    pub fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Skips this byte if it is next; returns whether it was.
    #[inline]
    pub fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    /// Skips a value.
    pub fn value(&mut self, depth: usize) -> Scanned<()> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'{') => self.object(depth, |_| {}),
            Some(b'[') => self.array(depth, |_| {}),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(b'-' | b'0'..=b'9') => self.number().map(drop),
            Some(_) => Err(self.error("no value")),
            None => Err(self.error("the end where a value should be")),
        }
    }

    /// Skips an object and reports its members.
    pub fn object(&mut self, depth: usize, mut on_part: impl FnMut(Member)) -> Scanned<()> {
        self.enter(depth)?;
        if self.eat(b'}') {
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.error("no name of a member"));
            }
            self.escapes = false;
            let name = self.string()?;
            let escaped = self.escapes;
            self.skip_blanks();
            if !self.eat(b':') {
                return Err(self.error("no ':' behind a name"));
            }
            self.skip_blanks();
            let from = self.at;
            self.value(depth + 1)?;
            let value = Span::new(from, self.at);
            on_part(Member {
                name,
                value,
                escaped,
            });
            self.skip_blanks();
            if self.eat(b',') {
                self.skip_blanks();
            } else if self.eat(b'}') {
                return Ok(());
            } else {
                return Err(self.error("neither ',' nor '}' behind a member"));
            }
        }
    }

    /// Skips an array and reports its items.
    pub fn array(&mut self, depth: usize, mut on_part: impl FnMut(Span)) -> Scanned<()> {
        self.enter(depth)?;
        if self.eat(b']') {
            return Ok(());
        }
        loop {
            let from = self.at;
            self.value(depth + 1)?;
            on_part(Span::new(from, self.at));
            self.skip_blanks();
            if self.eat(b',') {
                self.skip_blanks();
            } else if self.eat(b']') {
                return Ok(());
            } else {
                return Err(self.error("neither ',' nor ']' behind an item"));
            }
        }
    }

    /// Skips an opening bracket and the blanks after it.
    pub fn enter(&mut self, depth: usize) -> Scanned<()> {
        if depth >= MAX_DEPTH {
            return Err(self.error("more levels than are allowed"));
        }
        self.at += 1;
        self.skip_blanks();
        Ok(())
    }

    pub fn word(&mut self, word: &[u8]) -> Scanned<()> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.error("no value"));
        }
        self.at += word.len();
        Ok(())
    }

    /// Skips a string; returns the span between its quotes.
    #[inline]
    pub fn string(&mut self) -> Scanned<Span> {
        self.at += 1;
        let from = self.at;
        loop {
            self.plain();
            match self.peek() {
                Some(b'"') => {
                    let span = Span::new(from, self.at);
                    self.at += 1;
                    return Ok(span);
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(self.error("a control character within a string")),
                None => return Err(self.error("the end within a string")),
            }
        }
    }

    /// Skips to the next quote, backslash or control character.
    #[inline]
    fn plain(&mut self) {
        while let Some(chunk) = self.text[self.at..].first_chunk::<8>() {
            let eight = u64::from_le_bytes(*chunk);
            // The lowest high bit is exact, because borrows only propagate upwards.
            let zero = |x: u64| x.wrapping_sub(ONES) & !x;
            let quotes = zero(eight ^ (ONES * b'"' as u64));
            let slashes = zero(eight ^ (ONES * b'\\' as u64));
            let controls = eight.wrapping_sub(ONES * 0x20) & !eight;
            let found = (quotes | slashes | controls) & HIGHS;
            if found != 0 {
                self.at += found.trailing_zeros() as usize / 8;
                return;
            }
            self.at += 8;
        }
        while let Some(byte) = self.peek() {
            if byte == b'"' || byte == b'\\' || byte < 0x20 {
                return;
            }
            self.at += 1;
        }
    }

    #[cold]
    fn escape(&mut self) -> Scanned<()> {
        self.escapes = true;
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let digits = self.text.get(self.at + 2..self.at + 6);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(self.error("no four hexadecimal digits behind \\u"));
                }
                self.at += 6;
            }
            _ => return Err(self.error("a backslash with nothing that it may escape")),
        }
        Ok(())
    }

    /// Skips a number. Returns whether it is a whole one, without a point or an exponent.
    #[inline]
    pub fn number(&mut self) -> Scanned<bool> {
        self.eat(b'-');
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.error("no digit where a number should go on")),
        }
        let mut whole = true;
        if self.eat(b'.') {
            whole = false;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            whole = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Ok(whole)
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Scanned<()> {
        let from = self.at;
        self.digits();
        if self.at == from {
            return Err(self.error("no digit where a number should go on"));
        }
        Ok(())
    }
}
