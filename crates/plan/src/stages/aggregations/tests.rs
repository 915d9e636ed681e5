use super::super::tests::{count, sound};
use crate::Op;
use crate::testing::{compiled, stream, udf};
use serde_json::{Value, json};
use stoatflow_core::StageId;

#[test]
fn operators_of_stream_time_get_records_through_exchanges() {
    let windowed = |from: u32| json!({"op": "windowed_by", "from": from, "window": {"type": "tumbling", "size_ms": 10, "grace_ms": 0}});
    let timed = [
        vec![
            stream(),
            json!({"op": "group_by_key", "from": 0}),
            windowed(1),
            count(2, "c"),
            json!({"op": "suppress", "from": 3, "until": {"type": "window_closes", "grace_ms": -1}, "name": "s"}),
        ],
        vec![
            stream(),
            json!({"op": "stream", "topics": ["b"], "key": "string", "value": "string"}),
            json!({"op": "join", "from": 0, "other": 1, "function": udf(), "key": "string", "window": {"before_ms": 5, "after_ms": 5, "grace_ms": 0}}),
        ],
        vec![
            json!({"op": "table", "topic": "t", "key": "string", "value": "string", "materialized": {"store": "v", "history_ms": 9}}),
        ],
    ];
    for nodes in timed {
        let plan = compiled(&json!(nodes));
        let plan = plan.with_window_boundary.as_deref().unwrap_or(&plan);
        sound(plan);
        let of_versions = |node: &crate::PhysicalNode| match node.op {
            Op::TableSource { store, .. } => plan.stores[usize::from(store.0)].clock,
            _ => None,
        };
        let timed = plan
            .nodes
            .iter()
            .filter(|n| n.op.clock().or_else(|| of_versions(n)).is_some());
        let mut seen = 0;
        for node in timed {
            seen += 1;
            let direct = plan.nodes.iter().filter(|n| n.children.contains(&node.id));
            assert_eq!(direct.count(), 0, "{}", node.name);
            assert_ne!(node.stage, StageId(0), "{}", node.name);
        }
        assert!(seen > 0);
    }
}

/// Dispatch knows which records reach these windows.
#[test]
fn windows_of_a_whole_source_stand_behind_it() {
    let windowed = |from: u32| json!({"op": "windowed_by", "from": from, "window": {"type": "tumbling", "size_ms": 10, "grace_ms": 0}});
    let grouped = |from: u32| json!({"op": "group_by_key", "from": from});
    let source_fed = |nodes: Value| {
        let plan = compiled(&nodes);
        sound(&plan);
        let window = plan.nodes.iter();
        let mut window = window.filter(|n| matches!(n.op, Op::WindowAggregate { .. }));
        let stage = window.next().expect("a window").stage;
        assert_eq!(stage == StageId(0), plan.with_window_boundary.is_some());
        stage == StageId(0)
    };
    assert!(source_fed(json!([
        stream(),
        grouped(0),
        windowed(1),
        count(2, "c")
    ])));
    let close = json!({"op": "emit_strategy", "from": 2, "strategy": "on_window_close"});
    assert!(!source_fed(json!([
        stream(),
        grouped(0),
        windowed(1),
        close,
        count(3, "c")
    ])));
    let filter = json!({"op": "filter", "from": 0, "function": udf()});
    assert!(!source_fed(json!([
        stream(),
        filter,
        grouped(1),
        windowed(2),
        count(3, "c")
    ])));
    let again = json!({"op": "stream", "pattern": "in.*", "key": "string", "value": "string"});
    assert!(!source_fed(json!([
        stream(),
        grouped(0),
        windowed(1),
        count(2, "c"),
        again
    ])));
}

#[test]
fn handlers_that_leave_records_out_get_the_guarded_plan() {
    let windowed = json!({"op": "windowed_by", "from": 1, "window": {"type": "tumbling", "size_ms": 10, "grace_ms": 0}});
    let nodes = json!([stream(), {"op": "group_by_key", "from": 0}, windowed, count(2, "c")]);
    let plan = std::sync::Arc::new(compiled(&nodes));
    let none = stoatflow_core::Handlers::default();
    assert_eq!(plan.for_handlers(&none).stages.len(), 1);
    // `Fail` is the default of the setting.
    let strict = stoatflow_core::Handlers {
        deserialization: Some(stoatflow_core::Handler::Fail),
        ..none.clone()
    };
    assert_eq!(plan.for_handlers(&strict).stages.len(), 1);
    let lenient = stoatflow_core::Handlers {
        deserialization: Some(stoatflow_core::Handler::Continue),
        ..none
    };
    let with_window_boundary = plan.for_handlers(&lenient);
    assert_eq!(with_window_boundary.stages.len(), 2);
    assert!(with_window_boundary.with_window_boundary.is_none());
}
