//! Sessions as recorded from Kafka Streams.

use crate::window::vectors::check;

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
