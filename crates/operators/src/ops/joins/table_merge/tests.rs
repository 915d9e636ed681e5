//! One result per key and commit.

use super::TableMerge;
use crate::support::node_context::NodeContext;
use crate::testing::*;
use crate::{Context, Effects, KeyAssignment, LaneClocks, Operator};
use stoatflow_core::{Epoch, NodeId, Record, Serde};

fn turn(
    merge: &mut TableMerge,
    act: impl FnOnce(&mut TableMerge, &mut Vec<Record>, &mut Context<'_>),
) -> Vec<String> {
    let mut out = Vec::new();
    let mut context = Context {
        epoch: Epoch(1),
        stores: &mut [],
        effects: &mut Effects::default(),
        clocks: &mut LaneClocks::new(0, true),
        assignment: KeyAssignment::new(0, 1),
        run: &std::sync::Arc::default(),
    };
    act(merge, &mut out, &mut context);
    let shown = out.iter();
    shown
        .map(|r| format!("{}={}@{}", word(&r.key), word(&r.value), r.timestamp))
        .collect()
}

fn give(merge: &mut TableMerge, mut records: Vec<Record>) -> Vec<String> {
    turn(merge, |merge, out, context| {
        merge.process(&mut records, out, context).unwrap();
    })
}

fn given() -> Vec<Record> {
    vec![
        record("a", "1", 10),
        record("b", "2", 11),
        record("a", "3", 12),
        record("c", "~", 13),
        record("b", "~", 14),
    ]
}

#[test]
fn without_a_store_results_wait_for_the_barrier_if_they_are_told_to() {
    let node_context = NodeContext::new(NodeId(0), "join", std::sync::Arc::from([]));
    let serde = Serde::builtin("string").unwrap();
    let mut merge = TableMerge::new(None, Some(serde), node_context.clone());
    assert_eq!(give(&mut merge, given()), [""; 0]);
    let barrier = |merge: &mut TableMerge| {
        turn(merge, |merge, out, context| {
            merge.barrier(out, context).unwrap();
        })
    };
    assert_eq!(barrier(&mut merge), ["a=3@12", "c=~@13", "b=~@14"]);
    assert_eq!(barrier(&mut merge), [""; 0]);

    let mut merge = TableMerge::new(None, None, node_context);
    assert_eq!(give(&mut merge, given()).len(), 5);
    assert_eq!(barrier(&mut merge), [""; 0]);
}
