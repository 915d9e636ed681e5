//! Asks the broker for end offsets: for lag, to detect an outage, and to find new partitions.
//!
//! Ends the run if there are new partitions to read ([`Shared::restart_for_new_partitions`]), and fails
//! it if its group has members. Has its own thread and client, so that nothing waits for it.

use crate::admin::open_transactions::{HeldBack, OpenTransactionWatch, owner};
use crate::admin::status::PartitionStatus;
use crate::commit::offsets_topic::changelog_recreated;
use crate::intake::source_partitions::{SourcePartition, SourcePartitions};
use crate::runtime::failpoint::Failpoint;
use crate::runtime::shared::Shared;
use crate::startup::EngineSpec;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{ErrorKind, Result, TopicPartition};
use stoatflow_log::{Broker, Range};

/// How often end offsets are requested.
const END_OFFSET_INTERVAL: Duration = Duration::from_millis(250);
/// How often it looks for open transactions.
const TRANSACTION_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The status of partitions before anything is read.
pub(crate) fn first_report(slots: &SourcePartitions) -> Vec<PartitionStatus> {
    let first = |slot: &SourcePartition| PartitionStatus {
        topic: slot.partition.topic.to_string(),
        partition: slot.partition.partition.0,
        position: slot.start.0,
        committed: slot.start.0,
        end: slot.end.0,
        stream_time: slot.progress.stream_time.0,
        watermark: slot.progress.watermark,
        strategy: Arc::clone(&slot.watermark.shown),
        group: slot.watermark.group.clone(),
        idle: false,
        waits: false,
        holds_back: false,
        held_back: None,
    };
    slots.iter().map(first).collect()
}

/// Runs until the run ends.
pub(crate) fn monitor_lag(shared: &Shared, spec: &EngineSpec, slots: &SourcePartitions) {
    let (clock, broker) = (&shared.clock, spec.components.broker.as_ref());
    let partitions: Vec<_> = slots.iter().map(|s| s.partition.clone()).collect();
    let mut looked = clock.monotonic();
    let mut changelogs = BTreeMap::new();
    // Remembers the present topic ids, to compare later ones with them.
    let _ = watch_changelogs(spec, &mut changelogs);
    let (mut watch, mut watched) = (OpenTransactionWatch::new(partitions.len()), Duration::ZERO);
    while !shared.is_aborting() && !shared.is_drained() {
        let asked = clock.monotonic();
        if let Err(error) = shared.failpoints.reach(Failpoint::ObserveEnds) {
            shared.fail(error);
        }
        match broker.ranges(&partitions, REQUEST_TIMEOUT) {
            Ok(ranges) => {
                shared.status.broker_answers();
                if asked.saturating_sub(watched) >= TRANSACTION_CHECK_INTERVAL {
                    watched = asked;
                    find_open_transactions(shared, broker, &mut watch, &partitions, &ranges);
                }
                shared.status.with_partitions(|known| {
                    for (partition, range) in known.iter_mut().zip(ranges) {
                        partition.end = range.stable_end.0;
                    }
                });
            }
            // It will ask again; other parts notice an outage by themselves.
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                shared.status.broker_is_silent(asked);
            }
            Err(error) => tracing::debug!(%error, "can't read the end offsets of partitions"),
        }
        let throttled = crate::admin::millis(broker.throttled());
        shared.status.broker_throttle_ms.store(throttled, Relaxed);
        if asked.saturating_sub(looked) >= spec.settings.metadata_max_age {
            looked = asked;
            let alone = spec.refuse_joined_members();
            if let Err(error) = alone.and_then(|()| watch_changelogs(spec, &mut changelogs)) {
                shared.fail(error);
            }
            let grown = spec.has_new_partitions(slots).unwrap_or_else(|error| {
                // It will look again, but errors other than an outage are logged.
                if error.kind() != ErrorKind::Unavailable {
                    tracing::warn!(%error, "can't look for new partitions");
                }
                false
            });
            if grown && !shared.is_stopping() {
                tracing::info!(
                    application = shared.status.application_id,
                    "there are new partitions to read; continuing from the last commit with them"
                );
                shared.restart_for_new_partitions();
            }
        }
        shared.status.log_unlogged_drops(asked, false);
        let home = &spec.settings.state_dir;
        shared.status.errors.save(home, asked, false);
        shared.wait_for_drain(END_OFFSET_INTERVAL);
    }
}

/// Fails if a changelog topic was deleted and created again: the new topic lacks all earlier changes,
/// and a start without local state would restore only the later ones.
fn watch_changelogs(spec: &EngineSpec, known: &mut BTreeMap<Arc<str>, Arc<str>>) -> Result<()> {
    let ids = spec.changelog_ids().unwrap_or_else(|error| {
        tracing::debug!(%error, "can't look for the changelog topics");
        BTreeMap::new()
    });
    for (name, id) in ids {
        let then = known
            .entry(Arc::clone(&name))
            .or_insert_with(|| Arc::clone(&id));
        if *then != id {
            let topic = [&name, &*then, &id];
            return Err(changelog_recreated(&spec.settings.application_id, topic));
        }
    }
    Ok(())
}

/// Reports partitions that an open transaction holds back, and logs those that it has held back for
/// long.
fn find_open_transactions(
    shared: &Shared,
    broker: &dyn Broker,
    watch: &mut OpenTransactionWatch,
    partitions: &[TopicPartition],
    ranges: &[Range],
) {
    let ends = match broker.high_watermarks(partitions, REQUEST_TIMEOUT) {
        Ok(ends) => ends,
        Err(error) => {
            tracing::debug!(%error, "can't read the high watermarks of partitions");
            return;
        }
    };
    let now = (shared.clock.monotonic(), shared.clock.now());
    let both = ranges.iter().zip(ends).enumerate();
    let mut held: Vec<Option<HeldBack>> = both
        .map(|(at, (range, high))| watch.update(at, (range.stable_end, high), now))
        .collect();
    let to_log: Vec<usize> = (0..partitions.len())
        .filter(|at| watch.should_log(*at, now.0))
        .collect();
    let whose: Vec<TopicPartition> = to_log.iter().map(|at| partitions[*at].clone()).collect();
    // Best effort: without an answer the producer id is missing.
    let found = broker
        .open_transactions(&whose, REQUEST_TIMEOUT)
        .unwrap_or_default();
    shared.status.with_partitions(|known| {
        for (at, (known, held)) in known.iter_mut().zip(&mut held).enumerate() {
            if let Some(held) = held {
                let before = known.held_back.as_ref().and_then(|h| h.producer_id);
                let asked = to_log.iter().position(|n| *n == at);
                let open = asked.and_then(|asked| found.get(asked).copied().flatten());
                held.producer_id = owner(held, open).or(before);
            }
            known.held_back.clone_from(held);
        }
    });
    for at in to_log {
        let (partition, Some(held)) = (&partitions[at], &held[at]) else {
            continue;
        };
        tracing::warn!(
            %partition,
            start_offset = held.start_offset,
            records = held.records,
            producer_id = held.producer_id,
            "an open transaction holds this source back; if its producer is gone for good, end it: {}",
            held.command(&broker.address(), &partition.topic, partition.partition.0)
        );
    }
}
