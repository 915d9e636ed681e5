//! Operators that the user wrote.

use super::{Builder, Built};
use crate::Role;
use crate::ops::process::{Connected, Process, ProcessorEnv, StoreExpiry, expires_at};
use crate::ops::tables::expire::Expire;
use crate::ops::tables::transform_values::TransformValues;
use crate::support::node_context::NodeContext;
use std::sync::Arc;
use stoatflow_core::{ClockId, ProcessorId, Result, StoreId};
use stoatflow_plan::{Op, PhysicalNode};

/// The clock of the whole application; a plan with processors has it first.
const APPLICATION: ClockId = ClockId(0);

impl Builder<'_> {
    pub(super) fn processors(&self, node: &PhysicalNode) -> Built {
        Ok(Some(match &node.op {
            Op::Process {
                processor,
                stores,
                fixed_key,
                clock,
                time,
            } => {
                let role = if *fixed_key {
                    Role::ProcessValues
                } else {
                    Role::Process
                };
                let node_context = self.node_context.clone();
                let clocks = (*clock, *time);
                let env =
                    ProcessorEnv::new(self.plan, node, stores, clocks, node_context, self.foreign)?;
                let supplier = self.foreign.processor(*processor)?;
                let expiries = self.expiries(&env)?;
                Box::new(Process::new(env, supplier, role).with_expiries(expiries))
            }
            Op::TransformValues {
                processor,
                stores,
                store,
                key,
                old,
                time,
            } => Box::new(TransformValues::new(
                self.transformer(node, *processor, stores, *time)?,
                self.writer_if(*store, key, *old)?,
                *old,
            )),
            Op::Expire {
                table,
                timers,
                expiry,
                old,
                of_processors,
                clock,
                time,
            } => {
                let clocks = (*clock, *time);
                let env = self.expiry_env(node, [*table, *timers], clocks)?;
                Box::new(Expire::new(env, expiry, (*old, *of_processors))?)
            }
            _ => return Ok(None),
        }))
    }

    /// The environment of a node that deletes expired rows.
    fn expiry_env(
        &self,
        node: &PhysicalNode,
        stores: [StoreId; 2],
        clocks: (ClockId, Option<ClockId>),
    ) -> Result<ProcessorEnv> {
        let node_context = if node.id == self.node_context.node {
            self.node_context.clone()
        } else {
            NodeContext::new(node.id, &node.name, NodeContext::topics(self.plan))
        };
        ProcessorEnv::new(self.plan, node, &stores, clocks, node_context, self.foreign)
    }

    /// What a processor needs to write those of its stores that have a ttl, by index of the store.
    fn expiries(&self, env: &ProcessorEnv) -> Result<Vec<Option<StoreExpiry>>> {
        let expiry = |store: &Connected| {
            let node = expires_at(self.plan, store.id);
            let (Some(node), Some(ttl)) = (node, &store.ttl) else {
                return Ok(None);
            };
            let Op::Expire {
                table,
                timers,
                clock,
                time,
                ..
            } = &node.op
            else {
                return Ok(None);
            };
            let env = self.expiry_env(node, [*table, *timers], (*clock, *time))?;
            Ok(Some(StoreExpiry::new(env, Arc::clone(ttl))))
        };
        env.stores.iter().map(expiry).collect()
    }

    /// A transformer at a node: the node of its table, or one that reads the table.
    pub(super) fn transformer(
        &self,
        node: &PhysicalNode,
        processor: ProcessorId,
        stores: &[StoreId],
        time: Option<ClockId>,
    ) -> Result<Process> {
        let node_context = self.node_context.clone();
        let env = ProcessorEnv::new(
            self.plan,
            node,
            stores,
            (APPLICATION, time),
            node_context,
            self.foreign,
        )?;
        let supplier = self.foreign.processor(processor)?;
        Ok(Process::new(env, supplier, Role::TransformValues))
    }
}
