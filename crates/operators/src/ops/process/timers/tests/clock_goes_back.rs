//! The wall clock goes back.

use super::{Desk, Processing, none, of};

#[test]
fn a_clock_that_goes_back_fires_nothing_early() {
    let mut desk = Desk::new();
    desk.register(Processing, 900, "a");
    assert_eq!(desk.cut(0, 1_000), of(&["p900a"], &[]));
    // In the past as far as known, but the clock was set back meanwhile.
    desk.register(Processing, 950, "a");
    assert_eq!(desk.cut(0, 500), none());
    assert_eq!(desk.timer_queue.next_wall(), 950);
    desk.register(Processing, 700, "a");
    assert_eq!(desk.timer_queue.next_wall(), 700);
    assert_eq!(desk.cut(0, 800), of(&["p700a"], &[]));
    assert_eq!(desk.cut(0, 950), of(&["p950a"], &[]));
    assert_eq!(desk.timer_queue.next_wall(), i64::MAX);
}

#[test]
fn a_clock_that_goes_back_after_a_full_cut_skips_nothing() {
    let mut desk = Desk::new();
    for (at, key) in [(880, "x"), (890, "y"), (900, "m")] {
        desk.register(Processing, at, key);
    }
    let count = |handed: [Vec<String>; 2]| handed.iter().flatten().cloned().collect::<Vec<_>>();
    assert_eq!(
        count(desk.cut(0, 1_000)).len(),
        3,
        "as many as one cut takes"
    );
    assert_eq!(desk.cut(0, 800), none());
    // Before the row at which the full cut ended.
    desk.register(Processing, 900, "c");
    assert_eq!(count(desk.cut(0, 950)), ["p900c"]);
}
