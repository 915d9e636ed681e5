//! Checks joins and windows: the expected results are computed directly from the input topics.

use super::tables::Rule;
use super::{History, Verdict, ensure, history, newest};
use crate::broker::SimBroker;
use crate::workload::APPLICATION;
use crate::workload::functions::{FINAL_KEY, GRACE_MS, REACH_MS, SIZE_MS, group, pair};
use bytes::Bytes;
use std::collections::BTreeMap;

/// A record with a key and a value.
struct KeyedRecord {
    key: Bytes,
    value: Option<Bytes>,
    time: i64,
}

fn keyed_records(broker: &SimBroker, topic: &str) -> Vec<KeyedRecord> {
    let all = broker.visible(topic).into_iter().flatten();
    let with_key = |(_, kept): (_, crate::topic::LogRecord)| {
        Some(KeyedRecord {
            key: kept.key?,
            value: kept.value,
            time: kept.timestamp.0,
        })
    };
    all.filter_map(with_key).collect()
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks that every window that stream time has closed is emitted once, with the count of all its
/// records, and no other window is.
pub(super) fn windows(broker: &SimBroker, seen: &History, rule: Rule) -> Verdict {
    let records = keyed_records(broker, "clicks");
    let now = records.iter().map(|g| g.time).max().unwrap_or(-1);
    let mut expected: BTreeMap<Bytes, i64> = BTreeMap::new();
    for record in records.iter().filter(|g| g.key != FINAL_KEY) {
        let start = record.time - record.time.rem_euclid(SIZE_MS);
        if start + SIZE_MS + GRACE_MS <= now {
            let key = [&record.key[..], &start.to_be_bytes()].concat();
            *expected.entry(Bytes::from(key)).or_insert(0) += 1;
        }
    }
    let mut seen = seen.clone();
    seen.retain(|key, _| !key.starts_with(FINAL_KEY.as_bytes()));
    super::tables::same_keys(&expected, &seen)?;
    for (key, count) in &expected {
        let exact = Some(Bytes::copy_from_slice(&count.to_be_bytes()));
        let values = &seen[key];
        if rule == Rule::AtLeast {
            // Non-negative numbers have the same order as their bytes.
            ensure!(
                values.last() >= Some(&exact),
                "the window {key:?} was given with {values:?}, less than {count}"
            );
        } else {
            ensure!(
                *values == [exact],
                "the window {key:?} was given with {values:?} instead of once with {count}"
            );
        }
    }
    Ok(())
}

/// A record is late exactly if a single lane, reading record after record, would find it late; every
/// other record is counted.
pub(super) fn races(broker: &SimBroker, seen: &History, rule: Rule) -> Verdict {
    let mut expected: BTreeMap<Bytes, i64> = BTreeMap::new();
    let mut stream_time = -1;
    for record in keyed_records(broker, "races") {
        stream_time = stream_time.max(record.time);
        let start = record.time - record.time.rem_euclid(SIZE_MS);
        let value = record.value.as_ref().map(text).unwrap_or_default();
        if start + SIZE_MS > stream_time {
            let key = [group(&value).as_bytes(), &start.to_be_bytes()].concat();
            *expected.entry(Bytes::from(key)).or_insert(0) += 1;
        }
    }
    let mut seen = seen.clone();
    if rule == Rule::AtLeast {
        // Stream times are persisted after offsets, so a record that was late may be in time when it is
        // read again.
        seen.retain(|key, _| expected.contains_key(key));
    }
    super::tables::same_keys(&expected, &seen)?;
    for (key, count) in &expected {
        let counts = seen[key].iter().map(super::tables::number);
        let counts: Vec<i64> = counts.collect::<Result<_, _>>()?;
        let last = counts.last().copied().unwrap_or(0);
        let right = match rule {
            Rule::Every => counts.iter().copied().eq(1..=*count),
            Rule::Last => last == *count,
            Rule::AtLeast => last >= *count,
        };
        ensure!(
            right,
            "the window {key:?} had {counts:?}, and {count} records in time"
        );
    }
    Ok(())
}

/// Checks that every two halves of a key that are near enough are joined once, and that every left half
/// without a right one appears once.
pub(super) fn pairs(broker: &SimBroker, seen: &History, rule: Rule) -> Verdict {
    let records = keyed_records(broker, "halves");
    let halves = |first: &'static str| {
        records.iter().filter_map(move |g| {
            let value = g.value.as_ref().map(text)?;
            value.starts_with(first).then_some((&g.key, value, g.time))
        })
    };
    let mut expected: BTreeMap<(Bytes, String), usize> = BTreeMap::new();
    for (key, left, time) in halves("l") {
        let near = halves("r").filter(|(k, _, t)| *k == key && (t - time).abs() <= REACH_MS);
        let mut found: Vec<String> = near.map(|(_, r, _)| pair(&left, Some(&r))).collect();
        if found.is_empty() {
            found.push(pair(&left, None));
        }
        for joined in found {
            *expected.entry((key.clone(), joined)).or_insert(0) += 1;
        }
    }
    let mut shown: BTreeMap<(Bytes, String), usize> = BTreeMap::new();
    for (key, values) in seen {
        for value in values {
            let value = value.as_ref().map(text).unwrap_or_default();
            *shown.entry((key.clone(), value)).or_insert(0) += 1;
        }
    }
    if rule == Rule::AtLeast && broker.has_expired_offsets() {
        // Under at-least-once the offsets topic may lack the last commit, and after a long pause only
        // that topic is left. A record that is then read again may find that its partner has left the
        // window.
        shown.retain(|row, _| expected.contains_key(row) || !row.1.ends_with(&pair("", None)));
    }
    super::tables::same_keys(&expected, &shown)?;
    ensure!(
        rule == Rule::AtLeast || expected == shown,
        "{shown:?} were given instead of {expected:?}"
    );
    Ok(())
}

/// In the end each order is joined with the last value of its goods, if there is one.
pub(super) fn foreign(broker: &SimBroker, seen: &History, rule: Rule, cached: bool) -> Verdict {
    let last = |topic: &str| {
        let mut rows = BTreeMap::new();
        for record in keyed_records(broker, topic) {
            rows.insert(record.key, record.value);
        }
        rows
    };
    let goods = last("goods");
    let join = |(key, order): (Bytes, Option<Bytes>)| {
        let order = text(&order?);
        let good = goods.get(group(&order).as_bytes())?.as_ref().map(text)?;
        Some((key, Bytes::from(pair(&order, Some(&good)))))
    };
    let expected: BTreeMap<Bytes, Bytes> = last("orders").into_iter().filter_map(join).collect();
    let changelog = format!("{APPLICATION}-ordered-store-changelog");
    let mut kept = newest(&history(broker, &changelog)?);
    // A crash may keep the deletion of a table's row without that of the joined row. When the deletion
    // is processed again, a cache sees no row before and none after, and forwards nothing (as in Kafka
    // Streams).
    if rule == Rule::AtLeast && cached {
        kept.retain(|key, _| expected.contains_key(key));
    }
    ensure!(
        expected == kept,
        "{changelog} ends with {kept:?} instead of {expected:?}"
    );
    // Under at-least-once a joined row may have been emitted that a crash rolled back before it was
    // stored. The second time, when the updates of the tables arrive in another order, it may never
    // exist (as in Kafka Streams).
    let mut shown = newest(seen);
    if rule == Rule::AtLeast {
        shown.retain(|key, _| expected.contains_key(key));
    }
    ensure!(
        expected == shown,
        "orders end with {shown:?} instead of {expected:?}"
    );
    Ok(())
}
