//! Checks timers and a scheduled source.
//!
//! Takes the input topic, the timers that fired, those that are still registered, and the ticks. Under
//! exactly-once each timer fires once and each tick is emitted once; under at-least-once nothing may be
//! missing. No timer fires early.

#[cfg(test)]
mod tests;

use super::tables::{number, same_keys};
use super::{History, Verdict, history, hold, newest};
use crate::broker::SimBroker;
use crate::workload::bells::{BEAT, BEATS, EVERY_MS, STORE, bell, due, echo};
use crate::workload::functions::CLOSER;
use crate::workload::{APPLICATION, Part};
use bytes::Bytes;
use std::collections::BTreeMap;

/// One firing of a timer, as the processor reported it.
#[derive(Debug, PartialEq, Eq)]
struct Ring {
    domain: String,
    at: i64,
    now: i64,
}

impl Ring {
    fn parse(told: &str) -> Option<Self> {
        let mut parts = told.split('@');
        let mut next = || parts.next();
        Some(Self {
            domain: next()?.to_owned(),
            at: next()?.parse().ok()?,
            now: next()?.parse().ok()?,
        })
    }
}

type Rings = BTreeMap<String, Vec<Ring>>;

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The due time of each event-time timer. Each of them that is no echo has a processing-time timer too.
fn set(broker: &SimBroker) -> BTreeMap<String, i64> {
    let records = broker.visible("bells").into_iter().flatten();
    let timer = |(_, kept): (_, crate::topic::Kept)| {
        let (key, value) = (text(&kept.key?), text(&kept.value?));
        (key != CLOSER).then(|| (bell(&key, &value), due(kept.timestamp.0)))
    };
    let with_echo = |(bell, due): (String, i64)| [(echo(&bell), due), (bell, due)];
    records.filter_map(timer).flat_map(with_echo).collect()
}

fn rings(seen: &History) -> Result<Rings, String> {
    let mut rings = Rings::new();
    for (key, values) in seen {
        let told = |value: &Option<Bytes>| {
            let ring = value.as_ref().and_then(|v| Ring::parse(&text(v)));
            ring.ok_or_else(|| format!("{key:?} has {value:?}, which no timer tells"))
        };
        let rung = values.iter().map(told).collect::<Result<_, _>>()?;
        rings.insert(text(key), rung);
    }
    Ok(rings)
}

/// Checks the timers. `once` means exactly-once, otherwise at-least-once.
pub(super) fn timers(broker: &SimBroker, seen: &History, once: bool) -> Verdict {
    judge(&set(broker), &rings(seen)?, once)?;
    all_rung(broker)
}

fn judge(set: &BTreeMap<String, i64>, rings: &Rings, once: bool) -> Verdict {
    same_keys(set, rings)?;
    for (bell, due) in set {
        let rung = &rings[bell];
        hold!(
            rung.iter().all(|ring| ring.now >= ring.at),
            "'{bell}' rang before its time: {rung:?}"
        );
        for (domain, wanted) in [("event", true), ("processing", !bell.ends_with('!'))] {
            let times = rung.iter().filter(|ring| ring.domain == domain).count();
            let right = times == usize::from(wanted) || wanted && times > 1 && !once;
            hold!(
                right,
                "'{bell}' rang {times} times by {domain} time: {rung:?}"
            );
        }
        let events = rung.iter().filter(|ring| ring.domain == "event");
        let wrong: Vec<i64> = events.map(|ring| ring.at).filter(|at| at != due).collect();
        hold!(
            wrong.is_empty(),
            "'{bell}' rang for {wrong:?} instead of {due}"
        );
    }
    Ok(())
}

/// Checks that no timer is left.
fn all_rung(broker: &SimBroker) -> Verdict {
    let changelog = format!("{APPLICATION}-{STORE}-changelog");
    let pending: Vec<Bytes> = newest(&history(broker, &changelog)?).into_keys().collect();
    hold!(pending.is_empty(), "timers are still kept: {pending:?}");
    Ok(())
}

fn beats(broker: &SimBroker) -> Result<Vec<i64>, String> {
    let records = broker.visible(BEATS).into_iter().flatten();
    records.map(|(_, kept)| number(&kept.value)).collect()
}

/// Checks that all timers have fired, and that there is a tick after this time.
pub(super) fn quiet(part: Part, broker: &SimBroker, after: i64) -> Verdict {
    all_rung(broker)?;
    let last = beats(broker)?.last().copied();
    hold!(
        part == Part::Bells(false) || last > Some(after),
        "the last tick is {last:?}, all is well since {after}"
    );
    Ok(())
}

/// The number of ticks emitted before the schedule's position was committed for the first time; `None`
/// after that. If an engine dies before that commit, the next one begins the schedule anew. (Under
/// exactly-once such ticks are never visible.)
pub(crate) fn uncounted(broker: &SimBroker) -> Option<usize> {
    let marks = newest(&history(broker, &format!("{APPLICATION}-clocks-changelog")).ok()?);
    let counts = marks.contains_key(format!("schedule:{BEAT}").as_bytes());
    (!counts).then(|| beats(broker).map_or(0, |beats| beats.len()))
}

/// Checks the ticks after the uncounted ones.
pub(super) fn ticks(broker: &SimBroker, uncounted: usize, once: bool) -> Verdict {
    let beats = beats(broker)?;
    let skipped = if once { 0 } else { uncounted.min(beats.len()) };
    regular(&beats[skipped..], once)
}

fn regular(ticks: &[i64], once: bool) -> Verdict {
    let mut ticks = ticks.to_vec();
    if !once {
        ticks.sort_unstable();
        ticks.dedup();
    }
    hold!(!ticks.is_empty(), "there was no tick");
    for pair in ticks.windows(2) {
        hold!(
            pair[1] - pair[0] == EVERY_MS,
            "after the tick of {} came that of {}",
            pair[0],
            pair[1]
        );
    }
    hold!(
        ticks[0] % EVERY_MS == 0,
        "{} is no time for a tick",
        ticks[0]
    );
    Ok(())
}
