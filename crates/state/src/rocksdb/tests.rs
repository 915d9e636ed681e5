//! RocksDB against the contract, and what only a back end on disk can do.

mod figures;
mod many_stores;
mod snapshots;
mod store_options;

use super::*;
use crate::contract::{self, layouts};
use std::io::{BufRead, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use stoatflow_core::{Epoch, ErrorKind};

const MEMORY: usize = 32 << 20;

fn open(dir: &Path) -> Result<RocksBackend> {
    RocksBackend::open(dir, &layouts(), MEMORY)
}

fn put(b: &dyn Backend, store: u16, key: &str, value: &str) {
    let write = Write {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
    };
    b.apply(EpochBatch {
        epoch: Epoch(1),
        writes: vec![(StoreId(store), vec![write])],
        positions: vec![(StoreId(store), Partition(0), Offset(1))],
        ..EpochBatch::default()
    })
    .unwrap();
}

#[test]
fn keeps_the_contract() {
    let root = tempfile::tempdir().unwrap();
    let mut n = 0;
    contract::run(&mut || {
        n += 1;
        Box::new(open(&root.path().join(n.to_string())).unwrap())
    });
}

#[test]
fn is_durable() {
    let dir = tempfile::tempdir().unwrap();
    contract::reopen(&mut || Box::new(open(dir.path()).unwrap()));
}

#[test]
fn large_restores_leave_no_files_behind() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("ingest")).unwrap();
    std::fs::write(
        dir.path().join("ingest/7.sst"),
        b"of a process that was killed",
    )
    .unwrap();
    let b = open(dir.path()).unwrap();
    contract::large_restores(&b);
    let left = std::fs::read_dir(dir.path().join("ingest")).map_or(0, Iterator::count);
    assert_eq!(left, 0);
}

#[test]
fn another_format_is_refused_and_nothing_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    put(&open(dir.path()).unwrap(), 0, "k", "v");
    let mut other = layouts();
    other[0].format = "kv-timestamped:string:json".to_owned();
    other[1].name = "new-store".to_owned();
    let error = RocksBackend::open(dir.path(), &other, MEMORY).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    let text = error.to_string();
    for part in [
        "orders",
        "'kv-timestamped:string:int64'",
        "'kv-timestamped:string:json'",
        &dir.path().display().to_string(),
        "Next: go back",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let b = open(dir.path()).unwrap();
    assert_eq!(
        b.get(StoreId(0), b"k").unwrap().as_deref(),
        Some(b"v".as_slice())
    );
    assert!(
        b.orphans().is_empty(),
        "the refused topology left a store: {:?}",
        b.orphans()
    );
}

#[test]
fn another_version_of_the_layout_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path()).unwrap();
    b.db.put_cf(&b.family(META).unwrap(), b"version", b"stoatflow-state-9")
        .unwrap();
    drop(b);
    let error = open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    let text = error.to_string();
    assert!(
        text.contains("'stoatflow-state-9'")
            && text.contains("'stoatflow-state-1'")
            && text.contains("delete"),
        "{text}"
    );
}

#[test]
fn foreign_databases_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = ::rocksdb::Options::default();
    options.create_if_missing(true);
    let foreign = DB::open(&options, dir.path()).unwrap();
    foreign.create_cf("theirs", &options).unwrap();
    drop(foreign);
    let error = open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert_eq!(
        DB::list_cf(&options, dir.path()).unwrap(),
        ["default", "theirs"]
    );
}

#[test]
fn removed_stores_are_kept_and_named() {
    let dir = tempfile::tempdir().unwrap();
    put(&open(dir.path()).unwrap(), 1, "k", "v");
    let b = RocksBackend::open(dir.path(), &layouts()[..1], MEMORY).unwrap();
    assert_eq!(b.orphans(), ["orders-by-day"]);
    assert_eq!(
        b.get(StoreId(1), b"k").unwrap_err().kind(),
        ErrorKind::Internal
    );
    drop(b);
    let b = open(dir.path()).unwrap();
    assert!(b.orphans().is_empty());
    assert_eq!(
        b.get(StoreId(1), b"k").unwrap().as_deref(),
        Some(b"v".as_slice())
    );
    assert_eq!(
        b.positions(StoreId(1)).unwrap(),
        [(Partition(0), Offset(1))]
    );
}

#[test]
fn stores_are_found_by_name_not_by_id() {
    let dir = tempfile::tempdir().unwrap();
    put(&open(dir.path()).unwrap(), 0, "k", "v");
    let mut swapped = layouts();
    (swapped[0].id, swapped[1].id) = (StoreId(1), StoreId(0));
    let b = RocksBackend::open(dir.path(), &swapped, MEMORY).unwrap();
    assert_eq!(
        b.get(StoreId(1), b"k").unwrap().as_deref(),
        Some(b"v".as_slice())
    );
    assert_eq!(b.get(StoreId(0), b"k").unwrap(), None);
}

#[test]
fn damage_is_named() {
    let dir = tempfile::tempdir().unwrap();
    contract::large_restores(&open(dir.path()).unwrap());
    let manifest = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.to_string_lossy().contains("MANIFEST"))
        .unwrap();
    let mut bytes = std::fs::read(&manifest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 16].fill(0x5a);
    std::fs::write(&manifest, bytes).unwrap();
    let error = open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StateCorrupt, "{error}");
    assert!(
        error
            .to_string()
            .contains(&dir.path().display().to_string())
    );
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), b"").unwrap();
    let error = open(&dir.path().join("file/state")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("state.dir"), "{error}");
}

#[test]
fn two_backends_of_one_process_exclude_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).unwrap();
    assert_eq!(open(dir.path()).unwrap_err().kind(), ErrorKind::StateLocked);
    drop(first);
    open(dir.path()).unwrap();
}

/// Starts this test a second time as a child process, which holds the state until its input ends.
#[test]
#[allow(clippy::disallowed_methods)] // the variable tells the two processes apart
fn another_process_excludes_us() {
    const HELD: &str = "STOATFLOW_TEST_HOLD_STATE";
    if let Some(dir) = std::env::var_os(HELD) {
        let _held = open(Path::new(&dir)).unwrap();
        println!("\nholds it");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "rocksdb::tests::another_process_excludes_us",
            "--nocapture",
        ])
        .env(HELD, dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Kept until the child has ended: it could not write its last lines otherwise.
    let mut lines = std::io::BufReader::new(other.stdout.take().unwrap())
        .lines()
        .map_while(std::result::Result::ok);
    assert!(
        lines.any(|l| l == "holds it"),
        "the other process did not start"
    );
    let error = open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StateLocked, "{error}");
    assert!(
        error
            .to_string()
            .contains(&dir.path().display().to_string())
            && error.to_string().contains("another state.dir")
    );
    drop(other.stdin.take());
    lines.for_each(drop);
    assert!(other.wait().unwrap().success());
    open(dir.path()).unwrap();
}

#[test]
fn memory_stays_within_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    let budget = 16 << 20;
    let b = RocksBackend::open(dir.path(), &layouts(), budget).unwrap();
    for round in 0..40u32 {
        let writes = (0..2_000u32)
            .map(|i| Write {
                key: Bytes::from(format!("{round}-{i}")),
                value: Some(Bytes::from(vec![b'x'; 500])),
            })
            .collect();
        b.apply(EpochBatch {
            epoch: Epoch(1),
            writes: vec![(StoreId(0), writes)],
            ..EpochBatch::default()
        })
        .unwrap();
        b.scan(StoreId(0), &KeyRange::default(), usize::MAX)
            .unwrap();
    }
    let used = b.memory_bytes();
    assert!(
        used > 0 && used < budget as u64 * 5 / 4,
        "{used} of {budget}"
    );
}

/// Creates a database with data in its tables and in its log.
fn filled(dir: &Path) {
    let b = open(dir).unwrap();
    contract::large_restores(&b);
    put(&b, 1, "k", "v");
}

fn file(dir: &Path, part: &str) -> std::path::PathBuf {
    let mut found: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.file_name().unwrap().to_string_lossy().contains(part))
        .collect();
    found.sort();
    found.pop().unwrap()
}

fn flip(path: &Path, at: impl Fn(usize) -> usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = at(bytes.len());
    bytes[at] ^= 0x5a;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_databases_are_not_used_and_can_be_discarded() {
    type Break = fn(&Path);
    let breaks: [(&str, Break); 6] = [
        ("a table is shorter", |dir| {
            let sst = std::fs::OpenOptions::new()
                .write(true)
                .open(file(dir, ".sst"))
                .unwrap();
            let half = sst.metadata().unwrap().len() / 2;
            sst.set_len(half).unwrap();
        }),
        ("a table is gone", |dir| {
            std::fs::remove_file(file(dir, ".sst")).unwrap()
        }),
        ("a bit of the manifest", |dir| {
            flip(&file(dir, "MANIFEST"), |len| len / 2)
        }),
        ("a bit of CURRENT", |dir| flip(&file(dir, "CURRENT"), |_| 3)),
        ("CURRENT is empty", |dir| {
            std::fs::write(file(dir, "CURRENT"), b"").unwrap()
        }),
        ("CURRENT is gone", |dir| {
            std::fs::remove_file(file(dir, "CURRENT")).unwrap()
        }),
    ];
    for (what, break_it) in breaks {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path());
        break_it(dir.path());
        for _ in 0..2 {
            match RocksBackend::open_or_damage(dir.path(), &layouts(), MEMORY).unwrap() {
                Opened::Damaged(error) => {
                    assert_eq!(error.kind(), ErrorKind::StateCorrupt, "{what}: {error}");
                    assert!(
                        error.next_step().contains("state.damaged"),
                        "{what}: {error}"
                    );
                }
                Opened::Whole(_) => panic!("{what}: it was used"),
            }
        }
        RocksBackend::discard(dir.path()).unwrap();
        let b = open(dir.path()).unwrap();
        assert_eq!(b.positions(StoreId(0)).unwrap(), [], "{what}");
        assert_eq!(b.get(StoreId(1), b"k").unwrap(), None, "{what}");
    }
}

#[test]
fn a_database_that_was_about_to_be_made_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("MANIFEST-000001"), b"half").unwrap();
    std::fs::write(dir.path().join("LOCK"), b"").unwrap();
    open(dir.path()).unwrap();
}

#[test]
fn damage_that_shows_only_while_it_is_read_is_remembered() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    // Damages the first block of the store's tables, which nothing checks until it is read.
    let tables = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap());
    tables
        .filter(|t| t.file_name().to_string_lossy().ends_with(".sst"))
        .filter(|t| t.metadata().unwrap().len() > 20_000)
        .for_each(|t| flip(&t.path(), |_| 9));
    let b = open(dir.path()).unwrap();
    let error = b
        .scan(StoreId(0), &KeyRange::default(), usize::MAX)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StateCorrupt, "{error}");
    drop(b);
    let error = open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StateCorrupt, "{error}");
    assert!(
        format!("{error:?}").contains("an earlier run found it damaged"),
        "{error:?}"
    );
    RocksBackend::discard(dir.path()).unwrap();
    open(dir.path()).unwrap();
}

#[test]
fn only_a_format_that_the_changelog_does_not_share_can_be_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let asked = |format: &str| {
        let mut other = layouts();
        other[0].format = format.to_owned();
        RocksBackend::open_or_damage(dir.path(), &other, MEMORY)
    };
    let (layout, serdes) = layouts()[0]
        .format
        .split_once(':')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    // The length of segments only affects the disk.
    match asked(&format!("{layout}(60000):{serdes}")).unwrap() {
        Opened::Damaged(error) => assert_eq!(error.kind(), ErrorKind::Incompatible),
        Opened::Whole(_) => panic!("it was used"),
    }
    for other in [
        format!("window-1(60000):{serdes}"),
        format!("{layout}:string:json"),
    ] {
        let refused = asked(&other).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Incompatible, "{refused}");
        assert!(
            refused.to_string().contains("go back to the kind of store"),
            "{refused}"
        );
    }
    open(dir.path()).unwrap();
}

#[test]
fn open_databases_are_not_discarded() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let b = open(dir.path()).unwrap();
    let error = RocksBackend::discard(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StateLocked, "{error}");
    assert_eq!(
        b.get(StoreId(1), b"k").unwrap().as_deref(),
        Some(b"v".as_slice())
    );
}

#[test]
fn merging_is_put_off_while_much_is_loaded_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path()).unwrap();
    let files = |b: &RocksBackend| {
        let family = b.store(StoreId(0)).unwrap();
        let count = |level: u32| {
            let name = format!("rocksdb.num-files-at-level{level}");
            b.db.property_int_value_cf(&family, &name).unwrap().unwrap()
        };
        (0..7).map(count).sum::<u64>()
    };
    let rounds = 12;
    for round in 0..rounds {
        let mut run = RestoreRun::default();
        for i in 0..5_000u32 {
            let key = (i * 7 + round).to_be_bytes();
            run.push(&[b"key-", &key], Some(&[b"v", &round.to_be_bytes()]));
        }
        b.bulk_load(StoreId(0), run, &[(Partition(0), Offset(i64::from(round)))])
            .unwrap();
    }
    assert_eq!(
        files(&b),
        u64::from(rounds),
        "one file per run, none merged yet"
    );
    b.loaded(StoreId(0)).unwrap();
    for _ in 0..1_200 {
        if files(&b) < u64::from(rounds) {
            return;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
    panic!("{} files are still not merged", files(&b));
}

#[test]
fn the_hint_for_ordered_rows_is_known_to_this_version() {
    let read = ::rocksdb::Options::default().get_options_from_string(super::options::HINTS);
    assert!(read.is_ok(), "{:?}", read.err());
}

#[test]
fn an_epochs_rows_go_in_the_order_of_their_keys() {
    let keys = [
        "b",
        "",
        "prefix-of-eight-2",
        "a",
        "prefix-of-eight-10",
        "prefix-o",
        "a\0",
        "aa",
    ];
    let write = |key: &str| Write {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: None,
    };
    let writes: Vec<Write> = keys.into_iter().map(write).collect();
    let mut wanted: Vec<Bytes> = writes.iter().map(|w| w.key.clone()).collect();
    wanted.sort();
    let found: Vec<Bytes> = super::batch::in_order(&writes)
        .map(|w| w.key.clone())
        .collect();
    assert_eq!(found, wanted);
}
