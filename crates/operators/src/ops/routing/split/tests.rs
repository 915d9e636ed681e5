//! The first matching branch wins, each predicate sees a record once, and order is kept.

use crate::testing::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stoatflow_core::{Datum, SinkId};
use stoatflow_plan::{Delivery, Function, Op};

fn contains(letter: char) -> Arc<Closure> {
    closure(move |args| {
        Ok(Datum::Bool(
            matches!(args[1], Datum::Str(t) if t.as_str().contains(letter)),
        ))
    })
}

/// Two branches and a default, each with its own sink, or all with the same one.
fn nodes(default: bool, fork: Delivery) -> Vec<(Op, Vec<u32>, Delivery)> {
    let split = Op::Split {
        functions: vec![Function::Udf(0), Function::Udf(1)],
    };
    let children = if default { vec![1, 2, 3] } else { vec![1, 2] };
    let sink = |sink| (Op::Sink { sink: SinkId(sink) }, vec![], Delivery::Batch);
    match fork {
        Delivery::Batch => vec![(split, children, fork), sink(0), sink(0), sink(0)],
        // All branches merge into one sink, where their order is visible.
        Delivery::Record => vec![
            (split, children, fork),
            (Op::Merge, vec![4], Delivery::Batch),
            (Op::Merge, vec![4], Delivery::Batch),
            (Op::Merge, vec![4], Delivery::Batch),
            sink(0),
        ],
    }
}

fn lines() -> Vec<stoatflow_core::Record> {
    vec![
        record("k", "ab", 1),
        record("~", "b", 2),
        record("l", "~", 3),
        record("m", "a", 4),
    ]
}

#[test]
fn the_first_branch_that_takes_a_record_gets_it() {
    let (a, b) = (contains('a'), contains('b'));
    let mut rig = Rig::new(
        nodes(true, Delivery::Batch),
        vec![a.clone(), b.clone()],
        false,
    );
    rig.push(lines()).unwrap();
    assert_eq!(
        rig.outputs(),
        ["0:k=ab@1", "0:m=a@4", "0:~=b@2", "0:l=~@3"],
        "branch by branch, in order within each"
    );
    assert!(rig.dropped().is_empty());
    let batches = |of: &Closure| of.batches.load(Ordering::Relaxed);
    assert_eq!((batches(&a), batches(&b)), (1, 1), "one call per predicate");
    let taken = rig.chain.counts().iter().map(|(_, count)| *count);
    assert_eq!(taken.collect::<Vec<_>>(), [4, 2, 1, 1]);
}

#[test]
fn where_branches_meet_again_the_order_of_records_stays() {
    for size in [1, 3, 4] {
        let udfs: Vec<Arc<dyn crate::Udf>> = vec![contains('a'), contains('b')];
        let mut rig = Rig::new(nodes(true, Delivery::Record), udfs, false);
        for chunk in lines().chunks(size) {
            rig.push(chunk.to_vec()).unwrap();
        }
        assert_eq!(
            rig.outputs(),
            ["0:k=ab@1", "0:~=b@2", "0:l=~@3", "0:m=a@4"],
            "batches of {size}"
        );
    }
}

#[test]
fn without_a_default_the_rest_ends_here() {
    for fork in [Delivery::Batch, Delivery::Record] {
        let mut rig = Rig::new(
            nodes(false, fork),
            vec![contains('a'), contains('z')],
            false,
        );
        rig.push(lines()).unwrap();
        assert_eq!(rig.outputs(), ["0:k=ab@1", "0:m=a@4"]);
        assert!(rig.dropped().is_empty(), "the user's own choice is no drop");
    }
}

#[test]
fn a_predicate_that_raises_names_its_record() {
    let broken = closure(|args| match args[1] {
        Datum::Null => Err(raised()),
        _ => Ok(Datum::Bool(false)),
    });
    let mut rig = Rig::new(
        nodes(true, Delivery::Batch),
        vec![contains('a'), broken],
        false,
    );
    let error = rig.push(lines()).unwrap_err();
    assert_eq!(error.coordinates().offset.map(|o| o.0), Some(3));
    assert_eq!(error.coordinates().node.as_deref(), Some("split-0"));
}
