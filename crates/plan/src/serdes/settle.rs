//! The serde of a side where bytes are needed.
//!
//! Takes what is known about the side, returns its serde, the plan's default, or the type of an
//! annotation. If there is none, adds a finding that names the node which lost the serde and the
//! argument to set.

use super::{Pass, Side};
use crate::function::Function;
use crate::logical::DslCall;
use crate::problems::place;
use crate::spec::{AsyncSpec, SerdeSpec};

impl Pass<'_> {
    /// The serde of a side where bytes are needed.
    pub(super) fn settle(
        &mut self,
        i: usize,
        which: &str,
        side: Side,
        argument: &str,
    ) -> Option<SerdeSpec> {
        let default = if which.ends_with("key") {
            &self.plan.default_key
        } else {
            &self.plan.default_value
        };
        match (side, default) {
            (Side::Known(serde), _) => Some(serde),
            (_, Some(default)) => Some(default.clone()),
            (Side::Reported, None) => None,
            (Side::Lost(at), None) => {
                if let Some(serde) = self.annotated(at, which.ends_with("key")) {
                    return Some(serde);
                }
                let why = self.why(i, at, which);
                self.problems.at(
                    self.plan,
                    i,
                    format!("doesn't know the serde of its {which}: {why}. Give {argument}"),
                );
                None
            }
        }
    }

    fn why(&self, i: usize, at: usize, which: &str) -> String {
        let node = &self.plan.nodes[at];
        let by = place(node, at);
        let function = node.call.functions().last().copied();
        match (&node.call, function) {
            (DslCall::Merge { .. }, _) => {
                format!("{by} joins streams whose {which} serdes differ or are unknown")
            }
            (_, Some(Function::Udf(u) | Function::Async(AsyncSpec { udf: u, .. }))) => {
                let name = &self
                    .plan
                    .functions
                    .get(*u as usize)
                    .map_or("a function", String::as_str);
                if at == i {
                    format!("the function '{name}' can return anything")
                } else {
                    format!("{by} calls '{name}', which can return anything")
                }
            }
            (
                DslCall::Process { .. }
                | DslCall::ProcessValues { .. }
                | DslCall::TransformValues { .. },
                _,
            ) => {
                format!("{by} can give anything")
            }
            (DslCall::Cogroup { .. }, _) => {
                format!("{by} puts streams of different values together")
            }
            _ => format!("the result of the expression in {by} has no serde of its own"),
        }
    }
}
