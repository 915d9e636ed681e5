//! Conditions and orders in SQL syntax: `city = 'Oslo' and age > 30`, `age desc, _key`.
//!
//! Takes text, returns expressions. Names are those of `app.sql`: `_key`, `_timestamp`, members of the
//! value. A condition has the semantics of SQL: a comparison with null is neither true nor false. Native
//! expressions treat null as a value that equals itself, so `lower` moves each negation down to the
//! comparisons and adds checks for null.

mod lower;
#[cfg(test)]
mod tests;
mod tokens;

use super::OrderBy;
use crate::expression::{Expression as E, Literal};
use lower::lower;
use stoatflow_core::{Error, Result};
use tokens::Tokens;

/// Maximum nesting of parentheses and negations.
const MAX_DEPTH: usize = 64;

/// The type of a store's values, which decides what a name in the text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Objects: a name is a member.
    Objects,
    /// Text or numbers; the name `value` stands for them.
    Plain,
    /// Values that the engine can't read.
    Unreadable,
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Where one text must occur in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Start,
    End,
    Middle,
}

/// A parsed condition.
#[derive(Clone, Debug, PartialEq)]
enum Condition {
    Both(Box<[Condition; 2]>),
    Either(Box<[Condition; 2]>),
    Not(Box<Condition>),
    Compare(Comparison, E, E),
    IsNull(E),
    In(E, Vec<Literal>),
    Between(E, Literal, Literal),
    Text(Part, E, String),
    ListContains(E, Literal),
    /// A boolean member.
    Is(E),
}

/// Parses a condition.
///
/// # Errors
/// `Config` with the position and what is allowed there.
pub fn condition(text: &str, values: Values) -> Result<E> {
    let mut parser = Parser::new("where", text, values)?;
    let condition = parser.either()?;
    parser.end()?;
    Ok(lower(condition, false))
}

/// Parses an order.
///
/// # Errors
/// As [`condition`].
pub fn order(text: &str, values: Values) -> Result<Vec<OrderBy>> {
    let mut parser = Parser::new("order_by", text, values)?;
    let mut all = Vec::new();
    loop {
        let expr = parser.name()?;
        let down = parser.takes("desc");
        if !down {
            parser.takes("asc");
        }
        all.push(OrderBy { expr, down });
        if !parser.takes(",") {
            break;
        }
    }
    parser.end()?;
    Ok(all)
}

struct Parser<'t> {
    /// The parameter that contains the text.
    of: &'static str,
    tokens: Tokens<'t>,
    values: Values,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn new(of: &'static str, text: &'t str, values: Values) -> Result<Self> {
        Ok(Self {
            of,
            tokens: Tokens::read(of, text)?,
            values,
            depth: 0,
        })
    }

    fn either(&mut self) -> Result<Condition> {
        let mut left = self.both()?;
        while self.takes("or") {
            left = Condition::Either(Box::new([left, self.both()?]));
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Condition> {
        let mut left = self.not()?;
        while self.takes("and") {
            left = Condition::Both(Box::new([left, self.not()?]));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Condition> {
        if self.takes("not") {
            return Ok(Condition::Not(Box::new(self.deeper(Self::not)?)));
        }
        if self.takes("(") {
            let inner = self.deeper(Self::either)?;
            self.expect(")")?;
            return Ok(inner);
        }
        self.comparison()
    }

    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Result<Condition>) -> Result<Condition> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.wrong("is nested too deep"));
        }
        let inner = read(self)?;
        self.depth -= 1;
        Ok(inner)
    }

    fn comparison(&mut self) -> Result<Condition> {
        if let Some(called) = self.called()? {
            return Ok(called);
        }
        let left = self.side()?;
        if self.takes("is") {
            let negated = self.takes("not");
            self.expect("null")?;
            return Ok(negate(Condition::IsNull(left), negated));
        }
        let negated = self.takes("not");
        let found = if self.takes("in") {
            Condition::In(left, self.list()?)
        } else if self.takes("between") {
            let from = self.literal()?;
            self.expect("and")?;
            Condition::Between(left, from, self.literal()?)
        } else if self.takes("like") {
            self.like(left)?
        } else if negated {
            return Err(self.expected("in, between or like behind not"));
        } else {
            return match self.compared() {
                Some(how) => Ok(Condition::Compare(how, left, self.side()?)),
                None if left.constant().is_some() => Err(self.expected("a comparison")),
                None => Ok(Condition::Is(left)),
            };
        };
        Ok(negate(found, negated))
    }

    fn compared(&mut self) -> Option<Comparison> {
        let all = [
            ("=", Comparison::Equal),
            ("==", Comparison::Equal),
            ("<>", Comparison::NotEqual),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let found = all.into_iter().find(|(symbol, _)| self.takes(symbol));
        found.map(|(_, how)| how)
    }

    /// `starts_with(name, 'a')` and similar functions, as in DuckDB.
    fn called(&mut self) -> Result<Option<Condition>> {
        const NAMES: [&str; 4] = ["starts_with", "ends_with", "contains", "list_contains"];
        let called = NAMES.into_iter().find(|name| self.tokens.calls(name));
        let Some(function) = called else {
            return Ok(None);
        };
        self.takes(function);
        self.expect("(")?;
        let of = self.name()?;
        self.expect(",")?;
        let found = if function == "list_contains" {
            Condition::ListContains(of, self.literal()?)
        } else {
            let Literal::Str(text) = self.literal()? else {
                return Err(self.wrong(&format!("gives {function} what is no text in '...'")));
            };
            let part = match function {
                "starts_with" => Part::Start,
                "ends_with" => Part::End,
                _ => Part::Middle,
            };
            Condition::Text(part, of, text)
        };
        self.expect(")")?;
        Ok(Some(found))
    }

    fn like(&mut self, left: E) -> Result<Condition> {
        let Literal::Str(pattern) = self.literal()? else {
            return Err(self.wrong("has like before what is no text in '...'"));
        };
        let open = (
            pattern.starts_with('%'),
            pattern.len() > 1 && pattern.ends_with('%'),
        );
        let inner = pattern.strip_prefix('%').unwrap_or(&pattern);
        let inner = if open.1 {
            &inner[..inner.len() - 1]
        } else {
            inner
        };
        if inner.contains(['%', '_']) {
            return Err(self
                .wrong("has a pattern with _, or with % in the middle")
                .hint("use starts_with(name, '...'), ends_with or contains, joined by and"));
        }
        let text = inner.to_owned();
        Ok(match open {
            (false, false) => {
                let right = E::Lit {
                    value: Literal::Str(text),
                };
                Condition::Compare(Comparison::Equal, left, right)
            }
            (false, true) => Condition::Text(Part::Start, left, text),
            (true, false) => Condition::Text(Part::End, left, text),
            (true, true) => Condition::Text(Part::Middle, left, text),
        })
    }

    fn list(&mut self) -> Result<Vec<Literal>> {
        self.expect("(")?;
        let mut all = vec![self.literal()?];
        while self.takes(",") {
            all.push(self.literal()?);
        }
        self.expect(")")?;
        Ok(all)
    }

    fn side(&mut self) -> Result<E> {
        match self.tokens.literal() {
            Some(value) => Ok(E::Lit { value }),
            None => self.name(),
        }
    }

    fn literal(&mut self) -> Result<Literal> {
        let found = self.tokens.literal();
        found.ok_or_else(|| self.expected("a number, a text in '...', true, false or null"))
    }

    /// `_key`, `_timestamp`, `value`, or a member, followed by members and elements.
    fn name(&mut self) -> Result<E> {
        let Some((first, quoted)) = self.tokens.name() else {
            return Err(self.expected("a name"));
        };
        let mut found = match (first.as_str(), quoted, self.values) {
            ("_key", false, _) => E::Key,
            ("_timestamp", false, _) => E::Timestamp,
            (_, _, Values::Unreadable) => {
                return Err(self
                    .wrong("is about the value, which a serde in Python has written")
                    .hint("conditions on _key and _timestamp work; read the store from Python for others"));
            }
            ("value", false, Values::Plain) => E::Value,
            (name, _, Values::Plain) => {
                return Err(self
                    .wrong(&format!(
                        "has the name '{name}', and the values have no members"
                    ))
                    .hint("write value for the value, _key or _timestamp"));
            }
            (name, _, Values::Objects) => member(E::Value, name),
        };
        loop {
            if self.takes(".") {
                let Some((name, _)) = self.tokens.name() else {
                    return Err(self.expected("a name behind the point"));
                };
                found = member(found, &name);
            } else if self.takes("[") {
                let index = self.tokens.literal();
                let Some(Literal::Int(index)) = index.filter(|at| *at != Literal::Int(0)) else {
                    return Err(self.expected("a whole number that is not 0: SQL counts from 1"));
                };
                self.expect("]")?;
                // Negative indexes count from the end in both languages.
                let index = index.saturating_sub(i64::from(index > 0));
                found = E::At {
                    args: Box::new([found]),
                    index,
                };
            } else {
                return Ok(found);
            }
        }
    }

    fn takes(&mut self, word: &str) -> bool {
        self.tokens.take(word)
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.takes(word) {
            return Ok(());
        }
        Err(self.expected(word))
    }

    fn end(&self) -> Result<()> {
        if self.tokens.is_over() {
            return Ok(());
        }
        Err(self.expected(match self.of {
            "where" => "and, or, or nothing more",
            _ => "a comma or nothing more",
        }))
    }

    fn expected(&self, what: &str) -> Error {
        self.wrong(&format!("wants {what} {}", self.tokens.place()))
    }

    fn wrong(&self, what: &str) -> Error {
        let example = match self.of {
            "where" => "write for example where=city = 'Oslo' and age > 30",
            _ => "write for example order_by=age desc, _key",
        };
        Error::config(format!("{}={} {what}", self.of, self.tokens.text)).hint(example)
    }
}

fn negate(condition: Condition, negated: bool) -> Condition {
    if negated {
        Condition::Not(Box::new(condition))
    } else {
        condition
    }
}

fn member(of: E, name: &str) -> E {
    E::Get {
        args: Box::new([of]),
        name: name.to_owned(),
    }
}
