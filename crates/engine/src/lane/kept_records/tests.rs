use super::*;
use stoatflow_core::{Offset, Timestamp};

fn record(offset: i64) -> ConsumerRecord {
    ConsumerRecord {
        slot: 0,
        offset: Offset(offset),
        timestamp: Timestamp(0),
        key: None,
        value: Some(vec![0; 1_000].into()),
        headers: None,
        number: 0,
    }
}

fn records(offsets: std::ops::Range<i64>) -> Vec<ConsumerRecord> {
    offsets.map(record).collect()
}

/// Room for this many records; records of epochs after `committed` stay.
fn room(records: usize, committed: u64) -> KeepLimits {
    KeepLimits {
        most: records * weight(&record(0)),
        committed: Epoch(committed),
    }
}

fn has(kept: &KeptRecords, offset: i64) -> bool {
    kept.find(|r| r.offset == Offset(offset)).is_some()
}

#[test]
fn the_latest_are_found_and_the_oldest_make_room() {
    let (kept, room) = (KeptRecords::new(2), room(10, u64::MAX));
    for offset in (0..30).step_by(3) {
        kept.keep(Lane(0), Epoch(1), records(offset..offset + 3), room);
    }
    assert!((20..30).all(|at| has(&kept, at)) && !(0..20).any(|at| has(&kept, at)));
    // Another lane uses its share: the first one drops records with its next batch.
    kept.keep(Lane(1), Epoch(1), records(100..105), room);
    kept.keep(Lane(0), Epoch(1), records(30..31), room);
    assert!((26..31).chain(100..105).all(|at| has(&kept, at)) && !(0..26).any(|at| has(&kept, at)));
    assert_eq!(kept.bytes.load(Relaxed), room.most);
}

#[test]
fn records_of_epochs_that_are_not_committed_stay() {
    let kept = KeptRecords::new(2);
    let keep = |epoch, offsets, committed| {
        kept.keep(Lane(0), Epoch(epoch), records(offsets), room(10, committed));
    };
    keep(1, 0..13, 0);
    keep(2, 13..18, 0);
    assert!((0..18).all(|at| has(&kept, at)));
    // Records of the first epoch are dropped now, one by one.
    keep(2, 18..19, 1);
    assert!((9..19).all(|at| has(&kept, at)) && !(0..9).any(|at| has(&kept, at)));
    keep(2, 19..25, 1);
    assert!((13..25).all(|at| has(&kept, at)) && !(0..13).any(|at| has(&kept, at)));
}
