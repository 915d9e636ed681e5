//! Checks an offload.
//!
//! Each record leaves the offload once: with its answer, with a substitute, or as a dead letter; records
//! of a key in order; with their own key, time and headers; after as many requests as expected, each
//! sent once and all with one unique correlation id. How a record leaves depends on its value alone,
//! unless timing matters; then several ways are possible.

#[cfg(test)]
mod tests;

use super::stateless::text;
use super::{Verdict, ensure, history, newest};
use crate::broker::SimBroker;
use crate::topic::LogRecord;
use crate::worker::header;
use crate::workload::APPLICATION;
use crate::workload::functions::group;
use crate::workload::offloads::{
    ANSWERS, FAILED, Fate, GARBLED, NAME, OffloadSettings, PARKED, Patience, RECORDS, REQUESTS,
    RESULTS, UNANSWERED, answer, error, fate,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use stoatflow_core::{Offset, TopicPartition};
use stoatflow_operators::offload::{ATTEMPT, CORRELATION, ERROR};

/// How a record left the offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Answered,
    /// The last request was answered with an error.
    Failed,
    /// This many requests were not answered.
    TimedOut(u32),
    /// No request could be made.
    Unasked,
}

/// A record that left the offload.
#[derive(Debug)]
struct Completed {
    end: End,
    topic: &'static str,
    place: (usize, usize),
    key: Option<String>,
    time: i64,
    has_headers: bool,
}

/// Records that left the offload, by value.
type CompletedByValue = BTreeMap<String, Vec<Completed>>;

/// The numbers of the requests, by value and correlation id.
type Requests = BTreeMap<String, BTreeMap<String, Vec<u32>>>;

/// The position of the last record of a key: by key in the input, key in the offload, and topic.
type Last = BTreeMap<(Option<String>, Option<String>, &'static str), (usize, usize)>;

/// Checks this part. `once` means exactly-once, otherwise at-least-once.
pub(super) fn check(settings: OffloadSettings, broker: &SimBroker, once: bool) -> Verdict {
    let (left, requests) = (completed_records(broker)?, requests(broker)?);
    let mut wanted = BTreeSet::new();
    for records in broker.visible(RECORDS) {
        let mut last = Last::new();
        for (_, kept) in records {
            let value = value(&kept);
            let ends = left.get(&value).map_or(&[][..], Vec::as_slice);
            ensure!(
                ends.len() == 1 || !once && ends.len() > 1,
                "'{value}' has left {} times: {ends:?}",
                ends.len()
            );
            for end in ends {
                check_record(settings, &kept, end)?;
            }
            let none = BTreeMap::new();
            let sent = requests.get(&value).unwrap_or(&none);
            if let (true, [end]) = (once, ends) {
                check_order(settings, &kept, end, &mut last)?;
                check_requests(settings, &value, end.end, sent)?;
            }
            wanted.insert(value);
        }
    }
    let strange = |value: &&String| !wanted.contains(*value);
    let extra: Vec<_> = left.keys().chain(requests.keys()).filter(strange).collect();
    ensure!(extra.is_empty(), "nobody has sent {extra:?}");
    nothing_parked(broker)
}

fn value(kept: &LogRecord) -> String {
    kept.value.as_ref().map(text).unwrap_or_default()
}

fn key(settings: OffloadSettings, kept: &LogRecord) -> Option<String> {
    if settings.rekeyed {
        return Some(group(&value(kept)).to_owned());
    }
    kept.key.as_ref().map(text)
}

fn completed_records(broker: &SimBroker) -> Result<CompletedByValue, String> {
    let mut all = CompletedByValue::new();
    for topic in [RESULTS, FAILED, UNANSWERED] {
        for (partition, records) in broker.visible(topic).into_iter().enumerate() {
            for (at, (_, kept)) in records.into_iter().enumerate() {
                let shown = value(&kept);
                let (value, said) = match shown.split_once('+') {
                    Some((value, said)) if topic == RESULTS => (value, said.to_owned()),
                    _ => (&*shown, error_message(&kept)),
                };
                let end = parse_end(value, &said).filter(|end| belongs_in(*end, topic));
                let end = end.ok_or_else(|| format!("{topic} has '{shown}': {said}"))?;
                all.entry(value.to_owned()).or_default().push(Completed {
                    end,
                    topic,
                    place: (partition, at),
                    key: kept.key.as_ref().map(text),
                    time: kept.timestamp.0,
                    has_headers: kept.headers.is_some(),
                });
            }
        }
    }
    Ok(all)
}

/// The error message of a dead letter.
fn error_message(letter: &LogRecord) -> String {
    let said = header(&letter.headers, "__stoatflow.errors.message").unwrap_or_default();
    let of_worker = said.strip_prefix("the worker failed: ");
    of_worker.map_or(said.clone(), str::to_owned)
}

fn parse_end(value: &str, said: &str) -> Option<End> {
    if said == answer(value) {
        return Some(End::Answered);
    }
    if said == error(value) || said.starts_with("its answer can't be read: ") {
        return Some(End::Failed);
    }
    if said.starts_with("nothing can be asked about") || said.starts_with("a record without a key")
    {
        return Some(End::Unasked);
    }
    let requests = said.strip_prefix("no answer within ")?;
    let requests = requests.split(" after ").nth(1)?;
    let requests = requests.split(' ').next()?;
    Some(End::TimedOut(requests.parse().ok()?))
}

/// Whether a record that ended like this belongs in this topic.
fn belongs_in(end: End, topic: &str) -> bool {
    match end {
        End::Answered => topic == RESULTS,
        End::Failed => topic != UNANSWERED,
        End::TimedOut(_) => topic != FAILED,
        End::Unasked => topic == FAILED,
    }
}

fn requests(broker: &SimBroker) -> Result<Requests, String> {
    let mut all = Requests::new();
    for (_, kept) in broker.visible(REQUESTS).into_iter().flatten() {
        let said = |name| header(&kept.headers, name);
        let attempt = said(ATTEMPT).and_then(|attempt| attempt.parse().ok());
        let (Some(attempt), Some(correlation)) = (attempt, said(CORRELATION)) else {
            return Err(format!("{REQUESTS} has {kept:?}"));
        };
        let value = value(&kept).trim_end_matches('?').to_owned();
        let of_value = all.entry(value).or_default();
        of_value.entry(correlation).or_default().push(attempt);
    }
    Ok(all)
}

/// Whether a record of this value may end like this.
fn may_end(settings: OffloadSettings, has_key: bool, value: &str, end: End) -> bool {
    if !has_key || settings.request_text(value).is_none() {
        return end == End::Unasked;
    }
    let more = settings.attempts() > 1;
    // Whether a request may follow an error, and whether a second request may follow the first at all.
    let asks_after_error = settings.retry_errors && more || settings.extra_requests > 0;
    let asks_again = asks_after_error || settings.retry_timeouts && more;
    let (limited, forever) = match settings.patience {
        Patience::Forever => (false, true),
        Patience::Endless(_) => (false, false),
        Patience::Limited(..) => (true, false),
    };
    match (fate(value), end) {
        (Fate::Answered | Fate::Unasked, End::Answered) => true,
        (Fate::Silent, End::Answered) => !limited,
        (Fate::Slow, End::Answered) => !limited || asks_again,
        (Fate::Flaky, End::Answered) => asks_after_error || asks_again && !forever,
        (Fate::Flaky, End::Failed) => !asks_after_error,
        (Fate::Refused | Fate::Garbled, End::Failed) => true,
        (Fate::Refused | Fate::Garbled, End::Answered) => !limited && !forever,
        (_, End::TimedOut(_)) => limited,
        _ => false,
    }
}

/// Checks that this record left with the right contents, and that it may end like this.
fn check_record(settings: OffloadSettings, kept: &LogRecord, left: &Completed) -> Verdict {
    let (value, given) = (value(kept), kept.key.as_ref().map(text));
    let key = key(settings, kept);
    ensure!(
        may_end(settings, key.is_some(), &value, left.end),
        "'{value}' ({:?}) has left as {:?}",
        fate(&value),
        left.end
    );
    let is_result = left.topic == RESULTS;
    ensure!(
        is_result == (settings.substitute || left.end == End::Answered),
        "'{value}' has left as {:?} to {}",
        left.end,
        left.topic
    );
    let has = if is_result { &key } else { &given };
    ensure!(
        left.key == *has,
        "'{value}' of {given:?} has left with the key {:?}",
        left.key
    );
    ensure!(
        !is_result || left.time == kept.timestamp.0 && !left.has_headers,
        "'{value}' has left with the time {} instead of {}, or with headers",
        left.time,
        kept.timestamp.0
    );
    Ok(())
}

/// Checks that records of a key leave in order. (Records about which nothing could be asked were never
/// parked, and dead letters without a key may be in any partition.)
fn check_order(
    settings: OffloadSettings,
    kept: &LogRecord,
    left: &Completed,
    last: &mut Last,
) -> Verdict {
    if left.end == End::Unasked || left.key.is_none() {
        return Ok(());
    }
    let of = (kept.key.as_ref().map(text), key(settings, kept), left.topic);
    let before = last.insert(of, left.place);
    ensure!(
        before.is_none_or(|before| before.0 == left.place.0 && before.1 < left.place.1),
        "'{}' stands at {:?} of {}, what came before it at {before:?}",
        value(kept),
        left.place,
        left.topic
    );
    Ok(())
}

/// Checks that there were as many requests as expected, each sent once, all with the same correlation
/// id.
fn check_requests(
    settings: OffloadSettings,
    value: &str,
    end: End,
    sent: &BTreeMap<String, Vec<u32>>,
) -> Verdict {
    ensure!(
        sent.len() == usize::from(end != End::Unasked),
        "'{value}' ended as {end:?} and was asked as {sent:?}"
    );
    let Some(numbers) = sent.values().next() else {
        return Ok(());
    };
    let mut numbers = numbers.clone();
    numbers.sort_unstable();
    let count = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
    ensure!(
        numbers.iter().copied().eq(1..=count),
        "the requests for '{value}' are {numbers:?}"
    );
    let least = match end {
        End::TimedOut(_) if settings.retry_timeouts => settings.attempts(),
        End::Failed if settings.retry_errors => settings.attempts(),
        _ => 1,
    };
    let most = settings.attempts() + settings.extra_requests;
    let reported = match end {
        End::TimedOut(reported) => reported,
        _ => count,
    };
    ensure!(
        (least..=most).contains(&count) && reported == count,
        "'{value}' ended as {end:?} after {count} requests; {least} to {most} are wanted"
    );
    Ok(())
}

/// The rows of the parking lot, by key and number.
fn parked(broker: &SimBroker) -> Result<BTreeMap<Bytes, Bytes>, String> {
    let changelog = format!("{APPLICATION}-{PARKED}-changelog");
    Ok(newest(&history(broker, &changelog)?))
}

/// Checks that no record waits for an answer or its turn.
pub(super) fn nothing_parked(broker: &SimBroker) -> Verdict {
    let rows: Vec<Bytes> = parked(broker)?.into_keys().collect();
    ensure!(rows.is_empty(), "records are still parked: {rows:?}");
    Ok(())
}

/// The committed offset of a partition, even if the group's offsets have expired: the offsets topic
/// still has it.
fn position(broker: &SimBroker, partition: TopicPartition) -> Offset {
    let found = broker.committed_last(APPLICATION, &[partition]).pop();
    found.map_or(Offset(0), |committed| committed.offset)
}

/// The number of parked records, and the correlation ids of those whose answer is there but has not been
/// read: an instance that starts now must use it.
pub(crate) fn answered_before_start(
    broker: &SimBroker,
) -> Result<(usize, BTreeSet<String>), String> {
    let mut answers = BTreeSet::new();
    for (partition, records) in (0..).zip(broker.visible(ANSWERS)) {
        // Answers that were read before have had their effect; or none, if their record had been given
        // up and only waited for its turn.
        let read = position(broker, TopicPartition::new(ANSWERS, partition));
        for (_, kept) in records.into_iter().filter(|(offset, _)| *offset >= read) {
            let readable = kept.value.as_ref().is_none_or(|value| value != GARBLED);
            let said = |name| header(&kept.headers, name);
            if let (true, None, Some(correlation)) = (readable, said(ERROR), said(CORRELATION)) {
                answers.insert((kept.key.unwrap_or_default(), correlation));
            }
        }
    }
    let rows = parked(broker)?;
    let waiting = rows.iter().filter_map(|(row, kept)| {
        let (key, number) = row.split_last_chunk::<8>()?;
        let number = u64::from_be_bytes(*number);
        // The second byte is the phase: 0 waits for an answer, 1 for another request.
        let waits = kept.get(1).is_some_and(|phase| *phase <= 1);
        waits.then(|| (row.slice_ref(key), format!("{NAME}/{number:x}")))
    });
    let found = waiting.filter(|of| answers.contains(of));
    Ok((
        rows.len(),
        found.map(|(_, correlation)| correlation).collect(),
    ))
}

/// Checks that these records were answered, which was certain when an instance started.
pub(crate) fn check_answers_used(
    broker: &SimBroker,
    answered_at_start: &BTreeSet<String>,
) -> Verdict {
    let left = completed_records(broker)?;
    for (value, sent) in requests(broker)? {
        let known = sent.keys().find(|of| answered_at_start.contains(*of));
        let ends = left.get(&value).map_or(&[][..], Vec::as_slice);
        ensure!(
            known.is_none() || ends.iter().any(|left| left.end == End::Answered),
            "'{value}' ({known:?}) was answered before a start, and has left as {ends:?}"
        );
    }
    Ok(())
}
