use super::*;
use crate::StoreLayout;
use stoatflow_core::{Epoch, ErrorKind};

fn layouts(format: &str) -> Vec<StoreLayout> {
    vec![StoreLayout { id: StoreId(0), name: "counts".into(), format: format.into() }]
}

fn write(key: &str, value: Option<&str>) -> Write {
    Write { key: Bytes::from(key.to_owned()), value: value.map(|v| Bytes::from(v.to_owned())) }
}

#[test]
fn an_epoch_and_its_position_survive_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    {
        let backend = RocksBackend::open(dir.path(), &layouts("f"), 32 << 20).unwrap();
        backend
            .apply(EpochBatch {
                epoch: Epoch(1),
                writes: vec![(StoreId(0), vec![write("a", Some("1")), write("b", Some("2"))])],
                positions: vec![(StoreId(0), Partition(3), Offset(17))],
            })
            .unwrap();
    }
    let backend = RocksBackend::open(dir.path(), &layouts("f"), 32 << 20).unwrap();
    assert_eq!(backend.get(StoreId(0), b"a").unwrap().unwrap(), "1");
    assert_eq!(backend.positions(StoreId(0)).unwrap(), vec![(Partition(3), Offset(17))]);
    backend.wipe(StoreId(0)).unwrap();
    assert_eq!(backend.get(StoreId(0), b"a").unwrap(), None);
    assert_eq!(backend.positions(StoreId(0)).unwrap(), vec![]);
}

#[test]
fn a_cold_restore_goes_through_sorted_files_and_later_wins() {
    let dir = tempfile::tempdir().unwrap();
    let backend = RocksBackend::open(dir.path(), &layouts("f"), 32 << 20).unwrap();
    let mut writes: Vec<Write> = (0..20_000).rev().map(|i| write(&format!("k{i:06}"), Some("old"))).collect();
    writes.push(write("k000007", Some("new")));
    writes.push(write("k000008", None));
    backend.restore(StoreId(0), writes, &[(Partition(0), Offset(20_002))]).unwrap();
    assert_eq!(backend.get(StoreId(0), b"k000007").unwrap().unwrap(), "new");
    assert_eq!(backend.get(StoreId(0), b"k000008").unwrap(), None);
    assert_eq!(backend.scan(StoreId(0), &KeyRange::default(), usize::MAX).unwrap().len(), 19_999);
    backend.restore(StoreId(0), vec![write("k000007", None)], &[(Partition(0), Offset(20_003))]).unwrap();
    assert_eq!(backend.get(StoreId(0), b"k000007").unwrap(), None);
    assert_eq!(backend.positions(StoreId(0)).unwrap(), vec![(Partition(0), Offset(20_003))]);
}

#[test]
fn another_format_is_refused_with_both_words() {
    let dir = tempfile::tempdir().unwrap();
    drop(RocksBackend::open(dir.path(), &layouts("string:int64"), 32 << 20).unwrap());
    let error = RocksBackend::open(dir.path(), &layouts("string:json"), 32 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    let text = error.to_string();
    assert!(text.contains("string:int64") && text.contains("string:json") && text.contains("'counts'"), "{text}");
}

#[test]
fn a_directory_in_use_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let _first = RocksBackend::open(dir.path(), &layouts("f"), 32 << 20).unwrap();
    let error = RocksBackend::open(dir.path(), &layouts("f"), 32 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StateLocked);
}

#[test]
fn a_store_that_left_the_topology_is_kept_and_named() {
    let dir = tempfile::tempdir().unwrap();
    drop(RocksBackend::open(dir.path(), &layouts("f"), 32 << 20).unwrap());
    let backend = RocksBackend::open(dir.path(), &[], 32 << 20).unwrap();
    assert_eq!(backend.orphans(), ["counts"]);
}
