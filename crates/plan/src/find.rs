//! How a query finds its rows: by keys, along an index, or by reading everything.
//!
//! Takes what is asked and what there is, gives ranges of bytes to read and how they stand to what was asked.
//! Pure: no store is read. Every row that matches lies in the ranges; whether a row in them matches is looked
//! at when it is read.

mod choose;
pub mod pieces;
#[cfg(test)]
mod tests;
pub mod text;

use crate::expression::Expression;
use crate::json::read;
use crate::materialized::IndexSpec;
use crate::spec::SerdeSpec;
pub use choose::choose;
pub use pieces::Piece;
use serde::Deserialize;
use stoatflow_core::{Error, Result};

/// An expression that rows are ordered by.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderBy {
    /// Which.
    pub expr: Expression,
    /// From the largest to the smallest?
    #[serde(default)]
    pub down: bool,
}

/// What a query gives of each row.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Select {
    /// The expressions.
    pub exprs: Vec<Expression>,
}

/// A query.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindSpec {
    /// Which rows; `None`: all.
    #[serde(default, rename = "where")]
    pub condition: Option<Expression>,
    /// In which order.
    #[serde(default)]
    pub order_by: Vec<OrderBy>,
    /// At most so many rows.
    #[serde(default)]
    pub limit: Option<usize>,
    /// What of each; `None`: key and value.
    #[serde(default)]
    pub select: Option<Select>,
    /// May it read all rows?
    #[serde(default)]
    pub allow_scan: bool,
    /// A page ends when about so many rows have been read, unless they must be sorted.
    #[serde(skip)]
    pub most_read: Option<u64>,
}

impl FindSpec {
    /// Reads one that crossed the border.
    ///
    /// # Errors
    /// `Topology` for what is none, `Config` for an expression that can never work.
    pub fn decode(json: &[u8]) -> Result<Self> {
        let mut spec: Self = serde_json::from_value(read(json)?).map_err(|e| {
            Error::config("that is no query")
                .caused_by(e)
                .hint("give where=, order_by= and select= expressions of stoatflow")
        })?;
        spec.check()?;
        spec.condition = spec.condition.map(|condition| condition.without_places());
        for by in &mut spec.order_by {
            by.expr = by.expr.without_places();
        }
        Ok(spec)
    }

    /// Can it work for some row?
    ///
    /// # Errors
    /// `Config` if not, with what is wrong.
    pub fn check(&self) -> Result<()> {
        let orders = self.order_by.iter().map(|by| &by.expr);
        let selected = self.select.iter().flat_map(|select| &select.exprs);
        let all = self.condition.iter().chain(orders).chain(selected);
        let problems: Vec<String> = all.flat_map(Expression::problems).collect();
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::config(problems.join("; ")).hint("write it so that it can work for some row"))
    }
}

/// How the bytes of a store's keys are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOrder {
    /// As texts.
    Text,
    /// Whole numbers of so many bytes, of which those below zero come last.
    Whole(usize),
    /// In some other way: by the whole key only, or not even that.
    Unknown,
}

impl KeyOrder {
    /// Of keys that are written so.
    #[must_use]
    pub fn of(serde: &SerdeSpec) -> Self {
        match serde {
            SerdeSpec::Builtin(name) if name == "string" => Self::Text,
            SerdeSpec::Builtin(name) if name == "int64" => Self::Whole(8),
            SerdeSpec::Builtin(name) if name == "int32" => Self::Whole(4),
            _ => Self::Unknown,
        }
    }
}

/// An index, and whether it can be read now.
#[derive(Clone, Copy, Debug)]
pub struct IndexView<'a> {
    /// How it was declared.
    pub spec: &'a IndexSpec,
    /// Does it have all rows?
    pub readable: bool,
}

/// Which way to the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Some keys.
    Keys,
    /// Ranges of keys.
    KeyRange,
    /// An index, by its number.
    Index(usize),
    /// All rows.
    Scan,
}

/// What is read, and how that stands to what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The way.
    pub way: Way,
    /// What is read: keys of the store or of the index, ascending, without overlaps.
    pub pieces: Vec<Piece>,
    /// From the last one to the first?
    pub reverse: bool,
    /// Do rows come in the order that is asked for? Else they are sorted.
    pub in_order: bool,
    /// May a row come more than once?
    pub repeats: bool,
}
