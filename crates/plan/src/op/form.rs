//! How the result of an async function is used.
//!
//! One variant for each DSL method that accepts an async function. Read by the operator that makes the
//! calls.

use serde::Serialize;

/// How the result of an async function is used: as in the DSL method of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the names are those of the methods
pub enum Form {
    Filter,
    FilterNot,
    Map,
    MapValues,
    FlatMap,
    FlatMapValues,
    SelectKey,
    GroupBy,
    Peek,
    Foreach,
}

impl Form {
    /// The DSL method.
    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::FilterNot => "filter_not",
            Self::Map => "map",
            Self::MapValues => "map_values",
            Self::FlatMap => "flat_map",
            Self::FlatMapValues => "flat_map_values",
            Self::SelectKey => "select_key",
            Self::GroupBy => "group_by",
            Self::Peek => "peek",
            Self::Foreach => "foreach",
        }
    }
}
