//! The tokens of a condition.

use crate::expression::Literal;
use stoatflow_core::{Error, Result};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name or a keyword.
    Word(String),
    /// A name in "...".
    Quoted(String),
    /// A text or a number.
    Constant(Literal),
    Symbol(&'static str),
}

/// Longer ones come first, so that the longest match wins.
const SYMBOLS: [&str; 14] = [
    "<=", ">=", "<>", "!=", "==", "=", "<", ">", "(", ")", "[", "]", ",", ".",
];
/// Words that can't be names without quotes.
const KEYWORDS: [&str; 13] = [
    "and", "or", "not", "is", "null", "in", "between", "like", "true", "false", "asc", "desc",
    "order",
];

/// See the module.
pub(super) struct Tokens<'t> {
    pub text: &'t str,
    /// Each token with the byte position of its start.
    all: Vec<(usize, Token)>,
    at: usize,
}

impl<'t> Tokens<'t> {
    pub fn read(of: &str, text: &'t str) -> Result<Self> {
        let mut all = Vec::new();
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let place = text.len() - rest.len();
            let wrong = |what: &str| {
                let number = text[..place].chars().count() + 1;
                Error::config(format!("{of}={text} has {what} at character {number}"))
            };
            let (token, length) = match first {
                '\'' | '"' => {
                    let (inner, length) = quoted(rest, first)
                        .ok_or_else(|| wrong("a quotation mark without its end"))?;
                    let token = if first == '"' {
                        Token::Quoted(inner)
                    } else {
                        Token::Constant(Literal::Str(inner))
                    };
                    (token, length)
                }
                '0'..='9' | '-' => {
                    let length = number_length(rest);
                    let number = number(&rest[..length]);
                    (
                        Token::Constant(number.ok_or_else(|| wrong("no number"))?),
                        length,
                    )
                }
                c if c.is_alphabetic() || c == '_' => {
                    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                    let length = end.unwrap_or(rest.len());
                    (Token::Word(rest[..length].to_owned()), length)
                }
                _ => {
                    let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
                    let symbol = symbol.ok_or_else(|| wrong(&format!("'{first}'")))?;
                    (Token::Symbol(symbol), symbol.len())
                }
            };
            all.push((place, token));
            rest = rest[length..].trim_start();
        }
        Ok(Self { text, all, at: 0 })
    }

    fn next(&self) -> Option<&Token> {
        self.all.get(self.at).map(|(_, token)| token)
    }

    pub fn is_over(&self) -> bool {
        self.next().is_none()
    }

    /// Consumes a keyword (case-insensitive) or a symbol.
    pub fn take(&mut self, wanted: &str) -> bool {
        let found = match self.next() {
            Some(Token::Word(word)) => word.eq_ignore_ascii_case(wanted),
            Some(Token::Symbol(symbol)) => *symbol == wanted,
            _ => false,
        };
        self.at += usize::from(found);
        found
    }

    /// Whether the next token is this word, followed by a parenthesis.
    pub fn calls(&self, wanted: &str) -> bool {
        let is_word =
            matches!(self.next(), Some(Token::Word(word)) if word.eq_ignore_ascii_case(wanted));
        let behind = self.all.get(self.at + 1).map(|(_, token)| token);
        is_word && behind == Some(&Token::Symbol("("))
    }

    /// Consumes a name; returns it, and whether it was quoted.
    pub fn name(&mut self) -> Option<(String, bool)> {
        let found = match self.next()? {
            Token::Quoted(name) => (name.clone(), true),
            Token::Word(word) if !is_keyword(word) => (word.clone(), false),
            _ => return None,
        };
        self.at += 1;
        Some(found)
    }

    /// Consumes a constant.
    pub fn literal(&mut self) -> Option<Literal> {
        let found = match self.next()? {
            Token::Constant(value) => value.clone(),
            Token::Word(word) if word.eq_ignore_ascii_case("true") => Literal::Bool(true),
            Token::Word(word) if word.eq_ignore_ascii_case("false") => Literal::Bool(false),
            Token::Word(word) if word.eq_ignore_ascii_case("null") => Literal::Null,
            _ => return None,
        };
        self.at += 1;
        Some(found)
    }

    /// The current position, for error messages.
    pub fn place(&self) -> String {
        match self.all.get(self.at) {
            Some((at, _)) => format!("at character {}", self.text[..*at].chars().count() + 1),
            None => "at its end".to_owned(),
        }
    }
}

fn is_keyword(word: &str) -> bool {
    KEYWORDS
        .iter()
        .any(|keyword| word.eq_ignore_ascii_case(keyword))
}

/// The text between two quotation marks (a doubled mark stands for one), and its length with the marks.
fn quoted(text: &str, mark: char) -> Option<(String, usize)> {
    let mut inner = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c != mark {
            inner.push(c);
        } else if chars.next_if(|(_, next)| *next == mark).is_some() {
            inner.push(mark);
        } else {
            return Some((inner, at + mark.len_utf8()));
        }
    }
    None
}

fn number_length(text: &str) -> usize {
    let mut before = '0';
    let end = text.char_indices().find(|(at, c)| {
        let signed = *at == 0 || matches!(before, 'e' | 'E');
        let fits = c.is_ascii_alphanumeric() || *c == '.' || (signed && matches!(c, '-' | '+'));
        before = *c;
        !fits
    });
    end.map_or(text.len(), |(at, _)| at)
}

fn number(text: &str) -> Option<Literal> {
    let whole = text.parse::<i64>().ok().map(Literal::Int);
    whole.or_else(|| {
        // Excludes "inf" and "nan", which Rust parses too.
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.map(Literal::Float)
    })
}
