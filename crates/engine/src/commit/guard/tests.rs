use super::{InstanceGuard, is_marked};
use crate::intake::watermarks::{decode_stream_time, encode_stream_time};
use std::time::Duration;
use stoatflow_core::{Offset, Timestamp, TopicPartition};
use stoatflow_log::CutEntry;
use stoatflow_protocol::Lease;

fn cut(offset: i64) -> Vec<CutEntry> {
    vec![CutEntry {
        partition: TopicPartition::new("t", 0),
        offset: Offset(offset),
        metadata: encode_stream_time(Timestamp(offset * 10)),
    }]
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn the_first_question_commits_where_reading_starts() {
    let mut guard = InstanceGuard::new(Lease::STANDARD, &cut(5));
    assert!(guard.clean_end().is_none(), "nothing of ours is there");
    let asked = guard.renewal(secs(0)).expect("nothing is proven");
    assert_eq!(asked[0].offset, Offset(5));
    assert!(is_marked(&asked[0].metadata));
    guard.committed(secs(0));
    assert!(guard.renewal(secs(0)).is_none());
}

#[test]
fn a_later_question_commits_the_last_cut_and_not_the_one_under_way() {
    let mut guard = InstanceGuard::new(Lease::STANDARD, &cut(5));
    guard.begin_commit(&cut(6));
    guard.committed(secs(1));
    guard.begin_commit(&cut(7));
    let asked = guard.renewal(secs(9)).expect("the trust is over");
    assert_eq!(asked[0].offset, Offset(6));
}

#[test]
fn a_clean_end_takes_the_mark_away_and_keeps_the_rest() {
    let mut guard = InstanceGuard::new(Lease::STANDARD, &cut(5));
    guard.begin_commit(&cut(6));
    guard.committed(secs(1));
    assert_eq!(guard.clean_end(), Some(cut(6)));
}

#[test]
fn a_mark_does_not_hide_the_stream_time() {
    let mut guard = InstanceGuard::new(Lease::STANDARD, &[]);
    let marked = &guard.begin_commit(&cut(6))[0].metadata;
    assert_eq!(decode_stream_time(marked), Timestamp(60));
    assert!(!is_marked(&encode_stream_time(Timestamp(60))));
    assert!(!is_marked(""));
}
