//! Types of function results, from their return annotations.

use super::Pass;
use crate::check::Kind;
use crate::function::Function;
use crate::logical::{DslCall, Returned};
use crate::spec::{AsyncSpec, SerdeSpec};

impl Pass<'_> {
    /// The serde for one side of the result of this node's function.
    pub(super) fn annotated(&self, at: usize, is_key: bool) -> Option<SerdeSpec> {
        let call = &self.plan.nodes[at].call;
        let (Function::Udf(udf) | Function::Async(AsyncSpec { udf, .. })) = giving(call)? else {
            return None;
        };
        let result = self.plan.results.get(udf)?;
        match call {
            DslCall::Map { .. } => side_of(result, is_key),
            DslCall::FlatMap { .. } => side_of(element(result)?, is_key),
            DslCall::GroupBy { from, .. } if self.shape.kinds[*from] == Kind::Table => {
                side_of(result, is_key)
            }
            DslCall::GroupBy { .. } | DslCall::SelectKey { .. } => is_key.then(|| serde(result))?,
            DslCall::FlatMapValues { .. } => (!is_key).then(|| serde(element(result)?))?,
            _ => (!is_key).then(|| serde(result))?,
        }
    }
}

/// The function whose result becomes the key, the value, or both.
fn giving(call: &DslCall) -> Option<&Function> {
    match call {
        DslCall::SelectKey { function, .. }
        | DslCall::GroupBy { function, .. }
        | DslCall::Map { function, .. }
        | DslCall::FlatMap { function, .. }
        | DslCall::MapValues { function, .. }
        | DslCall::FlatMapValues { function, .. } => Some(function),
        DslCall::Aggregate { function, .. } => function.as_ref(),
        _ => None,
    }
}

fn element(result: &Returned) -> Option<&Returned> {
    match result {
        Returned::List { list } => list.as_deref(),
        _ => None,
    }
}

fn side_of(result: &Returned, is_key: bool) -> Option<SerdeSpec> {
    match result {
        Returned::Pair { pair } => serde(pair[usize::from(!is_key)].as_deref()?),
        _ => None,
    }
}

fn serde(result: &Returned) -> Option<SerdeSpec> {
    match result {
        Returned::Builtin(name) => Some(SerdeSpec::Builtin(name.clone())),
        Returned::List { .. } => Some(SerdeSpec::Builtin("json".into())),
        Returned::Pair { .. } => None,
    }
}
