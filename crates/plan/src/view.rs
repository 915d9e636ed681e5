//! How a table is read by key: from a store, or computed from the stores above it.
//!
//! Created for joins and processors when the plan is cut into stages. A table without a store of its own
//! is a view over its parent's, as in Kafka Streams: nothing is stored twice. Never written to.

use crate::function::Function;
use crate::spec::SerdeSpec;
use serde::Serialize;
use stoatflow_core::{ProcessorId, StoreId};

/// Which rows without a partner a join emits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// None.
    Inner,
    /// Those of the left side.
    Left,
    /// Those of both sides.
    Outer,
}

/// A table that can be read by key.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "view", rename_all = "snake_case")]
pub enum View {
    /// A materialized table.
    Store {
        /// The store.
        store: StoreId,
        /// Serde of its keys.
        key: SerdeSpec,
    },
    /// The rows that match.
    Filter {
        /// The table above.
        of: Box<View>,
        /// `(key, value)`.
        function: Function,
        /// Keeps the rows that don't match.
        not: bool,
    },
    /// Mapped values.
    MapValues {
        /// The table above.
        of: Box<View>,
        /// `(value)` or `(key, value)`.
        function: Function,
        /// Whether the function gets the key.
        with_key: bool,
    },
    /// Values mapped by a transformer.
    TransformValues {
        /// The table above.
        of: Box<View>,
        /// The transformer.
        processor: ProcessorId,
        /// Its stores.
        stores: Vec<StoreId>,
    },
    /// Two tables joined by key.
    Join {
        /// The left table.
        left: Box<View>,
        /// The right table.
        right: Box<View>,
        /// Which rows without a partner it contains.
        kind: Kind,
        /// `(left, right)` or `(key, left, right)`.
        function: Function,
        /// Whether the function gets the keys.
        with_key: bool,
    },
}

impl View {
    /// The stores of the tables that it consists of, without those of transformers.
    pub(crate) fn tables(&self) -> Vec<StoreId> {
        match self {
            Self::Store { store, .. } => vec![*store],
            Self::Filter { of, .. }
            | Self::MapValues { of, .. }
            | Self::TransformValues { of, .. } => of.tables(),
            Self::Join { left, right, .. } => [left.tables(), right.tables()].concat(),
        }
    }

    /// All stores that it reads.
    #[must_use]
    pub fn stores(&self) -> Vec<StoreId> {
        match self {
            Self::Store { store, .. } => vec![*store],
            Self::Filter { of, .. } | Self::MapValues { of, .. } => of.stores(),
            Self::TransformValues { of, stores, .. } => {
                let mut all = of.stores();
                all.extend(stores);
                all
            }
            Self::Join { left, right, .. } => {
                let mut all = left.stores();
                all.extend(right.stores());
                all
            }
        }
    }
}
