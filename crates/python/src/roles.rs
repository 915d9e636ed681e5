//! What the functions of a plan are there for, as far as the border must know.
//!
//! Takes the physical plan; gives for each callable whether its results are keys, and whether they are the
//! aggregates of a store whose values functions get as views. One that is used for several things is neither.

use std::collections::BTreeMap;
use stoatflow_formats::{avro, protobuf};
use stoatflow_plan::physical::{Node, Op, SerdeSpec};
use stoatflow_plan::{PhysicalPlan, callables};

/// What becomes of a function's results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    #[default]
    Value,
    /// The key of a record: equal ones must have equal bytes.
    Key,
    /// A value that the function sees again, from the store or as it was left: both times as a view.
    Aggregate,
}

/// The roles of a plan's callables, by their numbers.
pub fn roles(plan: &PhysicalPlan) -> BTreeMap<u32, Role> {
    let mut roles = BTreeMap::new();
    for node in &plan.nodes {
        let role = role(plan, node);
        for function in callables(&node.op) {
            let known = roles.entry(function).or_insert(role);
            if *known != role {
                *known = Role::Value;
            }
        }
    }
    roles
}

fn role(plan: &PhysicalPlan, node: &Node) -> Role {
    match &node.op {
        Op::SelectKey { .. } => Role::Key,
        Op::Reduce { store, .. }
        | Op::Aggregate { store, .. }
        | Op::WindowAggregate { store, .. }
        | Op::SlidingAggregate { store, .. }
        | Op::SessionAggregate { store, .. }
        | Op::TableAggregate { store, .. } => {
            let store = plan.stores.get(usize::from(store.0));
            match store {
                Some(store) if is_shown_as_view(&store.value) => Role::Aggregate,
                _ => Role::Value,
            }
        }
        _ => Role::Value,
    }
}

fn is_shown_as_view(value: &SerdeSpec) -> bool {
    match value {
        SerdeSpec::Builtin(name) => name == "json",
        SerdeSpec::Avro { avro } => avro.decode == avro::Decode::Lazy,
        SerdeSpec::Protobuf { protobuf } => protobuf.decode == protobuf::Decode::Lazy,
        _ => false,
    }
}
