//! Checks of an application's broker before the application runs.
//!
//! Takes a plan and settings; returns the open transactions in the topics that would be read. Changes
//! nothing.

use crate::admin::open_transactions::HeldBack;
use crate::admin::status::Status;
use crate::runtime::failpoint::Failpoints;
use crate::startup::EngineSpec;
use serde::Serialize;
use std::sync::Arc;
use stoatflow_core::{Error, Result, TopicPartition};

/// A transaction that is open in a partition of a source.
#[derive(Clone, Debug, Serialize)]
pub struct OpenOnSource {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// Its producer's id.
    pub producer_id: i64,
    /// That producer's epoch.
    pub producer_epoch: i32,
    /// Its first offset: nothing from there on can be read.
    pub start_offset: i64,
    /// Offsets from there to the high watermark.
    pub records: i64,
    /// When its producer wrote last, by the broker's clock (ms).
    pub last_ms: i64,
    /// The command that ends it.
    pub command: String,
}

/// The open transactions that hold back partitions of sources, the oldest of each partition.
///
/// # Errors
/// Errors that keep an application from starting: missing topics, an unreachable broker.
pub fn open_transactions(spec: &EngineSpec) -> Result<Vec<OpenOnSource>> {
    let (plan, settings) = (&spec.plan, &spec.settings);
    let status = Status::new(&settings.application_id, Arc::clone(plan), settings.lanes);
    let shared = spec.shared(Arc::new(status), Failpoints::default());
    let stopped = || Error::internal("the doctor was asked to stop, which is impossible");
    let names = spec.matched(&shared)?.ok_or_else(stopped)?;
    let spec = spec.resolved(&names)?;
    let topics = spec.reach_topics(&shared)?.ok_or_else(stopped)?;
    let broker = &spec.components.broker;
    let partitions: Vec<TopicPartition> = (topics.values())
        .flat_map(|topic| {
            (0..topic.partitions).map(|p| TopicPartition::new(Arc::clone(&topic.name), p))
        })
        .collect();
    let open = broker.open_transactions(&partitions, settings.broker_wait)?;
    let held: Vec<_> = (partitions.into_iter().zip(open))
        .filter_map(|(partition, open)| Some((partition, open?)))
        .collect();
    let whose: Vec<TopicPartition> = held
        .iter()
        .map(|(partition, _)| partition.clone())
        .collect();
    let ends = broker.high_watermarks(&whose, settings.broker_wait)?;
    let shown = held.into_iter().zip(ends).map(|((partition, open), end)| {
        let back = HeldBack {
            start_offset: open.start.0,
            records: end.0 - open.start.0,
            since_ms: open.last.0,
            producer_id: Some(open.producer),
        };
        let (topic, index) = (partition.topic, partition.partition.0);
        OpenOnSource {
            partition: index,
            producer_id: open.producer,
            producer_epoch: open.epoch,
            start_offset: back.start_offset,
            records: back.records,
            last_ms: open.last.0,
            command: back.command(&broker.address(), &topic, index),
            topic,
        }
    });
    Ok(shown.collect())
}
