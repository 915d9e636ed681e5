//! The store against single rules, one test each; `model` compares whole histories.

mod foreign;
mod layouts;
mod model;
mod ranges;

use super::*;
use crate::memory::MemoryBackend;
use crate::{EpochBatch, KeyRange};
use stoatflow_core::ErrorKind;

fn int(n: i64, ts: i64) -> Stored {
    Stored {
        value: Datum::Int(n),
        timestamp: Timestamp(ts),
    }
}

fn key(k: &str) -> Bytes {
    Bytes::copy_from_slice(k.as_bytes())
}

fn store(cache_bytes: usize) -> (KeyValueStore, MemoryBackend) {
    let backend = MemoryBackend::new(true);
    (
        KeyValueStore::new(
            StoreId(3),
            "counts".into(),
            Serde::Int64,
            Arc::new(backend.clone()),
            cache_bytes,
        ),
        backend,
    )
}

/// Applies a sealed epoch, as the commit thread does.
fn apply(store: &KeyValueStore, backend: &dyn Backend, epoch: Epoch, sealed: &[Sealed]) {
    let writes = sealed.iter().map(KeyValueStore::stored_bytes).collect();
    backend
        .apply(EpochBatch {
            epoch,
            writes: vec![(store.id(), writes)],
            ..EpochBatch::default()
        })
        .unwrap();
    store.committed(epoch);
}

fn add_one(store: &KeyValueStore, epoch: Epoch, dirty: &mut Dirty, k: &str) -> i64 {
    store
        .update(epoch, dirty, &key(k), |old| {
            let n = old.map_or(0, |s| {
                if let Datum::Int(n) = s.value {
                    n
                } else {
                    panic!("not an int")
                }
            }) + 1;
            Ok((Some(int(n, 7)), n))
        })
        .unwrap()
}

#[test]
fn a_lane_does_not_see_what_the_next_epoch_wrote() {
    let (store, _) = store(1 << 20);
    let (e, next) = (Epoch(4), Epoch(5));
    let (mut d4, mut d5) = (Dirty::default(), Dirty::default());
    store.put(e, &mut d4, &key("k"), Some(int(1, 1))).unwrap();
    store
        .put(next, &mut d5, &key("k"), Some(int(2, 2)))
        .unwrap();
    store
        .put(next, &mut d5, &key("only-next"), Some(int(3, 3)))
        .unwrap();
    assert_eq!(store.get(e, b"k").unwrap(), Some(int(1, 1)));
    assert_eq!(store.get(e, b"only-next").unwrap(), None);
    assert_eq!(store.get(next, b"k").unwrap(), Some(int(2, 2)));
    assert_eq!(store.get(next, b"only-next").unwrap(), Some(int(3, 3)));
    let seen = store.scan(e, &KeyRange::default(), 10).unwrap();
    assert_eq!(seen, vec![(key("k"), int(1, 1))]);
    // Sealing the older epoch doesn't take the newer write either.
    let sealed = store.seal(e, d4).unwrap();
    assert_eq!(
        sealed,
        vec![Sealed {
            key: key("k"),
            value: Some(Bytes::copy_from_slice(&1i64.to_be_bytes())),
            timestamp: Timestamp(1),
            changelog: true,
        }]
    );
}

#[test]
fn a_lane_still_in_the_old_epoch_reads_and_writes_below_the_new_one() {
    let (store, backend) = store(1 << 20);
    let (mut d1, mut d2) = (Dirty::default(), Dirty::default());
    assert_eq!(add_one(&store, Epoch(2), &mut d2, "k"), 1);
    assert_eq!(
        add_one(&store, Epoch(1), &mut d1, "k"),
        1,
        "the old epoch must not build on the new one"
    );
    assert_eq!(add_one(&store, Epoch(1), &mut d1, "k"), 2);
    assert_eq!(
        d1.keys.iter().map(|k| k.to_bytes()).collect::<Vec<_>>(),
        [key("k")]
    );
    let sealed = store.seal(Epoch(1), d1).unwrap();
    apply(&store, &backend, Epoch(1), &sealed);
    assert_eq!(store.get(Epoch(2), b"k").unwrap(), Some(int(1, 7)));
    assert_eq!(
        backend.get(StoreId(3), b"k").unwrap().unwrap()[8..],
        2i64.to_be_bytes()
    );
    let sealed = store.seal(Epoch(2), d2).unwrap();
    assert_eq!(sealed.len(), 1);
}

#[test]
fn an_older_lane_finds_the_committed_value_under_a_newer_write() {
    let (store, backend) = store(0);
    let mut dirty = Dirty::default();
    store
        .put(Epoch(1), &mut dirty, &key("k"), Some(int(1, 1)))
        .unwrap();
    let sealed = store.seal(Epoch(1), std::mem::take(&mut dirty)).unwrap();
    apply(&store, &backend, Epoch(1), &sealed);
    store
        .put(Epoch(3), &mut dirty, &key("k"), Some(int(3, 3)))
        .unwrap();
    assert_eq!(store.get(Epoch(2), b"k").unwrap(), Some(int(1, 1)));
    assert_eq!(store.get(Epoch(3), b"k").unwrap(), Some(int(3, 3)));
}

#[test]
fn a_key_is_sealed_once_with_its_last_value_and_a_delete_is_a_tombstone() {
    let (store, backend) = store(1 << 20);
    let mut dirty = Dirty::default();
    for _ in 0..5 {
        add_one(&store, Epoch(0), &mut dirty, "a");
    }
    store
        .put(Epoch(0), &mut dirty, &key("b"), Some(int(9, 40)))
        .unwrap();
    store.put(Epoch(0), &mut dirty, &key("b"), None).unwrap();
    let timed = Stored {
        value: Datum::Null,
        timestamp: Timestamp(77),
    };
    store
        .put(Epoch(0), &mut dirty, &key("c"), Some(timed))
        .unwrap();
    assert_eq!(store.get(Epoch(0), b"b").unwrap(), None);
    dirty.keys.push(key("a").into()); // a key that a lane lists twice must be sealed once
    let sealed = store.seal(Epoch(0), dirty).unwrap();
    let expected =
        [("a", Some(5i64), 7), ("b", None, 40), ("c", None, 77)].map(|(k, v, ts)| Sealed {
            key: key(k),
            value: v.map(|v| Bytes::copy_from_slice(&v.to_be_bytes())),
            timestamp: Timestamp(ts),
            changelog: true,
        });
    assert_eq!(sealed, expected);
    apply(&store, &backend, Epoch(0), &sealed);
    assert_eq!(store.get(Epoch(1), b"a").unwrap(), Some(int(5, 7)));
    assert_eq!(store.approximate_len(), 1);
}

#[test]
fn the_back_end_gets_kafka_streams_timestamped_format() {
    let sealed = Sealed {
        key: key("k"),
        value: Some(key("v")),
        timestamp: Timestamp(258),
        changelog: true,
    };
    assert_eq!(
        KeyValueStore::stored_bytes(&sealed).value.unwrap().as_ref(),
        b"\0\0\0\0\0\0\x01\x02v"
    );
    let gone = Sealed {
        value: None,
        ..sealed
    };
    assert_eq!(KeyValueStore::stored_bytes(&gone).value, None);
}

#[test]
fn writes_after_the_seal_and_after_the_commit_are_refused() {
    let (store, backend) = store(1 << 20);
    let mut dirty = Dirty::default();
    store
        .put(Epoch(1), &mut dirty, &key("k"), Some(int(1, 1)))
        .unwrap();
    let sealed = store.seal(Epoch(1), std::mem::take(&mut dirty)).unwrap();
    let late = store
        .put(Epoch(1), &mut dirty, &key("k"), Some(int(2, 2)))
        .unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Internal);
    apply(&store, &backend, Epoch(1), &sealed);
    for k in ["k", "new"] {
        let late = store
            .put(Epoch(1), &mut dirty, &key(k), Some(int(2, 2)))
            .unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Internal);
    }
    assert!(dirty.keys.is_empty());
}

#[test]
fn a_failing_function_writes_nothing() {
    let (store, _) = store(1 << 20);
    let mut dirty = Dirty::default();
    let failed = store.update::<()>(Epoch(1), &mut dirty, &key("k"), |_| {
        Err(stoatflow_core::Error::user("no"))
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::User);
    let nothing = store.update(Epoch(1), &mut dirty, &key("k"), |_| Ok((None, 5)));
    assert_eq!(nothing.unwrap(), 5);
    assert!(dirty.keys.is_empty());
    assert_eq!(store.staged_bytes(), 0);
}

#[test]
fn the_cache_is_bounded_and_dirty_slots_stay() {
    let budget = 64 << 10;
    let (store, backend) = store(budget);
    let mut dirty = Dirty::default();
    let n = 20_000;
    for i in 0..n {
        store
            .put(
                Epoch(1),
                &mut dirty,
                &key(&format!("key-{i}")),
                Some(int(i, 0)),
            )
            .unwrap();
    }
    assert_eq!(
        store.cached_entries(),
        usize::try_from(n).unwrap(),
        "a write that isn't committed must not be evicted"
    );
    let staged = store.staged_bytes();
    assert!(staged > budget);
    let sealed = store.seal(Epoch(1), dirty).unwrap();
    assert_eq!(store.staged_bytes(), staged);
    apply(&store, &backend, Epoch(1), &sealed);
    assert_eq!(store.staged_bytes(), 0);
    assert!(
        store.cached_entries() * 200 <= budget,
        "{} entries",
        store.cached_entries()
    );
    for i in 0..n {
        assert_eq!(
            store.get(Epoch(2), format!("key-{i}").as_bytes()).unwrap(),
            Some(int(i, 0))
        );
        assert_eq!(
            store
                .get(Epoch(2), format!("absent-{i}").as_bytes())
                .unwrap(),
            None
        );
    }
    // A shard may be over its budget by one slot: the one that was just read.
    assert!(
        store.cached_entries() * 200 <= budget + SHARDS * 300,
        "{} entries",
        store.cached_entries()
    );
}

#[test]
fn keys_and_values_do_not_keep_input_buffers_alive() {
    let backend = Arc::new(MemoryBackend::new(false));
    let store = KeyValueStore::new(StoreId(0), "s".into(), Serde::String, backend, 1 << 20);
    let mut dirty = Dirty::default();
    let buffer = Bytes::from(vec![b'x'; 1 << 16]);
    let value = Datum::Str(stoatflow_core::Text::from_utf8(buffer.slice(8..16)).unwrap());
    store
        .put(
            Epoch(1),
            &mut dirty,
            &buffer.slice(..4),
            Some(Stored {
                value,
                timestamp: Timestamp(0),
            }),
        )
        .unwrap();
    assert!(!buffer.is_unique());
    let sealed = store.seal(Epoch(1), dirty).unwrap();
    assert!(
        buffer.is_unique(),
        "the store still holds a slice of the input"
    );
    assert_eq!(sealed[0].value.as_deref(), Some(b"xxxxxxxx".as_slice()));
}

#[test]
fn lists_do_not_keep_input_buffers_alive() {
    let backend = Arc::new(MemoryBackend::new(false));
    let store = KeyValueStore::new(StoreId(0), "s".into(), Serde::Json, backend, 1 << 20);
    let mut dirty = Dirty::default();
    let buffer = Bytes::from(vec![b'x'; 1 << 16]);
    let word = |at| Datum::Str(stoatflow_core::Text::from_utf8(buffer.slice(at..at + 2)).unwrap());
    let value = Datum::List([word(1), Datum::List([word(5), Datum::Int(7)].into())].into());
    let stored = Stored {
        value: value.clone(),
        timestamp: Timestamp(0),
    };
    let key = Bytes::from_static(b"key");
    store.put(Epoch(1), &mut dirty, &key, Some(stored)).unwrap();
    let sealed = store.seal(Epoch(1), dirty).unwrap();
    let held = store.get(Epoch(1), &key).unwrap().unwrap();
    assert_eq!(held.value, value);
    drop((held, value));
    assert!(
        buffer.is_unique(),
        "the store still holds a slice of the input"
    );
    let json = br#"["xx",["xx",7]]"#.as_slice();
    assert_eq!(sealed[0].value.as_deref(), Some(json));
}

#[test]
fn damaged_bytes_name_the_store() {
    let (store, backend) = store(1 << 20);
    backend
        .restore(
            StoreId(3),
            vec![crate::Write {
                key: key("k"),
                value: Some(key("abc")),
            }],
            &[],
        )
        .unwrap();
    let error = store.get(Epoch(1), b"k").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StateCorrupt);
    assert_eq!(error.coordinates().store.as_deref(), Some("counts"));
}

#[test]
fn lanes_that_update_one_key_at_the_same_time_lose_nothing() {
    let (store, _) = store(0);
    let store = &store;
    std::thread::scope(|s| {
        for lane in 0..4 {
            s.spawn(move || {
                let mut dirty = Dirty::default();
                for i in 0..2_000 {
                    if (lane + i) % 2 == 0 {
                        add_one(store, Epoch(1), &mut dirty, "k");
                    } else {
                        let next = |old: Option<&Stored>| {
                            let n = old.map_or(0, |s| {
                                if let Datum::Int(n) = s.value {
                                    n
                                } else {
                                    panic!("not an int")
                                }
                            });
                            Ok((Some(int(n + 1, 7)), ()))
                        };
                        store
                            .update_unlocked(Epoch(1), &mut dirty, &key("k"), next)
                            .unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(store.get(Epoch(1), b"k").unwrap(), Some(int(8_000, 7)));
}

#[test]
fn a_slot_is_small() {
    // What `OVERHEAD` says a slot costs must be true: slot, index entry, the key's allocation.
    let size = size_of::<Option<slot::Slot>>();
    assert!(size <= 176, "{size}");
}

/// Sealed keys of `epoch`.
fn sealed_keys(store: &KeyValueStore, epoch: Epoch, dirty: Dirty) -> Vec<Bytes> {
    let sealed = store.seal(epoch, dirty).unwrap();
    sealed.into_iter().map(|s| s.key).collect()
}

#[test]
fn rows_created_and_deleted_in_an_epoch_are_not_logged() {
    let (store, backend) = store(1 << 20);
    let (e, next) = (Epoch(1), Epoch(2));
    let (mut d1, mut d2) = (Dirty::default(), Dirty::default());
    // `add_one` read the key first, so the store knows that it didn't exist.
    add_one(&store, e, &mut d1, "known");
    store.put(e, &mut d1, &key("known"), None).unwrap();
    store
        .put(e, &mut d1, &key("unknown"), Some(int(1, 1)))
        .unwrap();
    store.put(e, &mut d1, &key("unknown"), None).unwrap();
    add_one(&store, e, &mut d1, "kept");
    add_one(&store, next, &mut d2, "other");
    store.put(next, &mut d2, &key("kept"), None).unwrap();
    store.put(next, &mut d2, &key("other"), None).unwrap();
    // A late lane writes below the next epoch's deletion.
    store
        .put(e, &mut d1, &key("other"), Some(int(5, 5)))
        .unwrap();
    let sealed = store.seal(e, d1).unwrap();
    let keys: Vec<_> = sealed.iter().map(|s| s.key.clone()).collect();
    assert_eq!(keys, ["unknown", "kept", "other"].map(key));
    apply(&store, &backend, e, &sealed);
    assert_eq!(sealed_keys(&store, next, d2), ["other", "kept"].map(key));
}

/// A late write to an existing version, committed before the next epoch is sealed.
#[test]
fn a_late_value_below_a_deletion_is_deleted() {
    let (store, backend) = store(1 << 20);
    let (e, next) = (Epoch(1), Epoch(2));
    let (mut d1, mut d2) = (Dirty::default(), Dirty::default());
    add_one(&store, e, &mut d1, "k");
    store.put(e, &mut d1, &key("k"), None).unwrap();
    store
        .put(next, &mut d2, &key("k"), Some(int(2, 2)))
        .unwrap();
    store.put(e, &mut d1, &key("k"), Some(int(3, 3))).unwrap();
    store.put(next, &mut d2, &key("k"), None).unwrap();
    let sealed = store.seal(e, d1).unwrap();
    apply(&store, &backend, e, &sealed);
    assert_eq!(sealed_keys(&store, next, d2), [key("k")]);
}

#[test]
fn keys_of_all_lengths_are_told_apart() {
    // Up to 22 bytes are stored in the slot.
    let (store, backend) = store(1 << 20);
    let (e, mut dirty) = (Epoch(1), Dirty::default());
    let long = "abcdefghijklmnopqrstuvwxyz";
    let keys: Vec<Bytes> = (0..=long.len())
        .flat_map(|len| [key(&long[..len]), key(&format!("{}!", &long[..len]))])
        .collect();
    for (n, key) in (0..).zip(&keys) {
        store.put(e, &mut dirty, key, Some(int(n, n))).unwrap();
    }
    let read = || -> Vec<_> {
        keys.iter()
            .map(|key| store.get(Epoch(2), key).unwrap())
            .collect()
    };
    let wanted: Vec<_> = (0..).zip(&keys).map(|(n, _)| Some(int(n, n))).collect();
    assert_eq!(read(), wanted);
    let sealed = store.seal(e, dirty).unwrap();
    let sealed_keys: Vec<_> = sealed.iter().map(|one| one.key.clone()).collect();
    assert_eq!(sealed_keys, keys);
    apply(&store, &backend, e, &sealed);
    assert_eq!(read(), wanted);
}

#[test]
fn many_keys_are_read_as_each_of_them_is() {
    // The cache has room for some of them: the others come from the back end.
    let (store, backend) = store(16 << 10);
    let (e, mut dirty) = (Epoch(1), Dirty::default());
    let all: Vec<Bytes> = (0..500)
        .map(|n| key(&format!("{n:0width$}", width = 1 + n % 40)))
        .collect();
    for (n, key) in (0..).zip(&all) {
        store.put(e, &mut dirty, key, Some(int(n, 1))).unwrap();
    }
    let sealed = store.seal(e, dirty).unwrap();
    apply(&store, &backend, e, &sealed);
    let mut dirty = Dirty::default();
    for key in all.iter().step_by(7) {
        store.put(Epoch(2), &mut dirty, key, None).unwrap();
    }
    for count in [0, 1, 3, 9, 500] {
        let mut keys: Vec<Option<Bytes>> = all[..count].iter().cloned().map(Some).collect();
        keys.extend([None, Some(key("nobody")), all.first().cloned(), None]);
        for epoch in [e, Epoch(2)] {
            let one =
                |key: &Option<Bytes>| key.as_ref().and_then(|key| store.get(epoch, key).unwrap());
            let wanted: Vec<_> = keys.iter().map(one).collect();
            assert_eq!(
                store.get_each(epoch, &keys).unwrap(),
                wanted,
                "{count} keys"
            );
        }
    }
    assert!(
        store.get_each(Epoch(2), &[all.first()]).unwrap()[0].is_none(),
        "deleted"
    );
}
