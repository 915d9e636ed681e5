//! Sliding windows as recorded from Kafka Streams.

use crate::testing::windows::{check, check_lanes, check_restarted};

#[test]
fn sliding_windows() {
    for topology in [
        "sliding__sliding_count",
        "sliding__sliding_aggregate",
        "sliding__sliding_early",
        "sliding__sliding_reduce_no_grace",
        "cogroup__cogroup_sliding",
    ] {
        check(&format!("{topology}__hand"));
        check(&format!("{topology}__seed1"));
    }
}

#[test]
fn results_on_window_close() {
    check("sliding__sliding_on_window_close__hand");
    check("sliding__sliding_on_window_close__seed1");
}

#[test]
fn results_on_window_close_survive_restarts() {
    for topology in ["sliding__sliding_on_window_close", "sliding__sliding_early"] {
        check_restarted(&format!("{topology}__hand"));
        check_restarted(&format!("{topology}__seed1"));
    }
}

#[test]
fn with_several_lanes_windows_close_at_the_barrier() {
    check_lanes("sliding__sliding_on_window_close__hand");
    check_lanes("sliding__sliding_on_window_close__seed1");
}
