//! Sessions as recorded from Kafka Streams.

use crate::window::vectors::{check, check_lanes, check_restarted};

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
    // Not the random run: there a late record revives a session after it was given, which depends on
    // when barriers come.
    check_lanes("session__session_on_window_close__hand");
}
