//! What is kept of delivery reports.

use super::{Failed, Loss, Reports};
use rdkafka::types::RDKafkaErrorCode as Code;

#[test]
fn ends_are_kept_for_remembered_topics_only() {
    let mut reports = Reports::default();
    reports.remember(1, true);
    reports.take(0, 0, 5, None);
    reports.take(1, 2, 6, None);
    reports.take(1, 2, 7, None);
    reports.take(1, 2, -1001, None);
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
    reports.clear_failure();
    assert_eq!(reports.first(), None);
}

#[test]
fn a_partition_that_goes_on_before_its_end_has_lost_records() {
    let mut reports = Reports::default();
    reports.remember(0, true);
    reports.note(0, 1, 40);
    reports.note(0, 1, 30);
    reports.note(7, 0, 40);
    for offset in [40, 43, 44] {
        reports.take(0, 1, offset, None);
    }
    assert_eq!(reports.take_loss(), None);
    for offset in [20, 21] {
        reports.take(0, 1, offset, None);
        reports.take(7, 0, offset, None);
    }
    let lost = Loss {
        topic: 0,
        partition: 1,
        end: 45,
        first: 20,
    };
    assert_eq!(reports.take_loss(), Some(lost));
    assert_eq!(reports.take_loss(), None);
    assert_eq!(reports.ends(0), [None, Some(22)]);
}
