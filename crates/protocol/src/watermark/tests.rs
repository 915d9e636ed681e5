//! Flink's rules of watermarks, as tables: an event, and the application's watermark after it.

use super::*;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn bounded(delay: i64) -> Rule {
    Rule::of(Strategy::Bounded(delay))
}

const fn idling(delay: i64, after: u64) -> Rule {
    Rule {
        idle_after: Some(s(after)),
        ..bounded(delay)
    }
}

const fn aligned(group: u32, max_drift: i64) -> Rule {
    Rule {
        aligned: Some(AlignmentGroup { group, max_drift }),
        ..bounded(0)
    }
}

/// An event.
#[derive(Clone, Copy, Debug)]
enum Do {
    /// A partition has a record with this timestamp, at this second.
    Give(usize, i64, u64),
    /// The function of a partition returns this watermark.
    Say(usize, i64),
    /// Idle partitions are looked for at this second.
    Look(u64),
    /// As `Look`, but this partition has records waiting.
    LookBut(usize, u64),
    /// The application's watermark is raised.
    Raise(i64),
    /// A partition is added.
    Add(Rule),
}
use Do::{Add, Give, Look, LookBut, Raise, Say};

fn run(title: &str, rules: &[Rule], table: &[(Do, i64)]) {
    let mut marks = Watermarks::new(UNKNOWN);
    for rule in rules {
        marks.add(*rule, UNKNOWN, s(0));
    }
    let mut highest = [UNKNOWN; 16];
    for (row, (what, expected)) in table.iter().enumerate() {
        match *what {
            Give(at, time, second) => {
                highest[at] = highest[at].max(time);
                marks.on_records(at, highest[at], s(second));
            }
            Say(at, to) => marks.on_watermark(at, to),
            Look(second) => drop(marks.find_idle(s(second), |_| false)),
            LookBut(busy, second) => drop(marks.find_idle(s(second), |at| at == busy)),
            Raise(to) => marks.raise(to),
            Add(rule) => drop(marks.add(rule, UNKNOWN, s(0))),
        }
        assert_eq!(marks.advance(), *expected, "{title}, row {row}: {what:?}");
    }
}

#[test]
fn one_partition_follows_its_strategy() {
    run(
        "monotonic",
        &[bounded(0)],
        &[
            (Give(0, 100, 0), 100),
            (Give(0, 90, 1), 100),
            (Give(0, 300, 2), 300),
        ],
    );
    run(
        "bounded: behind the highest, never back",
        &[bounded(10)],
        &[
            (Give(0, 5, 0), UNKNOWN),
            (Give(0, 100, 0), 90),
            (Give(0, 95, 1), 90),
            (Give(0, 101, 2), 91),
        ],
    );
    run(
        "custom: only what the function says, never back",
        &[Rule::of(Strategy::Custom)],
        &[
            (Give(0, 100, 0), UNKNOWN),
            (Say(0, 70), 70),
            (Say(0, 60), 70),
            (Give(0, 900, 1), 70),
        ],
    );
    run(
        "none: nothing, unless somebody raises it",
        &[Rule::of(Strategy::None)],
        &[
            (Give(0, 100, 0), UNKNOWN),
            (Raise(50), 50),
            (Give(0, 200, 0), 50),
        ],
    );
}

#[test]
fn the_least_of_several_sources_counts() {
    run(
        "two sources",
        &[bounded(0), bounded(0)],
        &[
            // A partition without a watermark holds the others back, as in Flink.
            (Give(0, 100, 0), UNKNOWN),
            (Give(1, 40, 0), 40),
            (Give(0, 500, 0), 40),
            (Give(1, 120, 0), 120),
            (Give(1, 700, 0), 500),
        ],
    );
    run(
        "each with a strategy of its own",
        &[bounded(10), bounded(100), Rule::of(Strategy::None)],
        &[
            (Give(0, 1_000, 0), UNKNOWN),
            (Give(1, 1_000, 0), 900),
            (Give(2, 5, 0), 900),
            (Give(1, 2_000, 0), 990),
        ],
    );
}

#[test]
fn idle_partitions_hold_no_others_back() {
    run(
        "one of two is idle, and comes back behind",
        &[idling(0, 60), idling(0, 60)],
        &[
            (Give(0, 100, 0), UNKNOWN),
            (Give(1, 50, 0), 50),
            (Give(0, 200, 59), 50),
            (Look(59), 50),
            (Look(60), 200),
            // It is active again and behind: the application's stays where it is.
            (Give(1, 60, 61), 200),
            (Give(0, 900, 62), 200),
            (Give(1, 300, 63), 300),
        ],
    );
    run(
        "who never had a record is idle too, after its time",
        &[idling(0, 60), idling(0, 60)],
        &[
            (Give(0, 100, 1), UNKNOWN),
            (Look(59), UNKNOWN),
            (Look(60), 100),
        ],
    );
    run(
        "all idle: it stays where the last one has left it",
        &[idling(0, 60), idling(0, 60)],
        &[
            (Give(0, 100, 0), UNKNOWN),
            (Give(1, 50, 10), 50),
            (Look(60), 50),
            (Look(70), 50),
            (Look(1_000), 50),
            (Give(1, 55, 1_001), 55),
        ],
    );
    run(
        "the same, seen at once: as if it had been seen in time",
        &[idling(0, 60), idling(0, 60)],
        &[
            (Give(0, 50, 0), UNKNOWN),
            (Give(1, 100, 10), 50),
            (Look(1_000), 100),
        ],
    );
    run(
        "at one moment: the least is the first, nobody waits for who is gone",
        &[idling(0, 60), idling(0, 60)],
        &[
            (Give(0, 100, 0), UNKNOWN),
            (Give(1, 50, 0), 50),
            (Look(60), 100),
        ],
    );
    run(
        "without a time it is never idle",
        &[bounded(0), idling(0, 60)],
        &[
            (Give(0, 10, 0), UNKNOWN),
            (Give(1, 100, 0), 10),
            (Look(100_000), 10),
        ],
    );
    run(
        "records that wait are no silence",
        &[idling(0, 60), bounded(0)],
        &[
            (Give(0, 10, 0), UNKNOWN),
            (Give(1, 100, 0), 10),
            (LookBut(0, 60), 10),
            (Look(119), 10),
            (Look(120), 100),
        ],
    );
}

#[test]
fn a_partition_that_is_added_takes_nothing_back() {
    run(
        "added while running",
        &[bounded(0)],
        &[
            (Give(0, 100, 0), 100),
            (Add(bounded(0)), 100),
            (Give(0, 200, 0), 100),
            (Give(1, 30, 0), 100),
            (Give(1, 150, 0), 150),
        ],
    );
}

#[test]
fn it_can_be_raised_and_stays_raised() {
    run(
        "raised",
        &[bounded(0)],
        &[
            (Give(0, 100, 0), 100),
            (Raise(500), 500),
            (Give(0, 300, 0), 500),
            (Raise(400), 500),
            (Give(0, 600, 0), 600),
        ],
    );
}

#[test]
fn partitions_are_not_silent_while_none_is_read() {
    let mut marks = Watermarks::new(UNKNOWN);
    marks.add(idling(0, 60), UNKNOWN, s(0));
    marks.add(bounded(0), UNKNOWN, s(0));
    marks.on_records(0, 10, s(0));
    marks.on_records(1, 100, s(0));
    marks.set_polling(false, s(30));
    assert!(!marks.find_idle(s(1_000), |_| false));
    marks.set_polling(true, s(1_000));
    // 30 seconds of silence before, so 30 more.
    assert!(!marks.find_idle(s(1_029), |_| false));
    assert!(marks.find_idle(s(1_030), |_| false));
    assert_eq!(marks.application(), 100);
}

#[test]
fn a_restart_begins_with_what_was_committed() {
    let mut marks = Watermarks::new(400);
    marks.add(bounded(0), 400, s(0));
    // A partition that was behind, because it was idle.
    marks.add(idling(0, 60), 20, s(0));
    assert_eq!(marks.advance(), 400);
    marks.on_records(0, 900, s(1));
    assert_eq!(marks.advance(), 400);
    assert!(marks.find_idle(s(60), |_| false));
    assert_eq!(marks.advance(), 900);
}

#[test]
fn the_slowest_partitions_hold_it_back() {
    let mut marks = Watermarks::new(UNKNOWN);
    for _ in 0..3 {
        marks.add(bounded(0), UNKNOWN, s(0));
    }
    marks.add(Rule::of(Strategy::None), UNKNOWN, s(0));
    let holders = |marks: &Watermarks| {
        let least = marks.minimum();
        (0..4)
            .filter(|at| marks.holds_back(*at, least))
            .collect::<Vec<_>>()
    };
    assert_eq!(holders(&marks), Vec::<usize>::new());
    marks.on_records(0, 100, s(0));
    assert_eq!(holders(&marks), [1, 2]);
    marks.on_records(1, 50, s(0));
    marks.on_records(2, 60, s(0));
    assert_eq!(holders(&marks), [1]);
}

/// Partitions 0 and 1 in a group, 2 in another one.
fn group() -> Watermarks {
    let mut marks = Watermarks::new(UNKNOWN);
    marks.add(aligned(0, 100), UNKNOWN, s(0));
    marks.add(aligned(0, 100), UNKNOWN, s(0));
    marks.add(aligned(1, 100), UNKNOWN, s(0));
    marks
}

#[test]
fn partitions_too_far_ahead_wait_for_their_group() {
    let mut marks = group();
    assert!(marks.has_groups());
    // No partition has a watermark, so none waits.
    assert_eq!(marks.bound(0), None);
    marks.on_records(0, 1_000, s(0));
    marks.on_records(2, 9_000, s(0));
    assert_eq!(marks.bound(0), Some(1_100));
    marks.on_records(1, 500, s(0));
    assert_eq!(
        (marks.bound(0), marks.of(0)),
        (Some(600), 1_000),
        "it waits"
    );
    assert_eq!((marks.bound(1), marks.of(1)), (Some(600), 500));
    marks.on_records(1, 600, s(0));
    assert_eq!(
        (marks.bound(1), marks.of(1)),
        (Some(700), 600),
        "the least one goes on"
    );
    // The group catches up: a partition at its bound is not too far ahead.
    marks.on_records(1, 900, s(0));
    assert_eq!((marks.bound(0), marks.of(0)), (Some(1_000), 1_000));
    // The other group is independent.
    assert_eq!(marks.bound(2), Some(9_100));
}

#[test]
fn idle_partitions_hold_no_group_up() {
    let mut marks = group();
    let rule = Rule {
        idle_after: Some(s(60)),
        ..aligned(0, 100)
    };
    let quiet = marks.add(rule, UNKNOWN, s(0));
    marks.on_records(0, 1_000, s(0));
    marks.on_records(1, 1_000, s(0));
    marks.on_records(quiet, 10, s(0));
    assert_eq!(marks.bound(0), Some(110));
    assert!(marks.find_idle(s(60), |_| false));
    assert_eq!(marks.bound(0), Some(1_100));
    // It is active again and far behind: the others wait again.
    marks.on_records(quiet, 20, s(61));
    assert_eq!(marks.bound(0), Some(120));
}
