use super::PartitionLog;
use bytes::Bytes;
use stoatflow_core::{Offset, Timestamp};
use stoatflow_log::ProducerRecord;

fn record(key: &'static str, value: &'static str) -> ProducerRecord {
    ProducerRecord {
        topic: "t".into(),
        partition: None,
        key: Some(Bytes::from_static(key.as_bytes())),
        value: Some(Bytes::from_static(value.as_bytes())),
        timestamp: Timestamp(0),
        headers: None,
    }
}

fn seen(log: &PartitionLog) -> Vec<(i64, String)> {
    let text = |b: &Bytes| String::from_utf8_lossy(b).into_owned();
    log.visible(Offset(0))
        .map(|(at, kept)| (at.0, kept.value.as_ref().map(text).unwrap_or_default()))
        .collect()
}

#[test]
fn an_open_transaction_hides_everything_behind_it() {
    let mut log = PartitionLog::default();
    log.append(record("a", "before"), None);
    log.append(record("a", "open"), Some(1));
    log.append(record("a", "plain"), None);
    log.append(record("a", "other"), Some(2));
    log.end(2, true);
    assert_eq!(log.stable_end(), Offset(1));
    assert_eq!(seen(&log), [(0, "before".into())]);
    log.end(1, false);
    // The two markers are at 4 and 5; the aborted record keeps its offset.
    assert_eq!(log.stable_end(), Offset(6));
    assert_eq!(
        seen(&log),
        [
            (0, "before".into()),
            (2, "plain".into()),
            (3, "other".into())
        ]
    );
}

#[test]
fn compaction_keeps_the_newest_and_all_offsets() {
    let mut log = PartitionLog::default();
    for value in ["1", "2", "3"] {
        log.append(record("a", value), None);
    }
    log.append(record("b", "x"), None);
    log.append(record("a", "aborted"), Some(9));
    log.end(9, false);
    log.append(record("a", "unstable"), Some(10));
    log.compact();
    log.end(10, true);
    assert_eq!(
        seen(&log),
        [(2, "3".into()), (3, "x".into()), (6, "unstable".into())]
    );
}
