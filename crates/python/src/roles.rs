//! Determines how the results of a plan's functions are used, as far as conversions depend on it.
//!
//! Takes the physical plan and its custom serdes; returns for each callable whether its results are
//! keys, or aggregates of a store. Functions receive aggregates as views, as dicts and lists that they
//! may change, or as the store's serde decodes them. A callable with several uses gets the role `Value`.

use crate::serde::PLAIN_JSON;
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::{CustomSerde, StoreId};
use stoatflow_formats::{avro, protobuf};
use stoatflow_plan::SerdeSpec;
use stoatflow_plan::physical::{Op, PhysicalNode};
use stoatflow_plan::{PhysicalPlan, callables};

/// How a function's results are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultRole {
    #[default]
    Value,
    /// The key of a record: equal keys must have equal bytes.
    Key,
    /// A value that the function receives again, from the store or from the last call: always as a view.
    Aggregate,
    /// Like `Aggregate`, but always as a dict or a list that the function may change.
    MutableAggregate,
    /// Like `Aggregate`, but always as Python code decodes it: the serde of this store, or the class of
    /// its messages.
    Decoded(StoreId),
}

/// The roles of a plan's callables, by function number.
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

fn role(plan: &PhysicalPlan, node: &PhysicalNode, serdes: &[Arc<dyn CustomSerde>]) -> ResultRole {
    match &node.op {
        Op::SelectKey { .. } => ResultRole::Key,
        Op::Reduce { store, .. }
        | Op::Aggregate { store, .. }
        | Op::WindowAggregate { store, .. }
        | Op::SlidingAggregate { store, .. }
        | Op::SessionAggregate { store, .. }
        | Op::TableAggregate { store, .. } => {
            let kept = plan.stores.get(usize::from(store.0));
            // Stores with the same serde share a role, because their aggregates look alike.
            let store = plan
                .stores
                .iter()
                .find(|other| kept.is_some_and(|kept| kept.value == other.value))
                .map_or(*store, |first| first.id);
            kept.map_or(ResultRole::Value, |kept| {
                aggregate_role(store, &kept.value, serdes)
            })
        }
        _ => ResultRole::Value,
    }
}

fn aggregate_role(
    store: StoreId,
    value: &SerdeSpec,
    serdes: &[Arc<dyn CustomSerde>],
) -> ResultRole {
    match value {
        SerdeSpec::Builtin(name) if name == "json" => ResultRole::Aggregate,
        SerdeSpec::Avro { avro } => match avro.decode {
            avro::Decode::Lazy => ResultRole::Aggregate,
            avro::Decode::Dict => ResultRole::MutableAggregate,
        },
        SerdeSpec::JsonSchema { json_schema } => match json_schema.decode {
            avro::Decode::Lazy => ResultRole::Aggregate,
            avro::Decode::Dict => ResultRole::MutableAggregate,
        },
        SerdeSpec::Protobuf { protobuf } => match protobuf.decode {
            protobuf::Decode::Lazy => ResultRole::Aggregate,
            protobuf::Decode::Dict => ResultRole::MutableAggregate,
            protobuf::Decode::Message(_) => ResultRole::Decoded(store),
        },
        SerdeSpec::Custom { custom } => match serdes.get(*custom as usize) {
            Some(serde) if serde.name() == PLAIN_JSON => ResultRole::MutableAggregate,
            _ => ResultRole::Decoded(store),
        },
        _ => ResultRole::Value,
    }
}
