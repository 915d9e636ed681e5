//! The log line that describes what runs.

use super::Inner;
use std::collections::BTreeMap;
use stoatflow_core::TopicPartition;
use stoatflow_core::settings::{Guarantee, StoreBackend};

impl Inner {
    /// Logs one line when processing begins.
    pub(super) fn log_start<'a>(&self, partitions: impl Iterator<Item = &'a TopicPartition>) {
        let settings = &self.spec.settings;
        let guarantee = match settings.guarantee {
            Guarantee::ExactlyOnceV2 => "exactly_once_v2",
            Guarantee::AtLeastOnce => "at_least_once",
        };
        let state_dir = match settings.store_backend {
            StoreBackend::Memory => "none (in memory)".to_owned(),
            StoreBackend::RocksDb => settings.state_dir.display().to_string(),
        };
        let admin = (*self.admin.lock()).map_or_else(
            || "off".to_owned(),
            |at| {
                let scheme = if at.encrypted { "https" } else { "http" };
                format!("{scheme}://{}/", at.socket)
            },
        );
        let broker = &self.spec.components.broker;
        tracing::info!(
            target: "stoatflow::start",
            application = self.status.application_id,
            version = env!("CARGO_PKG_VERSION"),
            guarantee,
            topics = topics(partitions),
            lanes = settings.lanes,
            state_dir,
            broker = broker.address(),
            client = broker.client().name,
            admin,
            "running"
        );
    }
}

/// `orders (4 partitions), users (1 partition)`.
fn topics<'a>(partitions: impl Iterator<Item = &'a TopicPartition>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for partition in partitions {
        *counts.entry(&partition.topic).or_default() += 1;
    }
    let each = counts.into_iter().map(|(topic, count)| {
        let noun = if count == 1 {
            "partition"
        } else {
            "partitions"
        };
        format!("{topic} ({count} {noun})")
    });
    each.collect::<Vec<_>>().join(", ")
}
