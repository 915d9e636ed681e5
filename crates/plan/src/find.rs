//! How a query finds its rows: by keys, along an index, or with a full scan.
//!
//! Takes a query and the indexes of its store, returns ranges of bytes to read and how they relate to
//! the query. Pure: no store is read. Every matching row lies in the ranges; whether a row in them
//! matches is checked when it is read.

mod choose;
pub mod covering;
pub mod ranges;
#[cfg(test)]
mod tests;
pub mod text;

use crate::expression::Expression;
use crate::json::read;
use crate::materialized::IndexSpec;
use crate::spec::SerdeSpec;
pub use choose::choose;
pub use ranges::AccessRange;
use serde::Deserialize;
use stoatflow_core::{Error, Result};

/// An expression that rows are ordered by.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderBy {
    /// The expression.
    pub expr: Expression,
    /// True for descending order.
    #[serde(default)]
    pub down: bool,
}

/// The columns of a query's result.
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
    /// The condition on rows; `None`: all rows.
    #[serde(default, rename = "where")]
    pub condition: Option<Expression>,
    /// The order of the result.
    #[serde(default)]
    pub order_by: Vec<OrderBy>,
    /// The maximum number of rows.
    #[serde(default)]
    pub limit: Option<usize>,
    /// The columns of the result; `None`: key and value.
    #[serde(default)]
    pub select: Option<Select>,
    /// Whether it may read all rows.
    #[serde(default)]
    pub allow_scan: bool,
    /// A page ends after about this many rows were read, unless they must be sorted.
    #[serde(skip)]
    pub most_read: Option<u64>,
}

impl FindSpec {
    /// Decodes a query.
    ///
    /// # Errors
    /// `Topology` for invalid JSON, `Config` for an expression that fails for every row.
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

    /// Checks that its expressions can work for some row.
    ///
    /// # Errors
    /// `Config` if not, with the problems.
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
    /// As text.
    Text,
    /// Integers of this many bytes; negative ones come last.
    Whole(usize),
    /// Unknown: only whole keys can be compared, or not even those.
    Unknown,
}

impl KeyOrder {
    /// The order of keys with this serde.
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
    /// Its declaration.
    pub spec: &'a IndexSpec,
    /// Whether it contains all rows.
    pub readable: bool,
}

/// The access path to the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessPath {
    /// Single keys.
    Keys,
    /// Ranges of keys.
    KeyRange,
    /// An index, by its position in the list.
    Index(usize),
    /// All rows.
    Scan,
}

/// What is read, and how it relates to the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The access path.
    pub path: AccessPath,
    /// The ranges to read: keys of the store or of the index, ascending, without overlaps.
    pub ranges: Vec<AccessRange>,
    /// Whether they are read backwards.
    pub reverse: bool,
    /// Whether the rows arrive in the requested order; otherwise they must be sorted.
    pub in_order: bool,
    /// Whether a row may be read more than once.
    pub repeats: bool,
}
