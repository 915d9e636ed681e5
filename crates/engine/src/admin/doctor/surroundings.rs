//! Findings about brokers, disk, files and commits; and functions that could be expressions.

#![allow(clippy::cast_precision_loss)] // rates and shares, for people

use super::Facts;
use super::finding::LiveFinding;
use super::finding::Severity::{Critical, Info, Warning};
use crate::admin::status::CommitStatus;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Shorter transactions of other producers are normal.
const HELD_BACK_MS: i64 = 10_000;
/// A commit that took this long is reported, for as long as [`RECENT_MS`].
const SLOW_COMMIT_US: u64 = 5_000_000;
const RECENT_MS: i64 = 600_000;
/// Share of the time.
const THROTTLED_SHARE: f64 = 0.1;

pub(super) fn find(facts: &Facts<'_>) -> Vec<LiveFinding> {
    let mut found = held_back(facts);
    found.extend(disk(facts));
    found.extend(files(facts));
    found.extend(throttled(facts));
    found.extend(failed_commit(facts));
    found.extend(slow_commit(facts));
    found.extend(restarts(facts));
    found.extend(expressions(facts));
    found
}

fn held_back(facts: &Facts<'_>) -> Vec<LiveFinding> {
    let is_open_transaction = |unready: &serde_json::Value| unready["reason"] == "open_transaction";
    if facts.unready.as_ref().is_some_and(is_open_transaction) {
        return Vec::new();
    }
    let partitions = facts.status.partitions().into_iter();
    let findings = partitions.filter_map(|partition| {
        let held = partition.held_back?;
        let open_ms = facts.now_ms - held.since_ms;
        if open_ms < HELD_BACK_MS {
            return None;
        }
        let message = format!(
            "a transaction of another producer has been open in '{}' partition {} for {} s: {} records behind offset \
                {} can't be read",
            partition.topic,
            partition.partition,
            open_ms / 1000,
            held.records,
            held.start_offset
        );
        let finding = LiveFinding::new(
            Warning,
            "open_transaction",
            "stoatflowopentransaction",
            message,
        );
        Some(finding.next(
            "have that producer commit or start it again; if it is gone for good, end the transaction with the command \
                in the log (kafka-transactions.sh abort)",
        ))
    });
    findings.collect()
}

fn disk(facts: &Facts<'_>) -> Option<LiveFinding> {
    let (free, all) = facts.disk.filter(|(free, all)| *free < all / 10)?;
    let message = format!(
        "the disk under state.dir has {:.0} % left, {} MiB: when it is full, the application ends",
        100.0 * free as f64 / all as f64,
        free >> 20
    );
    let section = "stoatflowstatedisknearlyfull";
    let finding = LiveFinding::new(Critical, "disk_nearly_full", section, message);
    Some(finding.next("make room, or a larger disk; /config says where state.dir is"))
}

fn files(facts: &Facts<'_>) -> Option<LiveFinding> {
    let (open, most) = facts.files.filter(|(open, most)| *open > most / 10 * 8)?;
    let message = format!("{open} of {most} file handles are open");
    let section = "stoatflowfilesnearlyout";
    let finding = LiveFinding::new(Warning, "files_nearly_out", section, message);
    Some(finding.next(
        "raise the limit: LimitNOFILE=65536 in the systemd unit, --ulimit nofile=65536 with Docker",
    ))
}

fn throttled(facts: &Facts<'_>) -> Option<LiveFinding> {
    let (before, seconds) = facts.before(Duration::from_secs(10))?;
    let share = facts
        .now
        .throttled
        .saturating_sub(before.throttled)
        .as_secs_f64()
        / seconds;
    if share < THROTTLED_SHARE {
        return None;
    }
    let message = format!(
        "a quota of the cluster makes it wait {:.0} % of the time",
        100.0 * share
    );
    let finding = LiveFinding::new(Warning, "throttled", "stoatflowthrottled", message);
    Some(finding.next(
        "have the quota of its user or client.id raised, or write less: compression.type, record caching",
    ))
}

fn failed_commit(facts: &Facts<'_>) -> Option<LiveFinding> {
    let failed = facts.status.commit_failure()?;
    let ago_ms = facts.now_ms - failed.at_ms;
    let message = format!(
        "the commit of epoch {} failed {} s ago, at the step {}",
        failed.epoch,
        ago_ms / 1000,
        failed.step
    );
    let severity = if ago_ms < RECENT_MS { Warning } else { Info };
    let section = "stoatflowrestartsbyitself";
    let finding = LiveFinding::new(severity, "commit_failed", section, message);
    Some(
        finding
            .next("see failed in /debug/barriers for the error; nothing is lost or doubled by it"),
    )
}

fn slow_commit(facts: &Facts<'_>) -> Option<LiveFinding> {
    let all = |commit: &CommitStatus| commit.align_us + commit.commit_us + commit.apply_us;
    let commits = facts.status.recent_commits().into_iter();
    let slowest = commits
        .filter(|commit| facts.now_ms - commit.at_ms < RECENT_MS)
        .max_by_key(all)
        .filter(|commit| all(commit) >= SLOW_COMMIT_US)?;
    let phases = [
        (
            slowest.align_us,
            "waiting for lanes: find the slow function in /top",
        ),
        (slowest.commit_us, "the broker: look at it and its replicas"),
        (
            slowest.apply_us,
            "the local disk: put state.dir on a faster one",
        ),
    ];
    let (longest, why) = phases.into_iter().max_by_key(|(us, _)| *us)?;
    let message = format!(
        "a commit took {:.1} s (epoch {}), and outputs waited so long to be seen",
        all(&slowest) as f64 / 1e6,
        slowest.epoch
    );
    let finding = LiveFinding::new(Warning, "slow_commit", "stoatflowcommitsslow", message);
    Some(finding.next(format!("{:.1} s of it were {why}", longest as f64 / 1e6)))
}

fn restarts(facts: &Facts<'_>) -> Option<LiveFinding> {
    let restarts = facts.status.restarts.load(Relaxed);
    let times = match restarts {
        0 => return None,
        1 => "once".to_owned(),
        _ => format!("{restarts} times"),
    };
    let message = format!("it went back to its last commit by itself {times} since the start");
    let section = "stoatflowrestartsbyitself";
    let finding = LiveFinding::new(Info, "restarts", section, message);
    Some(
        finding.next("look at the broker and the network between; at restart.max.attempts it ends"),
    )
}

/// Functions that could be expressions, as found while they ran.
fn expressions(facts: &Facts<'_>) -> Vec<LiveFinding> {
    let hints = facts.status.hints().into_iter();
    let findings = hints.map(|(node, text)| LiveFinding {
        severity: Info,
        code: "expression".to_owned(),
        message: format!("'{node}': {text}"),
        next_step: "write it, if the differences that stoatflow doctor APP.py names don't matter"
            .to_owned(),
        page: "docs/guide/doctor.md#hints-in-the-log-of-a-running-application".to_owned(),
    });
    findings.collect()
}
