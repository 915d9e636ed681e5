//! Runs recorded vectors of Kafka Streams through a chain of one stage, with batches of any size.
//!
//! Takes `tests/conformance/vectors/*.json` of topologies that are one windowed aggregation (with the
//! steps before and after it in one stage); returns the outputs beside the recorded ones. The whole set
//! runs above the engine, through the DSL; here a failure points at the operator.

mod functions;

use crate::testing::{Rig, Step, plan, serde};
use crate::{LaneStore, Udf};
use functions::{Registered, datum, shown};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::{
    ClockId, Datum, Header, Offset, Origin, Record, Serde, SinkId, StoreId, Timestamp,
};
use stoatflow_plan::{
    Delivery, Emit, Fold, Function, Op, PhysicalPlan, SerdeSpec, Store, StoreKind, Until, WhenFull,
    Window,
};
use stoatflow_state::{SessionView, WindowView};

/// Outputs and stored rows, as text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub outputs: Vec<String>,
    pub stored: Vec<String>,
}

/// A recorded case.
pub(crate) struct Case {
    json: Value,
    nodes: Vec<Step>,
    store: Store,
    size_ms: i64,
    udfs: Vec<Arc<dyn Udf>>,
    /// The entry node of each topic.
    entries: BTreeMap<String, u32>,
    grouped: BTreeMap<String, (String, Option<Function>)>,
    group: SerdeSpec,
}

fn text<'a>(json: &'a Value, name: &str) -> &'a str {
    json[name]
        .as_str()
        .unwrap_or_else(|| panic!("no {name} in {json}"))
}

fn number(json: &Value, name: &str) -> i64 {
    json[name]
        .as_i64()
        .unwrap_or_else(|| panic!("no {name} in {json}"))
}

fn builtin(name: &str) -> SerdeSpec {
    serde(if name == "long" { "int64" } else { name })
}

fn windowed(json: &Value) -> SerdeSpec {
    if let Some(name) = json.as_str() {
        return builtin(name);
    }
    match json["size_ms"].as_i64() {
        Some(size_ms) => SerdeSpec::TimeWindowed {
            time_windowed: Box::new(builtin(text(json, "time_windowed"))),
            size_ms,
        },
        None => SerdeSpec::SessionWindowed {
            session_windowed: Box::new(builtin(text(json, "session_windowed"))),
        },
    }
}

impl Case {
    pub fn load(name: &str) -> Self {
        // A test runs in the folder of its crate.
        let path = format!("../../tests/conformance/vectors/{name}.json");
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let json: Value = serde_json::from_slice(&bytes).expect("a vector is JSON");
        let kind = StoreKind::TimestampedKeyValue;
        let mut case = Self {
            store: plan(vec![]).stores.swap_remove(0),
            json,
            nodes: vec![],
            size_ms: 0,
            udfs: vec![],
            entries: BTreeMap::new(),
            grouped: BTreeMap::new(),
            group: serde("string"),
        };
        case.store.kind = kind;
        case.store.clock = Some(ClockId(3));
        for step in case.json["topology"].as_array().expect("steps").clone() {
            case.step(&step);
        }
        case
    }

    fn function(&mut self, name: &str) -> Function {
        self.udfs.push(Arc::new(Registered::new(name)));
        Function::Udf(u32::try_from(self.udfs.len() - 1).unwrap())
    }

    fn named(&mut self, step: &Value, name: &str) -> Option<Function> {
        let function = step[name].as_str()?.to_owned();
        Some(self.function(&function))
    }

    fn append(&mut self, op: Op) {
        let next = u32::try_from(self.nodes.len() + 1).unwrap();
        self.nodes.push((op, vec![next], Delivery::Batch));
    }

    fn step(&mut self, step: &Value) {
        let id = text(step, "id").to_owned();
        match text(step, "op") {
            "stream" => {
                let topic = step["topics"][0].as_str().expect("a topic").to_owned();
                self.entries.insert(topic.clone(), 0);
                self.grouped.insert(id, (topic, None));
            }
            "group_by_key" => {
                let topic = self.grouped[text(step, "from")].0.clone();
                self.grouped.insert(id, (topic, None));
            }
            "group_by" => {
                let function = self.named(step, "fn").expect("a selector");
                self.append(Op::SelectKey { function });
            }
            "cogroup" => {
                let other = if step["other"].is_null() {
                    "from"
                } else {
                    "other"
                };
                let topic = self.grouped[text(step, other)].0.clone();
                let function = self.named(step, "aggregator");
                self.grouped.insert(id, (topic, function));
            }
            "windowed_by" | "emit_strategy" => {}
            "count" | "reduce" | "aggregate" => self.fold(step),
            "suppress" => self.suppress(step),
            "map_values" => {
                let function = self.named(step, "fn").expect("a mapper");
                self.append(Op::MapValues {
                    function,
                    with_key: true,
                });
            }
            "table" => {
                self.entries.insert(text(step, "topic").to_owned(), 0);
                self.keep(step);
                self.append(Op::TableSource {
                    store: StoreId(3),
                    key: self.group.clone(),
                    old: false,
                });
            }
            "to_stream" => self.append(Op::ToStream),
            "to" => self
                .nodes
                .push((Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch)),
            other => panic!("a step that isn't known here: {other}"),
        }
    }

    fn keep(&mut self, step: &Value) {
        let kept = &step["materialized"];
        let value = match text(step, "op") {
            "count" => "long",
            _ => kept["value_serde"].as_str().expect("a value serde"),
        };
        self.store.value = builtin(value);
        text(kept, "store").clone_into(&mut self.store.name);
    }

    fn fold(&mut self, step: &Value) {
        self.keep(step);
        let fold = match text(step, "op") {
            "count" => Fold::Count,
            "reduce" => Fold::Reduce {
                function: self.named(step, "reducer").expect("a reducer"),
            },
            _ => Fold::Aggregate {
                initializer: self.named(step, "initializer").expect("an initializer"),
                function: self.named(step, "aggregator").unwrap_or(Function::Udf(0)),
                merger: self.named(step, "merger"),
            },
        };
        let steps = self.json["topology"].as_array().expect("steps").clone();
        let Some(by) = steps.iter().find(|s| s["op"] == "windowed_by") else {
            let op = Op::Count {
                store: StoreId(3),
                key: self.group.clone(),
                old: false,
            };
            return self.append(op);
        };
        let mut window = by["window"].clone();
        let retention = step["materialized"]["retention_ms"].as_i64();
        window["type"] = Value::from(text(&by["window"], "type"));
        let window: Window = serde_json::from_value(window).expect("a window");
        let retention_ms = retention.unwrap_or_else(|| window.retention_ms());
        self.size_ms = window.size_ms().unwrap_or(0);
        self.store.kind = match window.size_ms() {
            Some(size_ms) => StoreKind::Window {
                retention_ms,
                size_ms,
                duplicates: false,
                timestamped: true,
            },
            None => StoreKind::Session { retention_ms },
        };
        let emit = if steps.iter().any(|s| s["op"] == "emit_strategy") {
            Emit::OnWindowClose
        } else {
            Emit::OnWindowUpdate
        };
        let sources: Vec<_> = self
            .grouped
            .values()
            .filter(|g| g.1.is_some())
            .cloned()
            .collect();
        if sources.is_empty() {
            let op = self.windowed(window, fold, emit, ClockId(0));
            return self.append(op);
        }
        // Each stream of a cogroup has an operator and a clock of its own.
        let merge = u32::try_from(sources.len()).unwrap();
        for (at, (topic, function)) in (0..).zip(sources) {
            let mut fold = fold.clone();
            if let (Fold::Aggregate { function: slot, .. }, Some(function)) = (&mut fold, function)
            {
                *slot = function;
            }
            let op = self.windowed(window, fold, emit, ClockId(at));
            self.nodes.push((op, vec![merge], Delivery::Batch));
            self.entries.insert(topic, u32::from(at));
        }
        self.append(Op::Merge);
    }

    fn windowed(&self, window: Window, fold: Fold, emit: Emit, clock: ClockId) -> Op {
        let (store, key, old) = (StoreId(3), self.group.clone(), false);
        match window {
            Window::Sliding {
                difference_ms,
                grace_ms,
            } => Op::SlidingAggregate {
                store,
                key,
                difference_ms,
                grace_ms,
                fold,
                emit,
                clock,
                old,
            },
            Window::Session { gap_ms, grace_ms } => Op::SessionAggregate {
                store,
                key,
                gap_ms,
                grace_ms,
                fold,
                emit,
                clock,
                old,
            },
            window => Op::WindowAggregate {
                positions: None,
                store,
                key,
                window,
                fold,
                emit,
                clock,
                old,
            },
        }
    }

    fn suppress(&mut self, step: &Value) {
        let grace = || {
            let steps = self.json["topology"].as_array().expect("steps");
            let window = &steps
                .iter()
                .find(|s| s["op"] == "windowed_by")
                .expect("windows")["window"];
            // A session closes when no record can reach it any more.
            number(window, "grace_ms") + window["gap_ms"].as_i64().unwrap_or(0)
        };
        let until = match text(step, "until") {
            "window_closes" => Until::WindowCloses { grace_ms: grace() },
            _ => Until::TimeLimit {
                limit_ms: number(step, "time_limit_ms"),
            },
        };
        let to = self.json["topology"]
            .as_array()
            .expect("steps")
            .last()
            .expect("steps");
        let op = Op::Suppress {
            store: StoreId(4),
            key: windowed(&to["key_serde"]),
            value: self.store.value.clone(),
            until,
            max_records: step["buffer"]["max_records"].as_u64(),
            max_bytes: None,
            when_full: WhenFull::EmitEarly,
            clock: ClockId(2),
            old: false,
        };
        self.append(op);
    }

    /// Adapts a plan to the case.
    fn change(&self, plan: &mut PhysicalPlan) {
        let to = self.json["topology"]
            .as_array()
            .expect("steps")
            .last()
            .expect("steps");
        plan.sinks[0].key = windowed(&to["key_serde"]);
        plan.sinks[0].value = windowed(&to["value_serde"]);
        let mut buffer = plan.stores[0].clone();
        (buffer.id, buffer.value, buffer.name) = (StoreId(4), serde("bytes"), "buffer".into());
        let mut store = self.store.clone();
        store.id = StoreId(3);
        plan.stores.extend([store, buffer]);
    }

    fn rig(&self, eager: bool) -> Rig {
        let nodes = self.nodes.clone();
        let mut rig = Rig::changed(nodes, self.udfs.clone(), |plan| self.change(plan))
            .unwrap_or_else(|e| panic!("{}: {e}", self.json["name"]));
        rig.clocks = crate::LaneClocks::new(4, eager);
        rig.clocks.wall = Timestamp(0);
        rig.clocks.emit_interval_ms = Some(number(&self.json["config"], "emit_interval_ms"));
        rig
    }

    /// Runs the case with batches of `size` records.
    pub fn run(&self, size: usize, how: How) -> Seen {
        let mut rig = self.rig(how != How::Lanes);
        let mut batch: (u32, Vec<Record>) = (0, vec![]);
        let inputs = self.json["inputs"].as_array().expect("inputs");
        for (at, input) in (0_i64..).zip(inputs) {
            if let Some(ms) = input["advance_wall_clock_ms"].as_i64() {
                rig.push_at(batch.0, std::mem::take(&mut batch.1)).unwrap();
                rig.clocks.wall.0 += ms;
                continue;
            }
            let topic = text(input, "topic");
            let (entry, record) = (self.entries[topic], self.record(topic, input, at));
            if entry != batch.0 || batch.1.len() == size {
                rig.push_at(batch.0, std::mem::take(&mut batch.1)).unwrap();
                if how == How::Restarted {
                    rig.barrier();
                    rig.reopen(self.rig(true));
                }
            }
            batch.0 = entry;
            batch.1.push(record);
        }
        rig.push_at(batch.0, batch.1).unwrap();
        rig.barrier();
        if how == How::Lanes {
            rig.advance();
        }
        Seen {
            outputs: self.outputs(&mut rig),
            stored: self.stored(&rig),
        }
    }

    fn record(&self, topic: &str, input: &Value, at: i64) -> Record {
        let serdes = &self.json["topics"][topic];
        let headers: Vec<Header> = input["headers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|h| Header {
                name: h[0].as_str().expect("a name").into(),
                value: h[1].as_str().map(|v| v.to_owned().into()),
            })
            .collect();
        Record {
            key: datum(&input["key"], text(serdes, "key")),
            value: datum(&input["value"], text(serdes, "value")),
            timestamp: Timestamp(number(input, "timestamp")),
            headers: (!headers.is_empty()).then(|| headers.into()),
            origin: Origin {
                offset: Offset(at),
                ..Origin::default()
            },
        }
    }

    fn outputs(&self, rig: &mut Rig) -> Vec<String> {
        let to = self.json["topology"]
            .as_array()
            .expect("steps")
            .last()
            .expect("steps");
        let foreign = crate::ForeignCode::default();
        let key = foreign.serde(&windowed(&to["key_serde"])).unwrap();
        let value = foreign.serde(&windowed(&to["value_serde"])).unwrap();
        let outputs = std::mem::take(&mut rig.effects.outputs).into_iter();
        let line = |o: crate::Output| {
            let headers = o.headers.iter().flat_map(|all| all.iter());
            let headers: Vec<String> = headers.map(|h| h.name.to_string()).collect();
            let key = key.decode(o.key).unwrap();
            let value = shown(&value.decode(o.value).unwrap());
            format!(
                "{}={value}@{} {}",
                shown(&key),
                o.timestamp,
                headers.join(",")
            )
        };
        outputs.map(line).collect()
    }

    fn stored(&self, rig: &Rig) -> Vec<String> {
        let LaneStore { store, .. } = &rig.stores[3];
        let observed = rig.clocks.stream(ClockId(3), stoatflow_core::Task(0));
        let key = |bytes| shown(&Serde::String.decode(Some(bytes)).unwrap());
        let mut found = vec![];
        match self.store.kind {
            StoreKind::Window { .. } => {
                let view = WindowView::new(store, rig.epoch, observed).unwrap();
                for (k, start, held) in view.all(false).unwrap() {
                    let end = start + self.size_ms;
                    let value = shown(&held.value);
                    found.push((
                        k.clone(),
                        start,
                        format!("{}[{start},{end}]={value}@{}", key(k), held.timestamp),
                    ));
                }
            }
            StoreKind::Session { .. } => {
                let view = SessionView::new(store, rig.epoch, observed).unwrap();
                for s in view.all(false).unwrap() {
                    let line = format!(
                        "{}[{},{}]={}",
                        key(s.key.clone()),
                        s.start,
                        s.end,
                        shown(&s.value.value)
                    );
                    found.push((s.key, s.start, line));
                }
            }
            _ => {}
        }
        found.sort();
        found.into_iter().map(|f| f.2).collect()
    }

    /// The recorded results of Kafka Streams.
    pub fn recorded(&self) -> Seen {
        let steps = self.json["topology"].as_array().expect("steps");
        let to = steps.last().expect("steps");
        let value_serde = to["value_serde"].as_str().expect("a serde");
        let key_serde = to["key_serde"]
            .as_str()
            .or_else(|| to["key_serde"]["time_windowed"].as_str())
            .or_else(|| to["key_serde"]["session_windowed"].as_str())
            .expect("a serde");
        let keyed = |key: &Value, window: &Value, serde: &str| {
            let key = datum(key, serde);
            shown(&match window["start"].as_i64() {
                Some(start) => Datum::windowed(key, start, number(window, "end")),
                None => key,
            })
        };
        let outputs = self.json["outputs"][text(to, "topic")]
            .as_array()
            .expect("outputs");
        let outputs = outputs.iter().map(|o| {
            let headers = o["headers"].as_array().into_iter().flatten();
            let headers: Vec<&str> = headers.map(|h| h[0].as_str().expect("a name")).collect();
            format!(
                "{}={}@{} {}",
                keyed(&o["key"], &o["window"], key_serde),
                shown(&datum(&o["value"], value_serde)),
                o["timestamp"],
                headers.join(",")
            )
        });
        let windows = !matches!(self.store.kind, StoreKind::TimestampedKeyValue);
        let stored = self.json["stores"][&self.store.name]
            .as_array()
            .filter(|_| windows);
        let times = &self.json["store_timestamps"][&self.store.name];
        let SerdeSpec::Builtin(value) = &self.store.value else {
            panic!("a built-in serde");
        };
        let stored = stored.into_iter().flatten().enumerate().map(|(at, entry)| {
            let time = times[at]
                .as_i64()
                .map(|t| format!("@{t}"))
                .unwrap_or_default();
            let key = keyed(&entry[0], &entry[1], "string");
            format!("{key}={}{time}", shown(&datum(&entry[2], value)))
        });
        Seen {
            outputs: outputs.collect(),
            stored: stored.collect(),
        }
    }
}

/// How a case is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// In a single lane.
    Alone,
    /// The same, with a barrier and a restart between batches.
    Restarted,
    /// As one of several lanes: results due by time are emitted after the barrier, here once at the end.
    Lanes,
}

/// Every batch size gives the recorded results.
pub(crate) fn check(name: &str) {
    check_run(name, How::Alone);
}

/// The same with restarts.
pub(crate) fn check_restarted(name: &str) {
    check_run(name, How::Restarted);
}

fn check_run(name: &str, how: How) {
    let case = Case::load(name);
    let recorded = case.recorded();
    assert!(!recorded.outputs.is_empty(), "{name} says nothing");
    for size in [1, 2, 3, 7, 1024] {
        let seen = case.run(size, how);
        let both = seen.outputs.iter().zip(&recorded.outputs);
        let first = both.into_iter().position(|(a, b)| a != b);
        assert_eq!(
            seen, recorded,
            "{name} in batches of {size} ({how:?}), first difference at {first:?}"
        );
    }
}

/// With several lanes, windows close after the barrier: the same results, in another order.
pub(crate) fn check_lanes(name: &str) {
    let case = Case::load(name);
    // Other records cause the results, so the headers differ.
    let bare = |lines: Vec<String>| {
        let mut bare: Vec<String> = lines
            .iter()
            .filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned()))
            .collect();
        bare.sort();
        bare
    };
    let recorded = case.recorded();
    assert!(!recorded.outputs.is_empty(), "{name} says nothing");
    let outputs = bare(recorded.outputs);
    for size in [1, 3, 1024] {
        let seen = case.run(size, How::Lanes);
        assert_eq!(bare(seen.outputs), outputs, "{name} in batches of {size}");
        assert_eq!(seen.stored, recorded.stored, "{name} in batches of {size}");
    }
}
