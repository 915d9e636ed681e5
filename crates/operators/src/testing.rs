//! Shared by the tests of this crate: a function made of a closure, a small plan, stores in memory.

use crate::{Chain, ChainOptions, Context, Effects, ForeignCode, LaneClocks, LaneStore, Udf};
use std::sync::Arc;
use stoatflow_core::{
    Datum, Epoch, Error, NodeId, Offset, Origin, Partition, Record, Result, Serde, SinkId,
    SourceId, StageId, StoreId, Timestamp,
};
use stoatflow_plan::{
    Delivery, Function, Op, PhysicalNode, PhysicalPlan, SerdeSpec, Sink, Source, Stage, Store,
    StoreKind,
};
use stoatflow_state::{Dirty, KeyValueStore, Layout};

mod closure;
pub(crate) mod manual_async_udf;
pub(crate) mod recorded;
pub(crate) mod windows;

pub(crate) use closure::{Closure, closure};

pub(crate) fn serde(name: &str) -> SerdeSpec {
    SerdeSpec::Builtin(name.into())
}

pub(crate) fn text(s: &str) -> Datum {
    Datum::text(s)
}

pub(crate) fn json(s: &str) -> Datum {
    Datum::Json(s.to_owned().into())
}

pub(crate) fn list_of(items: impl IntoIterator<Item = Datum>) -> Datum {
    Datum::List(items.into_iter().collect())
}

/// `~` is null. The offset is the timestamp, so that errors can be told apart.
pub(crate) fn record(key: &str, value: &str, timestamp: i64) -> Record {
    let datum = |s: &str| if s == "~" { Datum::Null } else { text(s) };
    let origin = Origin {
        source: SourceId(0),
        topic: 0,
        partition: Partition(3),
        offset: Offset(timestamp),
        ..Origin::default()
    };
    Record {
        key: datum(key),
        value: datum(value),
        timestamp: Timestamp(timestamp),
        headers: None,
        origin,
    }
}

pub(crate) fn expression(json: &str) -> Function {
    Function::Expr(serde_json::from_str(json).expect("a well-formed expression"))
}

/// How tests write a datum.
pub(crate) fn word(datum: &Datum) -> String {
    match datum {
        Datum::Null => "~".into(),
        Datum::Str(t) => t.as_str().into(),
        Datum::Int(i) => i.to_string(),
        Datum::Json(b) => String::from_utf8_lossy(b).into_owned(),
        other => format!("{other:?}"),
    }
}

/// All topics have three partitions.
#[derive(Debug)]
struct Three;

impl crate::PartitionCounts for Three {
    fn partitions(&self, _topic: &str) -> Result<u32> {
        Ok(3)
    }
}

/// A stage under test, with its stores and its effects.
pub(crate) struct Rig {
    pub chain: Chain,
    pub stores: Vec<LaneStore>,
    pub effects: Effects,
    pub clocks: LaneClocks,
    pub epoch: Epoch,
    pub assignment: crate::KeyAssignment,
    pub run: Arc<crate::RunCoordinator>,
}

/// A node: operation, children, fork.
pub(crate) type Step = (Op, Vec<u32>, Delivery);

/// A plan with one stage of these nodes; node 0 is the entry.
pub(crate) fn plan(nodes: Vec<(Op, Vec<u32>, Delivery)>) -> PhysicalPlan {
    let timestamped = stoatflow_plan::StoreKind::TimestampedKeyValue;
    let store = |id: u16, value: &str| Store {
        id: StoreId(id),
        cached: true,
        upstream_topics: vec!["in".into()],
        ..Store::new(
            &format!("store-{id}"),
            timestamped,
            serde("string"),
            serde(value),
        )
    };
    let sink = |id: u16, value: &str| Sink {
        id: SinkId(id),
        name: format!("sink-{id}"),
        topic: Some(format!("out-{id}")),
        topic_function: None,
        partitioner: None,
        partitioner_with_headers: false,
        key: serde("string"),
        value: serde(value),
        key_as_read: false,
        value_as_read: false,
    };
    let stage = Stage {
        id: StageId(0),
        nodes: (0..).map(NodeId).take(nodes.len()).collect(),
        foreign: false,
        independent_entries: true,
        meeting: vec![],
    };
    let nodes = nodes
        .into_iter()
        .enumerate()
        .map(|(at, (op, children, fork))| PhysicalNode {
            id: NodeId(u32::try_from(at).unwrap()),
            name: format!("{}-{at}", op.name()),
            stage: StageId(0),
            op,
            children: children.into_iter().map(NodeId).collect(),
            fork,
            idle: None,
            foreign: false,
            line: Some("app.py:5".into()),
            on_error: None,
        });
    PhysicalPlan {
        sources: vec![Source {
            id: SourceId(0),
            name: "source".into(),
            topics: vec!["in".into()],
            key: serde("string"),
            value: serde("string"),
            pattern: None,
            timestamp: stoatflow_plan::TimestampExtractor::FailOnInvalid,
            watermark: None,
            global: false,
            reset: None,
            entry: NodeId(0),
            late: stoatflow_core::Late::Grace,
            answers: false,
        }],
        sinks: vec![sink(0, "string"), sink(1, "int64"), sink(2, "json")],
        stores: vec![store(0, "string"), store(1, "int64"), store(2, "json")],
        clocks: (0..4)
            .map(|id| stoatflow_plan::ClockSpec {
                id: stoatflow_core::ClockId(id),
                name: format!("clock-{id}"),
            })
            .collect(),
        processors: vec![],
        nodes: nodes.collect(),
        stages: vec![stage],
        handlers: stoatflow_core::Handlers::default(),
        functions: vec![],
        description: String::new(),
        with_window_boundary: None,
    }
}

/// The key layout of a store of this kind.
fn layout(kind: StoreKind) -> Layout {
    match kind {
        StoreKind::KeyValue | StoreKind::TimestampedKeyValue => Layout::KeyValue,
        StoreKind::Window { retention_ms, .. } => Layout::window(retention_ms),
        StoreKind::Session { retention_ms } => Layout::session(retention_ms),
        StoreKind::Versioned { history_ms } => Layout::Versioned { history_ms },
        StoreKind::TimeOrdered => Layout::TimeKey,
        StoreKind::Timers => Layout::Timers,
    }
}

impl Rig {
    pub fn new(
        nodes: Vec<(Op, Vec<u32>, Delivery)>,
        udfs: Vec<Arc<dyn Udf>>,
        cached: bool,
    ) -> Self {
        Self::build(nodes, udfs, cached).expect("a chain that can be built")
    }

    pub fn build(
        nodes: Vec<(Op, Vec<u32>, Delivery)>,
        udfs: Vec<Arc<dyn Udf>>,
        cached: bool,
    ) -> Result<Self> {
        Self::of(&plan(nodes), udfs, cached)
    }

    /// With a plan that `change` modifies.
    pub fn changed(
        nodes: Vec<(Op, Vec<u32>, Delivery)>,
        udfs: Vec<Arc<dyn Udf>>,
        change: impl FnOnce(&mut PhysicalPlan),
    ) -> Result<Self> {
        let mut plan = plan(nodes);
        change(&mut plan);
        Self::of(&plan, udfs, false)
    }

    /// For a plan with other stores, sinks or clocks.
    pub fn of(plan: &PhysicalPlan, udfs: Vec<Arc<dyn Udf>>, cached: bool) -> Result<Self> {
        let foreign = ForeignCode {
            udfs,
            serdes: vec![],
            processors: vec![],
            ..ForeignCode::default()
        };
        Self::of_foreign(plan, &foreign, cached)
    }

    /// For a plan with processors.
    pub fn of_foreign(plan: &PhysicalPlan, foreign: &ForeignCode, cached: bool) -> Result<Self> {
        let options = ChainOptions {
            cached,
            at_barrier: false,
            partitions: Some(Arc::new(Three)),
            ..ChainOptions::default()
        };
        let chain = Chain::build(plan, StageId(0), foreign, options)?;
        let backend = Arc::new(stoatflow_state::memory::MemoryBackend::new(true));
        let stores = plan.stores.iter().map(|store| {
            let value = foreign.store_value(store).expect("a serde");
            let shared = KeyValueStore::with_layout(
                store.id,
                store.name.as_str().into(),
                value,
                backend.clone(),
                1 << 20,
                layout(store.kind),
            );
            LaneStore {
                store: Arc::new(shared),
                dirty: Dirty::default(),
            }
        });
        Ok(Self {
            chain,
            stores: stores.collect(),
            effects: Effects::default(),
            clocks: as_in_kafka_streams(LaneClocks::new(plan.clocks.len(), true)),
            epoch: Epoch(1),
            assignment: crate::KeyAssignment::new(0, 1),
            run: Arc::default(),
        })
    }

    pub fn push(&mut self, records: Vec<Record>) -> Result<()> {
        self.push_at(0, records)
    }

    pub fn push_at(&mut self, entry: u32, mut records: Vec<Record>) -> Result<()> {
        let mut context = Context {
            epoch: self.epoch,
            stores: &mut self.stores,
            effects: &mut self.effects,
            clocks: &mut self.clocks,
            assignment: self.assignment,
            run: &self.run,
        };
        self.chain.push(NodeId(entry), &mut records, &mut context)?;
        assert!(records.is_empty(), "a chain takes all of its input");
        Ok(())
    }

    /// As after a barrier of several lanes, whose clocks are merged.
    pub fn advance(&mut self) {
        self.sweep(|chain, context| chain.advance(context));
    }

    /// As at an aligned cut.
    pub fn punctuate(&mut self) {
        self.sweep(|chain, context| chain.punctuate(context));
    }

    pub fn open(&mut self) {
        self.sweep(|chain, context| chain.open(context));
    }

    /// A new chain over the same stores, as after a restart.
    pub fn reopen(&mut self, fresh: Self) {
        self.chain = fresh.chain;
        self.open();
    }

    pub fn sweep(&mut self, turn: impl FnOnce(&mut Chain, &mut Context<'_>) -> Result<()>) {
        let mut context = Context {
            epoch: self.epoch,
            stores: &mut self.stores,
            effects: &mut self.effects,
            clocks: &mut self.clocks,
            assignment: self.assignment,
            run: &self.run,
        };
        turn(&mut self.chain, &mut context).expect("a pass over the chain");
    }

    pub fn barrier(&mut self) {
        let mut context = Context {
            epoch: self.epoch,
            stores: &mut self.stores,
            effects: &mut self.effects,
            clocks: &mut self.clocks,
            assignment: self.assignment,
            run: &self.run,
        };
        self.chain.barrier(&mut context).expect("a barrier");
        self.epoch = self.epoch.next();
    }

    /// What the sinks have received: `sink:key=value@timestamp`.
    pub fn outputs(&mut self) -> Vec<String> {
        let shown = |serde: &str, bytes: Option<bytes::Bytes>| {
            word(&Serde::builtin(serde).unwrap().decode(bytes).unwrap())
        };
        let value_serdes = ["string", "int64", "json"];
        let outputs = std::mem::take(&mut self.effects.outputs);
        let shown = outputs.into_iter().map(|o| {
            format!(
                "{}:{}={}@{}",
                o.sink,
                shown("string", o.key),
                shown(value_serdes[usize::from(o.sink.0)], o.value),
                o.timestamp
            )
        });
        shown.collect()
    }

    pub fn stored(&self, store: u16, key: &str) -> String {
        let found = self.stores[usize::from(store)]
            .store
            .get(self.epoch, key.as_bytes())
            .expect("a readable store");
        found.map_or("-".into(), |s| {
            format!("{}@{}", word(&s.value), s.timestamp)
        })
    }

    /// Records that were left out: reason, dead-letter topic, time.
    pub fn handled(&mut self) -> Vec<String> {
        let handled = std::mem::take(&mut self.effects.handled).into_iter();
        let shown = handled.map(|h| match &h.letter {
            None => h.reason.to_owned(),
            Some(letter) => format!("{} {}@{}", h.reason, letter.topic, letter.timestamp),
        });
        shown.collect()
    }

    pub fn dropped(&mut self) -> Vec<(u32, &'static str)> {
        std::mem::take(&mut self.effects.dropped)
            .into_iter()
            .map(|(node, why)| (node.0, why))
            .collect()
    }
}

/// `user` error, as a foreign function raises it.
pub(crate) fn raised() -> Error {
    Error::user("ValueError: boom")
}

/// An operation followed by a sink.
pub(crate) fn into_sink(op: Op, sink: u16) -> Vec<(Op, Vec<u32>, Delivery)> {
    vec![
        (op, vec![1], Delivery::Batch),
        (Op::Sink { sink: SinkId(sink) }, vec![], Delivery::Batch),
    ]
}

/// Inserts a `to_stream` before each sink, as below tables.
pub(crate) fn to_streams(
    mut nodes: Vec<(Op, Vec<u32>, Delivery)>,
) -> Vec<(Op, Vec<u32>, Delivery)> {
    for at in 0..nodes.len() {
        if matches!(nodes[at].0, Op::Sink { .. }) {
            let sink = std::mem::replace(&mut nodes[at].0, Op::ToStream);
            nodes[at].1 = vec![u32::try_from(nodes.len()).unwrap()];
            nodes.push((sink, vec![], Delivery::Batch));
        }
    }
    nodes
}

/// Repeatable random numbers.
pub(crate) struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }
}

/// Lets passes over what waits happen when Kafka Streams makes them.
pub(crate) fn as_in_kafka_streams(mut clocks: LaneClocks) -> LaneClocks {
    clocks.emit_interval_ms = Some(0);
    clocks.join_emit_interval_ms = Some(0);
    clocks
}
