//! The bookkeeping of delivery reports.

use super::{Failed, Reports};
use rdkafka::types::RDKafkaErrorCode as Code;

#[test]
fn ends_are_kept_for_remembered_topics_only() {
    let mut reports = Reports::default();
    reports.remember(1, true);
    reports.take(0, 0, 5, None);
    reports.take(1, 2, 7, None);
    reports.take(1, 2, 6, None);
    assert_eq!(reports.ends(0), []);
    assert_eq!(reports.ends(1), [None, None, Some(8)]);
    assert_eq!(reports.ends(9), []);
}

#[test]
fn the_first_failure_stays_until_forgiven() {
    let mut reports = Reports::default();
    reports.take(0, 1, -1, Some(Code::PurgeQueue));
    assert_eq!(reports.first(), None);
    reports.take(3, 1, -1, Some(Code::MessageSizeTooLarge));
    reports.take(0, 0, -1, Some(Code::MessageTimedOut));
    assert_eq!(
        reports.first(),
        Some(Failed {
            code: Code::MessageSizeTooLarge,
            topic: 3,
            partition: 1
        })
    );
    reports.forgive();
    assert_eq!(reports.first(), None);
}
