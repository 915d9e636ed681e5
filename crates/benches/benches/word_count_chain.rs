//! The cost of a word between a line and its count: split → key → exchange, then the count.
//!
//! 256 lines of 10 words through a chain, with the record types of the engine and a store in memory.
//! Criterion's throughput is in words: 1 s / (elements per s) is the time per word.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{
    Datum, Epoch, NodeId, Origin, Record, Serde, SinkId, StageId, StoreId, Timestamp,
};
use stoatflow_operators::{
    Chain, ChainOptions, Context, Effects, ForeignCode, KeyAssignment, LaneClocks, LaneStore,
    RunCoordinator,
};
use stoatflow_plan::{PhysicalPlan, StoreKind};
use stoatflow_state::{Dirty, KeyValueStore, Layout};

const LINES: usize = 256;
const WORDS: usize = 10;

const PLAN: &str = r#"{"version":1,"functions":[],"nodes":[
    {"op":"stream","topics":["lines"],"key":"string","value":"string"},
    {"op":"flat_map_values","from":0,"function":{"expr":{"op":"str_split","args":[{"op":"str_lower","args":[{"op":"value"}]}],"by":null}}},
    {"op":"group_by","from":1,"function":{"expr":{"op":"value"}}},
    {"op":"count","from":2,"materialized":{"store":"counts"}},
    {"op":"to_stream","from":3},
    {"op":"to","from":4,"topic":"counts"}]}"#;

const WINDOWED: &str = r#"{"version":1,"functions":[],"nodes":[
    {"op":"stream","topics":["lines"],"key":"string","value":"string"},
    {"op":"flat_map_values","from":0,"function":{"expr":{"op":"str_split","args":[{"op":"str_lower","args":[{"op":"value"}]}],"by":null}}},
    {"op":"group_by","from":1,"function":{"expr":{"op":"value"}}},
    {"op":"windowed_by","from":2,"window":{"type":"tumbling","size_ms":1000,"grace_ms":0}},
    {"op":"count","from":3,"materialized":{"store":"counts"}},
    {"op":"to_stream","from":4},
    {"op":"to","from":5,"topic":"counts"}]}"#;

struct Rig {
    chains: Vec<Chain>,
    entries: Vec<NodeId>,
    stores: Vec<LaneStore>,
    effects: Effects,
    run: Arc<RunCoordinator>,
    clocks: LaneClocks,
}

impl Rig {
    fn new(plan: &PhysicalPlan, cached: bool) -> Self {
        let foreign = ForeignCode::default();
        let build = |stage: u16| {
            Chain::build(
                plan,
                StageId(stage),
                &foreign,
                ChainOptions {
                    cached,
                    ..ChainOptions::default()
                },
            )
            .expect("a chain")
        };
        let entries = [0, 1].map(|stage| stoatflow_plan::entries(plan, StageId(stage))[0]);
        let backend = Arc::new(stoatflow_state::memory::MemoryBackend::new(true));
        let layout = match plan.stores[0].kind {
            StoreKind::Window { retention_ms, .. } => Layout::window(retention_ms),
            _ => Layout::KeyValue,
        };
        let store = KeyValueStore::with_layout(
            StoreId(0),
            "counts".into(),
            Serde::Int64,
            backend,
            1 << 24,
            layout,
        );
        let stores = vec![LaneStore {
            store: Arc::new(store),
            dirty: Dirty::default(),
        }];
        Self {
            chains: vec![build(0), build(1)],
            entries: entries.to_vec(),
            stores,
            effects: Effects::default(),
            run: Arc::default(),
            clocks: LaneClocks::new(plan.clocks.len(), true),
        }
    }

    fn push(&mut self, stage: usize, batch: &mut Vec<Record>) {
        let mut context = Context {
            epoch: Epoch(1),
            stores: &mut self.stores,
            effects: &mut self.effects,
            clocks: &mut self.clocks,
            assignment: KeyAssignment::new(0, 1),
            run: &self.run,
        };
        self.chains[stage]
            .push(self.entries[stage], batch, &mut context)
            .expect("a batch that passes");
    }

    fn clear(&mut self) {
        self.effects.routed.clear();
        self.effects.outputs.clear();
    }
}

/// Lines of words from a skewed vocabulary of 1000, the same in every run.
fn lines() -> Vec<Record> {
    let mut state = 7_u64;
    let mut word = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let n = (state >> 33) % 1000;
        format!("Word{}", n * n / 1000)
    };
    let line = |_| (0..WORDS).map(|_| word()).collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = (0..LINES).map(line).collect();
    lines
        .into_iter()
        .map(|line| Record {
            key: Datum::Null,
            value: Datum::text(line),
            timestamp: Timestamp(1),
            headers: None,
            origin: Origin::default(),
        })
        .collect()
}

fn word_count(c: &mut Criterion) {
    let plan = stoatflow_plan::compile(PLAN.as_bytes()).expect("a plan");
    assert_eq!(plan.sinks[0].id, SinkId(0));
    let mut group = c.benchmark_group("word_count");
    group.throughput(Throughput::Elements((LINES * WORDS) as u64));
    group
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));

    let lines = lines();
    let mut rig = Rig::new(&plan, false);
    group.bench_function("split_select_exchange", |b| {
        b.iter_batched_ref(
            || lines.clone(),
            |batch| {
                rig.push(0, batch);
                black_box(&rig.effects.routed);
                rig.clear();
            },
            BatchSize::LargeInput,
        );
    });

    rig.push(0, &mut lines.clone());
    let words: Vec<Record> = rig
        .effects
        .routed
        .drain(..)
        .map(|routed| routed.record)
        .collect();
    assert_eq!(words.len(), LINES * WORDS);
    let windowed = stoatflow_plan::compile(WINDOWED.as_bytes()).expect("a plan");
    for (name, plan, cached) in [
        ("count_to_sink", &plan, false),
        ("count_cached", &plan, true),
        ("windowed_count_to_sink", &windowed, false),
        ("windowed_count_cached", &windowed, true),
    ] {
        let mut rig = Rig::new(plan, cached);
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || words.clone(),
                |batch| {
                    rig.push(1, batch);
                    black_box(&rig.effects.outputs);
                    rig.clear();
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, word_count);
criterion_main!(benches);
