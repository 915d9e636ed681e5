//! Buckets, names and limits of the counters.

use super::*;
use std::collections::BTreeSet;

#[test]
fn each_api_and_each_error_has_a_place_and_a_name() {
    let keys: Vec<i16> = ApiKey::iter().map(|key| key as i16).collect();
    let largest = keys.iter().max().copied().unwrap();
    assert!(usize::try_from(largest).unwrap() < API_KEYS);
    let codes = -1..=i16::try_from(ERROR_CODES - 3).unwrap();
    let known = codes.clone().filter(|code| {
        let error = ResponseError::try_from_code(*code);
        error.is_some_and(|error| !matches!(error, ResponseError::Unknown(_)))
    });
    assert!(known.count() > 120);
    let beyond = i16::try_from(ERROR_CODES - 2).unwrap()..=i16::MAX;
    for code in beyond {
        let error = ResponseError::try_from_code(code);
        assert!(matches!(error, Some(ResponseError::Unknown(_))), "{code}");
        assert_eq!(error_name(code), "OTHER");
    }
    // Two series of one name would invalidate the whole scrape.
    let names: BTreeSet<_> = codes.clone().map(error_name).collect();
    assert_eq!(names.len(), codes.count());
    for (code, name) in [
        (-1, "UNKNOWN_SERVER_ERROR"),
        (6, "NOT_LEADER_OR_FOLLOWER"),
        (51, "CONCURRENT_TRANSACTIONS"),
        (56, "KAFKA_STORAGE_ERROR"),
        (90, "PRODUCER_FENCED"),
        (157, "CODE_157"),
    ] {
        assert_eq!(error_name(code), name);
    }
}

#[test]
fn counts_are_those_of_their_api() {
    let counters = ClientCounters::default();
    assert_eq!(counters.counts("admin").requests, []);
    for ms in [0, 1, 2, 30_000, 30_001] {
        counters.sent(1, 100);
        counters.answered(1, 1_000, Duration::from_millis(ms));
    }
    counters.sent(0, 7);
    counters.unanswered(0);
    counters.retried(0, 3);
    counters.throttled(1, Duration::from_millis(20));
    counters.throttled(1, Duration::from_millis(5));
    counters.codes(1, [0, 6, -1, 6, i16::MAX, i16::MIN].into_iter());
    for (api, bytes) in [(-1, 1), (i16::MAX, 1)] {
        counters.sent(api, bytes);
    }
    let counts = counters.counts("consumer");
    assert_eq!(counts.client, "consumer");
    let [produce, fetch] = &counts.requests[..] else {
        panic!("{counts:?}");
    };
    assert_eq!(
        (produce.api.as_str(), produce.sent, produce.sent_bytes),
        ("Produce", 1, 7)
    );
    assert_eq!((produce.unanswered, produce.retried), (1, 3));
    assert_eq!(produce.durations.count(), 0);
    assert_eq!((fetch.api.as_str(), fetch.sent), ("Fetch", 5));
    assert_eq!((fetch.sent_bytes, fetch.received_bytes), (500, 5_000));
    assert_eq!(fetch.throttled, Duration::from_millis(25));
    let errors: Vec<_> = (fetch.errors.iter())
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    let wanted = [
        ("UNKNOWN_SERVER_ERROR", 1),
        ("NOT_LEADER_OR_FOLLOWER", 2),
        ("OTHER", 2),
    ];
    assert_eq!(errors, wanted);
    let filled: Vec<_> = (fetch.durations.buckets.iter().copied())
        .filter(|(_, count)| *count > 0)
        .collect();
    let wanted = [
        (Some(Duration::from_millis(1)), 2),
        (Some(Duration::from_millis(5)), 1),
        (Some(Duration::from_secs(30)), 1),
        (None, 1),
    ];
    assert_eq!(filled, wanted);
    assert_eq!(fetch.durations.sum, Duration::from_millis(60_004));
}

#[test]
fn connections_are_counted() {
    let counters = ClientCounters::default();
    for _ in 0..3 {
        counters.opened();
    }
    counters.closed();
    counters.failed();
    counters.reopened();
    let counts = counters.counts("admin").connections;
    let wanted = ConnectionCounts {
        opened: 3,
        failed: 1,
        closed: 1,
        reopened: 1,
    };
    assert_eq!((counts, counts.open()), (wanted, 2));
}
