use super::Facts;
use super::finding::Severity::{self, Critical, Info, Warning};
use crate::admin::open_transactions::HeldBack;
use crate::admin::status::{CommitStatus, Status};
use crate::admin::tests::fixture::{partition, plan};
use crate::admin::top::Sample;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const NOW_MS: i64 = 1_700_000_100_000;
const AT: Duration = Duration::from_secs(1_000);

fn status() -> Status {
    let status = Status::new("shop", Arc::new(plan()), 4);
    status.report_partitions(vec![partition(0, 100, 100, NOW_MS)]);
    status
}

/// Takes a sample that is this old, applies the change, and looks for findings.
fn found_after(
    seconds: u64,
    status: &Status,
    change: impl FnOnce(&Status),
) -> Vec<(Severity, String, String)> {
    let before = Sample::take(status, AT.saturating_sub(Duration::from_secs(seconds)));
    change(status);
    found(status, Some(before), None)
}

fn found(
    status: &Status,
    before: Option<Sample>,
    unready: Option<Value>,
) -> Vec<(Severity, String, String)> {
    let facts = Facts {
        status,
        monotonic_ms: u64::try_from(AT.as_millis()).unwrap(),
        now_ms: NOW_MS,
        unready,
        before,
        now: Sample::take(status, AT),
        disk: Some((90 << 30, 100 << 30)),
        files: Some((100, 1_000)),
    };
    let findings = facts.examine().into_iter();
    let findings = findings.map(|f| {
        assert!(!f.next_step.is_empty(), "{f:?}");
        (f.severity, f.code, f.message)
    });
    findings.collect()
}

fn codes(found: &[(Severity, String, String)]) -> Vec<(Severity, &str)> {
    found
        .iter()
        .map(|(severity, code, _)| (*severity, code.as_str()))
        .collect()
}

#[test]
fn a_running_application_is_healthy() {
    let status = status();
    assert_eq!(found(&status, None, None), []);
    let well = found_after(100, &status, |status| {
        status.records_in.store(1_000, Relaxed);
        status.records_committed.store(900, Relaxed);
        // The rest waits for the next commit.
        status.report_partitions(vec![partition(0, 100, 110, NOW_MS)]);
        status.dropped("unique", "duplicate", 7);
    });
    assert_eq!(well, []);
}

#[test]
fn records_that_wait_without_a_commit_are_reported() {
    let status = status();
    status.report_partitions(vec![partition(0, 100, 130, NOW_MS)]);
    let still = found_after(95, &status, |_| ());
    assert_eq!(codes(&still), [(Critical, "nothing_committed")]);
    assert!(
        still[0].2.contains("30 records wait") && still[0].2.contains("95 s"),
        "{still:?}"
    );
    assert_eq!(found_after(30, &status, |_| ()), [], "that is not long");
    let paused = json!({ "reason": "paused", "detail": "it reads nothing", "next_step": "resume" });
    let before = Sample::take(&status, Duration::ZERO);
    assert_eq!(
        codes(&found(&status, Some(before), Some(paused))),
        [(Warning, "paused")],
        "who is not ready has said why"
    );
}

#[test]
fn a_growing_lag_is_reported() {
    let status = status();
    let behind = found_after(100, &status, |status| {
        status.records_committed.store(500, Relaxed);
        status.report_partitions(vec![partition(0, 100, 3_100, NOW_MS)]);
    });
    assert_eq!(codes(&behind), [(Warning, "lag_grows")]);
    assert!(
        behind[0].2.contains("30 more every second; 5 a second"),
        "{behind:?}"
    );
}

#[test]
fn a_partition_that_holds_time_back_is_reported() {
    let status = status();
    status.by_watermark.store(true, Relaxed);
    status.watermark.store(5, Relaxed);
    let mut silent = partition(1, 7, 7, NOW_MS);
    silent.holds_back = true;
    status.report_partitions(vec![partition(0, 100, 100, NOW_MS), silent]);
    let more = |status: &Status| {
        status.records_in.fetch_add(50, Relaxed);
    };
    let held = found_after(100, &status, more);
    assert_eq!(codes(&held), [(Warning, "watermark_held_back")]);
    assert!(held[0].2.contains("'lines' partition 1"), "{held:?}");
    let moved = found_after(100, &status, |status| {
        more(status);
        status.watermark.store(6, Relaxed);
    });
    assert_eq!(moved, []);
}

#[test]
fn one_lane_that_does_all_the_work_is_reported() {
    let status = status();
    let lane = found_after(20, &status, |status| {
        status.lanes[2].busy_ns.store(19_600_000_000, Relaxed);
        status.lanes[0].busy_ns.store(3_000_000_000, Relaxed);
    });
    assert_eq!(codes(&lane), [(Info, "one_busy_lane")]);
    assert!(
        lane[0].2.contains("lane 2 is at work 98 %") && lane[0].2.contains("the others 5 %"),
        "{lane:?}"
    );
    let all = found_after(20, &status, |status| {
        for lane in &status.lanes {
            lane.busy_ns.fetch_add(20_000_000_000, Relaxed);
        }
    });
    assert_eq!(all, []);
}

#[test]
fn dropped_records_are_reported_by_their_outcome() {
    let status = status();
    status.records_in.store(1_000, Relaxed);
    status.dropped("price", "processing_dead_letter", 2);
    let told = found_after(100, &status, |status| {
        status.dropped("by-word", "null_key", 1);
        status.dropped("count", "late", 5);
    });
    assert_eq!(
        codes(&told),
        [
            (Warning, "left_out"),
            (Info, "dead_letters"),
            (Info, "left_out")
        ],
        "{told:?}"
    );
    assert!(
        told[0].2.starts_with("1 record was left out by 'by-word'"),
        "{told:?}"
    );
    assert!(
        told[1].2.contains(
            "2 records were sent to a topic of dead letters by 'price' since the start, 0"
        )
    );
    let late = found_after(100, &status, |status| status.dropped("count", "late", 50));
    assert_eq!(
        codes(&late)[0],
        (Warning, "left_out"),
        "more than one in a hundred: {late:?}"
    );
}

#[test]
fn failed_and_slow_commits_are_reported() {
    let status = status();
    let slow = |align_us, commit_us, ago_ms| CommitStatus {
        epoch: 9,
        align_us,
        commit_us,
        at_ms: NOW_MS - ago_ms,
        ..CommitStatus::default()
    };
    status.committed(slow(4_000_000, 3_000_000, 1_000));
    assert_eq!(
        codes(&found(&status, None, None)),
        [(Warning, "slow_commit")]
    );
    let old = Status::new("shop", Arc::new(plan()), 1);
    old.committed(slow(90_000_000, 0, 700_000));
    assert_eq!(found(&old, None, None), [], "it was long ago");
}

#[test]
fn an_open_transaction_is_reported_before_it_makes_it_unready() {
    let status = status();
    let mut held = partition(0, 100, 100, NOW_MS);
    held.held_back = Some(HeldBack {
        start_offset: 100,
        records: 8,
        since_ms: NOW_MS - 15_000,
        producer_id: None,
    });
    status.report_partitions(vec![held]);
    assert_eq!(
        codes(&found(&status, None, None)),
        [(Warning, "open_transaction")]
    );
    let unready = json!({ "reason": "open_transaction", "detail": "d", "next_step": "n" });
    assert_eq!(
        codes(&found(&status, None, Some(unready))),
        [(Critical, "open_transaction")],
        "once is enough"
    );
}

#[test]
fn quotas_and_possible_expressions_are_reported() {
    let status = status();
    status.hint(
        "large",
        "app.py:7: filter calls a function, 1.9 µs per record",
    );
    let told = found_after(100, &status, |status| {
        status.broker_throttle_ms.store(30_000, Relaxed)
    });
    assert_eq!(codes(&told), [(Warning, "throttled"), (Info, "expression")]);
    assert!(told[0].2.contains("30 % of the time"), "{told:?}");
    assert!(told[1].2.contains("app.py:7"), "{told:?}");
}

#[test]
fn a_full_disk_comes_first() {
    let status = status();
    status.hint("large", "app.py:7: it could be an expression");
    let facts = Facts {
        status: &status,
        monotonic_ms: 1,
        now_ms: NOW_MS,
        unready: None,
        before: None,
        now: Sample::take(&status, AT),
        disk: Some((5 << 30, 100 << 30)),
        files: Some((900, 1_000)),
    };
    let found = facts.examine();
    let codes: Vec<_> = found
        .iter()
        .map(|f| (f.severity, f.code.as_str()))
        .collect();
    assert_eq!(
        codes,
        [
            (Critical, "disk_nearly_full"),
            (Warning, "files_nearly_out"),
            (Info, "expression")
        ]
    );
    assert!(found[0].message.contains("5 % left, 5120 MiB"), "{found:?}");
}
