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

#[test]
fn the_latest_are_found_and_the_oldest_make_room() {
    let kept = KeptRecords::new(2);
    let most = 10 * weight(&record(0));
    for offset in (0..30).step_by(3) {
        let batch = (offset..offset + 3).map(record).collect();
        kept.keep(Lane(0), batch, most);
    }
    kept.keep(Lane(1), vec![record(100)], most);
    let has = |offset: i64| kept.find(|r| r.offset == Offset(offset)).is_some();
    assert!((20..30).all(has) && has(100));
    assert!(!(0..20).any(has));
}
