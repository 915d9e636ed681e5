//! Pre-aggregation loses nothing that a count would have computed from the single records.

use super::*;
use crate::key_hash;
use crate::testing::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use stoatflow_core::{Header, NodeId, Record, StageId};

fn routed(record: Record) -> Routed {
    Routed {
        via: NodeId(0),
        stage: StageId(1),
        hash: key_hash(word(&record.key).as_bytes()),
        record,
    }
}

fn counted(records: Vec<Record>) -> Vec<Record> {
    let (mut preaggregate, mut out) = (Preaggregate::default(), Vec::new());
    for record in records {
        preaggregate.add(routed(record), &mut out);
    }
    assert!(out.is_empty(), "all is held");
    released(&mut preaggregate)
}

fn released(preaggregate: &mut Preaggregate) -> Vec<Record> {
    let mut out = Vec::new();
    preaggregate.release(&mut out);
    out.into_iter().map(|routed| routed.record).collect()
}

#[test]
fn the_last_of_a_key_stands_for_all_with_the_highest_time() {
    let mut last = record("a", "3", 7);
    last.headers = Some(
        [Header {
            name: "h".into(),
            value: None,
        }]
        .into(),
    );
    last.origin.offset = stoatflow_core::Offset(42);
    let out = counted(vec![
        record("a", "1", 9),
        record("b", "2", 1),
        record("c", "0", 3),
        last,
        record("b", "4", 5),
    ]);
    let said: Vec<_> = out
        .iter()
        .map(|r| {
            (
                word(&r.key),
                r.value.clone(),
                r.timestamp.0,
                r.headers.is_some(),
                r.origin.offset.0,
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            ("c".into(), Datum::Int(1), 3, false, 3),
            ("a".into(), Datum::Int(2), 9, true, 42),
            ("b".into(), Datum::Int(2), 5, false, 5),
        ]
    );
}

#[test]
fn keys_that_are_equal_but_written_differently_stay_apart() {
    // 0.0 and -0.0, with hashes that collide in a small table, so that only the comparison separates
    // them.
    let zero = |number: f64, hash: u64| Routed {
        hash,
        ..routed(Record {
            key: Datum::Float(number),
            ..record("k", "v", 1)
        })
    };
    let mut preaggregate = Preaggregate::default();
    for (number, hash) in [(0.0, 1), (-0.0, 1 | 1 << 30), (0.0, 1)] {
        preaggregate.add(zero(number, hash), &mut vec![]);
    }
    let values: Vec<_> = released(&mut preaggregate)
        .into_iter()
        .map(|r| r.value)
        .collect();
    assert_eq!(values, [Datum::Int(1), Datum::Int(2)]);
}

#[test]
fn released_records_are_not_counted_again() {
    let mut preaggregate = Preaggregate::default();
    for _ in 0..2 {
        preaggregate.add(routed(record("a", "x", 1)), &mut vec![]);
        let values: Vec<_> = released(&mut preaggregate)
            .into_iter()
            .map(|r| r.value)
            .collect();
        assert_eq!(values, [Datum::Int(1)]);
    }
    assert!(released(&mut preaggregate).is_empty());
}

#[test]
fn a_key_is_held_without_the_line_that_it_was_cut_from() {
    let line = stoatflow_core::Text::from("many words of one line");
    let mut preaggregate = Preaggregate::default();
    let key = Datum::Str(line.cut(&line.as_str()[5..10]));
    let word = Record {
        key,
        ..record("k", "v", 1)
    };
    preaggregate.add(routed(word), &mut vec![]);
    assert!(line.as_bytes().is_unique());
    assert_eq!(released(&mut preaggregate)[0].key, text("words"));
}

#[test]
fn keys_of_all_kinds_and_lengths_come_back_as_they_were() {
    let bytes = |text: &str| stoatflow_core::Bytes::copy_from_slice(text.as_bytes());
    let mut keys = vec![Datum::Int(-7), Datum::Float(1.5), Datum::Bool(true)];
    for len in [0, 1, 7, 8, 15, 16, 21, 22, 23, 300] {
        let text = "é".repeat(len / 2) + &"x".repeat(len % 2);
        keys.extend([
            Datum::text(text.as_str()),
            Datum::Bytes(bytes(&text)),
            Datum::Json(bytes(&text)),
        ]);
    }
    let all = keys.iter().chain(&keys);
    let (mut preaggregate, mut out) = (Preaggregate::default(), Vec::new());
    for (at, key) in (0..).zip(all) {
        let keyed = Record {
            key: key.clone(),
            ..record("k", "v", at)
        };
        // The same hash for all: only the keys differ.
        let one = Routed {
            hash: 5,
            ..routed(record("k", "v", 0))
        };
        preaggregate.add(
            Routed {
                record: keyed,
                ..one
            },
            &mut out,
        );
    }
    assert!(out.is_empty());
    let out = released(&mut preaggregate);
    let found: Vec<_> = out
        .iter()
        .map(|r| (r.key.clone(), r.value.clone()))
        .collect();
    let wanted: Vec<_> = keys
        .iter()
        .map(|key| (key.clone(), Datum::Int(2)))
        .collect();
    assert_eq!(found, wanted);
}

#[test]
fn headers_are_those_of_each_keys_last_record() {
    let with = |key: &str, name: Option<&str>| {
        let one = |name: &str| Header {
            name: name.into(),
            value: None,
        };
        Record {
            headers: name.map(|name| [one(name)].into()),
            ..record(key, "v", 1)
        }
    };
    let names = |out: Vec<Record>| -> Vec<(String, Option<String>)> {
        let name = |r: &Record| r.headers.as_ref().map(|h| h[0].name.to_string());
        out.iter().map(|r| (word(&r.key), name(r))).collect()
    };
    let mut preaggregate = Preaggregate::default();
    for (key, name) in [
        ("a", None),
        ("b", Some("1")),
        ("c", None),
        ("d", Some("2")),
        ("b", None),
        ("a", Some("3")),
    ] {
        preaggregate.add(routed(with(key, name)), &mut vec![]);
    }
    let said = |key: &str, name: Option<&str>| (key.to_owned(), name.map(str::to_owned));
    assert_eq!(
        names(released(&mut preaggregate)),
        [
            said("c", None),
            said("d", Some("2")),
            said("b", None),
            said("a", Some("3"))
        ]
    );
    preaggregate.add(routed(with("b", None)), &mut vec![]);
    assert_eq!(
        names(released(&mut preaggregate)),
        [said("b", None)],
        "nothing is left of them"
    );
}

/// Adds records with `keys` different keys in turn; returns how many were passed through, each standing
/// for itself.
fn gone(preaggregate: &mut Preaggregate, records: u64, keys: u64) -> u64 {
    let mut out = Vec::new();
    for at in 0..records {
        preaggregate.add(routed(record(&(at % keys).to_string(), "v", 1)), &mut out);
    }
    assert!(out.iter().all(|r| r.record.value == Datum::Int(1)));
    out.len() as u64
}

#[test]
fn no_more_than_the_most_is_held() {
    let (mut preaggregate, most) = (Preaggregate::default(), MAX_KEYS as u64);
    assert_eq!(gone(&mut preaggregate, most - 1, most), 0);
    assert_eq!(gone(&mut preaggregate, 1, 1), 0, "a key that it has");
    let mut out = Vec::new();
    preaggregate.add(routed(record("another", "v", 1)), &mut out);
    assert_eq!(out.len(), MAX_KEYS);
    assert!(released(&mut preaggregate).is_empty());
}

#[test]
fn where_nothing_folds_most_go_by() {
    let (mut preaggregate, most) = (Preaggregate::default(), MAX_KEYS as u64);
    let all = (BYPASS_FACTOR + 1) * most;
    assert_eq!(gone(&mut preaggregate, all, all), all);
    assert_eq!(gone(&mut preaggregate, 10, 10), 0, "then it tries again");
}

#[test]
fn half_of_the_records_folded_or_too_few_to_tell_go_on_being_held() {
    for (records, keys) in [
        (2 * MIN_RECORDS_TO_JUDGE, MIN_RECORDS_TO_JUDGE),
        (MIN_RECORDS_TO_JUDGE - 1, MIN_RECORDS_TO_JUDGE),
    ] {
        let mut preaggregate = Preaggregate::default();
        gone(&mut preaggregate, records, keys);
        released(&mut preaggregate);
        assert_eq!(gone(&mut preaggregate, 10, 10), 0);
    }
    let mut preaggregate = Preaggregate::default();
    gone(
        &mut preaggregate,
        MIN_RECORDS_TO_JUDGE,
        MIN_RECORDS_TO_JUDGE,
    );
    released(&mut preaggregate);
    assert_eq!(gone(&mut preaggregate, 10, 10), 10);
}

#[test]
fn a_value_that_is_no_count_is_an_error() {
    assert_eq!(records(&Datum::Int(7)).unwrap(), 7);
    let said = records(&text("7")).unwrap_err().to_string();
    assert!(
        said.contains("type str instead of a number of records"),
        "{said}"
    );
}

proptest! {
    // Counts and times per key, in the order of each key's last record.
    #[test]
    fn sums_and_times_are_those_of_all_records(keys in proptest::collection::vec((0..9_u8, -5_i64..50), 0..200)) {
        let mut expected: BTreeMap<String, (i64, i64, usize)> = BTreeMap::new();
        for (at, (key, time)) in keys.iter().enumerate() {
            let entry = expected.entry(format!("k{key}")).or_insert((0, i64::MIN, 0));
            *entry = (entry.0 + 1, entry.1.max(*time), at);
        }
        let mut expected: Vec<_> = expected.into_iter().collect();
        expected.sort_by_key(|(_, (_, _, last))| *last);
        let out = counted(keys.iter().map(|(key, time)| record(&format!("k{key}"), "v", *time)).collect());
        let found: Vec<_> = out.iter().map(|r| (word(&r.key), records(&r.value).unwrap(), r.timestamp.0)).collect();
        let expected: Vec<_> = expected.into_iter().map(|(key, (count, time, _))| (key, count, time)).collect();
        prop_assert_eq!(found, expected);
    }
}
