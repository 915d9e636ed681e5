//! Which drops get a line, and that each record is reported once.

use super::*;

const LATE: (&str, &str) = ("window", "late");

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn unlogged(node: &str, reason: &'static str, records: u64) -> UnloggedDrops {
    UnloggedDrops {
        node: node.into(),
        reason,
        records,
    }
}

#[test]
fn the_first_at_once_and_then_one_line_in_ten_seconds() {
    let log = DropLog::default();
    assert_eq!(log.count("a", LATE, 1, at(5)), Some(1));
    for _ in 0..4_000 {
        assert_eq!(log.count("a", LATE, 2, at(14)), None);
    }
    assert_eq!(log.count("b", LATE, 1, at(14)), Some(1), "another cause");
    assert_eq!(log.count("a", LATE, 1, at(15)), Some(8_001));
    assert_eq!(log.count("a", LATE, 1, at(16)), None);
}

#[test]
fn unlogged_drops_are_logged_later() {
    let log = DropLog::default();
    log.count("a", LATE, 1, at(0));
    log.count("a", LATE, 3, at(1));
    log.count("b", ("map", "null_key"), 1, at(1));
    log.count("b", ("map", "null_key"), 2, at(9));
    assert_eq!(log.unlogged(at(9), false), []);
    assert_eq!(log.unlogged(at(10), false), [unlogged("window", "late", 3)]);
    assert_eq!(log.unlogged(at(10), true), [unlogged("map", "null_key", 2)]);
    assert_eq!(log.unlogged(at(99), true), []);
}

#[test]
fn many_causes_are_no_flood() {
    let log = DropLog::default();
    let (mut lines, mut logged) = (0, 0);
    for number in 0..50_000 {
        let now = at(number / 10_000);
        let line = log.count(&format!("cause {number}"), LATE, 1, now);
        lines += u64::from(line.is_some());
        logged += line.unwrap_or(0);
    }
    assert_eq!(lines, u64::from(MAX_LINES_PER_INTERVAL));
    let rest: u64 = log.unlogged(at(99), true).iter().map(|u| u.records).sum();
    assert_eq!(logged + rest, 50_000, "each is logged once");
    assert!(log.state.lock().causes.len() <= MAX_CAUSES + 1);
}
