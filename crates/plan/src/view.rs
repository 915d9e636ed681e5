//! How a table is read by key: from a store, or computed on the way from the stores above it.
//!
//! Made with the stages for joins and processors. A table without a store of its own is a view over its
//! parent's, as in Kafka Streams: nothing is kept twice. Never written to.

use crate::function::Function;
use crate::spec::SerdeSpec;
use serde::Serialize;
use stoatflow_core::{ProcessorId, StoreId};

/// Which rows without a partner a join gives.
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
    /// Kept.
    Store {
        /// The store.
        store: StoreId,
        /// Serde of its keys.
        key: SerdeSpec,
    },
    /// What fits.
    Filter {
        /// The table above.
        of: Box<View>,
        /// `(key, value)`.
        function: Function,
        /// Keep what does not fit.
        not: bool,
    },
    /// Another value.
    MapValues {
        /// The table above.
        of: Box<View>,
        /// `(value)` or `(key, value)`.
        function: Function,
        /// Which of the two.
        with_key: bool,
    },
    /// Another value, by a transformer.
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
        /// Left.
        left: Box<View>,
        /// Right.
        right: Box<View>,
        /// Which rows.
        kind: Kind,
        /// `(left, right)` or `(key, left, right)`.
        function: Function,
        /// Which of the two.
        with_key: bool,
    },
}

impl View {
    /// The stores of the tables that it is made of: not those of transformers.
    pub(crate) fn tables(&self) -> Vec<StoreId> {
        match self {
            Self::Store { store, .. } => vec![*store],
            Self::Filter { of, .. }
            | Self::MapValues { of, .. }
            | Self::TransformValues { of, .. } => of.tables(),
            Self::Join { left, right, .. } => [left.tables(), right.tables()].concat(),
        }
    }

    /// The stores it reads.
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
