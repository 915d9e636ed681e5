//! What the functions of a plan are there for, as far as the border must know.
//!
//! Takes the physical plan and its custom serdes; gives for each callable whether its results are keys, and
//! whether they are the aggregates of a store, which functions get as views, as objects of their own, or as
//! what a serde of the user's makes. One that is used for several things is neither.

use crate::serde::PLAIN_JSON;
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::{CustomSerde, StoreId};
use stoatflow_formats::{avro, protobuf};
use stoatflow_plan::SerdeSpec;
use stoatflow_plan::physical::{Node, Op};
use stoatflow_plan::{PhysicalPlan, callables};

/// What becomes of a function's results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultRole {
    #[default]
    Value,
    /// The key of a record: equal ones must have equal bytes.
    Key,
    /// A value that the function sees again, from the store or as it was left: both times as a view.
    Aggregate,
    /// The same, both times as a dict or a list that it may change.
    OwnAggregate,
    /// The same, both times as Python code decodes it: the serde of this store, or the class of its messages.
    Decoded(StoreId),
}

/// The roles of a plan's callables, by their numbers.
pub fn roles(plan: &PhysicalPlan, serdes: &[Arc<dyn CustomSerde>]) -> BTreeMap<u32, ResultRole> {
    let mut roles = BTreeMap::new();
    for node in &plan.nodes {
        let role = role(plan, node, serdes);
        for function in callables(&node.op) {
            let known = roles.entry(function).or_insert(role);
            if *known != role {
                *known = ResultRole::Value;
            }
        }
    }
    roles
}

fn role(plan: &PhysicalPlan, node: &Node, serdes: &[Arc<dyn CustomSerde>]) -> ResultRole {
    match &node.op {
        Op::SelectKey { .. } => ResultRole::Key,
        Op::Reduce { store, .. }
        | Op::Aggregate { store, .. }
        | Op::WindowAggregate { store, .. }
        | Op::SlidingAggregate { store, .. }
        | Op::SessionAggregate { store, .. }
        | Op::TableAggregate { store, .. } => {
            let kept = plan.stores.get(usize::from(store.0));
            // Stores with one serde are one: their aggregates look alike.
            let store = plan
                .stores
                .iter()
                .find(|other| kept.is_some_and(|kept| kept.value == other.value))
                .map_or(*store, |first| first.id);
            kept.map_or(ResultRole::Value, |kept| {
                of_aggregate(store, &kept.value, serdes)
            })
        }
        _ => ResultRole::Value,
    }
}

fn of_aggregate(store: StoreId, value: &SerdeSpec, serdes: &[Arc<dyn CustomSerde>]) -> ResultRole {
    match value {
        SerdeSpec::Builtin(name) if name == "json" => ResultRole::Aggregate,
        SerdeSpec::Avro { avro } => match avro.decode {
            avro::Decode::Lazy => ResultRole::Aggregate,
            avro::Decode::Dict => ResultRole::OwnAggregate,
        },
        SerdeSpec::JsonSchema { json_schema } => match json_schema.decode {
            avro::Decode::Lazy => ResultRole::Aggregate,
            avro::Decode::Dict => ResultRole::OwnAggregate,
        },
        SerdeSpec::Protobuf { protobuf } => match protobuf.decode {
            protobuf::Decode::Lazy => ResultRole::Aggregate,
            protobuf::Decode::Dict => ResultRole::OwnAggregate,
            protobuf::Decode::Message(_) => ResultRole::Decoded(store),
        },
        SerdeSpec::Custom { custom } => match serdes.get(*custom as usize) {
            Some(serde) if serde.name() == PLAIN_JSON => ResultRole::OwnAggregate,
            _ => ResultRole::Decoded(store),
        },
        _ => ResultRole::Value,
    }
}
