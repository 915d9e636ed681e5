//! Which rows of a scan later tasks get.

use super::*;
use stoatflow_core::{Datum, Timestamp};

fn row(key: &'static str, value: i64) -> Row {
    let stored = Stored {
        value: Datum::Int(value),
        timestamp: Timestamp(value),
    };
    (Bytes::from_static(key.as_bytes()), stored)
}

fn all() -> KeyRange {
    KeyRange {
        from: None,
        to: None,
        reverse: false,
    }
}

/// `a0` belongs to task 0.
fn task_of(key: &Bytes) -> Task {
    Task(u16::from(key[key.len() - 1] - b'0'))
}

fn keys(rows: &[Row]) -> Vec<&str> {
    rows.iter()
        .map(|(key, _)| std::str::from_utf8(key).unwrap())
        .collect()
}

#[test]
fn one_scan_serves_all_tasks() {
    let mut scans = TaskScans::default();
    assert_eq!(scans.get(0, &all(), Task(0)), None);
    let rows = vec![row("a0", 1), row("a1", 2), row("b0", 3)];
    let own = scans.split(0, &all(), Task(0), rows, task_of);
    assert_eq!(keys(&own), ["a0", "b0"]);
    assert_eq!(keys(&scans.get(0, &all(), Task(0)).unwrap()), ["a0", "b0"]);
    assert_eq!(keys(&scans.get(0, &all(), Task(1)).unwrap()), ["a1"]);
    assert_eq!(scans.get(0, &all(), Task(2)).unwrap(), []);
    // Other stores and other ranges are not cached.
    assert_eq!(scans.get(1, &all(), Task(1)), None);
    let reverse = KeyRange {
        reverse: true,
        ..all()
    };
    assert_eq!(scans.get(0, &reverse, Task(1)), None);
    scans.clear();
    assert_eq!(scans.get(0, &all(), Task(1)), None);
}

#[test]
fn a_task_whose_keys_were_written_reads_again() {
    let mut scans = TaskScans::default();
    let rows = || vec![row("a0", 1), row("a1", 2), row("a2", 3)];
    scans.split(0, &all(), Task(0), rows(), task_of);
    scans.write(0, Task(0));
    scans.write(0, Task(2));
    scans.write(1, Task(1));
    assert_eq!(scans.get(0, &all(), Task(0)), None);
    assert_eq!(keys(&scans.get(0, &all(), Task(1)).unwrap()), ["a1"]);
    assert_eq!(scans.get(0, &all(), Task(2)), None);
    // Even after another scan: it was written while these schedules ran.
    scans.split(0, &all(), Task(2), rows(), task_of);
    assert_eq!(scans.get(0, &all(), Task(2)), None);
}
