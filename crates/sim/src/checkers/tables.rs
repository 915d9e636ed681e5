//! Checks tables: the expected values are computed directly from the input topics.

use super::{
    History, Verdict, bank, ensure, history, joined, lookups, offloads, stateless, timed, timers,
};
use crate::broker::SimBroker;
use crate::workload::{Job, Part, functions};
use bytes::Bytes;
use std::collections::BTreeMap;
use stoatflow_core::Guarantee;

/// How exact the outputs must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Every update appears once, in order.
    Every,
    /// Each update is applied exactly once, but caching may skip intermediate ones within an epoch.
    Last,
    /// Nothing is missing.
    AtLeast,
}

fn rule(job: &Job) -> Rule {
    match (job.guarantee, job.cached) {
        (Guarantee::AtLeastOnce, _) => Rule::AtLeast,
        (Guarantee::ExactlyOnceV2, false) => Rule::Every,
        (Guarantee::ExactlyOnceV2, true) => Rule::Last,
    }
}

/// One input record: key, value.
type Input = (Option<Bytes>, Option<Bytes>);

/// Input records, partition by partition.
fn inputs(broker: &SimBroker, part: Part) -> Vec<Input> {
    let partitions = broker.visible(part.input()).into_iter();
    partitions
        .flatten()
        .map(|(_, kept)| (kept.key, kept.value))
        .collect()
}

pub(super) fn number(bytes: &Option<Bytes>) -> Result<i64, String> {
    let fixed = bytes
        .as_ref()
        .and_then(|b| <[u8; 8]>::try_from(b.as_ref()).ok());
    fixed
        .map(i64::from_be_bytes)
        .ok_or_else(|| format!("{bytes:?} is no number of eight bytes"))
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

type Numbers = BTreeMap<String, Vec<i64>>;

fn numbers(history: &History) -> Result<Numbers, String> {
    let list = |values: &Vec<Option<Bytes>>| values.iter().map(number).collect::<Result<_, _>>();
    history
        .iter()
        .map(|(key, values)| Ok((text(key), list(values)?)))
        .collect()
}

/// Checks one part.
pub(super) fn check(part: Part, job: &Job, broker: &SimBroker) -> Verdict {
    let rule = rule(job);
    let once = rule != Rule::AtLeast;
    // The records of these parts need no keys.
    match part {
        Part::Offloads(settings) => return offloads::check(settings, broker, once),
        Part::Lookups(settings) => return lookups::check(settings, broker, once),
        part if part.is_stateless() => return stateless::check(part, broker, once),
        _ => {}
    }
    let given = inputs(broker, part);
    let first = history(broker, part.outputs()[0])?;
    match part {
        Part::Words(_) => {
            let seen = numbers(&first)?;
            counts(&word_counts(&given), &seen, rule)?;
            no_update_left_out(&seen, job)
        }
        Part::Counts => {
            let first = numbers(&first)?;
            counts(&word_counts(&given), &first, rule)?;
            no_update_left_out(&first, job)?;
            let second = numbers(&history(broker, part.tables()[1].0)?)?;
            if rule == Rule::AtLeast {
                return Ok(());
            }
            // Every update of the first table is one record of the second.
            let mut expected = BTreeMap::new();
            for value in first.values().flatten() {
                *expected.entry(value.to_string()).or_insert(0) += 1;
            }
            counts(&expected, &second, rule).map_err(|e| format!("second table: {e}"))
        }
        Part::Sums => {
            let first = numbers(&first)?;
            sums(&given, &first, rule)?;
            let second = numbers(&history(broker, part.tables()[1].0)?)?;
            tops(&first, &second, rule).map_err(|e| format!("second table: {e}"))
        }
        Part::Rows => rows(&given, &first, rule, job.cached),
        Part::Latest => latest(broker, part, &first, rule),
        Part::Windows(_) => timed::windows(broker, &first, rule),
        Part::Pairs(_) => timed::pairs(broker, &first, rule),
        Part::Races => timed::races(broker, &first, rule),
        Part::Foreign(_) => timed::foreign(broker, &first, rule, job.cached),
        Part::Joined => joined::check(broker, &first, rule, job.cached),
        Part::Timers(_) => timers::check(broker, &first, once),
        Part::Bank => bank::balances(broker, once),
        _ => Ok(()),
    }
}

fn word_counts(given: &[Input]) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for line in given.iter().filter_map(|(_, value)| value.as_ref()) {
        for word in functions::words(&text(line)) {
            *counts.entry(word).or_insert(0) += 1;
        }
    }
    counts
}

fn counts(expected: &BTreeMap<String, i64>, seen: &Numbers, rule: Rule) -> Verdict {
    same_keys(expected, seen)?;
    for (key, count) in expected {
        let values = &seen[key];
        let rising = values.windows(2).all(|w| w[0] < w[1]);
        let last = values.last().copied().unwrap_or(0);
        match rule {
            Rule::Every => ensure!(
                values.iter().copied().eq(1..=*count),
                "'{key}' was counted {values:?} instead of 1 to {count}"
            ),
            Rule::Last => ensure!(
                rising && last == *count,
                "'{key}' was counted {values:?}, rising to {count} was expected"
            ),
            Rule::AtLeast => {
                ensure!(
                    last >= *count,
                    "'{key}' was counted {values:?}, less than {count}"
                );
            }
        }
    }
    Ok(())
}

/// Without caching, a count rises by one, or goes back to an earlier count and rises from there: after a
/// crash the state is never ahead of the results.
fn no_update_left_out(seen: &Numbers, job: &Job) -> Verdict {
    for (key, values) in seen.iter().filter(|_| !job.cached) {
        let mut most = 0;
        for value in values {
            ensure!(
                *value <= most + 1,
                "'{key}' was counted {values:?}: the update before {value} was left out"
            );
            most = most.max(*value);
        }
    }
    Ok(())
}

pub(super) fn same_keys<K: Ord + std::fmt::Debug, A, B>(
    expected: &BTreeMap<K, A>,
    seen: &BTreeMap<K, B>,
) -> Verdict {
    let missing: Vec<_> = expected.keys().filter(|k| !seen.contains_key(*k)).collect();
    let extra: Vec<_> = seen.keys().filter(|k| !expected.contains_key(*k)).collect();
    ensure!(
        missing.is_empty() && extra.is_empty(),
        "keys {missing:?} are missing, {extra:?} are too many"
    );
    Ok(())
}

fn sums(given: &[Input], seen: &Numbers, rule: Rule) -> Verdict {
    let mut expected: Numbers = BTreeMap::new();
    for (_, value) in given.iter().filter(|(_, value)| value.is_some()) {
        let value = number(value)?;
        expected
            .entry(functions::bucket(value))
            .or_default()
            .push(value);
    }
    same_keys(&expected, seen)?;
    for (key, mut parts) in expected {
        let values = &seen[&key];
        let total: i64 = parts.iter().sum();
        let last = values.last().copied().unwrap_or(0);
        let rising = values.windows(2).all(|w| w[0] < w[1]);
        match rule {
            Rule::Every => {
                let mut steps: Vec<i64> = values
                    .iter()
                    .scan(0, |sum, v| Some(v - std::mem::replace(sum, *v)))
                    .collect();
                steps.sort_unstable();
                parts.sort_unstable();
                ensure!(
                    steps == parts,
                    "'{key}' went {values:?}, the summands are {parts:?}"
                );
            }
            Rule::Last => {
                ensure!(
                    rising && last == total,
                    "'{key}' went {values:?}, the sum is {total}"
                );
            }
            Rule::AtLeast => ensure!(last >= total, "'{key}' went {values:?}, the sum is {total}"),
        }
    }
    Ok(())
}

/// The second table of the sums: the greatest sum of each half.
fn tops(sums: &Numbers, seen: &Numbers, rule: Rule) -> Verdict {
    let mut expected: BTreeMap<String, (i64, usize)> = BTreeMap::new();
    for (bucket, values) in sums {
        let top = expected
            .entry(functions::half(bucket).to_owned())
            .or_default();
        top.0 = top.0.max(values.iter().max().copied().unwrap_or(0));
        top.1 += values.len();
    }
    same_keys(&expected, seen)?;
    for (key, (top, updates)) in expected {
        let values = &seen[&key];
        let last = values.last().copied().unwrap_or(0);
        if rule == Rule::AtLeast {
            // A sum that was emitted and then rolled back by a crash may be greater.
            ensure!(last > 0, "'{key}' went {values:?}");
            continue;
        }
        let rising = values.windows(2).all(|w| w[0] <= w[1]);
        ensure!(
            rising && last == top,
            "'{key}' went {values:?}, the greatest sum is {top}"
        );
        ensure!(
            rule != Rule::Every || values.len() == updates,
            "'{key}' had {} updates instead of {updates}",
            values.len()
        );
    }
    Ok(())
}

fn rows(given: &[Input], seen: &History, rule: Rule, cached: bool) -> Verdict {
    let mut expected = History::new();
    for (key, value) in given {
        if let Some(key) = key {
            expected.entry(key.clone()).or_default().push(value.clone());
        }
    }
    if rule == Rule::Every {
        ensure!(
            expected == *seen,
            "the rows went {seen:?} instead of {expected:?}"
        );
    }
    let last = super::newest(&expected);
    let shown = super::newest(seen);
    let may_miss_deletions = rule == Rule::AtLeast && cached;
    let agree = |(key, value): (&Bytes, &Bytes)| shown.get(key) == Some(value);
    ensure!(
        if may_miss_deletions {
            last.iter().all(agree)
        } else {
            last == shown
        },
        "the rows end as {shown:?} instead of {last:?}"
    );
    if rule == Rule::Last {
        for (key, values) in seen {
            let mut all = expected.get(key).into_iter().flatten();
            let in_order = values.iter().all(|v| all.any(|e| e == v));
            ensure!(
                in_order,
                "the row {key:?} went {values:?}, given was {:?}",
                expected.get(key)
            );
        }
    }
    Ok(())
}

/// Within each group, values from one key of one partition must be in order.
fn latest(broker: &SimBroker, part: Part, seen: &History, rule: Rule) -> Verdict {
    let mut paths: BTreeMap<(String, usize, Option<Bytes>), Vec<Bytes>> = BTreeMap::new();
    for (partition, records) in broker.visible(part.input()).into_iter().enumerate() {
        for (_, kept) in records {
            let Some(value) = kept.value else { continue };
            let group = functions::group(&text(&value)).to_owned();
            paths
                .entry((group, partition, kept.key))
                .or_default()
                .push(value);
        }
    }
    let mut total = 0;
    for ((group, partition, key), path) in &paths {
        let Some(values) = seen.get(group.as_bytes()) else {
            return Err(format!("the group '{group}' never appeared"));
        };
        let of_path: Vec<&Bytes> = values
            .iter()
            .flatten()
            .filter(|v| path.contains(v))
            .collect();
        total += of_path.len();
        match rule {
            Rule::Every => ensure!(
                of_path.iter().copied().eq(path),
                "{key:?} of partition {partition} went to '{group}' as {of_path:?} instead of {path:?}"
            ),
            Rule::Last => {
                let mut all = path.iter();
                let in_order = of_path.iter().all(|v| all.any(|e| e == *v));
                ensure!(
                    in_order,
                    "{key:?} of partition {partition} went to '{group}' as {of_path:?}, given was {path:?}"
                );
            }
            Rule::AtLeast => {}
        }
    }
    let shown: usize = seen.values().map(Vec::len).sum();
    ensure!(
        total == shown,
        "{shown} updates were shown, {total} of them belong to an input"
    );
    if rule == Rule::AtLeast {
        check_last_values(&paths, seen)?;
    }
    Ok(())
}

/// Checks that the last value of each group is the last value of some key.
fn check_last_values(
    paths: &BTreeMap<(String, usize, Option<Bytes>), Vec<Bytes>>,
    seen: &History,
) -> Verdict {
    for (group, values) in seen {
        let last = values.last().cloned().flatten();
        let lasts = paths
            .iter()
            .filter(|((g, ..), _)| g.as_bytes() == group.as_ref());
        let ended = lasts
            .map(|(_, path)| path.last().cloned())
            .any(|end| end == last);
        ensure!(
            ended,
            "'{}' ended with {last:?}, which is the last of no key",
            text(group)
        );
    }
    Ok(())
}
