//! Operators that the user wrote.

use super::{Builder, Built};
use crate::Role;
use crate::ops::process::{Process, ProcessorEnv};
use crate::ops::tables::expire::Expire;
use crate::ops::tables::transform_values::TransformValues;
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
                Box::new(Process::new(env, supplier, role))
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
                clock,
                time,
            } => {
                let (stores, clocks) = ([*table, *timers], (*clock, *time));
                let node_context = self.node_context.clone();
                let env = ProcessorEnv::new(
                    self.plan,
                    node,
                    &stores,
                    clocks,
                    node_context,
                    self.foreign,
                )?;
                Box::new(Expire::new(env, expiry, *old)?)
            }
            _ => return Ok(None),
        }))
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
