//! Compares a finished run with a direct model of what it had to do.
//!
//! Takes the broker and the disks; returns the first violated guarantee. Under exactly-once every update
//! of every key must be there once; under at-least-once nothing may be missing.

mod bank;
pub(crate) mod indexes;
mod joined;
mod lookups;
mod offloads;
mod stateless;
mod tables;
mod timed;
mod timers;

use crate::broker::SimBroker;
use crate::workload::{APPLICATION, Job, Part, is_changelog};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;
use stoatflow_core::{Guarantee, Result, StoreId, Timestamp, TopicPartition};
use stoatflow_log::Broker;
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::{Backend, KeyRange, Layout};

/// The first violated guarantee, in words.
pub(crate) type Verdict = Result<(), String>;

/// The values of every key of a topic, in order; `None` is a tombstone.
pub(crate) type History = BTreeMap<Bytes, Vec<Option<Bytes>>>;

/// Returns a message as the error, unless a condition holds.
macro_rules! ensure {
    ($held:expr, $($said:tt)+) => {
        if !$held {
            return Err(format!($($said)+));
        }
    };
}
pub(crate) use ensure;

pub(crate) use offloads::{answered_before_start, check_answers_used};
pub(crate) use stateless::late_records_count;
pub(crate) use timers::uncommitted_ticks;

/// Checks everything but the disks. `uncommitted_ticks` comes from `timers::uncommitted_ticks`.
pub(crate) fn outputs(job: &Job, broker: &SimBroker, uncommitted_ticks: usize) -> Verdict {
    for part in &job.parts {
        tables::check(*part, job, broker).map_err(|e| format!("{part:?}: {e}"))?;
        if *part == Part::Timers(true) {
            let once = job.guarantee == Guarantee::ExactlyOnceV2;
            timers::ticks(broker, uncommitted_ticks, once).map_err(|e| format!("{part:?}: {e}"))?;
        }
        for (topic, store) in part.tables() {
            let changelog = job.changelog(store);
            let kept = newest(&history_of(broker, &changelog, !is_changelog(&changelog))?);
            let shown = newest(&history(broker, topic)?);
            // Not compared under at-least-once: `seconds-store` counts counts, and a count that was
            // emitted and then rolled back by a crash can't be told from a duplicate, so a word may skip
            // that count the second time. And with caching, a row that is created and deleted within one
            // epoch is never emitted (as in Kafka Streams), although an epoch that a crash cut in two
            // may have emitted it.
            let loose = *store == "seconds-store" || (job.cached && *store == "rows-store");
            if job.guarantee == Guarantee::ExactlyOnceV2 || !loose {
                ensure!(
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

/// The values of every key, as a `read_committed` reader sees them.
pub(crate) fn history(broker: &SimBroker, topic: &str) -> Result<History, String> {
    history_of(broker, topic, false)
}

/// Like `history`. With `is_source`, skips records without a key, which don't belong to the table.
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
            ensure!(
                first == partition,
                "{topic}: the key {key:?} is in {first} and in {partition}"
            );
            history.entry(key).or_default().push(kept.value);
        }
    }
    Ok(history)
}

/// The last value of every key, without deleted keys.
pub(crate) fn newest(history: &History) -> BTreeMap<Bytes, Bytes> {
    let last =
        |(key, values): (&Bytes, &Vec<Option<Bytes>>)| Some((key.clone(), values.last()?.clone()?));
    history.iter().filter_map(last).collect()
}

/// Checks that the group's committed offset is the stable end of each partition: past the last record,
/// and past the markers and aborted records behind it, so that there is no lag when nothing is left to
/// do.
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
        ensure!(
            untouched || found == Some(end),
            "{place} ends at {end}, but {found:?} is committed"
        );
    }
    Ok(())
}

/// Checks that a disk holds the state of its changelogs after the final restore.
pub(crate) fn disk(job: &Job, broker: &SimBroker, disk: &MemoryBackend) -> Verdict {
    for (at, (changelog, layout)) in job.changelogs().iter().enumerate() {
        // Convert keys to their layout on disk. Retention may have removed rows from the disk; the topic
        // has its own retention.
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
        ensure!(
            held == kept,
            "after the last restore the disk holds {held:?}, but {changelog} says {kept:?}"
        );
    }
    indexes::complete(&job.indexes, disk)?;
    indexes::compare(&job.indexes, disk).map(drop)
}

/// The keys that retention may have removed from a store's disk, given the store's committed stream
/// time.
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

/// The application's watermark in the metadata of the committed offsets; -1 if there is none.
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

/// Checks that all input is committed as processed, and that nothing waits for the clock or an answer.
/// `healed` is the time since which there have been no faults.
pub(crate) fn drained(job: &Job, broker: &SimBroker, healed: Timestamp) -> Verdict {
    for topic in job.parts.iter().flat_map(|part| part.sources()) {
        committed(broker, topic)?;
    }
    if job
        .parts
        .iter()
        .any(|part| matches!(part, Part::AsyncCalls(_)))
    {
        stateless::nothing_parked(broker)?;
    }
    if job.offload_settings().is_some() {
        offloads::nothing_parked(broker)?;
    }
    let mut timed = job.parts.iter().filter(|part| part.has_timers());
    timed.try_for_each(|part| match part {
        Part::Bank => bank::check_idle(broker),
        part => timers::check_idle(*part, broker, healed.0),
    })
}
