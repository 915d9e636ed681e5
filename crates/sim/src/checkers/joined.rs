//! Checks a join of two tables whose updates come from different stages.

use super::tables::{Rule, number};
use super::{History, Verdict, ensure, history, newest};
use crate::broker::SimBroker;
use crate::workload::APPLICATION;
use crate::workload::functions::{pair, tally, twin};
use bytes::Bytes;
use std::collections::BTreeMap;

type Rows = BTreeMap<Bytes, Bytes>;

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// In the end there is a row with both values for each key that both tables have, and the counts after
/// the other join are those of these rows: no row was retracted that had not been added.
pub(super) fn check(broker: &SimBroker, seen: &History, rule: Rule, cached: bool) -> Verdict {
    let plans = last(broker, "plans");
    let visits = last(broker, "visits").into_iter();
    let visits: Rows = visits
        .map(|(key, value)| (Bytes::from(twin(&text(&key))), value))
        .collect();
    let meet = |(key, plan): (&Bytes, &Bytes)| {
        let row = pair(&text(plan), Some(&text(visits.get(key)?)));
        Some((key.clone(), Bytes::from(row)))
    };
    let expected: Rows = plans.iter().filter_map(meet).collect();
    let changelog = format!("{APPLICATION}-planned-store-changelog");
    let kept = newest(&history(broker, &changelog)?);
    let there = |(key, row)| kept.get(key) == Some(row);
    // After a crash, the tombstone of one side may be in its changelog without the tombstone of the
    // joined row. When that side is read again, it is null before and after; with caching it then
    // forwards nothing, as in Kafka Streams, and the row stays.
    let more = rule == Rule::AtLeast && cached;
    ensure!(
        expected.iter().all(there) && (more || kept.len() == expected.len()),
        "{changelog} ends with {kept:?} instead of {expected:?}"
    );
    let shown = newest(seen);
    ensure!(
        rule == Rule::AtLeast || shown == expected,
        "the rows end as {shown:?} instead of {expected:?}"
    );
    if rule == Rule::AtLeast {
        // Updates that a crash cuts in two are counted twice, or not at all.
        return Ok(());
    }
    counts(broker, &expected)
}

fn counts(broker: &SimBroker, rows: &Rows) -> Verdict {
    let mut expected: BTreeMap<String, i64> = BTreeMap::new();
    for row in rows.values() {
        *expected.entry(tally(&text(row))).or_insert(0) += 1;
    }
    let mut shown = BTreeMap::new();
    for (key, values) in history(broker, "tally-out")? {
        let values: Vec<i64> = values.iter().map(number).collect::<Result<_, _>>()?;
        ensure!(
            values.iter().all(|count| *count >= 0),
            "'{}' went {values:?}: more rows were taken back than given",
            text(&key)
        );
        if let Some(count) = values.last().filter(|count| **count != 0) {
            shown.insert(text(&key), *count);
        }
    }
    ensure!(
        shown == expected,
        "the rows are counted as {shown:?} instead of {expected:?}"
    );
    Ok(())
}

/// The last value of each key; records without a key belong to no row.
fn last(broker: &SimBroker, topic: &str) -> Rows {
    let mut rows = BTreeMap::new();
    for (_, kept) in broker.visible(topic).into_iter().flatten() {
        if let Some(key) = kept.key {
            rows.insert(key, kept.value);
        }
    }
    let there = |(key, value): (Bytes, Option<Bytes>)| Some((key, value?));
    rows.into_iter().filter_map(there).collect()
}
