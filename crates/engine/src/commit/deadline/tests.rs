use super::*;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn steps_share_the_time() {
    let deadline = Deadline::new(s(100), s(60));
    assert_eq!(deadline.before_end(s(100)), s(50));
    assert_eq!(deadline.before_end(s(130)), s(20));
    assert_eq!(deadline.for_end(s(130)), s(30));
}

#[test]
fn the_end_has_time_left_when_the_other_steps_have_none() {
    let deadline = Deadline::new(s(100), s(60));
    assert_eq!(deadline.before_end(s(151)), s(0));
    assert_eq!(deadline.for_end(s(151)), s(10));
    assert_eq!(deadline.for_end(s(200)), s(10));
}

#[test]
fn a_short_time_is_halved() {
    let deadline = Deadline::new(s(0), s(2));
    assert_eq!(deadline.before_end(s(0)), s(1));
    assert_eq!(deadline.for_end(s(1)), s(1));
}

#[test]
fn the_longest_time_does_not_overflow() {
    let deadline = Deadline::new(s(1), Duration::MAX);
    assert!(deadline.before_end(s(2)) > s(1_000_000));
    assert!(deadline.for_end(s(2)) > s(1_000_000));
}
