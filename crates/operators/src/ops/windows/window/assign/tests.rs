//! Bounds of windows, as in Kafka Streams.

use super::Assign;
use stoatflow_plan::Window;

fn windows(window: Window, time: i64) -> Vec<(i64, i64)> {
    Assign::new(&window).unwrap().windows(time).collect()
}

#[test]
fn tumbling_windows_stand_next_to_each_other() {
    let tumbling = Window::Tumbling {
        size_ms: 10,
        grace_ms: 0,
    };
    for (time, start) in [(0, 0), (9, 0), (10, 10), (19, 10), (105, 100)] {
        assert_eq!(windows(tumbling, time), [(start, start + 10)], "at {time}");
    }
    assert!(windows(tumbling, -1).is_empty());
}

#[test]
fn hopping_windows_overlap_and_none_starts_before_zero() {
    let hopping = Window::Hopping {
        size_ms: 10,
        advance_ms: 4,
        grace_ms: 0,
    };
    assert_eq!(windows(hopping, 0), [(0, 10)]);
    assert_eq!(windows(hopping, 7), [(0, 10), (4, 14)]);
    assert_eq!(windows(hopping, 9), [(0, 10), (4, 14), (8, 18)]);
    assert_eq!(windows(hopping, 10), [(4, 14), (8, 18)]);
    let last = windows(hopping, i64::MAX);
    assert_eq!(last.last().map(|w| w.1), Some(i64::MAX), "no overflow");
}

#[test]
fn an_unlimited_window_begins_somewhere_and_never_ends() {
    let unlimited = Window::Unlimited { start_ms: 5 };
    assert!(windows(unlimited, 4).is_empty());
    assert_eq!(windows(unlimited, 5), [(5, i64::MAX)]);
    assert_eq!(windows(unlimited, i64::MAX), [(5, i64::MAX)]);
}
