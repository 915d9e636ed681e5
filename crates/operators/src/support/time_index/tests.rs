//! The order in which keys are due.

use super::TimeIndex;
use bytes::Bytes;

fn index(entries: &[(i64, &'static str)]) -> TimeIndex {
    let mut index = TimeIndex::default();
    for (time, key) in entries {
        assert!(index.insert(*time, Bytes::from_static(key.as_bytes())));
    }
    index
}

fn due(index: &mut TimeIndex, until: i64) -> Vec<(i64, String)> {
    std::iter::from_fn(|| index.pop_due(until))
        .map(|(time, key)| (time, String::from_utf8_lossy(&key).into_owned()))
        .collect()
}

#[test]
fn due_entries_come_by_time_then_by_the_bytes_of_the_key() {
    let mut index = index(&[
        (20, "a"),
        (10, "b"),
        (10, "a"),
        (-5, "z"),
        (10, "ab"),
        (30, ""),
    ]);
    assert!(!index.is_due(-6));
    assert!(due(&mut index, -6).is_empty());
    let first = [(-5, "z"), (10, "a"), (10, "ab"), (10, "b")].map(|(t, k)| (t, k.to_owned()));
    assert_eq!(due(&mut index, 19), first);
    assert_eq!((index.len(), index.oldest().map(|o| o.0)), (2, Some(20)));
    assert_eq!(index.iter().map(|e| e.0).collect::<Vec<_>>(), [20, 30]);
    assert_eq!(due(&mut index, i64::MAX).len(), 2);
    assert!(index.is_empty());
}

#[test]
fn a_key_waits_once_for_a_time_and_may_wait_for_several() {
    let mut index = index(&[(1, "a"), (2, "a")]);
    let key = Bytes::from_static(b"a");
    assert!(!index.insert(1, key.clone()));
    assert!(index.remove(1, &key));
    assert!(!index.remove(1, &key), "it is gone");
    assert_eq!(due(&mut index, 9), [(2, "a".to_owned())]);
    assert_eq!(index.oldest(), None);
}
