//! Rows of timers: their order, their ranges, what a reader of one epoch sees.

use super::*;
use crate::memory::MemoryBackend;
use std::sync::Arc;
use stoatflow_core::{ErrorKind, Serde, StoreId};

fn store(layout: Layout) -> KeyValueStore {
    let backend = Arc::new(MemoryBackend::new(false));
    KeyValueStore::with_layout(
        StoreId(0),
        "t".into(),
        Serde::Bytes,
        backend,
        1 << 20,
        layout,
    )
}

const WALL: Timestamp = Timestamp(1_700_000_000_000);
const TIMES: [i64; 7] = [i64::MIN, -5, -1, 0, 1, 1_700_000_000_000, i64::MAX];

fn names(rows: &[(Bytes, Option<Task>)]) -> Vec<String> {
    let shown = rows.iter().map(|(row, _)| {
        let timer = split_timer(row).unwrap();
        let key = String::from_utf8_lossy(timer.key);
        format!("{}{}{key}", &timer.domain.name()[..1], timer.at)
    });
    shown.collect()
}

#[test]
fn the_order_of_rows_is_that_of_domain_time_and_key() {
    let mut timers = Vec::new();
    for domain in TimerDomain::ALL {
        for at in TIMES {
            for key in ["", "\0", "a", "aa", "b"] {
                timers.push((domain, at, key));
            }
        }
    }
    let rows: Vec<Bytes> = timers
        .iter()
        .map(|(domain, at, key)| timer_row(*domain, *at, key.as_bytes()))
        .collect();
    assert!(rows.is_sorted());
    for ((domain, at, key), row) in timers.iter().zip(&rows) {
        let parts = split_timer(row).unwrap();
        assert_eq!((parts.domain, parts.at), (*domain, *at));
        assert_eq!(parts.key, key.as_bytes());
        assert_eq!(&*timer_key(row), key.as_bytes());
    }
}

#[test]
fn malformed_rows_have_no_parts() {
    for bytes in [&b""[..], b"\0\0\0\0\0\0\0\0", b"\x02\0\0\0\0\0\0\0\0key"] {
        assert_eq!(split_timer(bytes), None);
    }
}

#[test]
fn domains_have_names() {
    for domain in TimerDomain::ALL {
        assert_eq!(TimerDomain::of_name(domain.name()), Some(domain));
    }
    assert_eq!(TimerDomain::of_name("Event"), None);
}

#[test]
fn due_is_what_is_not_later() {
    let store = store(Layout::Timers);
    let (view, mut dirty) = (TimerView::new(&store, Epoch(1)).unwrap(), Dirty::default());
    for (domain, at, key) in [
        (TimerDomain::Event, 20, "b"),
        (TimerDomain::Event, 20, "a"),
        (TimerDomain::Event, 10, "z"),
        (TimerDomain::Event, 30, "a"),
        (TimerDomain::Event, i64::MAX, "a"),
        (TimerDomain::Processing, 5, "a"),
    ] {
        let row = timer_row(domain, at, key.as_bytes());
        view.put(&mut dirty, &row, None, WALL).unwrap();
    }
    let due = |from: TimersFrom, until, limit| {
        names(&view.due(TimerDomain::Event, &from, until, limit).unwrap())
    };
    assert_eq!(due(TimersFrom::Time(i64::MIN), 9, 9), [""; 0]);
    assert_eq!(
        due(TimersFrom::Time(i64::MIN), 20, 9),
        ["e10z", "e20a", "e20b"]
    );
    assert_eq!(due(TimersFrom::Time(11), 20, 9), ["e20a", "e20b"]);
    assert_eq!(due(TimersFrom::Time(i64::MIN), 20, 2), ["e10z", "e20a"]);
    let last = timer_row(TimerDomain::Event, 20, b"a");
    assert_eq!(due(TimersFrom::Row(last), 30, 9), ["e20b", "e30a"]);
    assert_eq!(
        due(TimersFrom::Time(31), i64::MAX, 9),
        ["e9223372036854775807a"]
    );
    let first = |domain, at| view.first_after(domain, at).unwrap();
    assert_eq!(first(TimerDomain::Event, None), Some(10));
    assert_eq!(first(TimerDomain::Event, Some(10)), Some(20));
    assert_eq!(first(TimerDomain::Event, Some(20)), Some(30));
    assert_eq!(first(TimerDomain::Event, Some(i64::MAX)), None);
    assert_eq!(first(TimerDomain::Processing, None), Some(5));
    assert_eq!(first(TimerDomain::Processing, Some(5)), None);
}

#[test]
fn a_timer_is_there_once_and_goes_in_its_epoch() {
    let store = store(Layout::Timers);
    let row = timer_row(TimerDomain::Event, 10, b"k");
    let (view, mut dirty) = (TimerView::new(&store, Epoch(1)).unwrap(), Dirty::default());
    view.put(&mut dirty, &row, None, WALL).unwrap();
    view.put(&mut dirty, &row, None, WALL).unwrap();
    assert_eq!(dirty.len(), 1);
    let sealed = store.seal(Epoch(1), dirty).unwrap();
    assert_eq!(sealed[0].value.as_deref(), Some(&[ROW][..]));
    assert_eq!(
        sealed[0].timestamp, WALL,
        "not of the future: a broker may refuse that"
    );
    let mut dirty = Dirty::default();
    let next = TimerView::new(&store, Epoch(2)).unwrap();
    next.remove(&mut dirty, &row, WALL).unwrap();
    assert!(view.is_pending(&row).unwrap());
    assert!(!next.is_pending(&row).unwrap());
    let sealed = store.seal(Epoch(2), dirty).unwrap();
    assert_eq!((&sealed[0].value, sealed[0].changelog), (&None, true));
}

#[test]
fn a_timer_says_the_task_that_registered_it_last() {
    let store = store(Layout::Timers);
    let (view, mut dirty) = (TimerView::new(&store, Epoch(1)).unwrap(), Dirty::default());
    for (key, task) in [
        ("a", Some(Task(7))),
        ("b", None),
        ("c", Some(Task(1))),
        ("c", Some(Task(0x1234))),
    ] {
        let row = timer_row(TimerDomain::Event, 10, key.as_bytes());
        view.put(&mut dirty, &row, task, WALL).unwrap();
    }
    let due = view.due(TimerDomain::Event, &TimersFrom::Time(0), 10, 9);
    let tasks: Vec<_> = due.unwrap().into_iter().map(|(_, task)| task).collect();
    assert_eq!(tasks, [Some(Task(7)), None, Some(Task(0x1234))]);
}

#[test]
fn timers_of_a_key_are_found_among_all() {
    let store = store(Layout::Timers);
    let (view, mut dirty) = (TimerView::new(&store, Epoch(1)).unwrap(), Dirty::default());
    for at in 0..10_000 {
        let key = if at % 4_000 == 1 { &b"k"[..] } else { b"kk" };
        let row = timer_row(TimerDomain::Event, at, key);
        view.put(&mut dirty, &row, None, WALL).unwrap();
    }
    view.put(
        &mut dirty,
        &timer_row(TimerDomain::Processing, -1, b"k"),
        None,
        WALL,
    )
    .unwrap();
    assert_eq!(
        view.of_key(b"k").unwrap(),
        [
            (TimerDomain::Event, 1),
            (TimerDomain::Event, 4_001),
            (TimerDomain::Event, 8_001),
            (TimerDomain::Processing, -1)
        ]
    );
}

#[test]
fn another_layout_is_refused() {
    let error = TimerView::new(&store(Layout::TimeKey), Epoch(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
}
