//! Regular expressions on texts.
//!
//! Takes a pattern once, returns what it finds; a found text shares the buffer of the text it was found
//! in. No pattern and no text make a search take longer than linear time.

use regex::Regex;
use stoatflow_core::{Datum, Error, Result, Text};
use stoatflow_plan::expression::pattern::{self, Part};

/// What to do with matches.
#[derive(Clone, Debug)]
pub(super) enum Search {
    Matches(Regex),
    Extract(Regex, usize),
    ExtractAll(Regex, usize),
    Replace(Regex, Vec<Part>),
}

fn refused(what: String) -> Error {
    Error::topology(what).hint("write the pattern in the language of the Rust crate `regex`")
}

impl Search {
    pub fn matches(text: &str) -> Result<Self> {
        Ok(Self::Matches(pattern::pattern(text).map_err(refused)?))
    }

    pub fn extract(text: &str, group: &str, all: bool) -> Result<Self> {
        let found = pattern::pattern(text).map_err(refused)?;
        let group = pattern::group(&found, group).map_err(refused)?;
        Ok(if all {
            Self::ExtractAll(found, group)
        } else {
            Self::Extract(found, group)
        })
    }

    pub fn replace(text: &str, by: &str) -> Result<Self> {
        let found = pattern::pattern(text).map_err(refused)?;
        let parts = pattern::replacement(&found, by).map_err(refused)?;
        Ok(Self::Replace(found, parts))
    }

    pub fn run(&self, of: &Text) -> Datum {
        let s = of.as_str();
        match self {
            Self::Matches(pattern) => Datum::Bool(pattern.is_match(s)),
            Self::Extract(pattern, 0) => pattern
                .find(s)
                .map_or(Datum::Null, |found| Datum::Str(of.cut(found.as_str()))),
            Self::Extract(pattern, group) => pattern
                .captures(s)
                .and_then(|groups| groups.get(*group))
                .map_or(Datum::Null, |found| Datum::Str(of.cut(found.as_str()))),
            Self::ExtractAll(pattern, group) => {
                let found = pattern.captures_iter(s).map(|groups| {
                    groups
                        .get(*group)
                        .map_or(Datum::Null, |found| Datum::Str(of.cut(found.as_str())))
                });
                Datum::List(found.collect())
            }
            Self::Replace(pattern, parts) => {
                let replaced = pattern.replace_all(s, |groups: &regex::Captures<'_>| {
                    let mut by = String::new();
                    for part in parts {
                        match part {
                            Part::Text(text) => by.push_str(text),
                            Part::Group(group) => {
                                by.push_str(groups.get(*group).map_or("", |found| found.as_str()));
                            }
                        }
                    }
                    by
                });
                match replaced {
                    std::borrow::Cow::Borrowed(_) => Datum::Str(of.clone()),
                    std::borrow::Cow::Owned(made) => Datum::Str(Text::from(made)),
                }
            }
        }
    }
}
