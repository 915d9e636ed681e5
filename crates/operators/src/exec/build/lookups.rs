//! Operators that read tables by key: joins of tables, and of streams with tables.

use super::{Builder, Built};
use crate::Args::{KeyValue, Value};
use crate::ops::async_ops::ConcurrentCalls;
use crate::ops::joins::global_join::GlobalJoin;
use crate::ops::joins::joiner::{Joiner, Needs};
use crate::ops::joins::stream_table_join::{Lookup, StreamTableJoin, Waiting, WaitingSettings};
use crate::ops::joins::table_join::{Late, TableJoin};
use crate::ops::joins::table_merge::TableMerge;
use crate::ops::tables::view_read::{Read, Shape, ViewRead};
use stoatflow_core::{ClockId, Error, Result, Serde, StoreId};
use stoatflow_plan::{
    Function as Spec, JoinKind, Op, PhysicalNode, SerdeSpec, Store, StoreKind, View,
};

impl Builder<'_> {
    pub(super) fn lookups(&self, node: &PhysicalNode) -> Built {
        Ok(Some(match &node.op {
            Op::TableJoin {
                left,
                kind,
                other,
                function,
                with_key,
                key,
                apart,
                old,
            } => Box::new(TableJoin::new(
                self.node_context.clone(),
                *left,
                Needs::of(*kind),
                self.view(node, other)?,
                self.joiner(function, *with_key)?,
                self.late(node, key, *apart)?,
                *old,
            )),
            Op::TableMerge { store, key, old } => {
                let waits = self.options.at_barrier && store.is_none();
                let waits = waits.then(|| self.foreign.serde(key)).transpose()?;
                let writer = self.writer_if(*store, key, *old)?;
                Box::new(TableMerge::new(writer, waits, self.node_context.clone()))
            }
            Op::StreamTableJoin {
                kind,
                table,
                function,
                with_key,
                grace_ms,
                buffer,
                clock,
                key,
                value,
            } => {
                let joiner = self.joiner(function, *with_key)?;
                let waiting = match (grace_ms, buffer, clock) {
                    (Some(grace_ms), Some(store), Some(clock)) => {
                        Some(Waiting::new(WaitingSettings {
                            node_context: self.node_context.clone(),
                            store: *store,
                            clock: *clock,
                            grace_ms: *grace_ms,
                            key: self.foreign.serde(key)?,
                            value: self.foreign.serde(value)?,
                        }))
                    }
                    (None, _, _) => None,
                    _ => return Err(Error::internal("a join with a grace has no buffer")),
                };
                let lookup = self.lookup(node, *kind, table, joiner)?;
                Box::new(StreamTableJoin::new(lookup, waiting))
            }
            Op::GlobalJoin {
                kind,
                table,
                key_function,
                function,
                with_key,
            } => {
                let joiner = self.joiner(function, *with_key)?;
                Box::new(GlobalJoin::new(
                    self.lookup(node, *kind, table, joiner)?,
                    self.function(key_function, KeyValue)?,
                ))
            }
            _ => return Ok(None),
        }))
    }

    /// `Some` if updates reach a join of tables later than their rows are written.
    fn late(&self, node: &PhysicalNode, key: &SerdeSpec, apart: bool) -> Result<Option<Late>> {
        if !apart && !self.options.cached {
            return Ok(None);
        }
        let Some(merge) = node.children.first() else {
            return Err(Error::internal("a side of a join of tables has no merge"));
        };
        Ok(Some(Late {
            key: self.foreign.serde(key)?,
            updates: self.shared.updates(*merge),
        }))
    }

    pub(super) fn joiner(&self, function: &Spec, with_key: bool) -> Result<Joiner> {
        let calls = match function.awaiting() {
            None => None,
            Some(awaiting) => {
                let patient = self.foreign.runtime.as_ref().is_some_and(|r| r.patient());
                let udf = self.foreign.call(awaiting.udf)?;
                Some(ConcurrentCalls::new(
                    udf,
                    awaiting,
                    patient,
                    self.options.fault,
                ))
            }
        };
        Ok(Joiner::new(
            self.function(function, Value)?,
            with_key,
            calls,
        ))
    }

    fn lookup(
        &self,
        node: &PhysicalNode,
        kind: JoinKind,
        table: &View,
        joiner: Joiner,
    ) -> Result<Lookup> {
        Ok(Lookup {
            node_context: self.node_context.clone(),
            outer: kind != JoinKind::Inner,
            table: self.view(node, table)?,
            joiner,
        })
    }

    /// How a table is read by key. Functions of views have no error policy: the reading node's policy
    /// decides.
    pub(super) fn view(&self, node: &PhysicalNode, view: &View) -> Result<ViewRead> {
        let strict = Builder {
            plan: self.plan,
            foreign: self.foreign,
            options: self.options.clone(),
            node_context: self.node_context.clone().with_policy(None),
            shared: self.shared,
            cache: self.cache,
        };
        strict.part(node, view)
    }

    fn part(&self, node: &PhysicalNode, view: &View) -> Result<ViewRead> {
        Ok(match view {
            View::Store { store, key } => ViewRead::Store(self.read(*store, key)?),
            View::Filter { of, function, not } => ViewRead::Filter {
                of: Box::new(self.part(node, of)?),
                function: self.function(function, KeyValue)?,
                not: *not,
            },
            View::MapValues {
                of,
                function,
                with_key,
            } => ViewRead::MapValues {
                of: Box::new(self.part(node, of)?),
                function: self.function(function, if *with_key { KeyValue } else { Value })?,
            },
            View::Join {
                left,
                right,
                kind,
                function,
                with_key,
            } => ViewRead::Join {
                left: Box::new(self.part(node, left)?),
                right: Box::new(self.part(node, right)?),
                needs: Needs::of(*kind),
                joiner: Box::new(self.joiner(function, *with_key)?),
            },
            View::TransformValues {
                of,
                processor,
                stores,
            } => ViewRead::TransformValues {
                of: Box::new(self.part(node, of)?),
                transformer: Box::new(self.transformer(node, *processor, stores, None)?),
            },
        })
    }

    fn read(&self, store: StoreId, key: &SerdeSpec) -> Result<Read> {
        let kept = self.kept(store)?;
        let key = self.foreign.serde(key)?;
        let (key, shape) = match (kept.kind, key) {
            (StoreKind::Versioned { .. }, key) => (key, Shape::Versioned(clock(kept)?)),
            (StoreKind::Window { .. }, Serde::TimeWindowed { inner, .. }) => {
                (Serde::clone(&inner), Shape::Window(clock(kept)?))
            }
            (StoreKind::Window { .. }, key) => (key, Shape::Window(clock(kept)?)),
            (StoreKind::Session { .. }, Serde::SessionWindowed(inner)) => {
                (Serde::clone(&inner), Shape::Session(clock(kept)?))
            }
            (StoreKind::Session { .. }, key) => (key, Shape::Session(clock(kept)?)),
            (_, key) => (key, Shape::Plain),
        };
        Ok(Read { store, key, shape })
    }
}

/// The clock of the records that a store has accepted.
pub(super) fn clock(kept: &Store) -> Result<ClockId> {
    kept.clock.ok_or_else(|| {
        Error::internal(format!("the plan gives the store '{}' no clock", kept.name))
    })
}
