//! Key formats byte for byte, and round trips of arbitrary keys.

use super::*;
use crate::KeyValueStore;
use proptest::prelude::*;

fn bytes(b: &[u8]) -> Bytes {
    Bytes::copy_from_slice(b)
}

fn sealed(key: &Bytes, value: Option<&str>, ts: i64) -> Sealed {
    Sealed {
        key: key.clone(),
        value: value.map(|v| bytes(v.as_bytes())),
        timestamp: Timestamp(ts),
        changelog: true,
    }
}

#[test]
fn a_window_s_changelog_key_is_kafka_s() {
    // WindowKeySchema.toStoreKeyBinary("k", 300_000, 2)
    let kafka = b"k\0\0\0\0\0\x04\x93\xe0\0\0\0\x02";
    assert_eq!(window_changelog_key(b"k", 300_000, 2).as_ref(), kafka);
    let internal = window_key(60_000, b"k", 300_000, 2);
    assert_eq!(
        internal.as_ref(),
        [b"\0\0\0\0\0\0\0\x05", kafka.as_slice()].concat()
    );
    let record = Layout::window(0)
        .to_changelog(&sealed(&internal, Some("v"), 77))
        .unwrap();
    assert_eq!(
        (record.key.as_ref(), record.timestamp),
        (kafka.as_slice(), Timestamp(77))
    );
}

#[test]
fn a_session_s_changelog_key_is_kafka_s() {
    // SessionKeySchema.toBinary("k", 3, 60_001): the end comes first.
    let kafka = b"k\0\0\0\0\0\0\xea\x61\0\0\0\0\0\0\0\x03";
    assert_eq!(session_changelog_key(b"k", 3, 60_001).as_ref(), kafka);
    let internal = session_key(60_000, b"k", 3, 60_001);
    assert_eq!(
        internal.as_ref(),
        [b"\0\0\0\0\0\0\0\x01", kafka.as_slice()].concat()
    );
    let record = Layout::session(0)
        .to_changelog(&sealed(&internal, None, 1))
        .unwrap();
    assert_eq!(
        (record.key.as_ref(), record.value),
        (kafka.as_slice(), None)
    );
}

#[test]
fn a_version_is_a_record_of_its_key_at_its_time() {
    let layout = Layout::Versioned { history_ms: 9 };
    let internal = versioned_key(b"k", 258);
    assert_eq!(internal.as_ref(), b"k\x80\0\0\0\0\0\x01\x02");
    let value = layout
        .to_changelog(&sealed(&internal, Some(""), 258))
        .unwrap();
    let expected = ChangelogRecord {
        key: bytes(b"k"),
        value: Some(Bytes::new()),
        timestamp: Timestamp(258),
        headers: None,
    };
    assert_eq!(value, expected);
    let gone = layout
        .to_changelog(&sealed(&internal, Some(""), TOMBSTONE.0))
        .unwrap();
    assert_eq!(
        gone,
        ChangelogRecord {
            value: None,
            ..expected
        }
    );
    let back = layout
        .from_changelog(&gone.key, gone.value.as_deref(), gone.timestamp)
        .unwrap();
    assert_eq!(back.key, internal);
    assert_eq!(
        back.value.as_deref(),
        Some(i64::MIN.to_be_bytes().as_slice())
    );
}

#[test]
fn key_value_and_time_keys_are_written_as_they_are() {
    for layout in [Layout::KeyValue, Layout::TimeKey, Layout::Timers] {
        let record = layout
            .to_changelog(&sealed(&time_key(5, b"x"), Some("v"), 3))
            .unwrap();
        assert_eq!(record.key, time_key(5, b"x"));
        let write = layout
            .from_changelog(&record.key, record.value.as_deref(), record.timestamp)
            .unwrap();
        assert_eq!(
            write.value.as_deref(),
            Some(b"\0\0\0\0\0\0\0\x03v".as_slice())
        );
    }
    assert!(time_key(-1, b"x") < time_key(0, b""));
    assert_eq!(
        split_time_key(&time_key(-7, b"xy")),
        Some((-7, b"xy".as_slice()))
    );
}

#[test]
fn local_deletions_are_not_logged() {
    let local = Sealed {
        changelog: false,
        ..sealed(&bytes(b"k"), None, 1)
    };
    assert_eq!(Layout::KeyValue.to_changelog(&local), None);
}

#[test]
fn short_changelog_keys_are_refused() {
    for layout in [Layout::window(0), Layout::session(0)] {
        let error = layout
            .from_changelog(b"short", None, Timestamp(0))
            .unwrap_err();
        assert_eq!(error.kind(), stoatflow_core::ErrorKind::StateCorrupt);
        assert!(error.to_string().contains("too short"), "{error}");
    }
}

#[test]
fn segments_are_as_long_as_in_kafka_streams() {
    for (retention, length) in [(0, 60_000), (120_000, 60_000), (200_000, 100_000)] {
        assert_eq!(
            Layout::window(retention),
            Layout::Window {
                segment_ms: length,
                retention_ms: retention
            }
        );
    }
    assert_eq!(Layout::window(200_000).format(), "window-1(100000)");
    assert_eq!(Layout::KeyValue.format(), "key-value-timestamped-1");
}

#[test]
fn whole_segments_expire() {
    let layout = Layout::Window {
        segment_ms: 100,
        retention_ms: 150,
    };
    assert_eq!(layout.expired(99), None);
    let range = layout.expired(299).unwrap();
    for (start, gone) in [(0, true), (199, true), (200, false), (298, false)] {
        assert_eq!(
            range.contains(&window_key(100, b"\xff\xff", start, 9)),
            gone,
            "{start}"
        );
    }
    // Reads at 349 still return 200, at 350 they don't, but 299 keeps the segment until 449.
    assert!(
        !layout
            .expired_at(448)
            .unwrap()
            .contains(&window_key(100, b"", 200, 0))
    );
    assert!(
        layout
            .expired_at(449)
            .unwrap()
            .contains(&window_key(100, b"", 299, 0))
    );
    assert_eq!(layout.expired_at(-1), None);
    assert_eq!(Layout::Versioned { history_ms: 1 }.expired(1 << 40), None);
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..9)
}

proptest! {
    #[test]
    fn keys_come_back(key in key(), start in 0..i64::MAX, end in 0..i64::MAX, seq: u32, ts: i64, length in 1..1_000_000i64) {
        let window = window_key(length, &key, start, seq);
        prop_assert_eq!(split_window(&window), Some(WindowParts { key: &key, start, seq }));
        let session = session_key(length, &key, start, end);
        prop_assert_eq!(split_session(&session), Some(SessionParts { key: &key, start, end }));
        let version = versioned_key(&key, ts);
        prop_assert_eq!(split_versioned(&version), Some((key.as_slice(), ts)));
        let timed = time_key(ts, &key);
        prop_assert_eq!(split_time_key(&timed), Some((ts, key.as_slice())));
    }

    #[test]
    fn the_changelog_gives_back_the_internal_key(key in key(), a in 0..i64::MAX, b in 0..i64::MAX, seq: u32, ts in 0..i64::MAX, value: Option<u8>) {
        let value = value.map(|v| bytes(&[v]));
        for (layout, internal) in [
            (Layout::window(1 << 30), window_key(1 << 29, &key, a, seq)),
            (Layout::session(1 << 30), session_key(1 << 29, &key, a, b)),
            (Layout::Versioned { history_ms: 5 }, versioned_key(&key, ts)),
            (Layout::TimeKey, time_key(a, &key)),
        ] {
            let versioned = matches!(layout, Layout::Versioned { .. });
            let sealed = match &value {
                None if versioned => Sealed { key: internal, value: Some(Bytes::new()), timestamp: TOMBSTONE, changelog: true },
                value => Sealed { key: internal, value: value.clone(), timestamp: Timestamp(ts), changelog: true },
            };
            let record = layout.to_changelog(&sealed).unwrap();
            prop_assert_eq!(&record.value, &value);
            prop_assert_eq!(record.timestamp, Timestamp(ts));
            let write = layout.from_changelog(&record.key, record.value.as_deref(), record.timestamp).unwrap();
            prop_assert_eq!(write, KeyValueStore::stored_bytes(&sealed));
        }
    }

    #[test]
    fn the_order_of_bytes_is_that_of_times(key in key(), a in 0..i64::MAX, b in 0..i64::MAX, c: i64, d: i64) {
        prop_assert_eq!(window_key(1_000, &key, a, 0).cmp(&window_key(1_000, &key, b, 0)), a.cmp(&b));
        prop_assert_eq!(session_key(1_000, &key, 0, a).cmp(&session_key(1_000, &key, 0, b)), a.cmp(&b));
        prop_assert_eq!(versioned_key(&key, c).cmp(&versioned_key(&key, d)), c.cmp(&d));
        prop_assert_eq!(time_key(c, &key).cmp(&time_key(d, &key)), c.cmp(&d));
    }
}
