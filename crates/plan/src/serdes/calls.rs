//! Serdes of async calls that outlive their epoch and are parked in a store.
//!
//! Takes what is known about the records before the call, returns the serdes of the store's rows.

use super::{Pass, Side};
use crate::calls::calls;
use crate::spec::SerdeSpec;

impl Pass<'_> {
    /// An async call runs in the lane of its key, and is written to a store if it outlives its epoch.
    /// Any key that a function returns can be written as JSON; a value without a JSON form fails with an
    /// error about that record.
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
