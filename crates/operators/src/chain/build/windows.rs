//! Windowed aggregations, and what waits for a time.

use super::{Builder, Made};
use stoatflow_plan::Node;

impl Builder<'_> {
    // No operator of this family is there yet.
    #[allow(clippy::unnecessary_wraps, clippy::unused_self)]
    pub(super) fn windows(&self, node: &Node) -> Made {
        let _none_yet = node;
        Ok(None)
    }
}
