//! Tumbling and hopping windows as recorded from Kafka Streams.

use crate::testing::windows::{check, check_lanes, check_restarted};

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
