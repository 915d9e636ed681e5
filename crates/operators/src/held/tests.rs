//! What is held until the barrier, and what of it is kept afterwards.

use super::*;
use crate::testing::record;

fn hold(held: &mut Held, key: &str, existed: bool, value: &'static str) {
    let bytes = Bytes::copy_from_slice(key.as_bytes());
    held.hold(&bytes, existed, record("k", value, 0));
}

fn values(out: &[Record]) -> Vec<String> {
    out.iter().map(|r| format!("{:?}", r.value)).collect()
}

#[test]
fn one_update_per_key_in_the_order_of_the_newest() {
    let mut held = Held::default();
    hold(&mut held, "a", false, "1");
    hold(&mut held, "b", false, "2");
    hold(&mut held, "a", false, "3");
    // Born and deleted within the epoch.
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
fn what_is_there_already_stays_in_front() {
    let mut held = Held::default();
    hold(&mut held, "a", false, "2");
    let mut out = vec![record("k", "1", 0)];
    held.release(&mut out);
    let wanted = [record("k", "1", 0), record("k", "2", 0)];
    assert_eq!(values(&out), values(&wanted));
}

#[test]
fn a_large_epoch_leaves_no_room_behind() {
    let mut held = Held::default();
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
fn keys_that_begin_alike_are_held_apart() {
    let mut held = Held::default();
    let names: Vec<String> = (18..28).map(|len| "x".repeat(len)).collect();
    for value in ["1", "2"] {
        for name in &names {
            hold(&mut held, name, false, value);
        }
    }
    let mut out = Vec::new();
    held.release(&mut out);
    let wanted: Vec<_> = names.iter().map(|_| record("k", "2", 0)).collect();
    assert_eq!(values(&out), values(&wanted));
}
