//! Checks each call by itself: its names, serdes, functions and expressions.
//!
//! Takes a call, adds findings. Never looks at other calls.

use super::expression_scope;
use super::store_options::rocksdb_problem;
use crate::columns::{ORIGIN, ROW, columns_problem, is_added, rows_problem};
use crate::function::Function;
use crate::logical::{DslCall, LogicalPlan};
use crate::offloading::OffloadSpec;
use crate::pattern::topic_pattern;
use crate::problems::Problems;
use crate::spec::{AsyncSpec, SerdeSpec};
use crate::suggestion::suggestion;
use crate::timetable::Timetable;
use crate::window::{TimestampExtractor, Watermark};
use crate::{Expression, Literal, WatermarkStrategy};
use stoatflow_core::{Error, Late};
use stoatflow_formats::protobuf::Decode;

const SERDES: &[&str] = &["bytes", "string", "int32", "int64", "double", "json"];
const CASTS: &[&str] = &["int", "float", "str", "bool", "json"];

/// Problems with the batches that a call asks for.
fn batch_problem(call: &DslCall) -> Option<String> {
    let (function, schema, max_rows, max_wait_ms, others) = match call {
        DslCall::MapBatches {
            function,
            schema,
            max_rows,
            max_wait_ms,
            by_row,
            ..
        } => {
            if by_row.is_empty() || is_added(by_row) {
                return Some(format!(
                    "by_row='{by_row}' must be a name of its own, such as '_row'"
                ));
            }
            (
                function,
                schema,
                max_rows,
                max_wait_ms,
                vec![by_row.as_str()],
            )
        }
        DslCall::ForeachBatch {
            function,
            schema,
            max_rows,
            max_wait_ms,
            ..
        } => {
            let [topic, partition, offset] = ORIGIN;
            let others = vec![ROW, topic, partition, offset];
            (function, schema, max_rows, max_wait_ms, others)
        }
        _ => return None,
    };
    if matches!(function, Function::Expr(_)) {
        return Some("takes a function of whole batches, and no expression".into());
    }
    if let Some(problem) = rows_problem(*max_rows as usize) {
        return Some(problem);
    }
    if *max_wait_ms < 1 {
        return Some(format!(
            "max_wait of {max_wait_ms} ms must be at least 1 ms"
        ));
    }
    columns_problem(schema.as_deref()?, &others)
}

/// Checks a call.
pub(super) fn details(plan: &LogicalPlan, i: usize, problems: &mut Problems) {
    let node = &plan.nodes[i];
    for (argument, serde) in node.call.serdes() {
        if let Some(what) = serde_problem(plan, argument, serde) {
            problems.at(plan, i, what);
        }
    }
    functions(plan, i, problems);
    for what in expression_scope::problems(&node.call) {
        problems.at(plan, i, what);
    }
    if let Some(what) = node.name.as_deref().and_then(|n| name_problem("name", n)) {
        problems.at(plan, i, what);
    }
    for store in stores(&node.call) {
        if let Some(what) = name_problem("store", store) {
            problems.at(plan, i, what);
        }
    }
    if let DslCall::Scheduled(times) = &node.call {
        if node.name.is_none() {
            problems.at(
                plan,
                i,
                "needs a name: it is the key of its records, and what fired last is kept under it",
            );
        }
        if let Err(what) = Timetable::new(times) {
            problems.at(plan, i, what);
        }
    }
    if let Some(what) = batch_problem(&node.call) {
        problems.at(plan, i, what);
    }
    if let Some(what) = rocksdb_problem(&node.call) {
        problems.at(plan, i, what);
    }
    match node.call.timestamp() {
        Some(TimestampExtractor::Udf(u)) if *u as usize >= plan.functions.len() => {
            let n = plan.functions.len();
            problems.at(
                plan,
                i,
                format!("its timestamp extractor {u} is not in the table of {n} functions"),
            );
        }
        Some(TimestampExtractor::Expr(e)) => expression(plan, i, e, problems),
        _ => {}
    }
    if let DslCall::Stream {
        watermark: Some(watermark),
        ..
    }
    | DslCall::Table {
        watermark: Some(watermark),
        ..
    } = &node.call
        && let Some(what) = watermark_problem(plan, watermark)
    {
        problems.at(plan, i, what);
    }
    if let Some(what) = node.call.late().and_then(|l| late_problem(plan, i, l)) {
        problems.at(plan, i, what);
    }
    let topics = topics(plan, i, problems);
    if let DslCall::Offload(o) = &node.call {
        for what in offload_problems(o) {
            problems.at(plan, i, what);
        }
    }
    for (n, topic) in topics.iter().enumerate() {
        if let Some(what) = name_problem("topic", topic) {
            problems.at(plan, i, what);
        }
        if topics[..n].contains(topic) {
            problems.at(
                plan,
                i,
                format!("names the topic '{topic}' twice: name it once"),
            );
        }
    }
}

/// Checks the functions of a call, and their expressions.
fn functions(plan: &LogicalPlan, i: usize, problems: &mut Problems) {
    for function in plan.nodes[i].call.functions() {
        match function {
            Function::Udf(u) | Function::Async(AsyncSpec { udf: u, .. })
                if *u as usize >= plan.functions.len() =>
            {
                problems.at(
                    plan,
                    i,
                    format!(
                        "its function {u} is not in the table of {} functions",
                        plan.functions.len()
                    ),
                );
            }
            Function::Async(awaiting) if awaiting.concurrency == 0 => {
                problems.at(plan, i, "awaits its async function with a concurrency of 0: no call would ever begin; give at least 1");
            }
            Function::Udf(_) | Function::Async(_) => {}
            Function::Expr(e) => expression(plan, i, e, problems),
            Function::Aggregation(aggregation) => {
                if let Some(what) = aggregation.problem() {
                    problems.at(plan, i, what);
                }
                for e in aggregation.expressions() {
                    expression(plan, i, e, problems);
                }
            }
        }
    }
}

/// The topics that a call names. Adds findings about a stream's topics and pattern.
fn topics<'a>(plan: &'a LogicalPlan, i: usize, problems: &mut Problems) -> Vec<&'a String> {
    match &plan.nodes[i].call {
        DslCall::Stream {
            topics,
            pattern: None,
            ..
        } if topics.is_empty() => {
            problems.at(plan, i, "reads nothing: name at least one topic");
            vec![]
        }
        DslCall::Stream {
            topics,
            pattern: Some(pattern),
            ..
        } => {
            if !topics.is_empty() {
                problems.at(
                    plan,
                    i,
                    "reads topics or a pattern, not both: use two streams and merge()",
                );
            }
            if pattern.is_empty() {
                problems.at(plan, i, "its pattern is empty and matches no topic");
            } else if let Err(e) = topic_pattern(pattern) {
                problems.at(plan, i, format!("{}; {}", e.message(), e.next_step()));
            }
            vec![]
        }
        DslCall::Stream { topics, .. } => topics.iter().collect(),
        DslCall::Table { topic, .. }
        | DslCall::GlobalTable { topic, .. }
        | DslCall::GlobalStore { topic, .. }
        | DslCall::To {
            topic: Some(topic), ..
        } => vec![topic],
        DslCall::Offload(o) => vec![&o.requests, &o.responses],
        _ => vec![],
    }
}

/// Problems with a watermark.
fn watermark_problem(plan: &LogicalPlan, watermark: &Watermark) -> Option<String> {
    let functions = plan.functions.len();
    match watermark.strategy {
        WatermarkStrategy::Udf(u) if u as usize >= functions => {
            return Some(format!(
                "its watermark function {u} is not in the table of {functions} functions"
            ));
        }
        WatermarkStrategy::Bounded(ms) if ms < 0 => {
            return Some(format!(
                "its watermark is {ms} ms behind: give how late records may be, from 0 on"
            ));
        }
        _ => {}
    }
    if watermark.idle_ms.is_some_and(|ms| ms <= 0) {
        return Some("its partitions are idle after no time at all: give a longer one".to_owned());
    }
    if watermark.max_drift_ms < 0 {
        return Some("its partitions may drift by less than nothing: give 0 or more".to_owned());
    }
    let group = watermark.group.as_ref()?;
    if group.is_empty() {
        return Some("the group that it is aligned with has no name".to_owned());
    }
    (watermark.strategy == WatermarkStrategy::None)
        .then(|| "it is aligned with a group, but has no watermark to align".to_owned())
}

/// Problems with a policy for late records.
fn late_problem(plan: &LogicalPlan, i: usize, late: &Late) -> Option<String> {
    if let Late::Call(calling) = late
        && calling.udf as usize >= plan.functions.len()
    {
        let (udf, all) = (calling.udf, plan.functions.len());
        return Some(format!(
            "its late policy {udf} is not in the table of {all} functions"
        ));
    }
    let reads = |topic: &str| match &plan.nodes[i].call {
        DslCall::Stream {
            pattern: Some(pattern),
            ..
        } => topic_pattern(pattern).is_ok_and(|whole| whole.is_match(topic)),
        DslCall::Stream { topics, .. } => topics.iter().any(|own| own == topic),
        DslCall::Table { topic: own, .. } => own == topic,
        _ => false,
    };
    late.topics().into_iter().find_map(|topic| {
        name_problem("topic", topic).or_else(|| {
            reads(topic).then(|| {
                format!("sends late records to '{topic}', which it reads: they would be late there again, for ever; name another topic")
            })
        })
    })
}

/// Problems with the limits of an offload.
fn offload_problems(o: &OffloadSpec) -> Vec<String> {
    let mut found = Vec::new();
    let patience = &o.patience;
    if patience.timeout_ms.is_some_and(|ms| ms < 1) {
        found.push("its timeout must be at least a millisecond: answers take some time".to_owned());
    }
    if patience.attempts < 1 {
        found.push("asks 0 times, so no request would ever be sent: give at least 1".to_owned());
    }
    if patience.first_ms < 0 || patience.most_ms < 0 || !(0.0..=1.0).contains(&patience.jitter) {
        found.push(
            "its retry pauses must be 0 or longer, and vary by a share between 0 and 1".to_owned(),
        );
    }
    if o.max_parked < 1 {
        found.push("max_parked=0 leaves room for no record: give at least 1".to_owned());
    }
    if o.materialized.as_ref().is_some_and(|m| !m.logged) {
        found.push(
            "keeps what is parked nowhere else than in its store, which therefore needs its changelog: leave \
             logging=False out"
                .to_owned(),
        );
    }
    found
}

/// The store names that a call sets.
fn stores(call: &DslCall) -> Vec<&str> {
    let mut all: Vec<&str> = call
        .materialized()
        .and_then(|m| m.store.as_deref())
        .into_iter()
        .collect();
    match call {
        DslCall::StateStore { store, .. } | DslCall::GlobalStore { store, .. } => all.push(store),
        DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => {
            all.extend(j.store.as_deref())
        }
        _ => {}
    }
    all
}

/// Names of nodes and stores must follow Kafka's rules for topic names, because they become topic names.
fn name_problem(what: &str, name: &str) -> Option<String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let wrong = if name.is_empty() {
        "is empty".to_owned()
    } else if name == "." || name == ".." {
        "can't be '.' or '..'".to_owned()
    } else if name.len() > 249 {
        format!("has {} characters, Kafka allows 249", name.len())
    } else if let Some(c) = name.chars().find(|c| !legal(*c)) {
        format!("holds {c:?}, but Kafka allows only letters, digits, '.', '_' and '-'")
    } else {
        return None;
    };
    Some(format!("the {what} '{name}' {wrong}"))
}

/// Problems with a serde.
pub(super) fn serde_problem(
    plan: &LogicalPlan,
    argument: &str,
    serde: &SerdeSpec,
) -> Option<String> {
    match serde {
        SerdeSpec::Builtin(name) if SERDES.contains(&name.as_str()) => None,
        SerdeSpec::Builtin(name) => {
            let java = match name.to_lowercase().as_str() {
                "long" | "i64" => Some("int64"),
                "int" | "integer" | "i32" => Some("int32"),
                "float" | "float64" | "f64" => Some("double"),
                "str" | "text" | "utf8" => Some("string"),
                _ => None,
            };
            let near = java.map_or_else(
                || suggestion(name, SERDES),
                |j| format!("did you mean '{j}'?"),
            );
            Some(format!("unknown {argument} serde '{name}', {near}"))
        }
        SerdeSpec::TimeWindowed { size_ms, .. } if *size_ms <= 0 => Some(format!(
            "its {argument} serde is for windows of {size_ms} ms, which hold nothing"
        )),
        SerdeSpec::TimeWindowed { time_windowed, .. } => {
            serde_problem(plan, argument, time_windowed)
        }
        SerdeSpec::SessionWindowed { session_windowed } => {
            serde_problem(plan, argument, session_windowed)
        }
        SerdeSpec::Avro { avro } => Some(unusable(argument, &avro.format().err()?)),
        SerdeSpec::JsonSchema { json_schema } => {
            Some(unusable(argument, &json_schema.format().err()?))
        }
        SerdeSpec::Protobuf { protobuf } => match (protobuf.format(), protobuf.decode) {
            (Err(wrong), _) => Some(unusable(argument, &wrong)),
            (Ok(_), Decode::Message(custom)) => {
                serde_problem(plan, argument, &SerdeSpec::Custom { custom })
            }
            (Ok(_), _) => None,
        },
        SerdeSpec::Custom { custom } if (*custom as usize) < plan.serdes.len() => None,
        SerdeSpec::Custom { custom } => Some(format!(
            "its {argument} serde {custom} is not in the table of {} custom serdes",
            plan.serdes.len()
        )),
    }
}

fn unusable(argument: &str, wrong: &Error) -> String {
    format!("its {argument} serde can't be used: {}", wrong.brief())
}

fn expression(plan: &LogicalPlan, i: usize, e: &Expression, problems: &mut Problems) {
    match e {
        Expression::Cast { to, .. } if !CASTS.contains(&to.as_str()) => {
            problems.at(
                plan,
                i,
                format!("can't cast to '{to}', {}", suggestion(to, CASTS)),
            );
        }
        Expression::Object { names, args } if names.len() != args.len() => {
            problems.at(
                plan,
                i,
                format!(
                    "an object of {} names needs as many values, not {}",
                    names.len(),
                    args.len()
                ),
            );
        }
        Expression::Coalesce { args } if args.is_empty() => {
            problems.at(plan, i, "coalesce needs at least one argument");
        }
        Expression::Lit {
            value: Literal::Float(x),
        } if !x.is_finite() => {
            problems.at(plan, i, "a constant must be a finite number");
        }
        Expression::StrSplit { by: Some(by), .. } if by.is_empty() => {
            problems.at(
                plan,
                i,
                "can't split by an empty text: leave it out to split by white space",
            );
        }
        _ => {}
    }
    for arg in e.args() {
        expression(plan, i, arg, problems);
    }
}
