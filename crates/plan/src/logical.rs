//! The plan as it crosses the border: the user's DSL calls in their order, as data.
//!
//! Python encodes it, [`LogicalPlan::decode`] takes it, unknown fields are refused. Functions and
//! custom serdes are indices into tables that cross beside it. Never decides anything.

use crate::Expression;
use serde::{Deserialize, Serialize};

/// The version of this format; another one is refused.
pub const VERSION: u32 = 1;

/// A function: foreign or native.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// Index into the table of callables.
    Udf(u32),
    /// A native expression.
    Expr(Expression),
}

/// A serde: `"string"` or `{"custom": 0}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", untagged)]
pub enum SerdeSpec {
    /// A built-in one by name (`bytes`, `string`, `int32`, `int64`, `double`, `json`).
    Builtin(String),
    /// Index into the table of custom serdes.
    Custom {
        /// The index.
        custom: u32,
    },
}

/// How a table is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Materialized {
    /// The store's name; without one the store gets a generated name, which never reaches disk
    /// unless `ensure.explicit.naming` is off.
    #[serde(default)]
    pub store: Option<String>,
    /// Serde of its keys; default: what the input has.
    #[serde(default)]
    pub key: Option<SerdeSpec>,
    /// Serde of its values; default: what the operator gives (count: `int64`) or the input has.
    #[serde(default)]
    pub value: Option<SerdeSpec>,
    /// Written to a changelog topic?
    #[serde(default = "yes")]
    pub logged: bool,
}

const fn yes() -> bool {
    true
}

/// Where a source starts without a committed position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reset {
    /// At the beginning.
    Earliest,
    /// With what comes from now on.
    Latest,
}

/// One DSL call. `from` names earlier nodes by their position in the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Where the user wrote it (`app.py:12`), for errors.
    #[serde(default)]
    pub line: Option<String>,
    /// The user's name for it.
    #[serde(default)]
    pub name: Option<String>,
    /// What it does.
    #[serde(flatten)]
    pub call: Call,
}

/// What a DSL call does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[allow(missing_docs)] // the fields are those of the DSL methods of the same names
pub enum Call {
    Stream {
        topics: Vec<String>,
        key: SerdeSpec,
        value: SerdeSpec,
        #[serde(default)]
        reset: Option<Reset>,
    },
    Table {
        topic: String,
        key: SerdeSpec,
        value: SerdeSpec,
        #[serde(default)]
        materialized: Option<Materialized>,
        #[serde(default)]
        reset: Option<Reset>,
    },
    Filter {
        from: usize,
        function: Function,
    },
    FilterNot {
        from: usize,
        function: Function,
    },
    Map {
        from: usize,
        function: Function,
    },
    MapValues {
        from: usize,
        function: Function,
        #[serde(default)]
        with_key: bool,
    },
    FlatMap {
        from: usize,
        function: Function,
    },
    FlatMapValues {
        from: usize,
        function: Function,
        #[serde(default)]
        with_key: bool,
    },
    SelectKey {
        from: usize,
        function: Function,
    },
    Peek {
        from: usize,
        function: Function,
    },
    Foreach {
        from: usize,
        function: Function,
    },
    Merge {
        from: usize,
        other: usize,
    },
    GroupByKey {
        from: usize,
        #[serde(default)]
        key: Option<SerdeSpec>,
        #[serde(default)]
        value: Option<SerdeSpec>,
    },
    GroupBy {
        from: usize,
        function: Function,
        #[serde(default)]
        key: Option<SerdeSpec>,
        #[serde(default)]
        value: Option<SerdeSpec>,
    },
    Count {
        from: usize,
        #[serde(default)]
        materialized: Option<Materialized>,
    },
    Reduce {
        from: usize,
        function: Function,
        #[serde(default)]
        materialized: Option<Materialized>,
    },
    /// `initializer` is a callable without arguments or a literal expression.
    Aggregate {
        from: usize,
        initializer: Function,
        function: Function,
        #[serde(default)]
        materialized: Option<Materialized>,
    },
    ToStream {
        from: usize,
    },
    To {
        from: usize,
        topic: String,
        #[serde(default)]
        key: Option<SerdeSpec>,
        #[serde(default)]
        value: Option<SerdeSpec>,
    },
}

/// The whole plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogicalPlan {
    /// See [`VERSION`].
    pub version: u32,
    /// DSL calls in their order (names count up along it).
    pub nodes: Vec<Node>,
    /// Names of the callables: `app.py:12 is_large`.
    pub functions: Vec<String>,
    /// Names of the custom serdes.
    #[serde(default)]
    pub serdes: Vec<String>,
    /// The setting `default.key.serde`: for keys whose serde nothing else says.
    #[serde(default, alias = "default.key.serde")]
    pub default_key: Option<SerdeSpec>,
    /// The setting `default.value.serde`: for values whose serde nothing else says.
    #[serde(default, alias = "default.value.serde")]
    pub default_value: Option<SerdeSpec>,
}

/// The JSON names of all calls, in the order of [`Call`].
pub const CALLS: &[&str] = &[
    "stream",
    "table",
    "filter",
    "filter_not",
    "map",
    "map_values",
    "flat_map",
    "flat_map_values",
    "select_key",
    "peek",
    "foreach",
    "merge",
    "group_by_key",
    "group_by",
    "count",
    "reduce",
    "aggregate",
    "to_stream",
    "to",
];

impl Call {
    /// Its JSON name, equal to the DSL method.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Stream { .. } => "stream",
            Self::Table { .. } => "table",
            Self::Filter { .. } => "filter",
            Self::FilterNot { .. } => "filter_not",
            Self::Map { .. } => "map",
            Self::MapValues { .. } => "map_values",
            Self::FlatMap { .. } => "flat_map",
            Self::FlatMapValues { .. } => "flat_map_values",
            Self::SelectKey { .. } => "select_key",
            Self::Peek { .. } => "peek",
            Self::Foreach { .. } => "foreach",
            Self::Merge { .. } => "merge",
            Self::GroupByKey { .. } => "group_by_key",
            Self::GroupBy { .. } => "group_by",
            Self::Count { .. } => "count",
            Self::Reduce { .. } => "reduce",
            Self::Aggregate { .. } => "aggregate",
            Self::ToStream { .. } => "to_stream",
            Self::To { .. } => "to",
        }
    }

    /// The earlier nodes it reads.
    #[must_use]
    pub fn inputs(&self) -> Vec<usize> {
        match self {
            Self::Stream { .. } | Self::Table { .. } => vec![],
            Self::Merge { from, other } => vec![*from, *other],
            Self::Filter { from, .. }
            | Self::FilterNot { from, .. }
            | Self::Map { from, .. }
            | Self::MapValues { from, .. }
            | Self::FlatMap { from, .. }
            | Self::FlatMapValues { from, .. }
            | Self::SelectKey { from, .. }
            | Self::Peek { from, .. }
            | Self::Foreach { from, .. }
            | Self::GroupByKey { from, .. }
            | Self::GroupBy { from, .. }
            | Self::Count { from, .. }
            | Self::Reduce { from, .. }
            | Self::Aggregate { from, .. }
            | Self::ToStream { from }
            | Self::To { from, .. } => vec![*from],
        }
    }

    /// The functions it calls.
    #[must_use]
    pub fn functions(&self) -> Vec<&Function> {
        match self {
            Self::Filter { function, .. }
            | Self::FilterNot { function, .. }
            | Self::Map { function, .. }
            | Self::MapValues { function, .. }
            | Self::FlatMap { function, .. }
            | Self::FlatMapValues { function, .. }
            | Self::SelectKey { function, .. }
            | Self::Peek { function, .. }
            | Self::Foreach { function, .. }
            | Self::GroupBy { function, .. }
            | Self::Reduce { function, .. } => vec![function],
            Self::Aggregate {
                initializer,
                function,
                ..
            } => vec![initializer, function],
            _ => vec![],
        }
    }

    /// How its table is kept.
    #[must_use]
    pub const fn materialized(&self) -> Option<&Materialized> {
        match self {
            Self::Table { materialized, .. }
            | Self::Count { materialized, .. }
            | Self::Reduce { materialized, .. }
            | Self::Aggregate { materialized, .. } => materialized.as_ref(),
            _ => None,
        }
    }

    /// The serdes it names, with the argument that names them.
    #[must_use]
    pub fn serdes(&self) -> Vec<(&'static str, &SerdeSpec)> {
        let (key, value) = match self {
            Self::Stream { key, value, .. } | Self::Table { key, value, .. } => {
                (Some(key), Some(value))
            }
            Self::GroupByKey { key, value, .. }
            | Self::GroupBy { key, value, .. }
            | Self::To { key, value, .. } => (key.as_ref(), value.as_ref()),
            _ => (None, None),
        };
        let mut all = Vec::new();
        all.extend(key.map(|s| ("key", s)));
        all.extend(value.map(|s| ("value", s)));
        if let Some(m) = self.materialized() {
            all.extend(m.key.as_ref().map(|s| ("materialized key", s)));
            all.extend(m.value.as_ref().map(|s| ("materialized value", s)));
        }
        all
    }
}
