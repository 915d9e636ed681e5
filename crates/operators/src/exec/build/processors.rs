//! Operators that the user wrote.

use super::{Builder, Made};
use crate::Role;
use crate::ops::process::{Process, Seat};
use crate::ops::tables::transform_values::TransformValues;
use stoatflow_core::{ClockId, ProcessorId, Result, StoreId};
use stoatflow_plan::{Node, Op};

/// The clock of the whole application; a plan with processors has it first.
const APPLICATION: ClockId = ClockId(0);

impl Builder<'_> {
    pub(super) fn processors(&self, node: &Node) -> Made {
        Ok(Some(match &node.op {
            Op::Process {
                processor,
                stores,
                fixed_key,
                clock,
            } => {
                let role = if *fixed_key {
                    Role::ProcessValues
                } else {
                    Role::Process
                };
                let site = self.site.clone();
                let seat = Seat::new(self.plan, node, stores, *clock, site, self.foreign)?;
                let supplier = self.foreign.processor(*processor)?;
                Box::new(Process::new(seat, supplier, role))
            }
            Op::TransformValues {
                processor,
                stores,
                store,
                key,
                old,
            } => Box::new(TransformValues::new(
                self.transformer(node, *processor, stores)?,
                self.keeper_if(*store, key, *old)?,
                *old,
            )),
            _ => return Ok(None),
        }))
    }

    /// A transformer's seat at a node: that of the table, or one that reads the table.
    pub(super) fn transformer(
        &self,
        node: &Node,
        processor: ProcessorId,
        stores: &[StoreId],
    ) -> Result<Process> {
        let site = self.site.clone();
        let seat = Seat::new(self.plan, node, stores, APPLICATION, site, self.foreign)?;
        let supplier = self.foreign.processor(processor)?;
        Ok(Process::new(seat, supplier, Role::TransformValues))
    }
}
