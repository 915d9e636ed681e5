//! Collects all problems of a plan for one error message.
//!
//! Takes findings of all passes with the user's line, returns one `Topology` error that lists them.
//! Doesn't stop at the first one, so that the user can fix all of them at once.

use crate::logical::{LogicalNode, LogicalPlan};
use stoatflow_core::{Error, Result};

/// A list of findings.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: Vec<String>,
    /// Whether one of them refers to a line of the user.
    has_line: bool,
}

impl Problems {
    /// Adds a finding about a node.
    pub(crate) fn at(&mut self, plan: &LogicalPlan, index: usize, what: impl AsRef<str>) {
        self.has_line |= plan.nodes[index].line.is_some();
        self.found.push(format!(
            "{}: {}",
            place(&plan.nodes[index], index),
            what.as_ref()
        ));
    }

    /// Adds a finding about the whole plan.
    pub(crate) fn add(&mut self, what: impl Into<String>) {
        self.found.push(what.into());
    }

    /// One error with all findings, if there are any.
    pub(crate) fn finish(mut self) -> Result<()> {
        match self.found.len() {
            0 => Ok(()),
            1 if self.has_line => Err(Error::topology(self.found.remove(0))),
            1 => Err(Error::topology(self.found.remove(0))
                .hint("change the topology as the message says, and build it again")),
            n => Err(Error::topology(format!(
                "the topology has {n} problems:\n  - {}\n",
                self.found.join("\n  - ")
            ))
            .hint("fix the topology at the lines that the message lists")),
        }
    }
}

/// The location of a node: the user's line and method, or its position in the plan.
pub(crate) fn place(node: &LogicalNode, index: usize) -> String {
    match &node.line {
        Some(line) => format!("{line}: {}()", node.call.name()),
        None => format!("node {index}: {}()", node.call.name()),
    }
}
