//! Table-table joins whose updates arrive after their stores were written: from a lower stage, or held
//! back by record caching.
//!
//! The left table's updates wait in a queue per key until the test delivers them. Behind the join a
//! count is kept for each row's text: it reveals every row that is retracted without having been
//! emitted.

use super::{Nodes, side, sink, source, store};
use crate::testing::recorded::registered;
use crate::testing::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use stoatflow_core::{Record, StageId, StoreId};
use stoatflow_plan::{Delivery, Fold, JoinKind, Op};

const LEFT: u32 = 0;
const RIGHT: u32 = 1;
const LEFT_SIDE: u32 = 2;
const KEYS: [&str; 2] = ["1", "2"];

#[derive(Clone, Copy, Debug)]
struct Case {
    kind: JoinKind,
    apart: bool,
    cached: bool,
    kept: bool,
}

impl Case {
    fn nodes(self) -> Nodes {
        let Self { kind, apart, .. } = self;
        let late = |mut op: Op| {
            if let Op::TableJoin { apart: own, .. } = &mut op {
                *own = apart;
            }
            op
        };
        let merge = Op::TableMerge {
            store: self.kept.then_some(StoreId(2)),
            key: serde("string"),
            old: true,
        };
        let exchange = Op::Exchange {
            to: vec![],
            stage: StageId(1),
            key: serde("string"),
            keep_null: false,
            ahead: true,
        };
        let group_by = Op::TableGroupBy {
            function: stoatflow_plan::Function::Udf(1),
            key: serde("string"),
        };
        let count = Op::TableAggregate {
            store: StoreId(3),
            key: serde("string"),
            fold: Fold::Count,
            subtractor: None,
            old: false,
        };
        let next = if apart { 6 } else { LEFT_SIDE };
        vec![
            (source(0, true), vec![next], Delivery::Batch),
            (source(1, true), vec![3], Delivery::Batch),
            (
                late(side(true, kind, store(1), 0, true)),
                vec![4],
                Delivery::Batch,
            ),
            (
                late(side(false, kind, store(0), 0, true)),
                vec![4],
                Delivery::Batch,
            ),
            (merge, vec![5, 7], Delivery::Record),
            (sink(0), vec![], Delivery::Batch),
            (exchange, vec![], Delivery::Batch),
            (group_by, vec![8], Delivery::Batch),
            (count, vec![], Delivery::Batch),
        ]
    }

    fn row(self, left: &str, right: &str) -> Option<String> {
        let (no_left, no_right) = (left == "~", right == "~");
        let missing = match self.kind {
            JoinKind::Inner => no_left || no_right,
            JoinKind::Left => no_left,
            JoinKind::Outer => no_left && no_right,
        };
        let word = |s: &str| {
            if s == "~" {
                "null".to_owned()
            } else {
                s.to_owned()
            }
        };
        (!missing).then(|| format!("{}/{}", word(left), word(right)))
    }
}

struct Tables {
    rig: Rig,
    apart: bool,
    on_the_way: BTreeMap<u64, VecDeque<Record>>,
    /// Last value of each key that the sink received.
    heard: BTreeMap<String, Option<String>>,
    tombstones: usize,
}

impl Tables {
    fn new(case: Case) -> Self {
        let mut plan = plan(to_streams(case.nodes()));
        let like = plan.stores[0].clone();
        plan.stores = (0..)
            .zip(["string", "string", "string", "int64"])
            .map(|(id, value)| stoatflow_plan::Store {
                id: StoreId(id),
                value: serde(value),
                ..like.clone()
            })
            .collect();
        // Grouped by its own text.
        let group = closure(|a| Ok(list_of([a[1].clone(), a[1].clone()])));
        let udfs: Vec<Arc<dyn crate::Udf>> = vec![registered("pair_text"), group];
        Self {
            rig: Rig::of(&plan, udfs, case.cached).expect("a chain"),
            apart: case.apart,
            on_the_way: BTreeMap::new(),
            heard: BTreeMap::new(),
            tombstones: 0,
        }
    }

    fn collect(&mut self) {
        for routed in std::mem::take(&mut self.rig.effects.routed) {
            let waiting = self.on_the_way.entry(routed.hash).or_default();
            waiting.push_back(routed.record);
        }
        for output in self.rig.outputs() {
            let (key, row) = output.split_once('=').expect("a row");
            let row = row.split('@').next().unwrap_or_default();
            self.tombstones += usize::from(row == "~");
            let row = (row != "~").then(|| row.to_owned());
            let key = key.trim_start_matches("0:").to_owned();
            self.heard.insert(key, row);
        }
    }

    fn input(&mut self, entry: u32, key: &str, value: &str, timestamp: i64) {
        let row = record(key, value, timestamp);
        self.rig.push_at(entry, vec![row]).expect("a row");
        self.collect();
    }

    /// Delivers the first updates of a left key, as one batch.
    fn arrive(&mut self, hash: u64, count: usize) {
        let waiting = self.on_the_way.get_mut(&hash).expect("a key");
        let batch: Vec<Record> = waiting.drain(..count.min(waiting.len())).collect();
        if waiting.is_empty() {
            self.on_the_way.remove(&hash);
        }
        self.rig.push_at(LEFT_SIDE, batch).expect("a batch");
        self.collect();
    }

    fn settle(&mut self) {
        let keys: Vec<u64> = self.on_the_way.keys().copied().collect();
        for key in keys {
            self.arrive(key, usize::MAX);
        }
    }

    /// Ends the epoch: records held back by the lower stage are delivered before the upper one ends.
    fn end_epoch(&mut self) {
        self.settle();
        if self.apart {
            self.rig.sweep(|chain, context| chain.barrier(context));
            self.collect();
            self.settle();
        }
        self.rig.barrier();
        self.collect();
        assert!(self.on_the_way.is_empty());
    }

    fn stored(&self, store: u16, key: &str) -> String {
        let row = self.rig.stored(store, key);
        row.split('@').next().unwrap_or_default().to_owned()
    }
}

fn cases() -> impl Iterator<Item = Case> {
    let kinds = [JoinKind::Inner, JoinKind::Left, JoinKind::Outer];
    let all = kinds.into_iter().flat_map(|kind| {
        (0..8).map(move |bits| Case {
            kind,
            apart: bits & 1 != 0,
            cached: bits & 2 != 0,
            kept: bits & 4 != 0,
        })
    });
    all.collect::<Vec<_>>().into_iter()
}

#[test]
fn both_sides_deleted_in_one_epoch_delete_the_row_once() {
    for case in cases() {
        let mut tables = Tables::new(case);
        tables.input(LEFT, "1", "l", 1);
        tables.input(RIGHT, "1", "r", 2);
        tables.end_epoch();
        assert_eq!(tables.heard["1"].as_deref(), Some("l/r"), "{case:?}");
        // The right side's update arrives first.
        tables.input(LEFT, "1", "~", 3);
        tables.input(RIGHT, "1", "~", 4);
        tables.end_epoch();
        assert_eq!(tables.heard["1"], None, "{case:?}");
        assert!(!case.kept || tables.stored(2, "1") == "-", "{case:?}");
        let inner = case.kind == JoinKind::Inner;
        assert!(!inner || tables.tombstones == 1, "{case:?}");
    }
}

#[test]
fn retractions_equal_what_was_emitted() {
    for case in cases() {
        let mut tables = Tables::new(case);
        tables.input(LEFT, "1", "l1", 1);
        tables.input(RIGHT, "1", "r1", 2);
        tables.end_epoch();
        tables.input(LEFT, "1", "l2", 3);
        tables.input(RIGHT, "1", "r2", 4);
        tables.end_epoch();
        let counts = ["l1/r1", "l2/r1", "l1/r2", "l2/r2"].map(|row| tables.stored(3, row));
        let gone = |count: &String| count == "-" || count == "0";
        assert!(counts[..3].iter().all(gone), "{counts:?}: {case:?}");
        assert_eq!(counts[3], "1", "{case:?}");
    }
}

/// At-least-once: a crash kept the deletions of both tables, but not that of the row.
#[test]
fn a_row_that_outlived_both_sides_goes_with_the_next_deletion() {
    for case in cases().filter(|case| case.kept && case.apart && !case.cached) {
        let mut tables = Tables::new(case);
        let mut written = crate::LaneStore {
            store: Arc::clone(&tables.rig.stores[2].store),
            dirty: stoatflow_state::Dirty::default(),
        };
        let row = stoatflow_state::Stored {
            value: text("l/r"),
            timestamp: stoatflow_core::Timestamp(1),
        };
        let epoch = tables.rig.epoch;
        let put = written
            .store
            .put(epoch, &mut written.dirty, &"1".into(), Some(row));
        put.expect("a write");
        tables.end_epoch();
        tables.input(LEFT, "1", "~", 2);
        tables.input(RIGHT, "1", "~", 3);
        tables.end_epoch();
        assert_eq!(tables.stored(2, "1"), "-", "{case:?}");
        assert_eq!((tables.heard["1"].clone(), tables.tombstones), (None, 1));
    }
}

/// Epochs of random changes of both tables, and random deliveries. At the end of each epoch the result
/// is the join of the tables, a consumer that applied all updates has the same rows, and the counts are
/// right.
#[test]
fn rows_and_counts_are_right_in_every_order() {
    for case in cases() {
        for seed in 0..150 {
            let mut dice = Dice(seed);
            let mut tables = Tables::new(case);
            let mut model = [BTreeMap::new(), BTreeMap::new()];
            for epoch in 0..4 {
                for step in 0..10 {
                    let at = epoch * 10 + step;
                    let key = KEYS[dice.below(2)];
                    match dice.below(3) {
                        entry @ (0 | 1) => {
                            let value = [["~", "x", "y"], ["~", "R", "S"]][entry][dice.below(3)];
                            let entry = [LEFT, RIGHT][entry];
                            tables.input(entry, key, value, at);
                            model[entry as usize].insert(key, value);
                        }
                        _ if tables.on_the_way.is_empty() => {}
                        _ => {
                            let nth = dice.below(tables.on_the_way.len());
                            let hash = *tables.on_the_way.keys().nth(nth).expect("a key");
                            tables.arrive(hash, 1 + dice.below(2));
                        }
                    }
                }
                tables.end_epoch();
                let told = format!("seed {seed}, epoch {epoch}, {case:?}");
                let mut counts: BTreeMap<String, i64> = BTreeMap::new();
                for key in KEYS {
                    let [left, right] =
                        [0, 1].map(|side: usize| *model[side].get(key).unwrap_or(&"~"));
                    let row = case.row(left, right);
                    let heard = tables.heard.get(key).cloned().flatten();
                    assert_eq!(heard, row, "heard: {told}");
                    if case.kept {
                        let kept = tables.stored(2, key);
                        assert_eq!((kept != "-").then_some(kept), row, "kept: {told}");
                    }
                    if let Some(row) = row {
                        *counts.entry(row).or_insert(0) += 1;
                    }
                }
                for row in ["x", "y", "null"]
                    .iter()
                    .flat_map(|l| ["R", "S", "null"].map(|r| format!("{l}/{r}")))
                {
                    let count = tables.stored(3, &row);
                    let count = if count == "-" { "0" } else { &count };
                    let expected = counts.get(&row).copied().unwrap_or(0).to_string();
                    assert_eq!(count, expected, "count of {row}: {told}");
                }
            }
        }
    }
}
