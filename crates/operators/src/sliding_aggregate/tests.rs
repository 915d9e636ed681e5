//! Sliding windows as recorded from Kafka Streams.

use crate::window::vectors::check;

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
