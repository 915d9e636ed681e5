//! The memory back end against the contract.

use super::*;
use crate::contract;

#[test]
fn keeps_the_contract() {
    contract::run(&mut || Box::new(MemoryBackend::new(false)));
}

#[test]
fn a_clone_is_the_same_disk() {
    let disk = MemoryBackend::new(true);
    contract::reopen(&mut || Box::new(disk.clone()));
    assert!(!MemoryBackend::new(false).is_durable());
}

#[test]
fn memory_is_accounted_for() {
    let b = MemoryBackend::new(false);
    let write = |value: Option<&'static str>| {
        vec![Write {
            key: "key".into(),
            value: value.map(Into::into),
        }]
    };
    b.restore(StoreId(0), write(Some("12345")), &[]).unwrap();
    assert_eq!(b.memory_bytes(), 8 + OVERHEAD);
    b.restore(StoreId(0), write(Some("1")), &[]).unwrap();
    assert_eq!(b.memory_bytes(), 4 + OVERHEAD);
    b.restore(StoreId(0), write(None), &[]).unwrap();
    assert_eq!(b.memory_bytes(), 0);
}
