//! Recorded runs of Kafka Streams, replayed through a chain that a test has built by hand.
//!
//! Takes the name of a vector, the entry nodes of each topic, and the topic of each sink; compares the
//! outputs after each input, and the contents of the named stores at the end.

use super::{Closure, Rig, closure, plan, serde, text, to_streams, word};
use serde_json::Value;
use std::sync::Arc;
use stoatflow_core::serde::json_bytes;
use stoatflow_core::{ClockId, Datum, Offset, Origin, Record, Serde, SinkId, StoreId, Timestamp};
use stoatflow_plan::{Delivery, Op, PhysicalPlan, StoreKind};
use stoatflow_state::VersionedView;

/// How a topology's names are numbered in a hand-made plan.
pub(crate) struct Wiring<'a> {
    /// Topic → nodes, in their order.
    pub entries: &'a [(&'a str, &'a [u32])],
    /// Topic of each sink, by number.
    pub sinks: &'a [&'a str],
    /// Name in the vector (or nothing), kind and value serde of each store, by number.
    pub stores: &'a [(&'a str, StoreKind, &'a str)],
}

/// A key-value store.
pub(crate) fn kept<'a>(name: &'a str, value: &'a str) -> (&'a str, StoreKind, &'a str) {
    (name, StoreKind::TimestampedKeyValue, value)
}

pub(crate) fn vector(name: &str) -> Value {
    // A test runs in the folder of its crate.
    let path = format!("../../tests/conformance/vectors/{name}.json");
    let found = std::fs::read_to_string(&path).expect("a recorded vector");
    serde_json::from_str(&found).expect("well-formed JSON")
}

fn builtin(spec: &Value) -> &'static str {
    match spec.as_str() {
        Some("string") => "string",
        Some("long") => "int64",
        Some("json") => "json",
        other => panic!("no serde {other:?} here"),
    }
}

/// A value of a vector, as a source with this serde decodes it.
fn datum(serde: &str, value: &Value) -> Datum {
    match (serde, value) {
        (_, Value::Null) => Datum::Null,
        ("string", Value::String(s)) => text(s),
        ("int64", Value::Number(n)) => Datum::Int(n.as_i64().expect("a long")),
        (_, value) => Datum::Json(value.to_string().into()),
    }
}

/// A value as a vector writes it.
fn shown(serde: &str, bytes: Option<bytes::Bytes>) -> Value {
    match Serde::builtin(serde).unwrap().decode(bytes).unwrap() {
        Datum::Null => Value::Null,
        Datum::Str(s) => Value::String(s.as_str().into()),
        Datum::Int(n) => n.into(),
        other => serde_json::from_slice(&json_bytes(&other).unwrap()).unwrap(),
    }
}

/// Builds the nodes with the stores and sinks of a vector.
fn planned(
    case: &Value,
    nodes: Vec<(Op, Vec<u32>, Delivery)>,
    wiring: &Wiring<'_>,
) -> PhysicalPlan {
    let mut plan = plan(to_streams(nodes));
    let (store, sink) = (plan.stores.remove(0), plan.sinks.remove(0));
    let numbered = |at: usize| u16::try_from(at).unwrap();
    plan.stores = wiring
        .stores
        .iter()
        .enumerate()
        .map(|(at, (name, kind, value))| {
            let mut store = store.clone();
            store.id = StoreId(numbered(at));
            store.name = format!("{name}-{at}");
            store.kind = *kind;
            store.value = serde(value);
            store.clock = Some(ClockId(8 + numbered(at)));
            store
        })
        .collect();
    plan.sinks = wiring
        .sinks
        .iter()
        .enumerate()
        .map(|(at, topic)| {
            let mut sink = sink.clone();
            sink.id = SinkId(numbered(at));
            sink.value = serde(builtin(&case["topics"][topic]["value"]));
            sink
        })
        .collect();
    plan.clocks = (0..8 + numbered(plan.stores.len()))
        .map(|id| stoatflow_plan::ClockSpec {
            id: ClockId(id),
            name: format!("clock-{id}"),
        })
        .collect();
    plan
}

/// Replays the hand-written and the random run of a topology.
pub(crate) fn replay(
    topology: &str,
    nodes: &[(Op, Vec<u32>, Delivery)],
    udfs: &[Arc<Closure>],
    wiring: &Wiring<'_>,
) {
    replay_in_batches(topology, nodes, udfs, wiring, 1);
}

/// The same, with a restart before each input.
pub(crate) fn replay_with_restarts(
    topology: &str,
    nodes: &[(Op, Vec<u32>, Delivery)],
    udfs: &[Arc<Closure>],
    wiring: &Wiring<'_>,
) {
    run(topology, nodes, udfs, wiring, 1, true);
}

/// The same, with neighbouring records of one topic in batches of at most `size`.
pub(crate) fn replay_in_batches(
    topology: &str,
    nodes: &[(Op, Vec<u32>, Delivery)],
    udfs: &[Arc<Closure>],
    wiring: &Wiring<'_>,
    size: usize,
) {
    run(topology, nodes, udfs, wiring, size, false);
}

fn run(
    topology: &str,
    nodes: &[(Op, Vec<u32>, Delivery)],
    udfs: &[Arc<Closure>],
    wiring: &Wiring<'_>,
    size: usize,
    restarts: bool,
) {
    for run in ["hand", "seed1"] {
        let case = vector(&format!("{topology}__{run}"));
        let plan = planned(&case, nodes.to_vec(), wiring);
        let fresh = || {
            let udfs = udfs.iter().map(|udf| Arc::clone(udf) as _).collect();
            Rig::of(&plan, udfs, false).expect("a chain that can be built")
        };
        let mut rig = fresh();
        rig.clocks.wall = Timestamp(0);
        rig.clocks.emit_interval_ms = case["config"]["emit_interval_ms"].as_i64().or(Some(0));
        rig.clocks.join_emit_interval_ms = rig.clocks.emit_interval_ms;
        let inputs = case["inputs"].as_array().unwrap();
        let mut from = 0;
        for batch in inputs.chunk_by(|a, b| a["topic"] == b["topic"]) {
            for batch in batch.chunks(size) {
                if restarts {
                    rig.reopen(fresh());
                }
                feed(&mut rig, &case, batch, from, wiring);
                compare(&mut rig, &case, from..from + batch.len(), wiring, run);
                from += batch.len();
            }
        }
        check_stores(&rig, &case, wiring, run);
    }
}

fn feed(rig: &mut Rig, case: &Value, inputs: &[Value], from: usize, wiring: &Wiring<'_>) {
    let Some(topic) = inputs[0]["topic"].as_str() else {
        for input in inputs {
            let step = input["advance_wall_clock_ms"].as_i64();
            rig.clocks.wall.0 += step.expect("a record, or time that passes");
        }
        return;
    };
    let serdes = &case["topics"][topic];
    let records = inputs.iter().enumerate().map(|(at, input)| Record {
        key: datum(builtin(&serdes["key"]), &input["key"]),
        value: datum(builtin(&serdes["value"]), &input["value"]),
        timestamp: Timestamp(input["timestamp"].as_i64().unwrap()),
        headers: None,
        origin: Origin {
            offset: Offset(i64::try_from(from + at).unwrap()),
            ..Origin::default()
        },
    });
    let records: Vec<Record> = records.collect();
    let (_, entries) = wiring
        .entries
        .iter()
        .find(|(name, _)| *name == topic)
        .expect("a wired topic");
    for entry in *entries {
        rig.push_at(*entry, records.clone()).unwrap();
    }
}

fn compare(
    rig: &mut Rig,
    case: &Value,
    inputs: std::ops::Range<usize>,
    wiring: &Wiring<'_>,
    run: &str,
) {
    let mut given: Vec<Vec<Value>> = vec![vec![]; wiring.sinks.len()];
    for output in std::mem::take(&mut rig.effects.outputs) {
        let sink = usize::from(output.sink.0);
        let serdes = &case["topics"][wiring.sinks[sink]];
        given[sink].push(serde_json::json!([
            shown(builtin(&serdes["key"]), output.key),
            shown(builtin(&serdes["value"]), output.value),
            output.timestamp.0,
        ]));
    }
    for (topic, given) in wiring.sinks.iter().zip(given) {
        let expected: Vec<Value> = case["outputs"][topic]
            .as_array()
            .expect("a topic of the vector")
            .iter()
            .filter(|output| {
                let i = output["i"].as_u64().and_then(|i| usize::try_from(i).ok());
                i.is_some_and(|i| inputs.contains(&i))
            })
            .map(|o| serde_json::json!([o["key"], o["value"], o["timestamp"]]))
            .collect();
        assert_eq!(
            given, expected,
            "{run}: {topic} after inputs {inputs:?}, the first: {}",
            case["inputs"][inputs.start]
        );
    }
}

fn check_stores(rig: &Rig, case: &Value, wiring: &Wiring<'_>, run: &str) {
    for (at, (name, kind, _)) in wiring.stores.iter().enumerate() {
        let Some(entries) = case["stores"][name].as_array() else {
            continue;
        };
        if matches!(kind, StoreKind::Versioned { .. }) {
            check_versions(rig, case, at, name, run);
            continue;
        }
        if *kind != StoreKind::TimestampedKeyValue {
            continue;
        }
        for (nth, entry) in entries.iter().enumerate() {
            let key = entry[0].as_str().expect("a text key");
            let value = match &entry[1] {
                Value::String(s) => s.clone(),
                other => other.to_string(),
            };
            let time = &case["store_timestamps"][name][nth];
            let found = rig.stored(u16::try_from(at).unwrap(), key);
            assert_eq!(found, format!("{value}@{time}"), "{run}: {name}[{key}]");
        }
        let all = stoatflow_state::KeyRange::default();
        let held = rig.stores[at].store.scan(rig.epoch, &all, usize::MAX);
        assert_eq!(held.unwrap().len(), entries.len(), "{run}: {name}");
    }
}

/// Compares what a versioned store returns for earlier times.
fn check_versions(rig: &Rig, case: &Value, at: usize, name: &str, run: &str) {
    let store = &rig.stores[at].store;
    let seen = rig.clocks.stream(
        ClockId(8 + u16::try_from(at).unwrap()),
        stoatflow_core::Task(0),
    );
    let view = VersionedView::new(store, rig.epoch, seen).unwrap();
    let lookups = case["versioned_lookups"][name].as_array();
    for lookup in lookups.expect("lookups of a versioned store") {
        let (key, as_of) = (lookup[0].as_str().unwrap(), lookup[1].as_i64().unwrap());
        let found = view.get_as_of(key.as_bytes(), as_of).unwrap();
        let found = found.map(|v| (word(&v.value), v.timestamp));
        let expected = lookup[2].as_object().map(|v| {
            let value = match &v["value"] {
                Value::String(s) => s.clone(),
                other => other.to_string(),
            };
            (value, v["valid_from"].as_i64().unwrap())
        });
        assert_eq!(found, expected, "{run}: {name}[{key}] as of {as_of}");
    }
}

/// `str(x)` of the registry of functions.
pub(crate) fn str_of(datum: &Datum) -> String {
    match datum {
        Datum::Null => "null".into(),
        // Members sorted by name, as a tree has them.
        Datum::Json(_) => tree(datum).to_string(),
        other => word(other),
    }
}

/// Functions of the registry, by name.
pub(crate) fn registered(name: &str) -> Arc<Closure> {
    let both = |separator: &'static str| {
        closure(move |a| {
            let shown: Vec<String> = a.iter().map(|d| str_of(d)).collect();
            Ok(text(&shown.join(separator)))
        })
    };
    let long = |d: &Datum| match d {
        Datum::Int(n) => *n,
        _ => 0,
    };
    let chars = |d: &Datum| str_of(d).chars().count();
    match name {
        "len_gt_3" => closure(move |a| Ok(Datum::Bool(chars(a[1]) > 3))),
        "starts_with_a" => closure(|a| Ok(Datum::Bool(str_of(a[1]).starts_with('a')))),
        "has_x" => closure(|a| Ok(Datum::Bool(str_of(a[1]).contains('x')))),
        "gt_2" => closure(move |a| Ok(Datum::Bool(long(a[1]) > 2))),
        "is_even" => closure(move |a| Ok(Datum::Bool(long(a[1]) % 2 == 0))),
        "upper" => closure(|a| Ok(text(&str_of(a[1]).to_uppercase()))),
        "prefix_key" => closure(|a| Ok(text(&format!("{}:{}", str_of(a[0]), str_of(a[1]))))),
        "null_if_x" => closure(|a| {
            let x = str_of(a[1]) == "x";
            Ok(if x { Datum::Null } else { a[1].clone() })
        }),
        "by_first_char" => closure(|a| {
            let first = str_of(a[1]).chars().next();
            let key = first.map_or(Datum::Null, |c| text(&c.to_string()));
            Ok(super::list_of([key, a[1].clone()]))
        }),
        "parity_group" => closure(move |a| {
            let parity = if long(a[1]) % 2 == 0 { "even" } else { "odd" };
            Ok(super::list_of([text(parity), a[1].clone()]))
        }),
        "empty_text" => closure(|_| Ok(text(""))),
        "append_plus" => closure(|a| Ok(text(&format!("{}+{}", str_of(a[2]), str_of(a[1]))))),
        "append_minus" => closure(|a| Ok(text(&format!("{}-{}", str_of(a[2]), str_of(a[1]))))),
        "add_longs" => closure(move |a| Ok(Datum::Int(long(a[0]) + long(a[1])))),
        "sub_longs" => closure(move |a| Ok(Datum::Int(long(a[0]) - long(a[1])))),
        "pair_text" => both("/"),
        "key_pair_text" => closure(|a| {
            Ok(text(&format!(
                "{}={}/{}",
                str_of(a[0]),
                str_of(a[1]),
                str_of(a[2])
            )))
        }),
        "null_if_right_x" => closure(|a| {
            let x = str_of(a[1]) == "x";
            Ok(if x {
                Datum::Null
            } else {
                text(&format!("{}/{}", str_of(a[0]), str_of(a[1])))
            })
        }),
        "concat_values" => both("|"),
        "first_char" => closure(|a| {
            let first = str_of(a[1]).chars().next();
            Ok(first.map_or(Datum::Null, |c| text(&c.to_string())))
        }),
        "value_as_key" => closure(|a| Ok(a[1].clone())),
        "same_key" => closure(|a| Ok(a[0].clone())),
        "user_of" => closure(|a| Ok(member(a[1], "user"))),
        "enrich" => closure(|a| {
            let (mut left, right) = (tree(a[0]), tree(a[1]));
            left["info"] = right;
            Ok(Datum::Json(left.to_string().into()))
        }),
        "fk_of" => closure(|a| Ok(member(a[1], "fk"))),
        "text_fk" => closure(|a| {
            let value = str_of(a[1]);
            let key = value.split(':').next().unwrap_or_default();
            Ok(if key.is_empty() {
                Datum::Null
            } else {
                text(key)
            })
        }),
        "key_prefix_fk" => closure(|a| {
            let key = str_of(a[0]);
            Ok(text(key.split('-').next().unwrap_or_default()))
        }),
        "pair_json" => closure(|a| {
            let row = serde_json::json!({"l": tree(a[0]), "r": tree(a[1])});
            Ok(Datum::Json(row.to_string().into()))
        }),
        "to_text" => closure(|a| Ok(text(&str_of(a[1])))),
        "swap_kv" => closure(|a| Ok(super::list_of([a[1].clone(), a[0].clone()]))),
        other => panic!("no function {other} here"),
    }
}

/// A JSON value as a tree.
fn tree(datum: &Datum) -> Value {
    match datum {
        Datum::Null => Value::Null,
        other => serde_json::from_slice(&json_bytes(other).unwrap()).unwrap(),
    }
}

/// A text member of a JSON object, else null.
fn member(datum: &Datum, name: &str) -> Datum {
    tree(datum)[name].as_str().map_or(Datum::Null, text)
}
