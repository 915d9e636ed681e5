//! Windowed aggregations, and operators that wait for a time.

use super::{Builder, Built, FoldSpec, below};
use crate::Args::KeyValue;
use crate::expr::aggregation::Aggregation;
use crate::ops::aggregates::deduplicate::Deduplicate;
use crate::ops::tables::suppress::{self, Suppress};
use crate::ops::windows::count_window_aggregate::CountWindowAggregate;
use crate::ops::windows::session_aggregate::SessionAggregate;
use crate::ops::windows::sliding_aggregate::SlidingAggregate;
use crate::ops::windows::window::{Assign, Folder, WindowedStore};
use crate::ops::windows::window_aggregate::{WindowAggregate, WindowAggregateSettings};
use crate::support::table_writer::{ForwardMode, TableWriter};
use stoatflow_core::{ClockId, Error, Result, StoreId};
use stoatflow_plan::{
    Emit, Function as Spec, Op, PhysicalNode, SerdeSpec, Store, StoreKind, Window,
};

impl Builder<'_> {
    pub(super) fn windows(&self, node: &PhysicalNode) -> Built {
        Ok(Some(match &node.op {
            Op::WindowAggregate {
                store,
                positions: Some(positions),
                key,
                window: Window::Count { records },
                fold,
                emit,
                old,
                ..
            } => Box::new(CountWindowAggregate::new(
                self.in_windows(node, *store, key, *old, *emit)?,
                *positions,
                self.folder(fold)?,
                *records,
                *emit == Emit::OnWindowClose,
            )),
            Op::WindowAggregate {
                store,
                positions: _,
                key,
                window,
                fold,
                emit,
                clock,
                old,
            } => Box::new(WindowAggregate::new(
                self.in_windows(node, *store, key, *old, *emit)?,
                self.folder(fold)?,
                WindowAggregateSettings {
                    assign: Assign::new(window)?,
                    clock: *clock,
                    grace_ms: window.grace_ms(),
                    on_close: *emit == Emit::OnWindowClose,
                },
            )),
            Op::SlidingAggregate {
                store,
                key,
                difference_ms,
                grace_ms,
                fold,
                emit,
                clock,
                old,
            } => Box::new(SlidingAggregate::new(
                self.in_windows(node, *store, key, *old, *emit)?,
                self.folder(fold)?,
                *difference_ms,
                *grace_ms,
                *clock,
                *emit == Emit::OnWindowClose,
            )),
            Op::SessionAggregate {
                store,
                key,
                gap_ms,
                grace_ms,
                fold,
                emit,
                clock,
                old,
            } => Box::new(SessionAggregate::new(
                self.in_windows(node, *store, key, *old, *emit)?,
                self.folder(fold)?,
                *gap_ms,
                *grace_ms,
                *clock,
                *emit == Emit::OnWindowClose,
            )),
            Op::Deduplicate {
                store,
                key,
                function,
                within_ms,
                clock,
            } => Box::new(Deduplicate::new(
                self.node_context.clone(),
                (*store, retention_clock(self.kept(*store)?)?),
                self.foreign.serde(key)?,
                function
                    .as_ref()
                    .map(|function| self.function(function, KeyValue))
                    .transpose()?,
                *within_ms,
                *clock,
            )),
            _ => return Ok(None),
        }))
    }

    pub(super) fn suppress(&self, node: &PhysicalNode) -> Built {
        Ok(Some(match &node.op {
            Op::Suppress {
                store,
                key,
                value,
                until,
                max_records,
                max_bytes,
                when_full,
                clock,
                old,
            } => Box::new(Suppress::new(
                self.node_context.clone(),
                suppress::Settings {
                    store: *store,
                    key: self.foreign.serde(key)?,
                    value: self.foreign.serde(value)?,
                    until: *until,
                    max_records: *max_records,
                    max_bytes: *max_bytes,
                    when_full: *when_full,
                    clock: *clock,
                    old: *old,
                },
            )),
            _ => return Ok(None),
        }))
    }

    fn folder(&self, fold: &FoldSpec) -> Result<Folder> {
        match fold {
            FoldSpec::Count => Ok(Folder::Count),
            FoldSpec::Reduce { function } => Ok(Folder::reduce(self.function(function, KeyValue)?)),
            FoldSpec::Aggregate {
                function: Spec::Aggregation(aggregation),
                ..
            } => Ok(Folder::Native(Box::new(Aggregation::new(aggregation)?))),
            FoldSpec::Aggregate {
                initializer,
                function,
                merger,
            } => Folder::aggregate(
                self.function(initializer, KeyValue)?,
                self.function(function, KeyValue)?,
                merger
                    .as_ref()
                    .map(|merger| self.function(merger, KeyValue))
                    .transpose()?,
            ),
        }
    }

    fn in_windows(
        &self,
        node: &PhysicalNode,
        store: StoreId,
        key: &SerdeSpec,
        old: bool,
        emit: Emit,
    ) -> Result<WindowedStore> {
        let spec = self.kept(store)?;
        let (StoreKind::Window { retention_ms, .. } | StoreKind::Session { retention_ms }) =
            spec.kind
        else {
            let name = &spec.name;
            return Err(Error::internal(format!("the store {name} has no windows")));
        };
        let clock = retention_clock(spec)?;
        let sending = ForwardMode {
            old,
            // Final results are not held back any further.
            cache: self.cache(spec, emit == Emit::OnWindowUpdate),
            versions: None,
        };
        let key = self.foreign.serde(key)?;
        let value = self.foreign.serde(&spec.value)?;
        Ok(WindowedStore {
            writer: TableWriter::new(
                self.node_context.clone(),
                store,
                key.clone(),
                value,
                sending,
            ),
            key,
            clock,
            retention_ms,
            leaves_lane: below(self.plan, node)
                .iter()
                .any(|node| matches!(node.op, Op::Exchange { .. })),
        })
    }
}

fn retention_clock(store: &Store) -> Result<ClockId> {
    store
        .clock
        .ok_or_else(|| Error::internal(format!("the store {} has no clock", store.name)))
}
