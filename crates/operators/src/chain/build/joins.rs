//! Joins of two streams, and splits.

use super::{Builder, Made};
use stoatflow_plan::Node;

impl Builder<'_> {
    // No operator of this family is there yet.
    #[allow(clippy::unnecessary_wraps, clippy::unused_self)]
    pub(super) fn joins(&self, node: &Node) -> Made {
        let _none_yet = node;
        Ok(None)
    }
}
