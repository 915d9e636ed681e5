//! Partition counts of output topics, for sinks with a partitioner.
//!
//! Asks the broker once per topic and remembers the answer. Never creates a topic.

use crate::startup::components::Components;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use stoatflow_core::{Error, Result};
use stoatflow_log::Broker;
use stoatflow_operators::PartitionCounts;

/// See the module.
#[derive(Debug)]
pub struct BrokerPartitions {
    broker: Arc<dyn Broker>,
    timeout: Duration,
    known: RwLock<HashMap<String, u32>>,
}

impl BrokerPartitions {
    /// Waits at most `timeout` for the broker.
    #[must_use]
    pub fn new(components: &Components, timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            broker: Arc::clone(&components.broker),
            timeout,
            known: RwLock::default(),
        })
    }
}

impl PartitionCounts for BrokerPartitions {
    fn partitions(&self, topic: &str) -> Result<u32> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = known.get(topic) {
            return Ok(*count);
        }
        drop(known);
        // Without the lock: lanes that share this continue with topics that are known.
        let infos = self.broker.topics(&[topic], self.timeout)?;
        let Some(info) = infos.into_iter().flatten().next() else {
            return Err(Error::missing_topic(format!(
                "there is no topic '{topic}' at {}, for which a partitioner is to choose partitions",
                self.broker.address()
            ))
            .hint("create it before you start"));
        };
        let count = u32::try_from(info.partitions).unwrap_or(0);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(topic.to_owned(), count);
        Ok(count)
    }
}
