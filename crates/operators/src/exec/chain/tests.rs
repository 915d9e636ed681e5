//! Order, forks, barriers, counters and buffers of a chain.

use crate::testing::manual_async_udf::ManualAsyncUdf;
use crate::testing::*;
use crate::{ActiveNode, ForeignCode};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use stoatflow_core::{Datum, ErrorKind, SinkId, SourceId, StoreId};
use stoatflow_plan::{AsyncSpec, Delivery, Function, JoinKind, Op, View};

fn sink(id: u16) -> (Op, Vec<u32>, Delivery) {
    (Op::Sink { sink: SinkId(id) }, vec![], Delivery::Batch)
}

fn tagged(tag: &'static str) -> Arc<Closure> {
    closure(move |args| Ok(text(&format!("{}{tag}", word(args[0])))))
}

/// A source with two branches that meet in a merge.
fn diamond(fork: Delivery) -> Vec<(Op, Vec<u32>, Delivery)> {
    let branch = |udf| Op::MapValues {
        function: Function::Udf(udf),
        with_key: false,
    };
    vec![
        (
            Op::Source {
                source: SourceId(0),
            },
            vec![1, 2],
            fork,
        ),
        (branch(0), vec![3], Delivery::Batch),
        (branch(1), vec![3], Delivery::Batch),
        (Op::Merge, vec![4], Delivery::Batch),
        sink(0),
    ]
}

#[test]
fn branches_that_meet_see_record_after_record() {
    let (left, right) = (tagged("-l"), tagged("-r"));
    let mut rig = Rig::new(
        diamond(Delivery::Record),
        vec![Arc::clone(&left) as _, Arc::clone(&right) as _],
        false,
    );
    rig.push(vec![record("k", "1", 1), record("k", "2", 2)])
        .unwrap();
    assert_eq!(
        rig.outputs(),
        ["0:k=1-l@1", "0:k=1-r@1", "0:k=2-l@2", "0:k=2-r@2"]
    );
    let scopes = [left, right]
        .map(|udf| udf.scopes.load(Ordering::Relaxed))
        .iter()
        .sum::<usize>();
    assert_eq!(
        scopes, 1,
        "attached once for all records, not once for each"
    );
}

#[test]
fn waiting_for_an_async_joiner_does_not_keep_the_interpreter_attached() {
    let (left, manual) = (tagged("-l"), ManualAsyncUdf::new());
    let mut nodes = diamond(Delivery::Record);
    nodes[2].0 = Op::StreamTableJoin {
        kind: JoinKind::Left,
        table: View::Store {
            store: StoreId(0),
            key: serde("string"),
        },
        function: Function::Async(AsyncSpec {
            udf: 1,
            concurrency: 1,
            park_after_ms: 0,
        }),
        with_key: false,
        grace_ms: None,
        buffer: None,
        clock: None,
        key: serde("string"),
        value: serde("string"),
    };
    let foreign = ForeignCode {
        udfs: vec![Arc::clone(&left) as _, tagged("-r") as _],
        calls: [(1, Arc::clone(&manual) as _)].into(),
        ..ForeignCode::default()
    };
    let mut rig = Rig::of_foreign(&plan(nodes), &foreign, false).unwrap();
    manual.answers_when_waited_for();
    rig.push(vec![record("a", "1", 1), record("b", "2", 2)])
        .unwrap();
    assert_eq!(manual.waits(), 2);
    assert_eq!(left.scopes.load(Ordering::Relaxed), 0);
    assert_eq!(
        rig.outputs(),
        ["0:a=1-l@1", "0:a=~@1", "0:b=2-l@2", "0:b=~@2"]
    );
}

#[test]
fn branches_apart_take_whole_batches() {
    let (left, right) = (tagged("-l"), tagged("-r"));
    let mut nodes = diamond(Delivery::Batch);
    nodes[2].1 = vec![5];
    nodes.push(sink(2));
    let mut rig = Rig::new(
        nodes,
        vec![Arc::clone(&left) as _, Arc::clone(&right) as _],
        false,
    );
    rig.push(vec![record("k", "1", 1), record("k", "2", 2)])
        .unwrap();
    assert_eq!(
        rig.outputs(),
        ["0:k=1-l@1", "0:k=2-l@2", "2:k=\"1-r\"@1", "2:k=\"2-r\"@2"]
    );
    assert_eq!(
        (
            left.batches.load(Ordering::Relaxed),
            right.batches.load(Ordering::Relaxed)
        ),
        (1, 1)
    );
}

#[test]
fn every_node_counts_what_it_takes() {
    let drop_ones = closure(|args| Ok(Datum::Bool(args[1] != &text("1"))));
    let nodes = vec![
        (
            Op::Source {
                source: SourceId(0),
            },
            vec![1],
            Delivery::Batch,
        ),
        (
            Op::Filter {
                function: Function::Udf(0),
            },
            vec![2],
            Delivery::Batch,
        ),
        sink(0),
    ];
    let mut rig = Rig::new(nodes, vec![drop_ones], false);
    for _ in 0..2 {
        rig.push(vec![
            record("k", "1", 1),
            record("k", "2", 2),
            record("k", "3", 3),
        ])
        .unwrap();
    }
    let counts: Vec<_> = rig
        .chain
        .counts()
        .iter()
        .map(|(node, n)| (node.0, *n))
        .collect();
    assert_eq!(counts, [(0, 6), (1, 6), (2, 4)]);
}

#[test]
fn a_node_is_active_while_it_runs() {
    let (seen, active) = (
        Arc::new(Mutex::new(Vec::new())),
        Arc::new(OnceLock::<Arc<ActiveNode>>::new()),
    );
    let looks = || {
        let (seen, active) = (Arc::clone(&seen), Arc::clone(&active));
        closure(move |args| {
            let node = active.get().and_then(|active| active.node());
            seen.lock().unwrap().push(node.map(|node| node.0));
            Ok(text(&word(args[0])))
        })
    };
    let mut rig = Rig::new(
        diamond(Delivery::Record),
        vec![looks() as _, looks() as _],
        false,
    );
    active.set(Arc::clone(&rig.chain.active)).unwrap();
    assert_eq!(rig.chain.active.node(), None);
    rig.push(vec![record("k", "1", 1), record("k", "2", 2)])
        .unwrap();
    assert_eq!(*seen.lock().unwrap(), [1, 2, 1, 2].map(Some));
    assert_eq!(rig.chain.active.node().map(|node| node.0), Some(4));
    rig.chain.active.leave();
    rig.barrier();
    assert_eq!(rig.chain.active.node().map(|node| node.0), Some(4));
}

#[test]
fn a_barrier_releases_parents_before_children() {
    // The counts of one table, counted again under the same key: both are held.
    let nodes = vec![
        (
            Op::TableSource {
                old: false,
                store: StoreId(0),
                key: serde("string"),
            },
            vec![1],
            Delivery::Batch,
        ),
        (
            Op::Count {
                old: false,
                store: StoreId(1),
                key: serde("string"),
            },
            vec![2],
            Delivery::Batch,
        ),
        sink(1),
    ];
    let mut rig = Rig::new(nodes, vec![], true);
    rig.push(vec![
        record("a", "1", 1),
        record("b", "2", 2),
        record("a", "3", 3),
    ])
    .unwrap();
    assert!(rig.outputs().is_empty());
    rig.barrier();
    assert_eq!(
        rig.outputs(),
        ["1:b=1@2", "1:a=1@3"],
        "the table's one update per key is counted and comes out at the same barrier"
    );
    assert_eq!(rig.stored(1, "a"), "1@3");
}

#[test]
fn a_barrier_goes_down_forks_too() {
    let nodes = vec![
        (
            Op::Count {
                old: false,
                store: StoreId(1),
                key: serde("string"),
            },
            vec![1, 2],
            Delivery::Record,
        ),
        (Op::ToStream, vec![3], Delivery::Batch),
        (Op::Merge, vec![3], Delivery::Batch),
        sink(1),
    ];
    let mut rig = Rig::new(nodes, vec![], true);
    rig.push(vec![record("a", "1", 1), record("b", "2", 2)])
        .unwrap();
    rig.barrier();
    assert_eq!(rig.outputs(), ["1:a=1@1", "1:a=1@1", "1:b=1@2", "1:b=1@2"]);
}

#[test]
fn buffers_are_used_again() {
    let nodes = vec![
        (
            Op::Source {
                source: SourceId(0),
            },
            vec![1],
            Delivery::Batch,
        ),
        (Op::Merge, vec![2], Delivery::Batch),
        sink(0),
    ];
    let mut rig = Rig::new(nodes, vec![], false);
    let mut batch = Vec::with_capacity(64);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..50 {
        batch.extend((0..64).map(|i| record("k", "v", i)));
        let mut context = crate::Context {
            epoch: rig.epoch,
            stores: &mut rig.stores,
            effects: &mut rig.effects,
            clocks: &mut rig.clocks,
            assignment: crate::KeyAssignment::new(0, 1),
            run: &rig.run,
        };
        rig.chain
            .push(stoatflow_core::NodeId(0), &mut batch, &mut context)
            .unwrap();
        assert!(batch.is_empty());
        seen.insert(batch.as_ptr().addr());
    }
    assert!(
        seen.len() <= 4,
        "buffers only change places: {} different ones",
        seen.len()
    );
}

#[test]
fn a_failed_batch_leaves_nothing_for_the_next_one() {
    let fail_on_2 = closure(|args| {
        if args[0] == &text("2") {
            Err(raised())
        } else {
            Ok(args[0].clone())
        }
    });
    let mut rig = Rig::new(
        diamond(Delivery::Record),
        vec![fail_on_2, tagged("-r")],
        false,
    );
    assert!(
        rig.push(vec![
            record("k", "1", 1),
            record("k", "2", 2),
            record("k", "3", 3)
        ])
        .is_err()
    );
    assert_eq!(rig.outputs(), ["0:k=1@1", "0:k=1-r@1"]);
    rig.push(vec![record("k", "4", 4)]).unwrap();
    assert_eq!(rig.outputs(), ["0:k=4@4", "0:k=4-r@4"]);
}

#[test]
fn a_node_of_another_stage_is_no_entry() {
    let mut rig = Rig::new(vec![sink(0)], vec![], false);
    assert_eq!(
        rig.push_at(9, vec![record("k", "v", 1)])
            .unwrap_err()
            .kind(),
        ErrorKind::Internal
    );
}

#[test]
fn children_before_their_parents_are_refused() {
    let nodes = vec![sink(0), (Op::Merge, vec![0], Delivery::Batch)];
    let error = Rig::build(nodes, vec![], false).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Internal);
}
