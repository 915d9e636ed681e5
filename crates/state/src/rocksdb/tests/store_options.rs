//! RocksDB options of single stores: they are applied, and may change between two runs.

use super::*;
use stoatflow_core::{BlockCompression, CompactionStyle, RocksDbOptions};

const A: StoreId = StoreId(0);
const B: StoreId = StoreId(1);

/// Every option differs from its default.
const OTHER: RocksDbOptions = RocksDbOptions {
    compression: BlockCompression::Zstd,
    block_size: 64 << 10,
    bloom_bits: 0,
    compaction: CompactionStyle::Universal,
    cache_size: Some(2 << 20),
};

/// The first store has these options, the second one the defaults.
fn kept(options: RocksDbOptions) -> Vec<StoreLayout> {
    let mut all = layouts();
    all[0].rocksdb = options;
    all
}

fn open_as(dir: &Path, options: RocksDbOptions) -> RocksBackend {
    RocksBackend::open(dir, &kept(options), MEMORY).unwrap()
}

/// A store's options as RocksDB has written them to its options file, as `name=value`.
fn written(dir: &Path, store: &str) -> Vec<String> {
    let text = std::fs::read_to_string(file(dir, "OPTIONS-")).unwrap();
    let sections = text.split("\n[");
    let own = sections.filter(|section| {
        let head = section.lines().next().unwrap_or_default();
        head.ends_with(&format!("\"{store}\"]"))
    });
    own.flat_map(str::lines)
        .map(|line| line.trim().to_owned())
        .collect()
}

/// Writes rows of text, some of which overwrite those of earlier rounds; a third of a megabyte.
fn fill(b: &RocksBackend, store: StoreId, round: u32) -> Vec<(Bytes, Bytes)> {
    let row = |n: u32| {
        let value = format!(
            "{{\"round\": {round}, \"city\": \"Oslo\", \"n\": {}}}",
            n.wrapping_mul(2_654_435_761)
        );
        let key = (n * 7 + round % 7).to_be_bytes();
        (Bytes::copy_from_slice(&key), Bytes::from(value))
    };
    let rows: Vec<_> = (0..5_000).map(row).collect();
    apply(b, store, rows.clone());
    rows
}

fn apply(b: &RocksBackend, store: StoreId, rows: Vec<(Bytes, Bytes)>) {
    let writes = rows.into_iter().map(|(key, value)| Write {
        key,
        value: Some(value),
    });
    b.apply(EpochBatch {
        epoch: Epoch(1),
        writes: vec![(store, writes.collect())],
        ..EpochBatch::default()
    })
    .unwrap();
}

fn to_disk(b: &RocksBackend, store: StoreId) {
    b.db.flush_cf(&b.store(store).unwrap()).unwrap();
}

fn merge(b: &RocksBackend, store: StoreId) {
    let family = b.store(store).unwrap();
    b.db.compact_range_cf(&family, None::<&[u8]>, None::<&[u8]>);
}

fn all(b: &RocksBackend, store: StoreId) -> Vec<(Bytes, Bytes)> {
    b.scan(store, &KeyRange::default(), usize::MAX).unwrap()
}

#[test]
fn store_options_reach_rocksdb() {
    let dir = tempfile::tempdir().unwrap();
    drop(open_as(dir.path(), OTHER));
    let has = |store: &str, option: &str| {
        let options = written(dir.path(), store);
        let name = option.split('=').next().unwrap();
        let own: Vec<&String> = options
            .iter()
            .filter(|o| o.starts_with(&format!("{name}=")))
            .collect();
        assert_eq!(own, [option], "{store}");
    };
    let levels = |first: &str, others: &str| {
        format!(
            "compression_per_level={first}{}",
            format!(":{others}").repeat(6)
        )
    };
    has("orders", &levels("kNoCompression", "kZSTD"));
    has("orders", "block_size=65536");
    has("orders", "filter_policy=nullptr");
    has("orders", "compaction_style=kCompactionStyleUniversal");
    has(
        "orders-by-day",
        &levels("kNoCompression", "kLZ4Compression"),
    );
    has("orders-by-day", "block_size=4096");
    has("orders-by-day", "filter_policy=bloomfilter");
    has("orders-by-day", "compaction_style=kCompactionStyleLevel");
}

#[test]
fn a_store_kept_otherwise_keeps_the_contract() {
    let root = tempfile::tempdir().unwrap();
    let mut n = 0;
    contract::run(&mut || {
        n += 1;
        Box::new(open_as(&root.path().join(n.to_string()), OTHER))
    });
    let again = root.path().join("again");
    contract::reopen(&mut || Box::new(open_as(&again, OTHER)));
}

/// Alternates the options over the same rows, some of which lie in files of earlier runs.
#[test]
fn options_may_change_from_run_to_run() {
    let (level, universal) = (RocksDbOptions::default(), OTHER);
    let bloom = RocksDbOptions {
        bloom_bits: 20,
        ..universal
    };
    let plain = RocksDbOptions {
        compression: BlockCompression::None,
        block_size: 1 << 10,
        ..level
    };
    let dir = tempfile::tempdir().unwrap();
    let mut wanted = BTreeMap::new();
    for (run, options) in (0..).zip([level, universal, level, bloom, plain, universal, level]) {
        let b = open_as(dir.path(), options);
        assert_eq!(all(&b, A), Vec::from_iter(wanted.clone()), "run {run}");
        for part in 0..6 {
            wanted.extend(fill(&b, A, run * 6 + part));
            to_disk(&b, A);
        }
        // Even runs leave one merged file, odd runs many files.
        if run % 2 == 0 {
            merge(&b, A);
        }
        assert_eq!(all(&b, A), Vec::from_iter(wanted.clone()), "run {run}");
        let some = wanted.iter().step_by(97);
        some.for_each(|(key, value)| assert_eq!(b.get(A, key).unwrap().as_ref(), Some(value)));
    }
}

#[test]
fn compression_makes_files_smaller() {
    let size = |compression| {
        let dir = tempfile::tempdir().unwrap();
        let b = open_as(
            dir.path(),
            RocksDbOptions {
                compression,
                ..RocksDbOptions::default()
            },
        );
        fill(&b, A, 1);
        merge(&b, A);
        b.size(A).disk_bytes
    };
    let [none, lz4, zstd] = [
        BlockCompression::None,
        BlockCompression::Lz4,
        BlockCompression::Zstd,
    ]
    .map(size);
    assert!(zstd < lz4 && lz4 < none, "{none} {lz4} {zstd}");
}

/// Bytes of all Bloom filters in a store's files.
fn filters(b: &RocksBackend, store: StoreId) -> u64 {
    let family = b.store(store).unwrap();
    let name = "rocksdb.aggregated-table-properties";
    let told = b.db.property_value_cf(&family, name).unwrap().unwrap();
    let (_, size) = told.split_once("filter block size=").unwrap();
    size.split(';').next().unwrap().trim().parse().unwrap()
}

#[test]
fn a_filter_has_its_bits_and_without_one_nothing_is_spared() {
    for (bloom_bits, spares) in [(0, false), (10, true), (20, true)] {
        let dir = tempfile::tempdir().unwrap();
        let b = open_as(
            dir.path(),
            RocksDbOptions {
                bloom_bits,
                ..RocksDbOptions::default()
            },
        );
        fill(&b, A, 0);
        merge(&b, A);
        let asked = 5_000 * u64::from(bloom_bits) / 8;
        let has = filters(&b, A);
        assert!(
            asked * 4 / 5 <= has && has <= asked * 5 / 4,
            "{has} bytes for {bloom_bits} bits"
        );
        // Between existing keys.
        for n in 0..100u32 {
            assert_eq!(b.get(A, &(n * 7 + 1).to_be_bytes()).unwrap(), None);
        }
        let spared = b.database().unwrap().bloom_filter_useful;
        assert_eq!(spared > 0, spares, "{bloom_bits} bits spared {spared}");
    }
}

/// However much other stores are read, what lies in a store's own cache stays there.
#[test]
fn a_cache_of_its_own_is_not_pushed_out_by_others() {
    let missed = |cache_size| {
        let dir = tempfile::tempdir().unwrap();
        let layouts = kept(RocksDbOptions {
            cache_size,
            ..RocksDbOptions::default()
        });
        let budget = 6 << 20;
        let b = RocksBackend::open(dir.path(), &layouts, budget).unwrap();
        fill(&b, A, 0);
        // Far more data than the memory budget.
        for part in 0..20 {
            let key = |n: u32| [&[part][..], &n.to_be_bytes()[..]].concat();
            let noise = |n: u32| n.wrapping_mul(2_654_435_761).to_le_bytes().repeat(50);
            let rows = (0..4_000).map(|n| (key(n).into(), noise(n).into()));
            apply(&b, B, rows.collect());
        }
        merge(&b, A);
        merge(&b, B);
        let read = || {
            let before = b.database().unwrap().cache_misses;
            (0..5_000u32).for_each(|n| drop(b.get(A, &(n * 7).to_be_bytes()).unwrap()));
            b.database().unwrap().cache_misses - before
        };
        read();
        for _ in 0..2 {
            all(&b, B);
        }
        let used = b.memory_bytes();
        assert!(used < budget as u64 * 5 / 4, "{used} of {budget}");
        read()
    };
    let (own, shared) = (missed(Some(3 << 20)), missed(None));
    assert!(
        own == 0 && shared > 10,
        "{own} of its own, {shared} of the shared one"
    );
}
