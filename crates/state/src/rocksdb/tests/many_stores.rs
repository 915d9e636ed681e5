//! Hundreds of stores: the cost of each doesn't depend on their number.

use super::*;
use std::collections::BTreeSet;

/// Many more stores than are created one by one.
const MANY: u16 = 120;

fn layouts(names: &[String]) -> Vec<StoreLayout> {
    let layout = |(id, name): (u16, &String)| StoreLayout {
        id: StoreId(id),
        name: name.clone(),
        format: "kv-timestamped:string:int64".into(),
        rocksdb: stoatflow_core::RocksDbOptions::default(),
    };
    (0..).zip(names).map(layout).collect()
}

fn names(of: std::ops::Range<u16>) -> Vec<String> {
    of.map(|n| format!("store-{n}")).collect()
}

/// The number of the newest options file. RocksDB starts a new file each time it writes its options,
/// which name all stores.
fn files_begun(dir: &Path) -> u64 {
    let found = std::fs::read_dir(dir).unwrap().flatten();
    let names = found.map(|entry| entry.file_name().into_string().unwrap());
    let number = |name: String| name.strip_prefix("OPTIONS-")?.parse::<u64>().ok();
    names.filter_map(number).max().unwrap()
}

#[test]
fn options_are_written_once_for_all_new_stores() {
    let dir = tempfile::tempdir().unwrap();
    let first = names(0..MANY);
    let b = RocksBackend::open(dir.path(), &layouts(&first), MEMORY).unwrap();
    put(&b, MANY - 1, "k", "v");
    drop(b);
    let begun = files_begun(dir.path());
    assert!(begun < 50, "{begun} files were begun for {MANY} stores");

    // Another release has as many more stores, and lacks the first one.
    let more = names(1..2 * MANY);
    let b = RocksBackend::open(dir.path(), &layouts(&more), MEMORY).unwrap();
    assert_eq!(b.orphans(), ["store-0"]);
    let found = b.get(StoreId(MANY - 2), b"k").unwrap();
    assert_eq!(found.as_deref(), Some(&b"v"[..]));
    put(&b, 2 * MANY - 2, "k", "w");
    drop(b);
    let again = files_begun(dir.path()) - begun;
    assert!(
        again < 100,
        "{again} files were begun for {MANY} more stores"
    );
    let all = DB::list_cf(&::rocksdb::Options::default(), dir.path()).unwrap();
    let all: BTreeSet<String> = all.into_iter().collect();
    let wanted = names(0..2 * MANY).into_iter();
    let wanted = wanted.chain(["default".to_owned(), META.to_owned()]);
    assert_eq!(all, wanted.collect());
}

/// Nothing is created beside stores that are refused.
#[test]
fn a_refusal_creates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    drop(RocksBackend::open(dir.path(), &layouts(&names(0..2)), MEMORY).unwrap());
    let mut other = layouts(&names(0..MANY));
    other[1].format = "kv-timestamped:string:string".into();
    let error = RocksBackend::open(dir.path(), &other, MEMORY).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    let all = DB::list_cf(&::rocksdb::Options::default(), dir.path()).unwrap();
    assert_eq!(all.len(), 4, "{all:?}");
}
