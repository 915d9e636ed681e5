//! Checks operators without a table: each record yields its results or a dead letter, each once; those
//! of a key are in order.

use super::{Verdict, hold};
use crate::broker::SimBroker;
use crate::workload::functions::group;
use crate::workload::{APPLICATION, Part};
use crate::workload::{asks, batches, tardy};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// What a value becomes.
enum Becomes {
    /// These results, in this order.
    Results(Vec<String>),
    /// A dead letter.
    Letter,
    /// The value itself or a dead letter; which one is not known in advance.
    Either,
}

/// The topics of a part, and what its values become.
struct Shape {
    input: &'static str,
    output: &'static str,
    letters: &'static str,
    becomes: fn(&str) -> Becomes,
    /// Whether the group of a value becomes its key.
    rekeyed: bool,
}

/// The positions of each value: key, partition, index.
pub(super) type Places = BTreeMap<String, Vec<(Option<String>, usize, usize)>>;

pub(super) fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The positions of each value in a topic.
pub(super) fn places(broker: &SimBroker, topic: &str) -> Places {
    let mut places = Places::new();
    for (partition, records) in broker.visible(topic).into_iter().enumerate() {
        for (at, (_, kept)) in records.into_iter().enumerate() {
            let value = kept.value.as_ref().map(text).unwrap_or_default();
            let place = (kept.key.as_ref().map(text), partition, at);
            places.entry(value).or_default().push(place);
        }
    }
    places
}

/// Checks one part. `once` means exactly-once, otherwise at-least-once.
pub(super) fn check(part: Part, broker: &SimBroker, once: bool) -> Verdict {
    match part {
        Part::Asks(asking) => {
            let becomes = |value: &str| match asks::fate(value) {
                asks::Fate::Answered | asks::Fate::Flaky => {
                    Becomes::Results(vec![asks::answer(value)])
                }
                asks::Fate::Refused | asks::Fate::Silent => Becomes::Letter,
            };
            let shape = Shape {
                input: "asks",
                output: "asks-out",
                letters: asks::LETTERS,
                becomes,
                rekeyed: asking.rekeyed,
            };
            shape.check(broker, once)?;
            nothing_parked(broker)
        }
        Part::Batches { .. } => {
            let becomes = |value: &str| {
                if batches::is_refused(value) {
                    return Becomes::Letter;
                }
                Becomes::Results(batches::stamped(value))
            };
            let shape = Shape {
                input: "lots",
                output: "lots-out",
                letters: batches::LETTERS,
                becomes,
                rekeyed: false,
            };
            shape.check(broker, once)
        }
        Part::Tardy => {
            let shape = Shape {
                input: "tardy",
                output: "tardy-out",
                letters: tardy::LETTERS,
                becomes: |_| Becomes::Either,
                rekeyed: false,
            };
            shape.check(broker, once)?;
            rightly_late(broker)
        }
        _ => Ok(()),
    }
}

impl Shape {
    fn check(&self, broker: &SimBroker, once: bool) -> Verdict {
        let (shown, letters) = (places(broker, self.output), places(broker, self.letters));
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
                let times = |all: &Places, value: &str| all.get(value).map_or(0, Vec::len);
                let exact = |count: usize| count == 1 || !once && count > 1;
                let lost = times(&letters, &value);
                let results = match (self.becomes)(&value) {
                    Becomes::Results(results) => {
                        hold!(lost == 0, "'{value}' is {lost} times in {}", self.letters);
                        results
                    }
                    Becomes::Letter => {
                        hold!(exact(lost), "'{value}' is {lost} times in {}", self.letters);
                        Vec::new()
                    }
                    Becomes::Either => {
                        let both = lost + times(&shown, &value);
                        hold!(
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
                hold!(
                    of_letters.all(|(key, ..)| *key == given),
                    "the letter of '{value}' has another key than {given:?}"
                );
                for result in results {
                    let at = shown.get(&result).map_or(&[][..], Vec::as_slice);
                    hold!(
                        exact(at.len()),
                        "'{result}' of {key:?} is {} times in {}",
                        at.len(),
                        self.output
                    );
                    hold!(
                        at.iter().all(|(k, ..)| *k == key),
                        "'{result}' has another key than {key:?}: {at:?}"
                    );
                    if let (Some(key), true, [(_, to, position)]) = (&key, once, at) {
                        let here = (*to, *position);
                        let before = last.insert((given.clone(), key.clone()), here);
                        hold!(
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
        hold!(
            extra.is_empty(),
            "{extra:?} are too many in {}",
            self.output
        );
        Ok(())
    }
}

/// Checks that no call is parked.
pub(super) fn nothing_parked(broker: &SimBroker) -> Verdict {
    let changelog = format!("{APPLICATION}-{}-changelog", asks::PARKED);
    let rows = super::newest(&super::history(broker, &changelog)?);
    let rows: Vec<Bytes> = rows.into_keys().collect();
    hold!(rows.is_empty(), "calls are still parked: {rows:?}");
    Ok(())
}

/// Checks that the watermark in each dead letter had passed its record, and that some record had raised
/// the watermark that far.
fn rightly_late(broker: &SimBroker) -> Verdict {
    let inputs = broker.visible("tardy").into_iter().flatten();
    let newest = inputs.map(|(_, kept)| kept.timestamp.0).max().unwrap_or(-1);
    for (_, kept) in broker.visible(tardy::LETTERS).into_iter().flatten() {
        let headers = kept.headers.iter().flat_map(|headers| headers.iter());
        let told = headers
            .filter(|header| header.name.ends_with(".watermark"))
            .find_map(|header| text(header.value.as_ref()?).parse::<i64>().ok());
        hold!(
            told.is_some_and(|told| kept.timestamp.0 < told && told <= newest),
            "the record of {} is a late one, but the watermark was {told:?} (the newest record is of \
                {newest})",
            kept.timestamp.0
        );
    }
    Ok(())
}

/// The number of late records.
pub(crate) fn late(broker: &SimBroker) -> usize {
    broker.visible(tardy::LETTERS).iter().map(Vec::len).sum()
}
