use super::*;
use stoatflow_core::{Offset, Partition};

fn error(message: &str, offset: i64) -> Error {
    Error::user(message).at(|at| {
        at.topic = Some("in".to_owned());
        at.partition = Some(Partition(2));
        at.offset = Some(Offset(offset));
        at.function = Some("app.py:7 f".to_owned());
    })
}

fn note(log: &ErrorLog, message: &str, offset: i64) {
    log.note(
        &error(message, offset),
        Some("map"),
        "processing_error",
        Timestamp(offset),
    );
}

#[test]
fn details_of_records_make_no_other_cause() {
    let log = ErrorLog::default();
    note(&log, "it can't read 'a' of 17", 1);
    note(&log, "it can't read 'bc' of 4", 2);
    note(&log, "it can't read \"d\" of 199", 3);
    note(&log, "something else", 4);
    log.note(
        &error("something else", 5),
        Some("map"),
        "failed",
        Timestamp(5),
    );
    log.note(
        &error("something else", 6),
        Some("other"),
        "failed",
        Timestamp(6),
    );
    let found = log.entries();
    let counts: Vec<_> = found.iter().map(|e| (e.count, &*e.outcome)).collect();
    assert_eq!(
        counts,
        [
            (1, "failed"),
            (1, "failed"),
            (1, "processing_error"),
            (3, "processing_error")
        ]
    );
    let first = &found[3];
    assert_eq!(first.message, "it can't read \"d\" of 199");
    assert_eq!((first.first_at_ms, first.last_at_ms), (1, 3));
    assert_eq!(
        (first.topic.as_deref(), first.partition, first.offset),
        (Some("in"), Some(2), Some(3))
    );
}

#[test]
fn the_last_hundred_causes_are_kept() {
    let log = ErrorLog::default();
    let name = |number: u8| {
        format!(
            "cause {}{}",
            char::from(b'a' + number / 26),
            char::from(b'a' + number % 26)
        )
    };
    for number in 0..120 {
        note(&log, &name(number), i64::from(number));
        // A cause that occurs again and again stays.
        note(&log, "always", i64::from(number));
    }
    let found = log.entries();
    assert_eq!(found.len(), 100);
    assert_eq!((found[0].message.as_str(), found[0].count), ("always", 120));
    assert_eq!(found[1].message, name(119));
    assert_eq!(found[99].message, name(21));
    note(&log, &"x".repeat(10_000), 0);
    assert_eq!(log.entries()[0].message.len(), MAX_TEXT_CHARS + 3);
}

#[test]
fn errors_survive_a_restart_where_there_is_local_state() {
    let home = tempfile::tempdir().unwrap();
    let log = ErrorLog::default();
    note(&log, "it can't read 'a' of 17", 1);
    log.save(home.path(), Duration::from_secs(9), false);
    note(&log, "it can't read 'b' of 18", 2);
    log.save(home.path(), Duration::from_millis(9_500), false);
    let next = ErrorLog::default();
    next.load(home.path());
    assert_eq!(next.entries()[0].count, 1, "a second has not passed");
    log.save(home.path(), Duration::from_millis(9_500), true);

    let next = ErrorLog::default();
    note(&next, "before", 1);
    next.load(home.path());
    note(&next, "it can't read 'c' of 19", 30);
    let found = next.entries();
    let shown: Vec<_> = found.iter().map(|e| (e.count, e.last_at_ms)).collect();
    assert_eq!(shown, [(3, 30), (1, 1)]);
    assert_eq!(found[0].first_at_ms, 1);

    let nowhere = home.path().join("none");
    log.save(&nowhere, Duration::from_secs(99), true);
    assert!(!nowhere.exists());
    std::fs::write(home.path().join("errors.json"), "[{").unwrap();
    let next = ErrorLog::default();
    next.load(home.path());
    assert!(next.entries().is_empty());
}
