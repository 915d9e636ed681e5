use super::*;
use stoatflow_core::Epoch;

const DISK: StoreId = StoreId(0);
const MEMORY: StoreId = StoreId(1);

fn write(key: &'static str, value: Option<&'static str>) -> Write {
    Write {
        key: Bytes::from(key),
        value: value.map(Bytes::from),
    }
}

fn split() -> (MemoryBackend, SplitBackend) {
    let disk = MemoryBackend::new(true);
    let split = SplitBackend::new(Arc::new(disk.clone()), [MEMORY].into_iter());
    (disk, split)
}

#[test]
fn each_store_has_its_place() {
    let (disk, split) = split();
    split
        .apply(EpochBatch {
            epoch: Epoch(1),
            writes: vec![
                (DISK, vec![write("a", Some("1"))]),
                (MEMORY, vec![write("a", Some("2"))]),
            ],
            positions: vec![
                (DISK, Partition(0), Offset(5)),
                (MEMORY, Partition(0), Offset(7)),
            ],
            drops: Vec::new(),
        })
        .unwrap();
    assert_eq!(split.get(DISK, b"a").unwrap(), Some(Bytes::from("1")));
    assert_eq!(split.get(MEMORY, b"a").unwrap(), Some(Bytes::from("2")));
    assert_eq!(disk.get(MEMORY, b"a").unwrap(), None);
    assert_eq!(
        split.positions(MEMORY).unwrap(),
        [(Partition(0), Offset(7))]
    );
    // After a restart, stores in memory have no positions: they are restored from the beginning.
    let restarted = SplitBackend::new(Arc::new(disk), [MEMORY].into_iter());
    assert_eq!(restarted.positions(MEMORY).unwrap(), []);
    assert_eq!(
        restarted.positions(DISK).unwrap(),
        [(Partition(0), Offset(5))]
    );
}

#[test]
fn drops_go_to_the_store_that_they_name() {
    let (_, split) = split();
    let both = |epoch, drops| EpochBatch {
        epoch: Epoch(epoch),
        drops,
        ..EpochBatch::default()
    };
    for store in [DISK, MEMORY] {
        split
            .restore(store, vec![write("a", Some("1"))], &[])
            .unwrap();
    }
    split
        .apply(both(1, vec![(MEMORY, KeyRange::default())]))
        .unwrap();
    assert_eq!(split.get(MEMORY, b"a").unwrap(), None);
    assert!(split.get(DISK, b"a").unwrap().is_some());
    split
        .apply(both(2, vec![(DISK, KeyRange::default())]))
        .unwrap();
    assert_eq!(split.get(DISK, b"a").unwrap(), None);
}

#[test]
fn a_snapshot_shows_stores_of_both_and_stands_still() {
    let (_, split) = split();
    let both = |epoch, value| EpochBatch {
        epoch: Epoch(epoch),
        writes: vec![
            (DISK, vec![write("a", Some(value))]),
            (
                MEMORY,
                vec![write("a", Some(value)), write("b", Some(value))],
            ),
        ],
        ..EpochBatch::default()
    };
    split.apply(both(1, "1")).unwrap();
    let before = split.snapshot(&[DISK, MEMORY]).unwrap();
    split.apply(both(2, "2")).unwrap();
    let page = Page {
        rows: 9,
        bytes: 1_000,
    };
    let values = |snapshot: &dyn Snapshot, store| -> Vec<Bytes> {
        let rows = snapshot.page(store, None, page).unwrap();
        rows.into_iter().map(|(_, value)| value).collect()
    };
    assert_eq!(values(before.as_ref(), DISK), ["1"]);
    assert_eq!(values(before.as_ref(), MEMORY), ["1", "1"]);
    assert_eq!(before.get(MEMORY, b"b").unwrap(), Some(Bytes::from("1")));
    let after = split.snapshot(&[MEMORY]).unwrap();
    assert_eq!(values(after.as_ref(), MEMORY), ["2", "2"]);
}
