//! What is held until the barrier, and what is kept afterwards.

use super::*;
use crate::testing::record;

fn hold(held: &mut UpdateCache, key: &str, existed: bool, value: &'static str) {
    let bytes = Bytes::copy_from_slice(key.as_bytes());
    held.hold(&bytes, existed, record("k", value, 0));
}

fn values(out: &[Record]) -> Vec<String> {
    out.iter().map(|r| format!("{:?}", r.value)).collect()
}

#[test]
fn one_update_per_key_in_the_order_of_the_newest() {
    let mut held = UpdateCache::default();
    hold(&mut held, "a", false, "1");
    hold(&mut held, "b", false, "2");
    hold(&mut held, "a", false, "3");
    // Created and deleted within the epoch.
    hold(&mut held, "c", false, "4");
    hold(&mut held, "c", false, "~");
    hold(&mut held, "d", true, "~");
    let mut out = Vec::new();
    held.release(&mut out);
    let wanted = [
        record("k", "2", 0),
        record("k", "3", 0),
        record("k", "~", 0),
    ];
    assert_eq!(values(&out), values(&wanted));
}

#[test]
fn keys_created_and_deleted_again_are_not_kept() {
    let mut held = UpdateCache::default();
    hold(&mut held, "first", false, "1");
    for number in 0..1_000 {
        let key = number.to_string();
        hold(&mut held, &key, false, "2");
        hold(&mut held, &format!("after {key}"), true, "3");
        hold(&mut held, &key, false, "~");
        // The entry that took its place is found there.
        hold(&mut held, &format!("after {key}"), true, "~");
    }
    hold(&mut held, "first", false, "~");
    hold(&mut held, "never", false, "~");
    assert_eq!((held.entries.len(), held.index.len()), (1_000, 1_000));
    hold(&mut held, "7", false, "4");
    hold(&mut held, "first", false, "5");
    let mut out = Vec::new();
    held.release(&mut out);
    let mut wanted = vec![record("k", "~", 0); 1_000];
    wanted.extend([record("k", "4", 0), record("k", "5", 0)]);
    assert_eq!(values(&out), values(&wanted));
}

#[test]
fn records_already_in_the_output_stay_in_front() {
    let mut held = UpdateCache::default();
    hold(&mut held, "a", false, "2");
    let mut out = vec![record("k", "1", 0)];
    held.release(&mut out);
    let wanted = [record("k", "1", 0), record("k", "2", 0)];
    assert_eq!(values(&out), values(&wanted));
}

#[test]
fn a_large_epoch_leaves_no_room_behind() {
    let mut held = UpdateCache::default();
    for number in 0..10_000 {
        hold(&mut held, &number.to_string(), false, "1");
    }
    let mut out = Vec::new();
    held.release(&mut out);
    assert_eq!(out.len(), 10_000);
    assert_eq!(held.entries.capacity(), 0);
    hold(&mut held, "7", false, "2");
    out.clear();
    held.release(&mut out);
    assert_eq!(values(&out), values(&[record("k", "2", 0)]));
}

#[test]
fn keys_with_the_same_hash_are_held_apart() {
    // After eight bytes that are its constant, the hash forgets the next eight.
    let colliding = |len: usize, differs: u8| {
        let mut key = 0xe703_7ed1_a0b4_28db_u64.to_le_bytes().to_vec();
        key.resize(len, b'x');
        key[9] = differs;
        Bytes::from(key)
    };
    let mut held = UpdateCache::default();
    let keys: Vec<Bytes> = [16, 30]
        .iter()
        .flat_map(|len| [colliding(*len, 1), colliding(*len, 2)])
        .collect();
    assert!(
        keys.chunks(2)
            .all(|two| key_hash(&two[0]) == key_hash(&two[1]))
    );
    for value in ["1", "2"] {
        for key in &keys {
            held.hold(key, false, record("k", value, 0));
        }
    }
    let mut out = Vec::new();
    held.release(&mut out);
    let wanted: Vec<_> = keys.iter().map(|_| record("k", "2", 0)).collect();
    assert_eq!(values(&out), values(&wanted));
}
