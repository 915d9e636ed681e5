//! Foreign-key joins whose messages overtake each other, as they do between lanes.
//!
//! The join's nodes have exchanges between them: records that leave a node wait in a queue per sender
//! and receiver until the test delivers them.

use super::{nodes, subscriptions_and_result};
use crate::testing::recorded::registered;
use crate::testing::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use stoatflow_core::{Order, Record, StageId, Task};
use stoatflow_plan::{Delivery, JoinKind, Op};

const LEFT: u32 = 0;
const RIGHT: u32 = 1;
/// Exchanges, and the nodes that receive their records.
const TO_NOTIFY: (u32, u32) = (8, 3);
const TO_ANSWER: (u32, u32) = (9, 4);
const TO_JOIN: (u32, u32) = (10, 5);

/// Exchange, sending lane, receiving lane.
type Path = (u32, u64, u64);

struct Lanes {
    rig: Rig,
    on_the_way: BTreeMap<Path, VecDeque<Record>>,
    inputs: u64,
}

impl Lanes {
    fn new(kind: JoinKind, cached: bool) -> Self {
        let mut nodes = nodes(kind, "string", false);
        let exchange = |keep_null| Op::Exchange {
            to: vec![],
            stage: StageId(1),
            key: serde("string"),
            keep_null,
            ahead: false,
        };
        for (from, [via, _]) in [
            (1, [TO_NOTIFY.0, 0]),
            (2, [TO_ANSWER.0, 0]),
            (3, [TO_JOIN.0, 0]),
            (4, [TO_JOIN.0, 0]),
        ] {
            nodes[from].1 = vec![via];
        }
        for keep_null in [false, true, false] {
            nodes.push((exchange(keep_null), vec![], Delivery::Batch));
        }
        let mut plan = plan(nodes);
        subscriptions_and_result(&mut plan);
        let udf = |name| registered(name) as Arc<dyn crate::Udf>;
        let udfs = vec![udf("text_fk"), udf("pair_text")];
        Self {
            rig: Rig::of(&plan, udfs, cached).expect("a chain"),
            on_the_way: BTreeMap::new(),
            inputs: 0,
        }
    }

    /// Queues the records that have left a lane.
    fn collect(&mut self, from: u64) {
        for routed in std::mem::take(&mut self.rig.effects.routed) {
            let path = (routed.via.0, from, routed.hash);
            let waiting = self.on_the_way.entry(path).or_default();
            waiting.push_back(routed.record);
        }
    }

    fn input(&mut self, entry: u32, key: &str, value: &str, timestamp: i64) {
        let mut row = record(key, value, timestamp);
        self.inputs += 1;
        row.origin.order = Order::new(self.inputs, Task(0));
        self.rig.push_at(entry, vec![row]).expect("a row");
        self.collect(crate::key_hash(key.as_bytes()));
    }

    /// Delivers the first `count` records of a path, as one batch.
    fn arrive(&mut self, path: Path, count: usize) {
        let waiting = self.on_the_way.get_mut(&path).expect("a path");
        let batch: Vec<Record> = waiting.drain(..count.min(waiting.len())).collect();
        if waiting.is_empty() {
            self.on_the_way.remove(&path);
        }
        let entries = [TO_NOTIFY, TO_ANSWER, TO_JOIN];
        let entry = entries.into_iter().find(|(via, _)| *via == path.0);
        let (_, entry) = entry.expect("an entry");
        self.rig.push_at(entry, batch).expect("a batch");
        self.collect(path.2);
    }

    /// Delivers everything that was sent through an exchange.
    fn all(&mut self, (via, _): (u32, u32)) {
        let paths: Vec<Path> = self.on_the_way.keys().copied().collect();
        for path in paths.into_iter().filter(|path| path.0 == via) {
            self.arrive(path, usize::MAX);
        }
    }

    /// The end of a tick: each stage processes the records that have arrived, in the order of the input.
    fn tick(&mut self) {
        for stage in [&[TO_NOTIFY, TO_ANSWER][..], &[TO_JOIN]] {
            let mut arrived = Vec::new();
            for (via, entry) in stage {
                let paths: Vec<Path> = self.on_the_way.keys().copied().collect();
                for path in paths.into_iter().filter(|path| path.0 == *via) {
                    let records = self.on_the_way.remove(&path).unwrap_or_default();
                    arrived.extend(records.into_iter().map(|record| (*entry, path.2, record)));
                }
            }
            arrived.sort_by_key(|(_, _, record)| record.origin.order.key());
            for (entry, lane, record) in arrived {
                self.rig.push_at(entry, vec![record]).expect("a record");
                self.collect(lane);
            }
        }
    }

    fn settle(&mut self) {
        for stage in [TO_NOTIFY, TO_ANSWER, TO_JOIN] {
            self.all(stage);
        }
    }

    /// Ends the epoch stage by stage: records held back by one stage are delivered before the next one
    /// ends.
    fn end_epoch(&mut self) {
        self.settle();
        for _ in 0..3 {
            self.rig.sweep(|chain, context| chain.barrier(context));
            self.collect(0);
            self.settle();
        }
        self.rig.barrier();
        assert!(self.on_the_way.is_empty());
    }

    fn row(&self, key: &str) -> String {
        let row = self.rig.stored(3, key);
        row.split('@').next().unwrap_or_default().to_owned()
    }
}

#[test]
fn a_deletion_on_the_right_that_is_overtaken_takes_the_row_back() {
    let mut lanes = Lanes::new(JoinKind::Inner, false);
    lanes.input(RIGHT, "a", "R", 1);
    lanes.input(LEFT, "1", "a:x", 2);
    lanes.end_epoch();
    assert_eq!(lanes.rig.outputs(), ["0:1=a:x/R@2"]);

    lanes.input(RIGHT, "a", "~", 3);
    lanes.all(TO_NOTIFY);
    // The row is retracted at 3, although there is another left value by now.
    lanes.input(LEFT, "1", "a:y", 4);
    lanes.end_epoch();
    assert_eq!(lanes.rig.outputs(), ["0:1=~@3"]);
    assert_eq!(lanes.row("1"), "-");
}

#[test]
fn a_row_that_comes_back_elsewhere_is_taken_back_here() {
    for again in ["b:y", ":y"] {
        let mut lanes = Lanes::new(JoinKind::Inner, false);
        lanes.input(RIGHT, "a", "R", 1);
        lanes.input(LEFT, "1", "a:x", 2);
        lanes.end_epoch();
        lanes.input(LEFT, "1", "~", 3);
        lanes.input(LEFT, "1", again, 4);
        lanes.tick();
        lanes.end_epoch();
        assert_eq!(lanes.rig.outputs(), ["0:1=a:x/R@2", "0:1=~@3"], "{again}");
    }
}

#[test]
fn nothing_is_taken_back_where_nothing_is() {
    let mut lanes = Lanes::new(JoinKind::Inner, false);
    for value in ["a:x", "a:y", "~", "~", ":z", ":z", "~", "b:x"] {
        lanes.input(LEFT, "1", value, 1);
        lanes.end_epoch();
    }
    // Same as Kafka Streams: one row left a foreign key for good.
    assert_eq!(lanes.rig.outputs(), ["0:1=~@1"]);
}

#[test]
fn a_right_value_that_the_cache_never_mentions_leaves_no_row() {
    let mut lanes = Lanes::new(JoinKind::Inner, true);
    lanes.input(LEFT, "1", "a:x", 1);
    lanes.end_epoch();
    lanes.input(RIGHT, "a", "R", 2);
    // Its subscription arrives at the barrier, the one of another row before that.
    lanes.rig.sweep(|chain, context| {
        let mut early = vec![record("1", "a:x", 3)];
        chain.push(stoatflow_core::NodeId(2), &mut early, context)
    });
    lanes.collect(0);
    lanes.all(TO_ANSWER);
    lanes.all(TO_JOIN);
    assert_eq!(lanes.row("1"), "a:x/R");
    lanes.input(RIGHT, "a", "~", 4);
    lanes.end_epoch();
    assert_eq!(lanes.row("1"), "-");
}

/// The rows are the same as if every answer arrived at once, wherever ticks and epochs end.
#[test]
fn rows_follow_each_other_as_if_answers_came_at_once() {
    for seed in 0..3_000 {
        let mut dice = Dice(seed);
        let kind = [JoinKind::Left, JoinKind::Inner][dice.below(2)];
        let mut at_once = Lanes::new(kind, false);
        let mut ticking = Lanes::new(kind, false);
        for step in 0..40 {
            let (entry, key, value) = match dice.below(2) {
                0 => {
                    let values = ["~", ":x", "a:x", "a:y", "b:x", "b:y"];
                    (LEFT, ["1", "2"][dice.below(2)], values[dice.below(6)])
                }
                _ => {
                    let values = ["~", "~", "R", "S"];
                    (RIGHT, ["a", "b"][dice.below(2)], values[dice.below(4)])
                }
            };
            at_once.input(entry, key, value, step);
            at_once.tick();
            ticking.input(entry, key, value, step);
            if dice.below(4) == 0 {
                ticking.tick();
            }
            if dice.below(12) == 0 {
                ticking.tick();
                ticking.end_epoch();
            }
        }
        at_once.tick();
        ticking.tick();
        let case = format!("seed {seed}, {kind:?}");
        assert_eq!(at_once.rig.outputs(), ticking.rig.outputs(), "{case}");
    }
}

/// With record caching: epochs of random changes of both tables, and random deliveries. At the end of
/// each epoch the result is the join of the tables, and a consumer that applied all updates has the same
/// rows.
#[test]
fn cached_rows_are_right_in_every_order() {
    for seed in 0..3_000 {
        let mut dice = Dice(seed);
        let outer = dice.below(2) == 1;
        let kind = if outer {
            JoinKind::Left
        } else {
            JoinKind::Inner
        };
        let mut lanes = Lanes::new(kind, true);
        let mut tables = [BTreeMap::new(), BTreeMap::new()];
        let mut heard = BTreeMap::new();
        for epoch in 0..4 {
            for step in 0..12 {
                match dice.below(4) {
                    0 => {
                        let key = ["1", "2"][dice.below(2)];
                        let value = ["~", ":x", "a:x", "a:y", "b:x", "b:y"][dice.below(6)];
                        lanes.input(LEFT, key, value, epoch * 12 + step);
                        tables[0].insert(key, value);
                    }
                    1 => {
                        let key = ["a", "b"][dice.below(2)];
                        let value = ["~", "~", "R", "S"][dice.below(4)];
                        lanes.input(RIGHT, key, value, epoch * 12 + step);
                        tables[1].insert(key, value);
                    }
                    _ if lanes.on_the_way.is_empty() => {}
                    _ => {
                        let nth = dice.below(lanes.on_the_way.len());
                        let path = *lanes.on_the_way.keys().nth(nth).expect("a path");
                        lanes.arrive(path, 1 + dice.below(3));
                    }
                }
            }
            lanes.end_epoch();
            for output in lanes.rig.outputs() {
                let (key, row) = output.split_once('=').expect("a row");
                let row = row.split('@').next().unwrap_or_default().to_owned();
                heard.insert(key.to_owned(), row);
            }
            for key in ["1", "2"] {
                let left = *tables[0].get(key).unwrap_or(&"~");
                let foreign = left.split(':').next().unwrap_or_default();
                let right = *tables[1].get(foreign).unwrap_or(&"~");
                let expected = match (left, right) {
                    ("~", _) => "-".into(),
                    (_, "~") if !outer => "-".into(),
                    (left, right) => format!("{left}/{right}"),
                };
                let case = format!("seed {seed}, epoch {epoch}, {kind:?}");
                assert_eq!(lanes.row(key).replace("/null", "/~"), expected, "{case}");
                let heard = heard.get(&format!("0:{key}")).map_or("~", String::as_str);
                let heard = if heard == "~" { "-" } else { heard };
                assert_eq!(heard.replace("/null", "/~"), expected, "heard: {case}");
            }
        }
    }
}
