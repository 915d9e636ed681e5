//! Findings about progress: readiness, long calls of functions, lag, the watermark, and lanes.

#![allow(clippy::cast_precision_loss)] // rates and shares, for people

use super::Facts;
use super::finding::LiveFinding;
use super::finding::Severity::{Critical, Info, Warning};
use crate::admin::thread_activity::{INTAKE, ThreadActivity};
use crate::admin::top::Sample;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::Lane;

/// A call that takes this long is reported.
const LONG_CALL_MS: u64 = 10_000;
/// Findings about commits, lag and the watermark compare samples at least this far apart.
const STANDSTILL_SAMPLE_SPAN: Duration = Duration::from_secs(90);
/// The finding about a busy lane compares samples at least this far apart.
const BUSY_LANE_SAMPLE_SPAN: Duration = Duration::from_secs(10);

pub(super) fn find(facts: &Facts<'_>) -> Vec<LiveFinding> {
    let mut found: Vec<LiveFinding> = readiness(facts).into_iter().collect();
    found.extend(long_calls(facts));
    // A health check that fails doesn't stop the processing.
    let reason = facts.unready.as_ref().map(|unready| &unready["reason"]);
    if reason.is_none_or(|reason| reason == "health_check") {
        found.extend(nothing_committed(facts).or_else(|| lag_grows(facts)));
        found.extend(watermark(facts));
        found.extend(one_lane(facts));
    }
    found
}

fn readiness(facts: &Facts<'_>) -> Option<LiveFinding> {
    let unready = facts.unready.as_ref()?;
    let text = |name: &str| unready[name].as_str().unwrap_or_default();
    let (reason, next_step) = (text("reason"), text("next_step"));
    let (severity, section) = match reason {
        "stalled" => (Critical, "stoatflowstalled"),
        "open_transaction" => (Critical, "stoatflowopentransaction"),
        "paused" => (Warning, "stoatflowpaused"),
        "health_check" => (Warning, "stoatflownotready"),
        "restoring" => (Info, "stoatflowrestoretakeslong"),
        "not_running" => (Info, "stoatflownotready"),
        _ => (Critical, "stoatflownotready"),
    };
    // The next step is part of the message of an error; it is shown once.
    let detail = text("detail").replace(&format!(". Next: {next_step}"), "");
    let message = format!("it is not ready ({reason}): {detail}");
    Some(LiveFinding::new(severity, reason, section, message).next(next_step))
}

fn long_calls(facts: &Facts<'_>) -> Vec<LiveFinding> {
    let lanes = 0..u32::try_from(facts.status.lanes.len()).unwrap_or(u32::MAX);
    let lanes = lanes.map(|lane| facts.status.lane_activity(Lane(lane), facts.monotonic_ms));
    let intake = facts.status.thread_activity(INTAKE, facts.monotonic_ms);
    let is_long =
        |at: &ThreadActivity| at.is_in_function() && at.for_ms.is_some_and(|ms| ms >= LONG_CALL_MS);
    let mut long: Vec<_> = lanes.chain([intake]).filter(is_long).collect();
    long.sort_by_key(|at| std::cmp::Reverse(at.for_ms));
    let findings = long.into_iter().map(|at| {
        let who = at.lane.map_or_else(|| "intake".to_owned(), |lane| format!("lane {lane}"));
        let record = match (&at.topic, at.partition, at.offset) {
            (Some(topic), Some(partition), Some(offset)) => {
                format!(", at the record of '{topic}' partition {partition}, offset {offset}")
            }
            _ => String::new(),
        };
        let message = format!(
            "{who} has been in '{}' of '{}' for {} s{record}",
            at.function.as_deref().unwrap_or("?"),
            at.node.as_deref().unwrap_or("?"),
            at.for_ms.unwrap_or(0) / 1000
        );
        LiveFinding::new(Warning, "long_call", "stoatflowstalled", message).next(
            "if it waits for a service, mend the service and give the call a time-out; if it computes for so long, \
                raise stall.timeout.ms: after that the process ends",
        )
    });
    findings.collect()
}

fn lag(sample: &Sample) -> i64 {
    sample.partitions.iter().map(|p| p.lag).sum()
}

fn nothing_committed(facts: &Facts<'_>) -> Option<LiveFinding> {
    let (before, seconds) = facts.before(STANDSTILL_SAMPLE_SPAN)?;
    let waits = lag(&facts.now);
    if lag(before) == 0 || waits == 0 || facts.now.records_committed != before.records_committed {
        return None;
    }
    let message = format!("{waits} records wait, and none was committed for {seconds:.0} s");
    let finding = LiveFinding::new(
        Critical,
        "nothing_committed",
        "stoatflownothingcommitted",
        message,
    );
    Some(finding.next(
        "see /offsets for the partitions that wait, /debug/barriers for the commit and /debug/threads for the lanes",
    ))
}

fn lag_grows(facts: &Facts<'_>) -> Option<LiveFinding> {
    let (before, seconds) = facts.before(STANDSTILL_SAMPLE_SPAN)?;
    let (waits, grown) = (lag(&facts.now), lag(&facts.now) - lag(before));
    let committed = (facts.now.records_committed).saturating_sub(before.records_committed);
    // Less than a minute's work is not falling behind.
    if grown <= 0 || waits as f64 * seconds <= 60.0 * committed as f64 {
        return None;
    }
    let message = format!(
        "{waits} records wait, {:.0} more every second; {:.0} a second are committed",
        grown as f64 / seconds,
        committed as f64 / seconds
    );
    let finding = LiveFinding::new(Warning, "lag_grows", "stoatflowlaggrows", message);
    Some(finding.next(
        "see /top: make the busiest function cheaper, an expression or async; if one lane is at work, one key has \
            most of the records",
    ))
}

fn watermark(facts: &Facts<'_>) -> Option<LiveFinding> {
    let (before, seconds) = facts.before(STANDSTILL_SAMPLE_SPAN)?;
    let now = &facts.now;
    let stands = now.watermark == before.watermark && now.records_in > before.records_in;
    if !(stands && facts.status.by_watermark.load(Relaxed)) {
        return None;
    }
    let partitions = facts.status.partitions();
    let holder = partitions.iter().find(|p| p.holds_back)?;
    let message = format!(
        "the watermark has not moved for {seconds:.0} s while records came: it waits for '{}' partition {}",
        holder.topic, holder.partition
    );
    let finding = LiveFinding::new(
        Warning,
        "watermark_held_back",
        "stoatflowwatermarkheldback",
        message,
    );
    Some(finding.next(
        "mend the producer of that topic; if silence is normal there, say .idle(\"1m\") at its source, or in \
            watermark.default",
    ))
}

fn one_lane(facts: &Facts<'_>) -> Option<LiveFinding> {
    let (before, seconds) = facts.before(BUSY_LANE_SAMPLE_SPAN)?;
    let both = facts.now.lanes.iter().zip(&before.lanes);
    let shares = both.map(|(now, was)| now.busy.saturating_sub(was.busy).as_secs_f64() / seconds);
    let mut shares: Vec<(usize, f64)> = shares.enumerate().collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let ((lane, busy), others) = shares.split_first()?;
    if others.is_empty() {
        return None;
    }
    let mean = others.iter().map(|(_, share)| share).sum::<f64>() / others.len() as f64;
    if *busy < 0.9 || mean > 0.5 {
        return None;
    }
    let message = format!(
        "lane {lane} is at work {:.0} % of the time, the others {:.0} %: more lanes don't help",
        100.0 * busy.min(1.0),
        100.0 * mean
    );
    let finding = LiveFinding::new(
        Info,
        "one_busy_lane",
        "what-keeps-an-application-busy",
        message,
    );
    Some(finding.next(
        "see the keys of /top: one of them has most of the records. Divide them by another key, or do the work \
            before the new key is made",
    ))
}
