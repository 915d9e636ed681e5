//! Findings about records: dropped, in calls that fail or hang, parked.

#![allow(clippy::cast_precision_loss)] // rates and shares, for people

use super::Facts;
use super::finding::LiveFinding;
use super::finding::Severity::{Info, Warning};
use crate::admin::function_calls::FunctionCost;
use crate::admin::status::is_expected_drop;
use std::time::Duration;
use stoatflow_operators::dropped;

/// Late records up to this share of the input are normal.
const LATE_SHARE: f64 = 0.01;
/// Failed calls from this share on are reported.
const FAILED_SHARE: f64 = 0.05;
/// A call that has run this long is reported as hanging.
const HANGS_MS: u64 = 60_000;

pub(super) fn find(facts: &Facts<'_>) -> Vec<LiveFinding> {
    let mut found = parked(facts);
    for function in &facts.now.functions {
        found.extend(failing(facts, function));
        found.extend(hanging(function));
    }
    found.extend(left_out(facts));
    found
}

fn parked(facts: &Facts<'_>) -> Vec<LiveFinding> {
    let full = facts.status.parked().into_iter();
    let full = full.filter(|(_, lot)| lot.most > 0 && lot.parked * 10 >= lot.most * 9);
    let findings = full.map(|(node, lot)| {
        let message = format!(
            "'{node}' has parked {} records of at most {}: at the bound its input is not read on",
            lot.parked, lot.most
        );
        LiveFinding::new(
            Warning,
            "parked_at_bound",
            "stoatflowparkedatbound",
            message,
        )
        .next("start its worker, or more of them; max_parked gives more room, on the disk")
    });
    findings.collect()
}

fn failing(facts: &Facts<'_>, now: &FunctionCost) -> Option<LiveFinding> {
    let (before, seconds) = facts.before(Duration::ZERO)?;
    let is_same = |f: &&FunctionCost| f.node == now.node && f.function == now.function;
    let was = before.functions.iter().find(is_same);
    let bad = |cost: &FunctionCost| {
        cost.awaited
            .map_or(0, |calls| calls.failed + calls.timed_out)
    };
    let failed = bad(now).saturating_sub(was.map_or(0, bad));
    let calls = now.calls.saturating_sub(was.map_or(0, |f| f.calls));
    if failed == 0 || (failed as f64) < FAILED_SHARE * calls as f64 {
        return None;
    }
    let message = format!(
        "{failed} calls of '{}' at '{}' failed or timed out in {seconds:.0} s, of {calls}",
        now.function, now.node
    );
    let finding = LiveFinding::new(
        Warning,
        "async_calls_fail",
        "stoatflowasynccallsfail",
        message,
    );
    Some(finding.next(
        "see /errors for the exception, and mend the service behind it; lower concurrency if it can't take so many \
            calls, raise timeout if it only takes longer",
    ))
}

fn hanging(function: &FunctionCost) -> Option<LiveFinding> {
    let call = function.oldest_call.as_ref()?;
    if call.for_ms < HANGS_MS {
        return None;
    }
    let message = format!(
        "a call of '{}' at '{}' has run for {} s, and {} records of its key wait behind it",
        function.function,
        function.node,
        call.for_ms / 1000,
        call.behind
    );
    let finding = LiveFinding::new(
        Warning,
        "async_call_hangs",
        "stoatflowasynccallshang",
        message,
    );
    Some(finding.next("give the function a timeout; if it has none, only a restart ends the call"))
}

/// A finding for each node and reason.
fn left_out(facts: &Facts<'_>) -> Vec<LiveFinding> {
    let drops = facts.now.drops.iter();
    let drops = drops.filter(|(_, reason, _)| !is_expected_drop(reason));
    let findings = drops.map(|(node, reason, count)| {
        let recent = recent_drops(facts, node, reason, *count);
        let read = facts.now.records_in.max(1) as f64;
        let is_late = matches!(*reason, dropped::LATE | dropped::LATE_DEAD_LETTER);
        let matters = recent > 0 && !(is_late && *count as f64 <= LATE_SHARE * read);
        let severity = if matters { Warning } else { Info };
        let records = match count {
            1 => "1 record was".to_owned(),
            _ => format!("{count} records were"),
        };
        let since = format!("since the start, {recent} of them lately: {reason}");
        if reason.ends_with("dead_letter") {
            let message = format!("{records} sent to a topic of dead letters by '{node}' {since}");
            return LiveFinding::new(severity, "dead_letters", "stoatflowdeadletters", message).next(
                "see them in /dead-letters, or with stoatflow dlq list TOPIC; mend the cause, then send them back \
                    with stoatflow dlq replay TOPIC",
            );
        }
        let section = if is_late { "stoatflowlaterecords" } else { "stoatflowrecordsdropped" };
        let message = format!("{records} left out by '{node}' {since}");
        let more = match reason.ends_with("_error") {
            true => ", and /errors for the last record",
            false => "",
        };
        let next = format!("see what it means with stoatflow explain {reason}{more}");
        LiveFinding::new(severity, "left_out", section, message).next(next)
    });
    findings.collect()
}

/// How many records were dropped since the earlier sample.
fn recent_drops(facts: &Facts<'_>, node: &str, reason: &str, count: u64) -> u64 {
    let before = facts.before.iter().flat_map(|sample| &sample.drops);
    let was = before
        .filter(|(of, why, _)| of == node && *why == reason)
        .map(|(_, _, count)| *count);
    // Without an earlier sample, all of them count.
    count.saturating_sub(was.sum())
}
