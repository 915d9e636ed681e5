//! Compares a finished run with a direct model of what it had to do.
//!
//! Takes the broker and the disks; gives the first broken promise. Under exactly-once every update
//! of every key must be there once; under at-least-once nothing may be missing.

mod bank;
mod bells;
mod joined;
mod lookups;
mod offloads;
mod stateless;
mod tables;
mod timed;

use crate::broker::SimBroker;
use crate::workload::{APPLICATION, Job, Part, is_changelog};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;
use stoatflow_core::{Guarantee, Result, StoreId, Timestamp, TopicPartition};
use stoatflow_log::Broker;
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::{Backend, KeyRange, Layout};

/// The first broken promise, in words.
pub(crate) type Verdict = Result<(), String>;

/// What a key went through in a topic.
pub(crate) type History = BTreeMap<Bytes, Vec<Option<Bytes>>>;

/// Says so, unless it holds.
macro_rules! hold {
    ($held:expr, $($said:tt)+) => {
        if !$held {
            return Err(format!($($said)+));
        }
    };
}
pub(crate) use hold;

pub(crate) use bells::uncounted;
pub(crate) use offloads::{answered, kept};
pub(crate) use stateless::late;

/// Everything but the disks. `uncounted`: see the function.
pub(crate) fn outputs(job: &Job, broker: &SimBroker, uncounted: usize) -> Verdict {
    for part in &job.parts {
        tables::check(*part, job, broker).map_err(|e| format!("{part:?}: {e}"))?;
        if *part == Part::Bells(true) {
            let once = job.guarantee == Guarantee::ExactlyOnceV2;
            bells::ticks(broker, uncounted, once).map_err(|e| format!("{part:?}: {e}"))?;
        }
        for (topic, store) in part.tables() {
            let changelog = job.changelog(store);
            let kept = newest(&history_of(broker, &changelog, !is_changelog(&changelog))?);
            let shown = newest(&history(broker, topic)?);
            // Counts of counts that were shown and then taken back by a crash can't be told from
            // duplicates: under at-least-once a word may skip a count the second time. And a row that is
            // born and deleted within one cached epoch is never mentioned (as in Kafka Streams), though
            // it may have been shown by an epoch that a crash cut into two.
            let loose = *store == "seconds-store" || (job.cached && *store == "rows-store");
            if job.guarantee == Guarantee::ExactlyOnceV2 || !loose {
                hold!(
                    kept == shown,
                    "{topic} ends with {shown:?}, but {changelog} with {kept:?}"
                );
            }
        }
        for topic in part.sources() {
            committed(broker, topic)?;
        }
    }
    Ok(())
}

/// What every key went through, as a `read_committed` reader sees it.
pub(crate) fn history(broker: &SimBroker, topic: &str) -> Result<History, String> {
    history_of(broker, topic, false)
}

/// As `history`. `is_source`: a record without a key is none of the table's.
fn history_of(broker: &SimBroker, topic: &str, is_source: bool) -> Result<History, String> {
    let mut history = History::new();
    let mut home = BTreeMap::new();
    for (partition, records) in broker.visible(topic).into_iter().enumerate() {
        for (offset, kept) in records {
            let Some(key) = kept.key else {
                if is_source {
                    continue;
                }
                return Err(format!(
                    "{topic}-{partition} has a record without a key at {}",
                    offset.0
                ));
            };
            let first = *home.entry(key.clone()).or_insert(partition);
            hold!(
                first == partition,
                "{topic}: the key {key:?} is in {first} and in {partition}"
            );
            history.entry(key).or_default().push(kept.value);
        }
    }
    Ok(history)
}

/// Where every key ended; deleted ones are absent.
pub(crate) fn newest(history: &History) -> BTreeMap<Bytes, Bytes> {
    let last =
        |(key, values): (&Bytes, &Vec<Option<Bytes>>)| Some((key.clone(), values.last()?.clone()?));
    history.iter().filter_map(last).collect()
}

/// The group stands at the stable end of each partition: past the last record, and past the markers
/// and aborted records behind it, so that no lag is shown where nothing is left to do.
fn committed(broker: &SimBroker, topic: &'static str) -> Verdict {
    let found = broker.topics(&[topic], Duration::ZERO);
    let found = found.map_err(|e| e.to_string())?;
    let partitions = found.into_iter().flatten().map(|topic| topic.partitions);
    for partition in 0..partitions.sum() {
        let place = TopicPartition::new(topic, partition);
        let places = std::slice::from_ref(&place);
        let found = broker
            .committed(APPLICATION, places, Duration::ZERO)
            .and_then(|found| {
                let end = broker.ranges(places, Duration::ZERO)?[0].stable_end;
                Ok((found.into_iter().flatten().next().map(|c| c.offset), end))
            });
        let (found, end) = found.map_err(|e| e.to_string())?;
        let untouched = found.is_none() && end.0 == 0;
        hold!(
            untouched || found == Some(end),
            "{place} ends at {end}, but {found:?} is committed"
        );
    }
    Ok(())
}

/// A disk after the final restore holds the fold of its changelogs.
pub(crate) fn disk(job: &Job, broker: &SimBroker, disk: &MemoryBackend) -> Verdict {
    for (at, (changelog, layout)) in job.changelogs().iter().enumerate() {
        // Keys as on disk. Retention removes rows from the disk; the topic has a retention of its
        // own.
        let kept = history_of(broker, changelog, !is_changelog(changelog))?;
        let kept = newest(&kept).into_iter();
        let internal = |(key, value): (Bytes, Bytes)| {
            let write = layout
                .from_changelog(&key, Some(&value), Timestamp(0))
                .map_err(|e| e.to_string())?;
            let value = write.value.map(|v| v.slice(8..)).unwrap_or_default();
            Ok((write.key, value))
        };
        let mut kept: BTreeMap<Bytes, Bytes> = kept.map(internal).collect::<Result<_, String>>()?;
        let store = StoreId(u16::try_from(at).unwrap_or(u16::MAX));
        let rows = disk
            .scan(store, &KeyRange::default(), usize::MAX)
            .map_err(|e| e.to_string())?;
        let held: BTreeMap<Bytes, Bytes> =
            rows.into_iter().map(|(k, v)| (k, v.slice(8..))).collect();
        if let Some(expired) = expired(job, broker, at, *layout)? {
            kept.retain(|key, _| held.contains_key(key) || !expired.contains(key));
        }
        hold!(
            held == kept,
            "after the last restore the disk holds {held:?}, but {changelog} says {kept:?}"
        );
    }
    Ok(())
}

/// What retention may have removed from a store's disk, by the store's committed clock.
fn expired(
    job: &Job,
    broker: &SimBroker,
    store: usize,
    layout: Layout,
) -> Result<Option<KeyRange>, String> {
    let clock = job.plan.stores.get(store).and_then(|s| s.clock);
    let Some(clock) = clock else {
        return Ok(None);
    };
    let name = job.plan.clocks[usize::from(clock.0)].name.as_bytes();
    let times = newest(&history(
        broker,
        &format!("{APPLICATION}-clocks-changelog"),
    )?);
    let row = times.get(name).and_then(|row| row.first_chunk::<8>());
    Ok(row.and_then(|stream| layout.expired_at(i64::from_be_bytes(*stream))))
}

/// The application's watermark beside the committed offsets; -1: none.
pub(crate) fn watermark(job: &Job, broker: &SimBroker) -> i64 {
    let topics = job.parts.iter().flat_map(|part| part.sources());
    let places: Vec<TopicPartition> = topics
        .flat_map(|topic| {
            let partitions = 0..broker.visible(topic).len();
            partitions.filter_map(move |p| Some(TopicPartition::new(topic, i32::try_from(p).ok()?)))
        })
        .collect();
    let committed = broker.committed_last(APPLICATION, &places);
    let said = committed.into_iter().filter_map(|c| {
        let mut parts = c.metadata.split(';').map(str::to_owned);
        parts.find_map(|part| part.strip_prefix("aw=")?.parse().ok())
    });
    said.max().unwrap_or(-1)
}

/// Is all input committed as processed, and nothing left that waits for the clock or for an answer?
/// `healed`: since when nothing has kept anybody from it.
pub(crate) fn drained(job: &Job, broker: &SimBroker, healed: Timestamp) -> Verdict {
    for topic in job.parts.iter().flat_map(|part| part.sources()) {
        committed(broker, topic)?;
    }
    if job.parts.iter().any(|part| matches!(part, Part::Asks(_))) {
        stateless::nothing_parked(broker)?;
    }
    if job.parking().is_some() {
        offloads::nothing_parked(broker)?;
    }
    let mut timed = job.parts.iter().filter(|part| part.has_timers());
    timed.try_for_each(|part| match part {
        Part::Bank => bank::quiet(broker),
        part => bells::quiet(*part, broker, healed.0),
    })
}
