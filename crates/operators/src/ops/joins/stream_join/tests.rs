//! Recorded runs of Kafka Streams, in batches of any size; one lane against several; restarts.

use crate::KeyAssignment;
use crate::testing::recorded::{self, Wiring, registered};
use crate::testing::*;
use serde_json::Value;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stoatflow_core::{ClockId, Datum, Header, Opaque, SinkId, StoreId};
use stoatflow_plan::{Delivery, Function, JoinKind, JoinWindow, Op, StoreKind};

/// Both sides, at entries 0 and 1, and a sink.
fn nodes(
    kind: JoinKind,
    window: JoinWindow,
    with_key: bool,
    right_value: &str,
) -> Vec<(Op, Vec<u32>, Delivery)> {
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
        (side(true), vec![2], Delivery::Batch),
        (side(false), vec![2], Delivery::Batch),
        (Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch),
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

/// The join described by a vector.
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

/// Compares after every input, and once as a whole with consecutive inputs of a side in batches.
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
    // The interval between two passes uses the machine's clock: a restart would begin it again.
    if case["config"]["emit_interval_ms"] == 0 {
        recorded::replay_with_restarts(&topology, &nodes, &udfs, &wiring);
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

const WINDOW: JoinWindow = JoinWindow {
    before_ms: 5,
    after_ms: 5,
    grace_ms: 0,
};

/// An outer join of stores 0 and 1, with waiting records in store 2 and clocks 0 to 2.
fn outer(udf: Arc<Closure>, right_value: &str) -> Rig {
    outer_within(WINDOW, udf, right_value)
}

fn outer_within(window: JoinWindow, udf: Arc<Closure>, right_value: &str) -> Rig {
    let nodes = nodes(JoinKind::Outer, window, false, right_value);
    Rig::changed(nodes, vec![udf], |plan| {
        for (at, value) in ["string", right_value, "bytes"].into_iter().enumerate() {
            plan.stores[at].value = serde(value);
            plan.stores[at].kind = window_store(window);
            plan.stores[at].clock = Some(ClockId(u16::try_from(at).unwrap() + 1));
        }
        plan.stores[2].kind = StoreKind::TimeOrdered;
        plan.stores[2].clock = None;
    })
    .unwrap()
}

#[test]
fn the_joiner_is_called_for_a_batch_at_a_time() {
    let udf = joiner("pair_text");
    let mut rig = outer(Arc::clone(&udf), "string");
    rig.push_at(0, vec![record("a", "1", 1), record("a", "2", 2)])
        .unwrap();
    assert_eq!(udf.scopes.load(Ordering::Relaxed), 0, "nobody met");
    rig.push_at(1, vec![record("a", "x", 3), record("a", "y", 4)])
        .unwrap();
    assert_eq!(
        rig.outputs(),
        ["0:a=1/x@3", "0:a=2/x@3", "0:a=1/y@4", "0:a=2/y@4"]
    );
    assert_eq!(udf.scopes.load(Ordering::Relaxed), 1);
}

#[test]
fn a_row_without_a_partner_has_the_headers_of_the_record_that_made_it_come_out() {
    let mut rig = outer(joiner("pair_text"), "string");
    let with = |name: &str, record: stoatflow_core::Record| stoatflow_core::Record {
        headers: Some(Arc::from([Header {
            name: name.into(),
            value: None,
        }])),
        ..record
    };
    rig.push_at(0, vec![with("first", record("a", "1", 1))])
        .unwrap();
    rig.push_at(1, vec![with("second", record("b", "x", 50))])
        .unwrap();
    let headers = rig.effects.outputs[0].headers.clone().unwrap();
    assert_eq!(&*headers[0].name, "second");
    assert_eq!(rig.effects.outputs[0].origin.offset.0, 50);
    assert_eq!(rig.outputs(), ["0:a=1/null@1"]);
}

#[test]
fn with_several_lanes_rows_come_out_by_the_merged_time() {
    let mut rig = outer(joiner("pair_text"), "string");
    rig.clocks = crate::LaneClocks::new(4, false);
    rig.push_at(0, vec![record("a", "1", 1), record("b", "2", 2)])
        .unwrap();
    rig.advance();
    assert!(rig.outputs().is_empty());
    // Another lane has seen a later timestamp.
    rig.clocks.see(ClockId(0), stoatflow_core::Task(0), 7);
    rig.advance();
    assert_eq!(
        rig.outputs(),
        ["0:a=1/null@1"],
        "b may still meet a record at 7"
    );
    rig.push_at(1, vec![record("b", "x", 7)]).unwrap();
    assert_eq!(rig.outputs(), ["0:b=2/x@7"]);
}

/// `left + 5 <= right <= left + 10`
#[test]
fn a_window_may_lie_on_one_side_of_a_record() {
    let window = JoinWindow {
        before_ms: -5,
        after_ms: 10,
        grace_ms: 20,
    };
    let mut rig = outer_within(window, joiner("pair_text"), "string");
    rig.push_at(0, vec![record("a", "1", 20)]).unwrap();
    for (value, at) in [("early", 24), ("first", 25), ("last", 30), ("late", 31)] {
        rig.push_at(1, vec![record("a", value, at)]).unwrap();
    }
    // A record that only joins with earlier ones has nothing to wait for: it is emitted unmatched at
    // once, as in Kafka Streams.
    assert_eq!(
        rig.outputs(),
        [
            "0:a=null/early@24",
            "0:a=1/first@25",
            "0:a=1/last@30",
            "0:a=null/late@31"
        ]
    );
    // From the other side.
    rig.push_at(0, vec![record("a", "2", 26)]).unwrap();
    assert_eq!(rig.outputs(), ["0:a=2/late@31"]);
    rig.push_at(0, vec![record("b", "3", 40)]).unwrap();
    rig.push_at(1, vec![record("c", "x", 40)]).unwrap();
    assert_eq!(rig.outputs(), ["0:c=null/x@40"]);
}

#[test]
fn a_lane_loads_what_waits_for_its_keys_only() {
    let keys = ["a", "b", "c", "d", "e", "f"];
    let mut given = Vec::new();
    for lane in 0..2 {
        let mut rig = outer(joiner("pair_text"), "string");
        rig.push_at(0, keys.map(|key| record(key, "1", 1)).to_vec())
            .unwrap();
        rig.assignment = KeyAssignment::new(lane, 2);
        rig.clocks = crate::LaneClocks::new(4, false);
        rig.reopen(outer(joiner("pair_text"), "string"));
        rig.clocks.see(ClockId(0), stoatflow_core::Task(0), 50);
        rig.advance();
        given.push(rig.outputs());
    }
    assert!(given.iter().all(|rows| !rows.is_empty()), "{given:?}");
    let mut all = given.concat();
    all.sort();
    assert_eq!(all, keys.map(|key| format!("0:{key}=1/null@1")));
}

/// `right["seen"] += 1`
#[derive(Debug)]
struct Seen(std::sync::Mutex<i64>);

impl Opaque for Seen {
    fn to_json(&self) -> stoatflow_core::Result<bytes::Bytes> {
        Ok(self.0.lock().unwrap().to_string().into())
    }
    fn type_name(&self) -> String {
        "dict".into()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn a_joiner_that_changes_its_argument_changes_no_store() {
    let udf = closure(|args| match args[1] {
        Datum::Opaque(seen) => {
            let seen = seen.as_any().downcast_ref::<Seen>().unwrap();
            *seen.0.lock().unwrap() += 1;
            Ok(text("changed"))
        }
        kept => Ok(text(&word(kept))),
    });
    let mut rig = outer(udf, "json");
    rig.push_at(0, vec![record("a", "1", 1)]).unwrap();
    let mut right = record("a", "-", 2);
    right.value = Datum::Opaque(Arc::new(Seen(std::sync::Mutex::new(0))));
    rig.push_at(1, vec![right]).unwrap();
    rig.push_at(0, vec![record("a", "2", 3)]).unwrap();
    assert_eq!(rig.outputs(), ["0:a=changed@2", "0:a=0@3"]);
}

#[test]
fn an_expression_joins_without_a_function() {
    let mut nodes = nodes(JoinKind::Inner, WINDOW, false, "string");
    for (op, _) in nodes.iter_mut().map(|node| (&mut node.0, ())) {
        if let Op::StreamJoin { function, .. } = op {
            *function = expression(r#"{"op":"add","args":[{"op":"left"},{"op":"right"}]}"#);
        }
    }
    let mut rig = Rig::changed(nodes, vec![], |plan| {
        for store in &mut plan.stores {
            store.kind = window_store(WINDOW);
            store.clock = Some(ClockId(1));
        }
    })
    .unwrap();
    rig.push_at(0, vec![record("a", "l", 1)]).unwrap();
    rig.push_at(1, vec![record("a", "r", 2)]).unwrap();
    rig.push_at(0, vec![record("a", "m", 3)]).unwrap();
    assert_eq!(rig.outputs(), ["0:a=lr@2", "0:a=mr@3"]);
}
