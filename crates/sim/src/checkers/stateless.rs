//! Checks operators without a table: each record yields its results or a dead letter, each once; those
//! of a key are in order.

use super::{Verdict, ensure};
use crate::broker::SimBroker;
use crate::workload::functions::group;
use crate::workload::{APPLICATION, Part};
use crate::workload::{async_calls, batches, late_records};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// What a value becomes.
enum Outcome {
    /// These results, in this order.
    Results(Vec<String>),
    /// A dead letter.
    DeadLetter,
    /// The value itself or a dead letter; which one is not known in advance.
    Either,
}

/// The topics of a part, and what its values become.
struct Expectation {
    input: &'static str,
    output: &'static str,
    letters: &'static str,
    outcome: fn(&str) -> Outcome,
    /// Whether the group of a value becomes its key.
    rekeyed: bool,
}

/// The positions of each value: key, partition, index.
pub(super) type Positions = BTreeMap<String, Vec<(Option<String>, usize, usize)>>;

pub(super) fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The positions of each value in a topic.
pub(super) fn positions(broker: &SimBroker, topic: &str) -> Positions {
    let mut positions = Positions::new();
    for (partition, records) in broker.visible(topic).into_iter().enumerate() {
        for (at, (_, kept)) in records.into_iter().enumerate() {
            let value = kept.value.as_ref().map(text).unwrap_or_default();
            let place = (kept.key.as_ref().map(text), partition, at);
            positions.entry(value).or_default().push(place);
        }
    }
    positions
}

/// Checks one part. `once` means exactly-once, otherwise at-least-once.
pub(super) fn check(part: Part, broker: &SimBroker, once: bool) -> Verdict {
    match part {
        Part::AsyncCalls(settings) => {
            let outcome = |value: &str| match async_calls::fate(value) {
                async_calls::Fate::Answered | async_calls::Fate::Flaky => {
                    Outcome::Results(vec![async_calls::answer(value)])
                }
                async_calls::Fate::Refused | async_calls::Fate::Silent => Outcome::DeadLetter,
            };
            let expectation = Expectation {
                input: "asks",
                output: "asks-out",
                letters: async_calls::DEAD_LETTERS,
                outcome,
                rekeyed: settings.rekeyed,
            };
            expectation.check(broker, once)?;
            nothing_parked(broker)
        }
        Part::Batches { .. } => {
            let outcome = |value: &str| {
                if batches::is_refused(value) {
                    return Outcome::DeadLetter;
                }
                Outcome::Results(batches::stamped(value))
            };
            let expectation = Expectation {
                input: "lots",
                output: "lots-out",
                letters: batches::DEAD_LETTERS,
                outcome,
                rekeyed: false,
            };
            expectation.check(broker, once)
        }
        Part::LateRecords => {
            let expectation = Expectation {
                input: "tardy",
                output: "tardy-out",
                letters: late_records::DEAD_LETTERS,
                outcome: |_| Outcome::Either,
                rekeyed: false,
            };
            expectation.check(broker, once)?;
            check_late_records(broker)
        }
        _ => Ok(()),
    }
}

impl Expectation {
    fn check(&self, broker: &SimBroker, once: bool) -> Verdict {
        let (shown, letters) = (
            positions(broker, self.output),
            positions(broker, self.letters),
        );
        let mut wanted = BTreeSet::new();
        for (partition, records) in broker.visible(self.input).into_iter().enumerate() {
            // The position of the last result, by the key before and after re-keying (records with
            // different keys may take different lanes).
            let mut last: BTreeMap<_, (usize, usize)> = BTreeMap::new();
            for (_, kept) in records {
                let value = kept.value.as_ref().map(text).unwrap_or_default();
                let given = kept.key.as_ref().map(text);
                let key = if self.rekeyed {
                    Some(group(&value).to_owned())
                } else {
                    given.clone()
                };
                let times = |all: &Positions, value: &str| all.get(value).map_or(0, Vec::len);
                let exact = |count: usize| count == 1 || !once && count > 1;
                let lost = times(&letters, &value);
                let results = match (self.outcome)(&value) {
                    Outcome::Results(results) => {
                        ensure!(lost == 0, "'{value}' is {lost} times in {}", self.letters);
                        results
                    }
                    Outcome::DeadLetter => {
                        ensure!(exact(lost), "'{value}' is {lost} times in {}", self.letters);
                        Vec::new()
                    }
                    Outcome::Either => {
                        let both = lost + times(&shown, &value);
                        ensure!(
                            exact(both),
                            "'{value}' is {both} times in {} and {} together",
                            self.output,
                            self.letters
                        );
                        let went_in = times(&shown, &value) > 0;
                        went_in.then(|| value.clone()).into_iter().collect()
                    }
                };
                let mut of_letters = letters.get(&value).into_iter().flatten();
                ensure!(
                    of_letters.all(|(key, ..)| *key == given),
                    "the letter of '{value}' has another key than {given:?}"
                );
                for result in results {
                    let at = shown.get(&result).map_or(&[][..], Vec::as_slice);
                    ensure!(
                        exact(at.len()),
                        "'{result}' of {key:?} is {} times in {}",
                        at.len(),
                        self.output
                    );
                    ensure!(
                        at.iter().all(|(k, ..)| *k == key),
                        "'{result}' has another key than {key:?}: {at:?}"
                    );
                    if let (Some(key), true, [(_, to, position)]) = (&key, once, at) {
                        let here = (*to, *position);
                        let before = last.insert((given.clone(), key.clone()), here);
                        ensure!(
                            before.is_none_or(|(p, at)| p == here.0 && at < here.1),
                            "'{result}' of '{key}' (partition {partition}) stands at {here:?} of {}, \
                                what came before it at {before:?}",
                            self.output
                        );
                    }
                    wanted.insert(result);
                }
            }
        }
        let extra: Vec<_> = shown.keys().filter(|v| !wanted.contains(*v)).collect();
        ensure!(
            extra.is_empty(),
            "{extra:?} are too many in {}",
            self.output
        );
        Ok(())
    }
}

/// Checks that no call is parked.
pub(super) fn nothing_parked(broker: &SimBroker) -> Verdict {
    let changelog = format!("{APPLICATION}-{}-changelog", async_calls::PARKED);
    let rows = super::newest(&super::history(broker, &changelog)?);
    let rows: Vec<Bytes> = rows.into_keys().collect();
    ensure!(rows.is_empty(), "calls are still parked: {rows:?}");
    Ok(())
}

/// Checks that the watermark in each dead letter had passed its record, and that some record had raised
/// the watermark that far.
fn check_late_records(broker: &SimBroker) -> Verdict {
    let inputs = broker.visible("tardy").into_iter().flatten();
    let newest = inputs.map(|(_, kept)| kept.timestamp.0).max().unwrap_or(-1);
    for (_, kept) in broker
        .visible(late_records::DEAD_LETTERS)
        .into_iter()
        .flatten()
    {
        let headers = kept.headers.iter().flat_map(|headers| headers.iter());
        let watermark = headers
            .filter(|header| header.name.ends_with(".watermark"))
            .find_map(|header| text(header.value.as_ref()?).parse::<i64>().ok());
        ensure!(
            watermark.is_some_and(|watermark| kept.timestamp.0 < watermark && watermark <= newest),
            "the record of {} is a late one, but the watermark was {watermark:?} (the newest record is of \
                {newest})",
            kept.timestamp.0
        );
    }
    Ok(())
}

/// The number of late records.
pub(crate) fn late_records_count(broker: &SimBroker) -> usize {
    broker
        .visible(late_records::DEAD_LETTERS)
        .iter()
        .map(Vec::len)
        .sum()
}
