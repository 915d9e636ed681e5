//! Recorded runs of Kafka Streams, in batches of any size; what one lane gives and several give; what
//! survives a restart.

use crate::testing::recorded::{self, Wiring, registered};
use crate::testing::*;
use serde_json::Value;
use std::sync::Arc;
use stoatflow_core::{ClockId, Datum, SinkId, StoreId};
use stoatflow_plan::{Fork, Function, JoinKind, JoinWindow, Op, StoreKind};

/// Both sides, at entries 0 and 1, and a sink.
fn nodes(
    kind: JoinKind,
    window: JoinWindow,
    with_key: bool,
    right_value: &str,
) -> Vec<(Op, Vec<u32>, Fork)> {
    let side = |left: bool| Op::StreamJoin {
        left,
        kind,
        window,
        own: StoreId(u16::from(!left)),
        other: StoreId(u16::from(left)),
        pending: (kind != JoinKind::Inner).then_some(StoreId(2)),
        function: Function::Udf(0),
        with_key,
        key: serde("string"),
        left_value: serde("string"),
        right_value: serde(right_value),
        clock: ClockId(0),
    };
    vec![
        (side(true), vec![2], Fork::Batch),
        (side(false), vec![2], Fork::Batch),
        (Op::Sink { sink: SinkId(0) }, vec![], Fork::Batch),
    ]
}

fn window_store(window: JoinWindow) -> StoreKind {
    StoreKind::Window {
        retention_ms: window.before_ms + window.after_ms + window.grace_ms,
        size_ms: window.before_ms + window.after_ms,
        duplicates: true,
        timestamped: false,
    }
}

/// The join that a vector describes.
fn described(case: &Value) -> (JoinKind, JoinWindow, String) {
    let steps = case["topology"].as_array().unwrap();
    let step = steps.iter().find(|step| step["joiner"].is_string());
    let step = step.expect("a join");
    let kind = match step["op"].as_str() {
        Some("left_join") => JoinKind::Left,
        Some("outer_join") => JoinKind::Outer,
        _ => JoinKind::Inner,
    };
    let window = serde_json::from_value(step["window"].clone()).unwrap();
    (kind, window, step["joiner"].as_str().unwrap().into())
}

fn joiner(name: &str) -> Arc<Closure> {
    match name {
        "null_if_right_x" => closure(|a| match a {
            [_, Datum::Str(x)] if x.as_str() == "x" => Ok(Datum::Null),
            [l, r] => Ok(text(&format!(
                "{}/{}",
                recorded::str_of(l),
                recorded::str_of(r)
            ))),
            _ => panic!("two sides"),
        }),
        name => registered(name),
    }
}

/// Equal after every input; and in whole, where neighbours of one side come in batches.
fn agrees(topology: &str) {
    let case = recorded::vector(&format!("join_ss__{topology}__hand"));
    let (kind, window, name) = described(&case);
    let wiring = Wiring {
        entries: &[("left", &[0]), ("right", &[1])],
        sinks: &["out"],
        stores: &[
            ("", window_store(window), "string"),
            ("", window_store(window), "string"),
            ("", StoreKind::TimeOrdered, "bytes"),
        ],
    };
    let nodes = nodes(kind, window, name == "key_pair_text", "string");
    let udfs = [joiner(&name)];
    let topology = format!("join_ss__{topology}");
    recorded::replay(&topology, &nodes, &udfs, &wiring);
    for size in [3, 1024] {
        recorded::replay_in_batches(&topology, &nodes, &udfs, &wiring, size);
    }
}

#[test]
fn inner_joins_agree_with_kafka_streams() {
    for topology in [
        "ss_inner",
        "ss_inner_asymmetric",
        "ss_inner_before_zero",
        "ss_inner_grace",
        "ss_inner_window_zero",
    ] {
        agrees(topology);
    }
}

#[test]
fn left_joins_agree_with_kafka_streams() {
    for topology in [
        "ss_left",
        "ss_left_grace",
        "ss_left_null_keys",
        "ss_left_throttled",
    ] {
        agrees(topology);
    }
}

#[test]
fn outer_joins_agree_with_kafka_streams() {
    for topology in [
        "ss_joiner_null",
        "ss_outer",
        "ss_outer_equal_times",
        "ss_outer_grace",
        "ss_outer_null_keys",
    ] {
        agrees(topology);
    }
}
