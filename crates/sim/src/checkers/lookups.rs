//! Checks a left join of a stream with a table by an async joiner.
//!
//! Each record yields one result, joined with a row that the table had at some time, or a dead letter if
//! its calls failed. Results of a key are in the order of its records, and none has an older row than
//! the one before.

use super::stateless::{Positions, positions, text};
use super::{Verdict, ensure};
use crate::broker::SimBroker;
use crate::workload::async_calls::{CallSettings, Fate};
use crate::workload::functions::pair;
use crate::workload::lookups::{DEAD_LETTERS, RECORDS, RESULTS, ROWS};
use std::collections::{BTreeMap, BTreeSet};

/// The versions of each key's row, in order; the first one is none.
type Rows = BTreeMap<String, Vec<Option<String>>>;

fn rows(broker: &SimBroker) -> Rows {
    let mut rows = Rows::new();
    for (_, kept) in broker.visible(ROWS).into_iter().flatten() {
        if let Some(key) = kept.key {
            let of_key = rows.entry(text(&key)).or_insert_with(|| vec![None]);
            of_key.push(kept.value.as_ref().map(text));
        }
    }
    rows
}

/// A result: the earliest and the latest version of its key's row that it can have, and its position.
struct JoinedResult {
    earliest: usize,
    latest: usize,
    position: (usize, usize),
}

/// Checks this part. `once` means exactly-once, otherwise at-least-once.
pub(super) fn check(settings: CallSettings, broker: &SimBroker, once: bool) -> Verdict {
    let (shown, letters) = (positions(broker, RESULTS), positions(broker, DEAD_LETTERS));
    let rows = rows(broker);
    let mut by_left: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for result in shown.keys() {
        let left = result.split('+').next().unwrap_or_default();
        by_left.entry(left).or_default().push(result);
    }
    let mut wanted = BTreeSet::new();
    let exact = |count: usize| count == 1 || !once && count > 1;
    for records in broker.visible(RECORDS) {
        let mut last: BTreeMap<String, JoinedResult> = BTreeMap::new();
        for (_, kept) in records {
            let value = kept.value.as_ref().map(text).unwrap_or_default();
            let key = kept.key.as_ref().map(text);
            let failed = letters.get(&value).map_or(0, Vec::len);
            let results = by_left.get(&*value).map_or(&[][..], Vec::as_slice);
            let emitted: usize = results.iter().map(|result| shown[*result].len()).sum();
            let fails = matches!(settings.fate(&value), Fate::Refused | Fate::Silent);
            let (right, wrong) = if fails {
                (failed, emitted)
            } else {
                (emitted, failed)
            };
            ensure!(
                exact(right) && wrong == 0,
                "'{value}' of {key:?} is {emitted} times in {RESULTS} and {failed} times in {DEAD_LETTERS}"
            );
            for result in results {
                let joined = joined(result, &value, key.as_deref(), &rows, &shown)?;
                if let (Some(key), true) = (&key, once) {
                    check_order(key, result, joined, &mut last)?;
                }
            }
            wanted.insert(value);
        }
    }
    let extra: Vec<_> = by_left.keys().filter(|v| !wanted.contains(**v)).collect();
    ensure!(extra.is_empty(), "{extra:?} are too many in {RESULTS}");
    Ok(())
}

/// The versions of the row that a result can have.
fn joined(
    result: &str,
    value: &str,
    key: Option<&str>,
    rows: &Rows,
    shown: &Positions,
) -> Result<JoinedResult, String> {
    let nothing = vec![None];
    let of_key = key.and_then(|key| rows.get(key)).unwrap_or(&nothing);
    let is = |row: &Option<String>| pair(value, row.as_deref()) == result;
    let (earliest, latest) = (of_key.iter().position(is), of_key.iter().rposition(is));
    let at = &shown[result];
    ensure!(
        at.iter().all(|(k, ..)| k.as_deref() == key),
        "'{result}' has another key than {key:?}: {at:?}"
    );
    match (earliest, latest) {
        (Some(earliest), Some(latest)) => Ok(JoinedResult {
            earliest,
            latest,
            position: (at[0].1, at[0].2),
        }),
        _ => Err(format!(
            "'{result}' was given for {key:?}, whose rows were {of_key:?}"
        )),
    }
}

fn check_order(
    key: &str,
    result: &str,
    mut joined: JoinedResult,
    last: &mut BTreeMap<String, JoinedResult>,
) -> Verdict {
    if let Some(before) = last.get(key) {
        ensure!(
            before.position.0 == joined.position.0 && before.position.1 < joined.position.1,
            "'{result}' of '{key}' stands at {:?} of {RESULTS}, what came before it at {:?}",
            joined.position,
            before.position
        );
        ensure!(
            before.earliest <= joined.latest,
            "'{result}' of '{key}' has the row {} at the latest, what came before it had the row {}",
            joined.latest,
            before.earliest
        );
        joined.earliest = joined.earliest.max(before.earliest);
    }
    last.insert(key.to_owned(), joined);
    Ok(())
}
