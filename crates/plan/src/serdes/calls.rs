//! Serdes of what is parked when an async call outlives its epoch.
//!
//! Takes what is known of the records before the call, gives what their rows are written with.

use super::{Pass, Side};
use crate::calls::calls;
use crate::spec::SerdeSpec;

impl Pass<'_> {
    /// An async call is made in the lane of its key, and what outlives its epoch is written down: any key
    /// that a function gives can be written as JSON, and any value that JSON has no form for fails by name.
    pub(super) fn async_call(&mut self, i: usize) {
        if calls(self.plan, self.shape, i).is_none() {
            return;
        }
        let from = self.plan.nodes[i].call.inputs()[0];
        let json = || SerdeSpec::Builtin("json".into());
        let (key, value) = self.sides[from].clone();
        let or = |side: &Side, default: &Option<SerdeSpec>| {
            let known = side.known().cloned().or_else(|| default.clone());
            known.unwrap_or_else(json)
        };
        let key = or(&key, &self.plan.default_key);
        self.serdes.called[i] = Some((key, or(&value, &self.plan.default_value)));
    }
}
