//! Locks between threads: none is held twice, waiting ends, and no order of keys deadlocks.

use super::{HeldLocks, LockHolder, LockKey, LockRefused, LockTable};
use crate::NO_ORIGIN;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread;
use std::time::Duration;
use stoatflow_core::{StoreId, SystemClock};

fn row(key: &str) -> LockKey {
    LockKey::Row(StoreId(1), Bytes::copy_from_slice(key.as_bytes()))
}

fn me(lane: u32) -> LockHolder {
    LockHolder {
        node: "transfer".into(),
        lane,
        origin: NO_ORIGIN,
    }
}

fn wait(table: &Arc<LockTable>, keys: &[&str], ms: u64) -> Result<HeldLocks, LockRefused> {
    let keys = keys.iter().map(|key| row(key)).collect();
    table.acquire(keys, &me(2), Duration::from_millis(ms), &SystemClock::new())
}

#[test]
fn a_key_is_held_once_and_the_holder_is_named() {
    let table = Arc::new(LockTable::default());
    let held = table.try_acquire(vec![row("b"), row("a"), row("a")], &me(1));
    let held = held.expect("all are free");
    assert!(held.has(&row("a")) && held.has(&row("b")) && !held.has(&row("c")));
    let Err(LockRefused::Held { key, by }) = wait(&table, &["c", "b"], 5) else {
        panic!("it is held");
    };
    assert_eq!((key, &*by.node, by.lane), (row("b"), "transfer", 1));
    // Keys taken before the one that isn't free are released.
    wait(&table, &["c"], 0).expect("it was given back");
    drop(held);
    wait(&table, &["c", "b", "a"], 0).expect("all are free again");
}

#[test]
fn names_and_keys_are_different_things() {
    let table = Arc::new(LockTable::default());
    let name = |name: &str| vec![LockKey::Name(name.into())];
    let _a = table.try_acquire(name("a"), &me(1)).expect("free");
    let _b = wait(&table, &["a"], 0).expect("another thing");
    assert!(table.try_acquire(name("a"), &me(2)).is_err());
}

#[test]
#[allow(clippy::disallowed_methods)]
fn waiters_are_woken_by_the_end_of_the_run() {
    let table = Arc::new(LockTable::default());
    let held = table.try_acquire(vec![row("a")], &me(1)).expect("free");
    let waiting = thread::spawn({
        let table = Arc::clone(&table);
        move || matches!(wait(&table, &["a"], 60_000), Err(LockRefused::Ended))
    });
    table.end();
    assert!(waiting.join().expect("no panic"));
    drop(held);
}

#[test]
#[allow(clippy::disallowed_methods)]
fn threads_that_take_keys_in_any_order_never_meet_and_always_end() {
    let table = Arc::new(LockTable::default());
    let inside: Arc<[AtomicI64]> = (0..4).map(|_| AtomicI64::new(0)).collect();
    let threads: Vec<_> = (0..8_usize)
        .map(|lane| {
            let (table, inside) = (Arc::clone(&table), Arc::clone(&inside));
            thread::spawn(move || {
                for round in 0..300_usize {
                    let (from, to) = ((lane + round) % 4, (lane * 3 + round / 7) % 4);
                    let names = [from.to_string(), to.to_string()];
                    let names = [names[0].as_str(), names[1].as_str()];
                    let held = wait(&table, &names, 60_000).expect("it comes to its turn");
                    for at in [from, to] {
                        inside[at].fetch_add(1, SeqCst);
                    }
                    let alone = if from == to { 2 } else { 1 };
                    assert!(
                        [from, to]
                            .iter()
                            .all(|at| inside[*at].load(SeqCst) == alone)
                    );
                    for at in [from, to] {
                        inside[at].fetch_sub(1, Relaxed);
                    }
                    drop(held);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("nobody met anybody");
    }
}
