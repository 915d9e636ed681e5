//! Builds the plan of the parts, as the DSL would send it.

use super::async_calls::CallSettings;
use super::{
    Part, async_calls, bank, batches, indexes, late_records, lookups, offloads, timers,
    udf as functions,
};
use serde_json::{Value, json};
use std::sync::Arc;
use stoatflow_core::Result;
use stoatflow_operators::ProcessorSupplier;
use stoatflow_plan::PhysicalPlan;

/// Compiles all parts into one topology. With `by_watermark`, results that time closes depend on the
/// watermarks of their sources. With `indexed`, tables have secondary indexes.
pub(super) fn compile(parts: &[Part], by_watermark: bool, indexed: bool) -> Result<PhysicalPlan> {
    let mut nodes = Vec::new();
    for part in parts {
        let base = nodes.len();
        nodes.extend(part_nodes(*part, base));
        if indexed {
            indexes::declare(*part, &mut nodes[base..]);
        }
        if by_watermark && part.waits_for_time() {
            nodes[base]["watermark"] = json!({"strategy": "monotonic"});
        }
    }
    let plan = json!({"version": 1, "nodes": nodes, "functions": functions::NAMES, "processors": PROCESSORS});
    stoatflow_plan::compile(plan.to_string().as_bytes())
}

/// Size of the counted windows.
pub(crate) const SIZE_MS: i64 = 200;
/// With one lane, a window that has expired when it closes is not emitted (as in Kafka Streams), so
/// windows are retained longer than any gap in the input.
const RETENTION_MS: i64 = 400_000;
/// Maximum distance between the halves of a pair.
pub(crate) const REACH_MS: i64 = 60;
/// More than the disorder of the input: nothing is late.
pub(crate) const GRACE_MS: i64 = 100;

/// Names of the processors, in the order of [`processors`].
const PROCESSORS: &[&str] = &[timers::PROCESSOR, bank::PROCESSOR];

/// All processors.
pub(super) fn processors() -> Vec<Arc<dyn ProcessorSupplier>> {
    vec![timers::processor(), bank::processor()]
}

fn part_nodes(part: Part, base: usize) -> Vec<Value> {
    match part {
        Part::Words(native) => words(base, native, part),
        Part::Counts => counts(base, part),
        Part::Sums => sums(base, part),
        Part::Rows => rows(base, part),
        Part::Latest => latest(base, part),
        Part::Windows(suppressed) => windows(base, suppressed),
        Part::Pairs(settings) => pairs(base, settings),
        Part::Foreign(settings) => foreign(base, settings),
        Part::Joined => joined(base),
        Part::Timers(with_ticks) => timers::nodes(base, with_ticks),
        Part::Bank => bank::nodes(base, 1),
        Part::AsyncCalls(settings) => async_calls::nodes(base, settings),
        Part::Batches { rows, wait_ms } => batches::nodes(base, rows, wait_ms),
        Part::LateRecords => late_records::nodes(base),
        Part::Offloads(settings) => offloads::nodes(base, settings),
        Part::Lookups(settings) => lookups::nodes(base, settings),
        Part::Races => races(base),
    }
}

fn value() -> Value {
    json!({"op": "value"})
}

/// A reference to a function.
pub(super) fn udf(name: &str) -> Value {
    json!({"udf": functions::number(name)})
}

/// Joins with a function, or with an async joiner that is always answered in the end.
fn join(mut node: Value, settings: Option<CallSettings>) -> Value {
    node["function"] = settings.map_or_else(|| udf("pair"), async_calls::joiner);
    if settings.is_some() {
        node["with_key"] = true.into();
        node["on_error"] = async_calls::retry_once_then(&"fail".into());
    }
    node
}

fn store(part: Part, table: usize) -> Value {
    json!({"store": part.tables()[table].1})
}

fn to(part: Part, table: usize, from: usize, serde: &str) -> Value {
    json!({"op": "to", "from": from, "topic": part.tables()[table].0, "key": "string", "value": serde})
}

fn words(base: usize, native: bool, part: Part) -> Vec<Value> {
    let absent = json!({"expr": {"op": "is_null", "args": [value()]}});
    let lower = json!({"op": "str_lower", "args": [value()]});
    let split = json!({"expr": {"op": "str_split", "args": [lower], "by": null}});
    let (split, by) = if native {
        (split, json!({"expr": value()}))
    } else {
        (udf("split"), udf("value"))
    };
    vec![
        json!({"op": "stream", "topics": [part.input()], "key": "string", "value": "string"}),
        json!({"op": "filter_not", "from": base, "function": absent}),
        json!({"op": "flat_map_values", "from": base + 1, "function": split}),
        json!({"op": "group_by", "from": base + 2, "function": by, "key": "string", "value": "string"}),
        json!({"op": "count", "from": base + 3, "materialized": store(part, 0)}),
        json!({"op": "to_stream", "from": base + 4}),
        to(part, 0, base + 5, "int64"),
    ]
}

fn counts(base: usize, part: Part) -> Vec<Value> {
    let mut nodes = words(base, true, part);
    nodes.extend([
        json!({"op": "group_by", "from": base + 5, "function": udf("text"), "key": "string", "value": "int64"}),
        json!({"op": "count", "from": base + 7, "materialized": store(part, 1)}),
        json!({"op": "to_stream", "from": base + 8}),
        to(part, 1, base + 9, "int64"),
    ]);
    nodes
}

fn sums(base: usize, part: Part) -> Vec<Value> {
    vec![
        json!({"op": "stream", "topics": [part.input()], "key": "string", "value": "int64"}),
        json!({"op": "select_key", "from": base, "function": udf("bucket")}),
        json!({"op": "group_by_key", "from": base + 1, "key": "string", "value": "int64"}),
        json!({"op": "reduce", "from": base + 2, "function": udf("add"), "materialized": store(part, 0)}),
        json!({"op": "to_stream", "from": base + 3}),
        to(part, 0, base + 4, "int64"),
        json!({"op": "select_key", "from": base + 4, "function": udf("half")}),
        json!({"op": "group_by_key", "from": base + 6, "key": "string", "value": "int64"}),
        json!({"op": "reduce", "from": base + 7, "function": udf("greater"), "materialized": store(part, 1)}),
        json!({"op": "to_stream", "from": base + 8}),
        to(part, 1, base + 9, "int64"),
    ]
}

fn rows(base: usize, part: Part) -> Vec<Value> {
    vec![
        json!({"op": "table", "topic": part.input(), "key": "string", "value": "string", "materialized": store(part, 0)}),
        json!({"op": "to_stream", "from": base}),
        to(part, 0, base + 1, "string"),
    ]
}

fn latest(base: usize, part: Part) -> Vec<Value> {
    vec![
        json!({"op": "stream", "topics": [part.input()], "key": "string", "value": "string"}),
        json!({"op": "group_by", "from": base, "function": udf("group"), "key": "string", "value": "string"}),
        json!({"op": "reduce", "from": base + 1, "function": udf("newer"), "materialized": store(part, 0)}),
        json!({"op": "to_stream", "from": base + 2}),
        to(part, 0, base + 3, "string"),
    ]
}

fn windows(base: usize, suppressed: bool) -> Vec<Value> {
    let window = json!({"type": "tumbling", "size_ms": SIZE_MS, "grace_ms": GRACE_MS});
    let kept = json!({"store": "clicks-store", "retention_ms": RETENTION_MS});
    let mut nodes = vec![
        json!({"op": "stream", "topics": ["clicks"], "key": "string", "value": "string"}),
        json!({"op": "group_by_key", "from": base, "key": "string", "value": "string"}),
        json!({"op": "windowed_by", "from": base + 1, "window": window}),
    ];
    if suppressed {
        let until = json!({"type": "window_closes", "grace_ms": GRACE_MS});
        nodes.extend([
            json!({"op": "count", "from": base + 2, "materialized": kept}),
            json!({"op": "suppress", "from": base + 3, "name": "clicks-final", "until": until}),
        ]);
    } else {
        nodes.extend([
            json!({"op": "emit_strategy", "from": base + 2, "strategy": "on_window_close"}),
            json!({"op": "count", "from": base + 3, "materialized": kept}),
        ]);
    }
    let key = json!({"time_windowed": "string", "size_ms": SIZE_MS});
    nodes.extend([
        json!({"op": "to_stream", "from": base + 4}),
        json!({"op": "to", "from": base + 5, "topic": "clicks-out", "key": key, "value": "int64"}),
    ]);
    nodes
}

fn races(base: usize) -> Vec<Value> {
    let window = json!({"type": "tumbling", "size_ms": SIZE_MS, "grace_ms": 0});
    let kept = json!({"store": "races-store", "retention_ms": RETENTION_MS});
    let key = json!({"time_windowed": "string", "size_ms": SIZE_MS});
    vec![
        json!({"op": "stream", "topics": ["races"], "key": "string", "value": "string"}),
        json!({"op": "group_by", "from": base, "function": udf("group"), "key": "string", "value": "string"}),
        json!({"op": "windowed_by", "from": base + 1, "window": window}),
        json!({"op": "count", "from": base + 2, "materialized": kept}),
        json!({"op": "to_stream", "from": base + 3}),
        json!({"op": "to", "from": base + 4, "topic": "races-out", "key": key, "value": "int64"}),
    ]
}

fn pairs(base: usize, settings: Option<CallSettings>) -> Vec<Value> {
    let window = json!({"before_ms": REACH_MS, "after_ms": REACH_MS, "grace_ms": GRACE_MS});
    vec![
        json!({"op": "stream", "topics": ["halves"], "key": "string", "value": "string"}),
        json!({"op": "filter", "from": base, "function": udf("is_left")}),
        json!({"op": "filter_not", "from": base, "function": udf("is_left")}),
        join(
            json!({"op": "left_join", "from": base + 1, "other": base + 2, "window": window, "key": "string",
            "value": "string", "other_value": "string", "store": "pairs", "name": "pairs"}),
            settings,
        ),
        json!({"op": "to", "from": base + 3, "topic": "pairs-out", "key": "string", "value": "string"}),
    ]
}

fn foreign(base: usize, settings: Option<CallSettings>) -> Vec<Value> {
    vec![
        json!({"op": "table", "topic": "orders", "key": "string", "value": "string", "materialized": {"store": "orders-store"}}),
        json!({"op": "table", "topic": "goods", "key": "string", "value": "string", "materialized": {"store": "goods-store"}}),
        join(
            json!({"op": "join", "from": base, "other": base + 1, "foreign_key": udf("group"), "name": "ordered",
            "materialized": {"store": "ordered-store", "key": "string", "value": "string"}}),
            settings,
        ),
        json!({"op": "to_stream", "from": base + 2}),
        json!({"op": "to", "from": base + 3, "topic": "orders-out", "key": "string", "value": "string"}),
    ]
}

fn joined(base: usize) -> Vec<Value> {
    let kept = |name: &str| json!({"store": name, "key": "string", "value": "string"});
    vec![
        json!({"op": "table", "topic": "plans", "key": "string", "value": "string", "materialized": {"store": "plans-store"}}),
        json!({"op": "stream", "topics": ["visits"], "key": "string", "value": "string"}),
        json!({"op": "select_key", "from": base + 1, "function": udf("twin")}),
        json!({"op": "to_table", "from": base + 2, "materialized": kept("visits-store")}),
        json!({"op": "join", "from": base, "other": base + 3, "function": udf("pair"), "name": "planned", "materialized": kept("planned-store")}),
        json!({"op": "to_stream", "from": base + 4}),
        json!({"op": "to", "from": base + 5, "topic": "planned-out", "key": "string", "value": "string"}),
        json!({"op": "join", "from": base, "other": base + 3, "function": udf("pair"), "name": "tallied"}),
        json!({"op": "group_by", "from": base + 7, "function": udf("tally"), "key": "string", "value": "string"}),
        json!({"op": "count", "from": base + 8, "materialized": {"store": "tally-store"}}),
        json!({"op": "to_stream", "from": base + 9}),
        json!({"op": "to", "from": base + 10, "topic": "tally-out", "key": "string", "value": "int64"}),
    ]
}
