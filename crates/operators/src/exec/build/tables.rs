//! Operators that keep a table, and those between tables.

use super::{Builder, Built};
use crate::Args::{KeyValue, Value};
use crate::expr::aggregation::Aggregation;
use crate::ops::aggregates::fold::Fold;
use crate::ops::aggregates::native_aggregate::NativeAggregate;
use crate::ops::aggregates::{aggregate, count, reduce};
use crate::ops::tables::table_aggregate::TableAggregate;
use crate::ops::tables::table_filter::{TableFilter, TableFilterSettings};
use crate::ops::tables::{table, table_group_by, table_map_values, to_stream, unversioned};
use crate::support::table_writer::TableWriter;
use stoatflow_core::{Error, NodeId, Result, StoreId};
use stoatflow_plan::{Fold as FoldSpec, Function as Spec, Op, PhysicalNode, SerdeSpec, StoreKind};

impl Builder<'_> {
    pub(super) fn tables(&self, node: &PhysicalNode) -> Built {
        Ok(Some(match &node.op {
            Op::TableSource { store, key, old } => {
                Box::new(table::Table::new(self.writer(*store, key, *old)?))
            }
            Op::Count { store, key, old } => {
                let writer = self.writer(*store, key, *old)?;
                Box::new(count::Count::new(writer, self.counted_ahead(node)))
            }
            Op::Reduce {
                store,
                key,
                function,
                old,
            } => Box::new(reduce::Reduce::new(
                self.fold(node, *store, key, *old)?,
                self.function(function, KeyValue)?,
            )),
            Op::Aggregate {
                store,
                key,
                function: Spec::Aggregation(aggregation),
                old,
                ..
            } => Box::new(NativeAggregate::new(
                self.writer(*store, key, *old)?,
                Aggregation::new(aggregation)?,
            )),
            Op::Aggregate {
                store,
                key,
                initializer,
                function,
                old,
            } => Box::new(aggregate::Aggregate::new(
                self.fold(node, *store, key, *old)?,
                self.function(initializer, KeyValue)?,
                self.function(function, KeyValue)?,
            )?),
            Op::TableFilter {
                function,
                not,
                store,
                key,
                old,
            } => Box::new(TableFilter::new(
                self.function(function, KeyValue)?,
                self.writer_if(*store, key, *old)?,
                TableFilterSettings {
                    not: *not,
                    old: *old,
                    versioned: self.over_versioned(node),
                },
            )),
            Op::TableMapValues {
                function,
                with_key,
                store,
                key,
                old,
            } => Box::new(table_map_values::TableMapValues::new(
                self.function(function, if *with_key { KeyValue } else { Value })?,
                self.writer_if(*store, key, *old)?,
                *old,
            )),
            Op::TableGroupBy { function, key } => Box::new(table_group_by::TableGroupBy::new(
                self.function(function, KeyValue)?,
                self.foreign.serde(key)?,
            )),
            Op::TableAggregate {
                store,
                key,
                fold,
                subtractor,
                old,
            } => {
                let kept = self.fold(node, *store, key, *old)?;
                Box::new(self.table_aggregate(kept, fold, subtractor.as_ref())?)
            }
            Op::Unversioned => Box::new(unversioned::Unversioned),
            Op::ToStream => Box::new(to_stream::ToStream),
            _ => return Ok(None),
        }))
    }

    pub(super) fn writer_if(
        &self,
        store: Option<StoreId>,
        key: &SerdeSpec,
        old: bool,
    ) -> Result<Option<TableWriter>> {
        store.map(|store| self.writer(store, key, old)).transpose()
    }

    fn table_aggregate(
        &self,
        kept: Fold,
        fold: &FoldSpec,
        subtractor: Option<&Spec>,
    ) -> Result<TableAggregate> {
        let subtractor = || {
            let spec = subtractor.ok_or_else(|| {
                Error::internal("an aggregation of a table has nothing that takes away")
            })?;
            self.function(spec, KeyValue)
        };
        match fold {
            FoldSpec::Count => Ok(TableAggregate::count(kept)),
            FoldSpec::Reduce { function } => {
                let adder = self.function(function, KeyValue)?;
                Ok(TableAggregate::reduce(kept, adder, subtractor()?))
            }
            FoldSpec::Aggregate {
                function: Spec::Aggregation(aggregation),
                ..
            } => Ok(TableAggregate::native(kept, Aggregation::new(aggregation)?)),
            FoldSpec::Aggregate {
                initializer,
                function,
                ..
            } => TableAggregate::aggregate(
                kept,
                self.function(initializer, KeyValue)?,
                self.function(function, KeyValue)?,
                subtractor()?,
            ),
        }
    }

    /// Whether an exchange may send one record for many: if it sends only to counts that get records
    /// from nowhere else, and no node below sees each step.
    pub(super) fn counts_ahead(&self, exchange: &PhysicalNode) -> bool {
        let Op::Exchange { to, keep_null, .. } = &exchange.op else {
            return false;
        };
        let counts = |to: &NodeId| {
            let Some(node) = self.plan.nodes.get(to.0 as usize) else {
                return false;
            };
            let Op::Count { store, .. } = &node.op else {
                return false;
            };
            let kept = self.kept(*store);
            let cache = kept.is_ok_and(|kept| self.cache(kept, true).is_some());
            let read = self.plan.sources.iter().any(|s| s.entry == node.id);
            cache && !read && self.above(node).count() == 1
        };
        !keep_null && !to.is_empty() && to.iter().all(counts)
    }

    fn counted_ahead(&self, count: &PhysicalNode) -> bool {
        self.above(count).any(|above| self.counts_ahead(above))
    }

    /// The nodes that send to a node.
    fn above(&self, node: &PhysicalNode) -> impl Iterator<Item = &PhysicalNode> {
        let id = node.id;
        self.plan.nodes.iter().filter(move |parent| {
            let exchanged = match &parent.op {
                Op::Exchange { to, .. } => to.contains(&id),
                _ => false,
            };
            exchanged || parent.children.contains(&id)
        })
    }

    /// Whether a node's table comes from a versioned store, with nothing but views in between.
    fn over_versioned(&self, node: &PhysicalNode) -> bool {
        self.above(node).any(|parent| match parent.op.store() {
            Some(store) => self
                .kept(store)
                .is_ok_and(|kept| matches!(kept.kind, StoreKind::Versioned { .. })),
            None => {
                matches!(
                    parent.op,
                    Op::TableFilter { .. }
                        | Op::TableMapValues { .. }
                        | Op::TransformValues { .. }
                        | Op::Exchange { .. }
                ) && self.over_versioned(parent)
            }
        })
    }
}
