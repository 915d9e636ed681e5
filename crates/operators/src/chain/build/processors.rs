//! Operators that the user wrote.

use super::{Builder, Made};
use crate::Role;
use crate::process::{Process, Seat};
use stoatflow_plan::{Node, Op};

impl Builder<'_> {
    pub(super) fn processors(&self, node: &Node) -> Made {
        let Op::Process {
            processor,
            stores,
            fixed_key,
            clock,
        } = &node.op
        else {
            return Ok(None);
        };
        let role = if *fixed_key {
            Role::ProcessValues
        } else {
            Role::Process
        };
        let site = self.site.clone();
        let seat = Seat::new(self.plan, node, stores, *clock, site, self.foreign)?;
        let supplier = self.foreign.processor(*processor)?;
        Ok(Some(Box::new(Process::new(seat, supplier, role))))
    }
}
