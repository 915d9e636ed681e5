//! Tumbling and hopping windows as recorded from Kafka Streams.

use crate::testing::windows::{check, check_lanes, check_restarted};
use crate::testing::{Dice, Rig, closure, plan, raised, record, serde, text, word};
use stoatflow_core::{ClockId, Datum, Handler, Record, SinkId, StoreId};
use stoatflow_plan::{Delivery, Emit, Fold, Function, Op, SerdeSpec, StoreKind, Window};

#[test]
fn tumbling_windows() {
    for topology in [
        "window__tumbling_count",
        "window__tumbling_grace",
        "window__tumbling_late_all_keys",
        "window__tumbling_retention",
        "window__tumbling_group_by",
        "cogroup__cogroup_tumbling",
    ] {
        check(&format!("{topology}__hand"));
        check(&format!("{topology}__seed1"));
    }
}

#[test]
fn hopping_windows() {
    for topology in ["window__hopping_count", "window__hopping_aggregate_null"] {
        check(&format!("{topology}__hand"));
        check(&format!("{topology}__seed1"));
    }
}

#[test]
fn results_on_window_close() {
    for topology in [
        "window__tumbling_on_window_close",
        "window__hopping_on_window_close",
        "window__on_window_close_throttled",
        "window__on_window_close_default_retention",
    ] {
        check(&format!("{topology}__hand"));
        check(&format!("{topology}__seed1"));
    }
}

#[test]
fn results_on_window_close_survive_restarts() {
    for topology in [
        "window__tumbling_on_window_close",
        "window__hopping_on_window_close",
        "cogroup__cogroup_tumbling",
    ] {
        check_restarted(&format!("{topology}__hand"));
        check_restarted(&format!("{topology}__seed1"));
    }
}

#[test]
fn with_several_lanes_windows_close_at_the_barrier() {
    for topology in [
        "window__tumbling_on_window_close",
        "window__hopping_on_window_close",
    ] {
        check_lanes(&format!("{topology}__hand"));
        check_lanes(&format!("{topology}__seed1"));
    }
}

/// Updates (old and new values) of a cached aggregation in hopping windows, for batches of this size.
fn in_batches(records: &[Record], size: usize) -> Vec<String> {
    let key = serde("string");
    let op = Op::WindowAggregate {
        positions: None,
        store: StoreId(0),
        key: key.clone(),
        window: Window::Hopping {
            size_ms: 20,
            advance_ms: 10,
            grace_ms: 10,
        },
        fold: Fold::Reduce {
            function: Function::Udf(0),
        },
        emit: Emit::OnWindowUpdate,
        clock: ClockId(0),
        old: true,
    };
    let shown = Op::MapValues {
        function: Function::Udf(1),
        with_key: false,
    };
    let sink = Op::Sink { sink: SinkId(0) };
    let steps = [(op, vec![1]), (shown, vec![2]), (sink, vec![])];
    let mut plan = plan(steps.map(|(op, next)| (op, next, Delivery::Batch)).into());
    plan.nodes[0].on_error = Some(Handler::Continue);
    plan.sinks[0].key = SerdeSpec::TimeWindowed {
        time_windowed: Box::new(key),
        size_ms: 20,
    };
    plan.stores[0].clock = Some(ClockId(1));
    plan.stores[0].kind = StoreKind::Window {
        retention_ms: 100,
        size_ms: 20,
        duplicates: false,
        timestamped: true,
    };
    // A reducer that deletes, fails or appends.
    let reduce = closure(|args: &[&Datum]| match word(args[1]).as_str() {
        "delete" => Ok(Datum::Null),
        "fail" => Err(raised()),
        new => Ok(text(&format!("{}{new}", word(args[0])))),
    });
    let show = closure(|args: &[&Datum]| Ok(text(&word(args[0]))));
    let mut rig = Rig::of(&plan, vec![reduce, show], true).unwrap();
    let mut given = vec![];
    for epoch in records.chunks(30) {
        for batch in epoch.chunks(size) {
            rig.push(batch.to_vec()).unwrap();
        }
        rig.barrier();
        given.push(format!("{:?}", std::mem::take(&mut rig.effects.outputs)));
        given.push(format!("{:?}", rig.dropped()));
        given.push(format!("{:?}", rig.handled()));
    }
    given
}

#[test]
fn with_a_cache_results_are_the_same_for_every_size_of_batches() {
    let mut dice = Dice(11);
    let mut time = 100;
    let records: Vec<Record> = (0..300)
        .map(|_| {
            time += i64::try_from(dice.below(4)).unwrap();
            let late = i64::try_from(dice.below(25)).unwrap();
            let value = ["a", "b", "c", "delete", "fail"][dice.below(5)];
            record(["k", "l", "m"][dice.below(3)], value, time - late)
        })
        .collect();
    let alone = in_batches(&records, 1);
    for shown in [
        "old: Null, new: Str",
        "old: Str",
        "new: Null",
        "processing_error",
    ] {
        assert!(alone.iter().any(|given| given.contains(shown)), "{shown}");
    }
    for size in [2, 7, 30] {
        assert_eq!(in_batches(&records, size), alone, "{size}");
    }
}
