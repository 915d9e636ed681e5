//! A table read through joins and filters.

use crate::testing::manual_async_udf::{self, ManualAsyncUdf};
use crate::testing::*;
use std::sync::Arc;
use stoatflow_core::{Datum, Handler, SinkId, StoreId};
use stoatflow_plan::{AsyncSpec, Delivery, Function, JoinKind, Op, View};

fn store(store: u16) -> View {
    View::Store {
        store: StoreId(store),
        key: serde("string"),
    }
}

fn source(store: u16) -> (Op, Vec<u32>, Delivery) {
    let op = Op::TableSource {
        store: StoreId(store),
        key: serde("string"),
        old: false,
    };
    (op, vec![], Delivery::Batch)
}

/// Tables 0 (entry 0) and 2 (entry 1), and a stream (entry 2) that outputs what it reads from the view.
fn rig(view: View, udfs: Vec<Arc<dyn crate::Udf>>) -> Rig {
    Rig::new(steps(view), udfs, false)
}

fn steps(view: View) -> Vec<Step> {
    let look = Op::StreamTableJoin {
        kind: JoinKind::Left,
        table: view,
        function: Function::Udf(0),
        with_key: false,
        grace_ms: None,
        buffer: None,
        clock: None,
        key: serde("string"),
        value: serde("string"),
    };
    let sink = (Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch);
    vec![source(0), source(2), (look, vec![3], Delivery::Batch), sink]
}

#[test]
fn a_join_without_a_store_is_computed_from_both_sides() {
    for (kind, both, left, right) in [
        (JoinKind::Inner, "l+r", "null", "null"),
        (JoinKind::Left, "l+r", "l+null", "null"),
        (JoinKind::Outer, "l+r", "l+null", "null+r"),
    ] {
        let joined = View::Join {
            left: Box::new(store(0)),
            right: Box::new(store(2)),
            kind,
            function: Function::Udf(1),
            with_key: false,
        };
        let show = closure(|a| Ok(text(&crate::testing::recorded::str_of(a[1]))));
        let plus = closure(|a| {
            let side = |d| crate::testing::recorded::str_of(d);
            Ok(text(&format!("{}+{}", side(a[0]), side(a[1]))))
        });
        let mut rig = rig(joined, vec![show, plus.clone()]);
        rig.push_at(0, vec![record("b", "l", 1), record("l", "l", 1)])
            .unwrap();
        rig.push_at(1, vec![record("b", "r", 2), record("r", "r", 2)])
            .unwrap();
        let asked = ["b", "l", "r", "none"].map(|key| record(key, "?", 5));
        rig.push_at(2, asked.to_vec()).unwrap();
        let expected = [
            format!("0:b={both}@5"),
            format!("0:l={left}@5"),
            format!("0:r={right}@5"),
            "0:none=null@5".to_owned(),
        ];
        assert_eq!(rig.outputs(), expected, "{kind:?}");
        let scopes = plus.scopes.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(scopes, 1, "one attach for all keys");
    }
}

#[test]
fn a_function_on_the_way_sees_only_what_is_there() {
    let not_x = View::Filter {
        of: Box::new(store(0)),
        function: Function::Udf(1),
        not: true,
    };
    let view = View::MapValues {
        of: Box::new(not_x),
        function: Function::Udf(2),
        with_key: false,
    };
    let show = closure(|a| Ok(text(&crate::testing::recorded::str_of(a[1]))));
    let is_x = closure(|a| Ok(Datum::Bool(word(a[1]) == "x")));
    let null_if_y = closure(|a| {
        let y = word(a[0]) == "y";
        Ok(if y { Datum::Null } else { text("mapped") })
    });
    let mut rig = rig(view, vec![show, is_x, null_if_y]);
    let held = [("a", "x"), ("b", "y"), ("c", "z")].map(|(k, v)| record(k, v, 1));
    rig.push_at(0, held.to_vec()).unwrap();
    let asked = ["none", "a", "b", "c"].map(|key| record(key, "?", 5));
    rig.push_at(2, asked.to_vec()).unwrap();
    assert_eq!(
        rig.outputs(),
        ["0:none=null@5", "0:a=null@5", "0:b=null@5", "0:c=mapped@5"]
    );
}

#[test]
fn rows_of_an_async_joiner_are_joined_side_by_side_also_where_a_handler_decides() {
    let joined = View::Join {
        left: Box::new(store(0)),
        right: Box::new(store(2)),
        kind: JoinKind::Inner,
        function: Function::Async(AsyncSpec {
            udf: 3,
            concurrency: 10,
            park_after_ms: 0,
        }),
        with_key: false,
    };
    let both = |of: View| View::Join {
        left: Box::new(View::MapValues {
            of: Box::new(of),
            function: Function::Udf(1),
            with_key: false,
        }),
        right: Box::new(store(0)),
        kind: JoinKind::Inner,
        function: Function::Udf(2),
        with_key: false,
    };
    let show = closure(|a| Ok(text(&crate::testing::recorded::str_of(a[1]))));
    // Its own failures, and those above it, are attributed to the record that asks.
    let unless_c = closure(|a| match word(a[0]).as_str() {
        "c2" => Err(raised()),
        value => Ok(text(&format!("<{value}>"))),
    });
    let plus = closure(|a| match word(a[0]).as_str() {
        "<d2>" => Err(raised()),
        value => Ok(text(&format!("{value}+{}", word(a[1])))),
    });
    let manual = ManualAsyncUdf::new();
    manual.answers_when_waited_for();
    manual.fails("b2");
    let awaited = manual_async_udf::foreign(&manual);
    let foreign = crate::ForeignCode {
        udfs: vec![show, unless_c, plus, Arc::clone(&awaited.udfs[0])],
        calls: [(3, Arc::clone(&awaited.calls[&0]))].into(),
        ..awaited
    };
    let mut plan = plan(steps(both(joined)));
    plan.nodes[2].on_error = Some(Handler::Continue);
    let mut rig = Rig::of_foreign(&plan, &foreign, false).unwrap();
    let keys = ["a", "b", "c", "d", "e"];
    for (entry, version) in [(0, 1), (1, 2)] {
        let held = keys.map(|key| record(key, &format!("{key}{version}"), 1));
        rig.push_at(entry, held.to_vec()).unwrap();
    }
    let asked = ["a", "none", "b", "c", "d", "e"];
    let asked = (5..).zip(asked).map(|(at, key)| record(key, "?", at));
    rig.push_at(2, asked.collect()).unwrap();
    let given = ["0:a=<a2>+a1@5", "0:none=null@6", "0:e=<e2>+e1@10"];
    assert_eq!(rig.outputs(), given);
    let handled = rig.effects.handled.iter();
    let offsets = handled.map(|h| h.error.coordinates().offset.expect("of who has asked").0);
    assert_eq!(offsets.collect::<Vec<_>>(), [7, 8, 9]);
    assert_eq!(manual.begun(), ["a2", "b2", "c2", "d2", "e2"], "once each");
    assert_eq!(manual.most(), 5);
}
