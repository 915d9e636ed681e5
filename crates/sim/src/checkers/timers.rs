//! Checks timers and a scheduled source.
//!
//! Takes the input topic, the timers that fired, those that are still registered, and the ticks. Under
//! exactly-once each timer fires once and each tick is emitted once; under at-least-once nothing may be
//! missing. No timer fires early.

#[cfg(test)]
mod tests;

use super::tables::{number, same_keys};
use super::{History, Verdict, ensure, history, newest};
use crate::broker::SimBroker;
use crate::workload::functions::FINAL_KEY;
use crate::workload::timers::{EVERY_MS, SCHEDULE, STORE, TICKS, due, echo_key, timer_key};
use crate::workload::{APPLICATION, Part};
use bytes::Bytes;
use std::collections::BTreeMap;

/// One firing of a timer, as the processor reported it.
#[derive(Debug, PartialEq, Eq)]
struct Firing {
    domain: String,
    at: i64,
    now: i64,
}

impl Firing {
    fn parse(reported: &str) -> Option<Self> {
        let mut parts = reported.split('@');
        let mut next = || parts.next();
        Some(Self {
            domain: next()?.to_owned(),
            at: next()?.parse().ok()?,
            now: next()?.parse().ok()?,
        })
    }
}

type Firings = BTreeMap<String, Vec<Firing>>;

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The due time of each event-time timer. Each of them that is no echo has a processing-time timer too.
fn registered(broker: &SimBroker) -> BTreeMap<String, i64> {
    let records = broker.visible("bells").into_iter().flatten();
    let timer = |(_, kept): (_, crate::topic::LogRecord)| {
        let (key, value) = (text(&kept.key?), text(&kept.value?));
        (key != FINAL_KEY).then(|| (timer_key(&key, &value), due(kept.timestamp.0)))
    };
    let with_echo = |(timer, due): (String, i64)| [(echo_key(&timer), due), (timer, due)];
    records.filter_map(timer).flat_map(with_echo).collect()
}

fn firings(seen: &History) -> Result<Firings, String> {
    let mut firings = Firings::new();
    for (key, values) in seen {
        let reported = |value: &Option<Bytes>| {
            let firing = value.as_ref().and_then(|v| Firing::parse(&text(v)));
            firing.ok_or_else(|| format!("{key:?} has {value:?}, which no timer tells"))
        };
        let fired = values.iter().map(reported).collect::<Result<_, _>>()?;
        firings.insert(text(key), fired);
    }
    Ok(firings)
}

/// Checks the timers. `once` means exactly-once, otherwise at-least-once.
pub(super) fn check(broker: &SimBroker, seen: &History, once: bool) -> Verdict {
    check_firings(&registered(broker), &firings(seen)?, once)?;
    none_left(broker)
}

fn check_firings(set: &BTreeMap<String, i64>, firings: &Firings, once: bool) -> Verdict {
    same_keys(set, firings)?;
    for (timer, due) in set {
        let fired = &firings[timer];
        ensure!(
            fired.iter().all(|firing| firing.now >= firing.at),
            "'{timer}' fired before its time: {fired:?}"
        );
        for (domain, wanted) in [("event", true), ("processing", !timer.ends_with('!'))] {
            let times = fired
                .iter()
                .filter(|firing| firing.domain == domain)
                .count();
            let right = times == usize::from(wanted) || wanted && times > 1 && !once;
            ensure!(
                right,
                "'{timer}' fired {times} times by {domain} time: {fired:?}"
            );
        }
        let events = fired.iter().filter(|firing| firing.domain == "event");
        let wrong: Vec<i64> = events
            .map(|firing| firing.at)
            .filter(|at| at != due)
            .collect();
        ensure!(
            wrong.is_empty(),
            "'{timer}' fired for {wrong:?} instead of {due}"
        );
    }
    Ok(())
}

/// Checks that no timer is left.
fn none_left(broker: &SimBroker) -> Verdict {
    let changelog = format!("{APPLICATION}-{STORE}-changelog");
    let pending: Vec<Bytes> = newest(&history(broker, &changelog)?).into_keys().collect();
    ensure!(pending.is_empty(), "timers are still kept: {pending:?}");
    Ok(())
}

fn tick_times(broker: &SimBroker) -> Result<Vec<i64>, String> {
    let records = broker.visible(TICKS).into_iter().flatten();
    records.map(|(_, kept)| number(&kept.value)).collect()
}

/// Checks that all timers have fired, and that there is a tick after this time.
pub(super) fn check_idle(part: Part, broker: &SimBroker, after: i64) -> Verdict {
    none_left(broker)?;
    let last = tick_times(broker)?.last().copied();
    ensure!(
        part == Part::Timers(false) || last > Some(after),
        "the last tick is {last:?}, all is well since {after}"
    );
    Ok(())
}

/// The number of ticks emitted before the schedule's position was committed for the first time; `None`
/// after that. If an engine dies before that commit, the next one begins the schedule anew. (Under
/// exactly-once such ticks are never visible.)
pub(crate) fn uncommitted_ticks(broker: &SimBroker) -> Option<usize> {
    let marks = newest(&history(broker, &format!("{APPLICATION}-clocks-changelog")).ok()?);
    let counts = marks.contains_key(format!("schedule:{SCHEDULE}").as_bytes());
    (!counts).then(|| tick_times(broker).map_or(0, |times| times.len()))
}

/// Checks the ticks after the uncommitted ones.
pub(super) fn ticks(broker: &SimBroker, uncommitted_ticks: usize, once: bool) -> Verdict {
    let times = tick_times(broker)?;
    let skipped = if once {
        0
    } else {
        uncommitted_ticks.min(times.len())
    };
    check_intervals(&times[skipped..], once)
}

fn check_intervals(ticks: &[i64], once: bool) -> Verdict {
    let mut ticks = ticks.to_vec();
    if !once {
        ticks.sort_unstable();
        ticks.dedup();
    }
    ensure!(!ticks.is_empty(), "there was no tick");
    for pair in ticks.windows(2) {
        ensure!(
            pair[1] - pair[0] == EVERY_MS,
            "after the tick of {} came that of {}",
            pair[0],
            pair[1]
        );
    }
    ensure!(
        ticks[0] % EVERY_MS == 0,
        "{} is no time for a tick",
        ticks[0]
    );
    Ok(())
}
