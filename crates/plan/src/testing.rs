//! Helpers for the tests of this crate: plans from short JSON, and their errors.

use crate::{LogicalPlan, PhysicalPlan, compile};
use serde_json::{Value, json};

/// A plan of these nodes, with five callables, two processors and one custom serde; the line of node `i`
/// is `i + 1`.
pub(crate) fn plan(nodes: &Value) -> Value {
    let mut nodes = nodes.clone();
    for (i, node) in nodes.as_array_mut().expect("a list").iter_mut().enumerate() {
        let line = format!("app.py:{}", i + 1);
        node.as_object_mut()
            .expect("an object")
            .entry("line")
            .or_insert(json!(line));
    }
    json!({"version": 1, "nodes": nodes, "functions": ["f0", "f1", "f2", "f3", "f4"], "serdes": ["mine"], "processors": ["p0", "p1"]})
}

pub(crate) fn logical(nodes: &Value) -> LogicalPlan {
    LogicalPlan::decode(plan(nodes).to_string().as_bytes()).unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn compiled(nodes: &Value) -> PhysicalPlan {
    compile(plan(nodes).to_string().as_bytes()).unwrap_or_else(|e| panic!("{e}"))
}

/// The message of a refused plan.
pub(crate) fn refused(nodes: &Value) -> String {
    match compile(plan(nodes).to_string().as_bytes()) {
        Ok(_) => panic!("the plan was taken"),
        Err(e) => {
            assert_eq!(e.kind(), stoatflow_core::ErrorKind::Topology);
            e.message().to_owned()
        }
    }
}

pub(crate) fn stream() -> Value {
    json!({"op": "stream", "topics": ["in"], "key": "string", "value": "string"})
}

pub(crate) fn udf() -> Value {
    json!({"udf": 0})
}

/// The operations of a stage's nodes.
pub(crate) fn ops(plan: &PhysicalPlan, stage: usize) -> Vec<&'static str> {
    plan.stages[stage]
        .nodes
        .iter()
        .map(|n| plan.nodes[n.0 as usize].op.name())
        .collect()
}
