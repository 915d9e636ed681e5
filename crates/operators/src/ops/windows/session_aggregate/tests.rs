//! Sessions as recorded from Kafka Streams.

use crate::testing::windows::{check, check_lanes, check_restarted};
use crate::testing::{Rig, record, serde};
use stoatflow_core::{ClockId, StoreId};
use stoatflow_plan::{Delivery, Emit, Fold, Op, StoreKind};

#[test]
fn sessions() {
    for topology in [
        "session__session_aggregate",
        "session__session_count",
        "session__session_equal_times",
        "session__session_group_by_json",
        "session__session_reduce_no_grace",
        "session__session_reduce_null",
        "cogroup__cogroup_session",
    ] {
        check(&format!("{topology}__hand"));
        check(&format!("{topology}__seed1"));
    }
}

#[test]
fn results_on_window_close() {
    for topology in [
        "session__session_on_window_close",
        "session__session_on_window_close_default_retention",
    ] {
        check(&format!("{topology}__hand"));
        check(&format!("{topology}__seed1"));
    }
}

#[test]
fn results_on_window_close_survive_restarts() {
    for topology in [
        "session__session_on_window_close",
        "session__session_on_window_close_default_retention",
        "session__session_aggregate",
    ] {
        check_restarted(&format!("{topology}__hand"));
        check_restarted(&format!("{topology}__seed1"));
    }
}

#[test]
fn with_several_lanes_sessions_close_at_the_barrier() {
    // Not the random run: there a late record revives a session that was already emitted, which depends
    // on the time of barriers.
    check_lanes("session__session_on_window_close__hand");
}

/// Sessions that exist only within a batch are seen by children but not stored.
#[test]
fn a_hot_key_writes_its_session_once_per_batch() {
    let op = Op::SessionAggregate {
        store: StoreId(3),
        key: serde("string"),
        gap_ms: 10_000,
        grace_ms: 0,
        fold: Fold::Count,
        emit: Emit::OnWindowUpdate,
        clock: ClockId(0),
        old: false,
    };
    let nodes = vec![(op, vec![], Delivery::Batch)];
    let mut rig = Rig::changed(nodes, vec![], |plan| {
        let mut kept = plan.stores[0].clone();
        (kept.id, kept.value) = (StoreId(3), serde("int64"));
        kept.kind = StoreKind::Session {
            retention_ms: 100_000,
        };
        kept.clock = Some(ClockId(1));
        plan.stores.push(kept);
    });
    let rig = rig.as_mut().expect("a chain");
    for batch in 0..10 {
        let times = (0..1024).map(|n| batch * 1024 + n);
        rig.push(times.map(|time| record("hot", "v", time)).collect())
            .expect("a batch");
        // A key that the epoch deletes again stays in the list, once.
        let written = i64::try_from(rig.stores[3].dirty.len()).expect("a few");
        assert_eq!(written, batch + 1);
    }
}
